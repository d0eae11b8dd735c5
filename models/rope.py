"""Rotary position embeddings, with the long-context rescalings of HF configs."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from models.config import ModelConfig


def inverse_frequencies(cfg: ModelConfig) -> tuple[np.ndarray, float]:
    """[H/2] float32 inverse frequencies, and the factor by which cos and sin are multiplied."""
    half = np.arange(0, cfg.head_dim, 2, dtype=np.float32) / cfg.head_dim
    base = (1.0 / cfg.rope_theta**half).astype(np.float32)
    scaling = cfg.rope_scaling
    if scaling is None:
        return base, 1.0
    if scaling.kind == "linear":
        return base / np.float32(scaling.factor), 1.0
    if scaling.kind == "llama3":
        return _llama3(base, cfg), 1.0
    return _yarn(base, cfg), scaling.attention_factor


def _llama3(base: np.ndarray, cfg: ModelConfig) -> np.ndarray:
    """Long wavelengths are stretched by `factor`, short ones kept, with a ramp between."""
    s = cfg.rope_scaling
    assert s is not None
    turns = s.original_max_position * base / (2 * math.pi)
    ramp = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)
    ramp = np.clip(ramp, 0.0, 1.0)
    return ((1 - ramp) * base / s.factor + ramp * base).astype(np.float32)


def _yarn(base: np.ndarray, cfg: ModelConfig) -> np.ndarray:
    """YaRN (arXiv 2309.00071), section 3.2: a ramp over dimensions between two rotation counts."""
    s = cfg.rope_scaling
    assert s is not None

    def dimension(rotations: float) -> float:
        wavelength = s.original_max_position / (rotations * 2 * math.pi)
        return cfg.head_dim * math.log(wavelength) / (2 * math.log(cfg.rope_theta))

    low, high = dimension(s.beta_fast), dimension(s.beta_slow)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, cfg.head_dim - 1)
    span = max(high - low, 0.001)
    ramp = np.clip((np.arange(cfg.head_dim // 2, dtype=np.float32) - low) / span, 0.0, 1.0)
    return (base / s.factor * ramp + base * (1 - ramp)).astype(np.float32)


def rope_tables(
    cfg: ModelConfig, positions: Int[Array, "R W"]
) -> tuple[Float[Array, "R W H/2"], Float[Array, "R W H/2"]]:
    """Sin and cos, [R, W, H/2] float32, at `positions`."""
    frequencies, scale = inverse_frequencies(cfg)
    angle = positions[..., None].astype(jnp.float32) * frequencies
    return jnp.sin(angle) * scale, jnp.cos(angle) * scale


def apply_rope(
    x: Float[Array, "R W N H"], sin: Float[Array, "R W H/2"], cos: Float[Array, "R W H/2"]
) -> Float[Array, "R W N H"]:
    """Rotate the pairs (i, i + H/2) of each head; computed in float32, returned in x's dtype."""
    sin, cos = sin[..., None, :], cos[..., None, :]
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)

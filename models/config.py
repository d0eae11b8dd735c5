"""Shape and numerics of a decoder-only model, read from and written to a Hugging Face config."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp

from models.attention import Implementation

MODEL_TYPES = {
    "qwen3": "Qwen3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "llama": "LlamaForCausalLM",
}
REMAT = ("none", "full", "dots", "minimal")
DTYPES = ("float32", "bfloat16", "float16")

Remat = Literal["none", "full", "dots", "minimal"]


class UnsupportedConfigError(ValueError):
    """A Hugging Face config asks for something that these models do not compute."""


# Parameters without which a rope type means nothing.
_ROPE_REQUIRED = {
    "linear": ("factor",),
    "llama3": (
        *("factor", "original_max_position_embeddings"),
        *("low_freq_factor", "high_freq_factor"),
    ),
}


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """Rescaled rotary frequencies, for contexts longer than the model was first trained on.

    Attributes:
      kind: "linear" (positions divided by `factor`), "yarn" or "llama3".
      factor: how much longer the context is, >= 1.
      original_max_position: context length before scaling; 0 where `kind` does not use it.
      beta_fast, beta_slow: yarn, rotations that bound the ramp between the two regimes.
      attention_factor: yarn, scale of cos and sin; 0.1 ln(factor) + 1 unless the config gives it.
      low_freq_factor, high_freq_factor: llama3, wavelength bounds of its ramp.
      truncate: yarn, whether the bounds of the ramp are rounded outwards to whole dimensions.
    """

    kind: Literal["linear", "yarn", "llama3"]
    factor: float
    original_max_position: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    truncate: bool = True

    @staticmethod
    def from_hf(rope: Mapping[str, Any], max_position: int) -> "RopeScaling | None":
        """Read HF `rope_parameters` or the older `rope_scaling`; None where it scales nothing.

        Raises:
          UnsupportedConfigError: a kind or a parameter that is not computed, or a missing one.
        """
        rope = dict(rope)
        kind = rope.pop("rope_type", rope.pop("type", "default"))
        rope.pop("type", None)
        missing = [name for name in _ROPE_REQUIRED.get(kind, ()) if rope.get(name) is None]
        if missing:
            raise UnsupportedConfigError(f"rope_type {kind!r} needs {', '.join(missing)}.")
        rope.pop("rope_theta", None)
        if kind == "default":
            known: tuple[str, ...] = ()
            scaling = None
        elif kind == "linear":
            known = ("factor",)
            scaling = RopeScaling("linear", float(rope["factor"]))
        elif kind == "yarn":
            known = (
                "factor",
                "original_max_position_embeddings",
                "beta_fast",
                "beta_slow",
                "attention_factor",
                "truncate",
            )
            original = int(rope.get("original_max_position_embeddings") or max_position)
            factor = float(rope.get("factor") or max_position / original)
            attention = rope.get("attention_factor")
            scaling = RopeScaling(
                "yarn",
                factor,
                original,
                beta_fast=float(rope.get("beta_fast") or 32.0),
                beta_slow=float(rope.get("beta_slow") or 1.0),
                attention_factor=float(
                    attention if attention is not None else 0.1 * math.log(max(factor, 1.0)) + 1.0
                ),
                truncate=bool(rope.get("truncate", True)),
            )
        elif kind == "llama3":
            known = (
                "factor",
                "original_max_position_embeddings",
                "low_freq_factor",
                "high_freq_factor",
            )
            scaling = RopeScaling(
                "llama3",
                float(rope["factor"]),
                int(rope["original_max_position_embeddings"]),
                low_freq_factor=float(rope["low_freq_factor"]),
                high_freq_factor=float(rope["high_freq_factor"]),
            )
        else:
            raise UnsupportedConfigError(
                f"rope_type {kind!r} is not supported; known: default, linear, yarn, llama3."
            )
        unread = sorted(set(rope) - set(known))
        if unread:
            raise UnsupportedConfigError(f"rope parameters {unread} are not read for {kind!r}.")
        return scaling

    def to_hf(self) -> dict[str, Any]:
        """The HF `rope_parameters` without `rope_theta`."""
        out: dict[str, Any] = {"rope_type": self.kind, "factor": self.factor}
        if self.kind in ("yarn", "llama3"):
            out["original_max_position_embeddings"] = self.original_max_position
        if self.kind == "yarn":
            out |= {
                "beta_fast": self.beta_fast,
                "beta_slow": self.beta_slow,
                "attention_factor": self.attention_factor,
                "truncate": self.truncate,
            }
        if self.kind == "llama3":
            out |= {
                "low_freq_factor": self.low_freq_factor,
                "high_freq_factor": self.high_freq_factor,
            }
        return out


# Fields of an HF config that do not change what the model computes.
_INERT = {
    *("architectures", "transformers_version", "torch_dtype", "dtype", "use_cache", "model_type"),
    *(
        "_name_or_path",
        "_model_name_or_path",
        "name_or_path",
        "unk_token_id",
        "_attn_implementation",
        "is_llama_config",
    ),
    *("transformers.js_config", "max_window_layers", "sliding_window", "initializer_range"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "output_attentions", "return_dict"),
    *("output_hidden_states", "id2label", "label2id", "problem_type", "chunk_size_feed_forward"),
}
# Fields that must hold one of these values where they are given.
_FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "mlp_bias": (False, None),
    "use_sliding_window": (False, None),
    "rope_interleaved": (False, None),
    "use_mrope": (False, None),
    "pretraining_tp": (1, None),
    "attention_dropout": (0, None),
    "is_encoder_decoder": (False, None),
}
_SIZES = (
    *("vocab_size", "hidden_size", "intermediate_size"),
    *("num_hidden_layers", "num_attention_heads"),
)
_OPTIONAL = {
    *("num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "rope_scaling"),
    *("rope_parameters", "tie_word_embeddings", "attention_bias"),
    *("max_position_embeddings", "layer_types"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A Qwen3, Qwen2 or Llama decoder.

    Attributes:
      vocab_size: V, rows of the embedding table.
      num_layers: L.
      embed_dim: D, width of the residual stream.
      mlp_dim: F, inner width of the gated MLP.
      num_q_heads: Q, query heads; a multiple of `num_kv_heads`.
      num_kv_heads: K, key and value heads.
      head_dim: H, even; Q * H need not equal D.
      norm_eps: added to the mean square in RMSNorm.
      rope_theta: base of the rotary frequencies.
      rope_scaling: long-context rescaling of them, or None.
      tie_embeddings: the head is the embedding table.
      qk_norm: RMSNorm over H on queries and keys (Qwen3).
      qkv_bias: bias on the query, key and value projections (Qwen2).
      out_bias: bias on the attention output projection.
      max_position: longest context the model claims; metadata for export and checks.
      eos_token_ids: every token that ends a response.
      bos_token_id, pad_token_id: metadata for export; padding is masked by length, never by id.
      model_type: HF architecture family used on export.
      dtype: dtype of activations and matmul inputs; logits and logprobs are always float32.
      param_dtype: dtype in which weights are stored.
      attention: implementation of attention over whole rows, see `models.attention.attend`.
      remat: what the backward pass recomputes. "none" keeps all activations; "dots" keeps the
        outputs of weight matmuls; "minimal" keeps per layer only its input and the attention
        output; "full" keeps only each layer's input.
      unroll: decoder layers per iteration of the scan; `num_layers` makes the fastest code on CPU,
        1 the shortest compilation.
    """

    vocab_size: int
    num_layers: int
    embed_dim: int
    mlp_dim: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float = 1e-6
    rope_theta: float = 1_000_000.0
    rope_scaling: RopeScaling | None = None
    tie_embeddings: bool = False
    qk_norm: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    max_position: int = 40_960
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    model_type: str = "qwen3"
    dtype: str = "float32"
    param_dtype: str = "float32"
    remat: Remat = "full"
    attention: Implementation = "auto"
    unroll: int = 1

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "num_layers", "embed_dim", "mlp_dim", "num_q_heads", "num_kv_heads")
        for name in (*sizes, "head_dim", "unroll"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.num_q_heads % self.num_kv_heads:
            raise ValueError(
                f"num_q_heads ({self.num_q_heads}) must be a multiple of num_kv_heads "
                f"({self.num_kv_heads}): each key/value head serves the same number of queries."
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary embeddings, not {self.head_dim}.")
        if self.remat not in REMAT:
            raise ValueError(f"unknown remat policy {self.remat!r}; known: {', '.join(REMAT)}.")
        for name in ("dtype", "param_dtype"):
            if getattr(self, name) not in DTYPES:
                raise ValueError(
                    f"{name} must be one of {', '.join(DTYPES)}, not {getattr(self, name)!r}."
                )
        if self.model_type not in MODEL_TYPES:
            raise ValueError(
                f"unknown model_type {self.model_type!r}; known: {', '.join(MODEL_TYPES)}."
            )
        bad = [i for i in self.eos_token_ids if not 0 <= i < self.vocab_size]
        if bad:
            raise ValueError(f"eos_token_ids {bad} are outside the vocabulary ({self.vocab_size}).")

    @property
    def compute_dtype(self) -> jnp.dtype:
        """`dtype` as a JAX dtype."""
        return jnp.dtype(self.dtype)

    @property
    def group_size(self) -> int:
        """Query heads per key/value head."""
        return self.num_q_heads // self.num_kv_heads

    @property
    def num_params(self) -> int:
        """Number of weights, the tied head counted once."""
        d, q, k = (
            self.embed_dim,
            self.num_q_heads * self.head_dim,
            self.num_kv_heads * self.head_dim,
        )
        layer = 2 * d * q + 2 * d * k + 3 * d * self.mlp_dim + 2 * d
        layer += 2 * self.head_dim * self.qk_norm + (q + 2 * k) * self.qkv_bias + d * self.out_bias
        return self.num_layers * layer + d + self.vocab_size * d * (1 if self.tie_embeddings else 2)

    @staticmethod
    def from_hf(hf: Mapping[str, Any]) -> "ModelConfig":
        """Read the fields of a Hugging Face `config.json`.

        Raises:
          UnsupportedConfigError: a field, or a field's value, that these models do not compute.
        """
        kind = hf.get("model_type")
        if kind not in MODEL_TYPES:
            raise UnsupportedConfigError(
                f"model_type {kind!r} is not supported; known: {', '.join(MODEL_TYPES)}."
            )
        missing = [name for name in _SIZES if name not in hf]
        if missing:
            raise UnsupportedConfigError(f"config.json lacks {', '.join(missing)}.")
        for name, allowed in _FIXED.items():
            if hf.get(name, allowed[0]) not in allowed:
                raise UnsupportedConfigError(
                    f"{name} = {hf[name]!r} is not supported; it must be {allowed[0]!r}."
                )
        unread = sorted(set(hf) - _INERT - set(_FIXED) - set(_SIZES) - _OPTIONAL)
        if unread:
            raise UnsupportedConfigError(
                f"config.json has fields that are not read: {', '.join(unread)}. Loading would "
                "ignore what they ask for; remove them if they change nothing."
            )
        layer_types = set(hf.get("layer_types") or ()) - {"full_attention"}
        if layer_types:
            raise UnsupportedConfigError(f"layer_types {sorted(layer_types)} are not supported.")
        return _from_checked_hf(kind, hf)

    def to_hf(self) -> dict[str, Any]:
        """The `config.json` that `from_hf` reads back to an equal config."""
        rope = {"rope_type": "default"} if self.rope_scaling is None else self.rope_scaling.to_hf()
        eos = list(self.eos_token_ids)
        out: dict[str, Any] = {
            "architectures": [MODEL_TYPES[self.model_type]],
            "model_type": self.model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.embed_dim,
            "intermediate_size": self.mlp_dim,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_q_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "rope_parameters": rope | {"rope_theta": self.rope_theta},
            # vLLM and older transformers read the two fields that rope_parameters replaced.
            "rope_theta": self.rope_theta,
            "rope_scaling": None if self.rope_scaling is None else rope,
            "tie_word_embeddings": self.tie_embeddings,
            "max_position_embeddings": self.max_position,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": (eos[0] if len(eos) == 1 else eos) if eos else None,
            "pad_token_id": self.pad_token_id,
            "dtype": self.param_dtype,
        }
        if self.model_type != "qwen2":
            out["attention_bias"] = self.qkv_bias
        self._check_exportable()
        return out

    def _check_exportable(self) -> None:
        expected = {
            "qwen3": (True, self.qkv_bias),
            "qwen2": (False, False),
            "llama": (False, self.qkv_bias),
        }
        qk_norm, out_bias = expected[self.model_type]
        if (self.qk_norm, self.out_bias) != (qk_norm, out_bias) or (
            self.model_type == "qwen2" and not self.qkv_bias
        ):
            raise ValueError(
                f"no Hugging Face {self.model_type} has qk_norm={self.qk_norm}, "
                f"qkv_bias={self.qkv_bias}, out_bias={self.out_bias}; set model_type to a family "
                "that does (qwen3: qk_norm; qwen2: qkv_bias alone; llama: neither)."
            )


def _from_checked_hf(kind: str, hf: Mapping[str, Any]) -> ModelConfig:
    # Where a field is left out, what the config classes of transformers take holds.
    max_position = int(hf.get("max_position_embeddings") or (2048 if kind == "llama" else 32_768))
    rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
    theta = rope.get("rope_theta") or hf.get("rope_theta") or 10_000.0
    bias = bool(hf.get("attention_bias", False))
    eos = hf.get("eos_token_id")
    dtype = str(hf.get("dtype") or hf.get("torch_dtype") or "float32").removeprefix("torch.")
    num_heads = int(hf["num_attention_heads"])
    return ModelConfig(
        vocab_size=int(hf["vocab_size"]),
        num_layers=int(hf["num_hidden_layers"]),
        embed_dim=int(hf["hidden_size"]),
        mlp_dim=int(hf["intermediate_size"]),
        num_q_heads=num_heads,
        num_kv_heads=int(hf.get("num_key_value_heads") or (num_heads if kind == "llama" else 32)),
        head_dim=int(
            hf.get("head_dim") or (128 if kind == "qwen3" else hf["hidden_size"] // num_heads)
        ),
        norm_eps=float(hf.get("rms_norm_eps", 1e-6)),
        rope_theta=float(theta),
        rope_scaling=RopeScaling.from_hf(rope, max_position),
        tie_embeddings=bool(hf.get("tie_word_embeddings", False)),
        qk_norm=kind == "qwen3",
        qkv_bias=bias or kind == "qwen2",
        out_bias=bias and kind != "qwen2",
        max_position=max_position,
        eos_token_ids=tuple(eos)
        if isinstance(eos, list | tuple)
        else ()
        if eos is None
        else (eos,),
        bos_token_id=hf.get("bos_token_id"),
        pad_token_id=hf.get("pad_token_id"),
        model_type=kind,
        dtype=dtype,
        param_dtype=dtype,
    )

"""Prefill and one-token decoding with a cache that a group shares.

A prompt's keys and values are held once per problem, [B, K, P, H], and read by all its G rollouts;
what a rollout has generated is held per rollout, [BG, K, W, H]. The cache is an argument and a
result; there is one entry per layer, so that a step writes in place and copies nothing.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from models.attention import MASKED, attend
from models.partition import decode_sharding
from models.qwen3 import (
    Layer,
    Qwen3,
    embed_tokens,
    mlp,
    project_out,
    project_qkv,
    rms_norm,
)
from models.rope import rope_tables


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyValues:
    """Keys and values of one layer, each [rows, K, positions, H]."""

    k: Array
    v: Array


@functools.partial(jax.jit, static_argnames="mesh")
def decode_weights(
    model: Qwen3, *, mesh: jax.sharding.Mesh | None = None
) -> tuple[Qwen3, list[Layer]]:
    """The weights as decoding reads them: in the compute dtype, one `Layer` per decoder layer.

    Args:
      model: the weights, in any dtype.
      mesh: where given, weights lie as `partition.decode_sharding` says.

    Returns:
      (the model without its layers, the layers without the L axis).
    """

    def place(weight: nnx.Param, x, axes):
        x = x.astype(model.cfg.compute_dtype)
        if mesh is not None:
            x = jax.lax.with_sharding_constraint(x, decode_sharding(axes, mesh))
        return weight.replace(x)

    def is_weight(node) -> bool:
        return isinstance(node, nnx.Variable)

    layers = [
        jax.tree.map(lambda w, i=i: place(w, w[i], w.axes[1:]), model.layers, is_leaf=is_weight)
        for i in range(model.cfg.num_layers)
    ]
    rest = jax.tree.map(lambda w: place(w, w[...], w.axes), model, is_leaf=is_weight)
    del rest.layers
    return rest, layers


def prefill(
    model: Qwen3,
    layers: list[Layer],
    prompt_ids: Int[Array, "B P"],
    prompt_len: Int[Array, " B"],
) -> tuple[Float[Array, "B D"], list[KeyValues]]:
    """Run RIGHT-padded prompts; return each one's last hidden state and the prompt cache."""
    cfg = model.cfg
    width = prompt_ids.shape[1]
    sin, cos = rope_tables(cfg, jnp.arange(width, dtype=jnp.int32)[None])
    x = embed_tokens(model, prompt_ids)
    cache = []
    for layer in layers:
        q, k, v = project_qkv(layer, cfg, x, sin, cos)
        cache.append(KeyValues(k.swapaxes(1, 2), v.swapaxes(1, 2)))
        x = x + project_out(layer, cfg, attend(q, k, v, None, cfg.attention))
        x = x + mlp(layer, cfg, x)
    last = jnp.take_along_axis(x, (prompt_len - 1)[:, None, None], axis=1)[:, 0]
    return rms_norm(last, model.final_norm[...], cfg.norm_eps), cache


def decode_step(
    model: Qwen3,
    layers: list[Layer],
    tokens: Int[Array, " BG"],
    prompt_len: Int[Array, " B"],
    prompt_cache: list[KeyValues],
    cache: list[KeyValues],
    index: Int[Array, ""],
) -> tuple[Float[Array, "BG D"], list[KeyValues]]:
    """Process the response token at `index` of every row.

    Args:
      model: embedding table, final norm and config.
      layers: from `decode_weights`.
      tokens: [BG] int32, group-major.
      prompt_len: [B] int32.
      prompt_cache: per layer, [B, K, P, H].
      cache: per layer, [BG, K, W, H]; entries before `index` are filled.
      index: [] int32, 0 <= index < W, the token's place in the response.

    Returns:
      ([BG, D] hidden states that predict the next token, the cache with `index` filled).
    """
    cfg = model.cfg
    group = tokens.shape[0] // prompt_len.shape[0]
    positions = jnp.repeat(prompt_len, group) + index
    sin, cos = rope_tables(cfg, positions[:, None])
    x = embed_tokens(model, tokens[:, None])
    new_cache = []
    for layer, prompt, own in zip(layers, prompt_cache, cache, strict=True):
        q, k, v = project_qkv(layer, cfg, x, sin, cos)
        own = KeyValues(
            jax.lax.dynamic_update_slice_in_dim(own.k, k.swapaxes(1, 2), index, axis=2),
            jax.lax.dynamic_update_slice_in_dim(own.v, v.swapaxes(1, 2), index, axis=2),
        )
        new_cache.append(own)
        attended = attend_shared(q[:, 0], prompt, prompt_len, own, index)
        x = x + project_out(layer, cfg, attended[:, None])
        x = x + mlp(layer, cfg, x)
    return rms_norm(x[:, 0], model.final_norm[...], cfg.norm_eps), new_cache


def attend_shared(
    q: Float[Array, "BG Q H"],
    prompt: KeyValues,
    prompt_len: Int[Array, " B"],
    own: KeyValues,
    index: Int[Array, ""],
) -> Float[Array, "BG Q H"]:
    """Attention of one new token per row over its group's prompt and its own response.

    The prompt part is one matrix product per problem and key/value head, [G * Q/K, H] x [H, P]; the
    softmax runs over both parts.
    """
    rows, heads, dim = q.shape
    problems, kv_heads, width, _ = prompt.k.shape
    group, share = rows // problems, heads // kv_heads
    q = q * dim**-0.5
    # [BG, Q, H] -> [B, K, G * Q/K, H] and [BG, K, Q/K, H]
    shared_q = q.reshape(problems, group, kv_heads, share, dim).swapaxes(1, 2)
    shared_q = shared_q.reshape(problems, kv_heads, group * share, dim)
    own_q = q.reshape(rows, kv_heads, share, dim)

    f32 = jnp.float32
    prompt_scores = jnp.einsum("BKXH,BKPH->BKXP", shared_q, prompt.k, preferred_element_type=f32)
    prompt_mask = jnp.arange(width) < prompt_len[:, None, None, None]
    prompt_scores = jnp.where(prompt_mask, prompt_scores, MASKED)
    own_scores = jnp.einsum("RKXH,RKWH->RKXW", own_q, own.k, preferred_element_type=f32)
    own_scores = jnp.where(jnp.arange(own.k.shape[2]) <= index, own_scores, MASKED)

    def by_row(x):  # [B, K, G * Q/K, ...] -> [BG, K, Q/K, ...]
        x = x.reshape(problems, kv_heads, group, share, -1).swapaxes(1, 2)
        return x.reshape(rows, kv_heads, share, -1)

    def by_problem(x):  # [BG, K, Q/K, 1] -> [B, K, G * Q/K, 1]
        x = x.reshape(problems, group, kv_heads, share, 1).swapaxes(1, 2)
        return x.reshape(problems, kv_heads, group * share, 1)

    peak = jnp.maximum(
        by_row(prompt_scores.max(-1, keepdims=True)), own_scores.max(-1, keepdims=True)
    )
    prompt_weights = jnp.exp(prompt_scores - by_problem(peak))
    own_weights = jnp.exp(own_scores - peak)
    total = by_row(prompt_weights.sum(-1, keepdims=True)) + own_weights.sum(-1, keepdims=True)
    dtype = own.v.dtype
    out = by_row(
        jnp.einsum(
            "BKXP,BKPH->BKXH", prompt_weights.astype(dtype), prompt.v, preferred_element_type=f32
        )
    )
    out = out + jnp.einsum(
        "RKXW,RKWH->RKXH", own_weights.astype(dtype), own.v, preferred_element_type=f32
    )
    return (out / total).astype(dtype).reshape(rows, heads, dim)

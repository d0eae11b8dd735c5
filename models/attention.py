"""Causal grouped-query attention over whole rows, in blocks of queries.

A block of queries reads only the keys up to its own end, so that half of the score matrix is never
made, and the backward pass makes the scores again from the stored log-sum-exp: neither direction
holds more than one block's scores (Dao et al. 2022, arXiv 2205.14135; here in plain XLA).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

BLOCK = 64  # queries at a time: on CPU a block of scores should stay in the second-level cache
MAX_BLOCKS = 16  # longer rows take longer blocks, so that the compiled program stays small
MASKED = -1e30  # finite: a row that sees nothing yields a mean of values, not NaN


def attend(
    q: Float[Array, "R W Q H"],
    k: Float[Array, "R W K H"],
    v: Float[Array, "R W K H"],
    segments: Int[Array, "R W"] | None = None,
) -> Float[Array, "R W Q H"]:
    """Softmax attention of each position over itself and earlier positions of its segment.

    Args:
      q: [R, W, Q, H] queries, not yet scaled by H^-0.5; query head i reads key head i // (Q / K).
      k: [R, W, K, H] keys.
      v: [R, W, K, H] values.
      segments: [R, W] int32; None where each row is one segment.

    Returns:
      [R, W, Q, H] in q's dtype. Scores and their softmax are float32.
    """
    rows, width, heads, dim = q.shape
    kv_heads = k.shape[2]
    q = (q * dim**-0.5).astype(q.dtype)
    # [R, W, Q, H] -> [R, K, Q/K, W, H] and [R, W, K, H] -> [R, K, W, H]
    q = q.reshape(rows, width, kv_heads, heads // kv_heads, dim).transpose(0, 2, 3, 1, 4)
    out = _attend(q, k.swapaxes(1, 2), v.swapaxes(1, 2), segments)
    return out.transpose(0, 3, 1, 2, 4).reshape(rows, width, heads, dim)


@jax.custom_vjp
def _attend(q, k, v, segments):
    return _forward(q, k, v, segments)[0]


def _forward(q, k, v, segments):
    outs, totals = [], []
    for start, stop in _blocks(q.shape[3]):
        scores = _scores(q, k, segments, start, stop)
        peak = jnp.max(scores, axis=-1, keepdims=True)
        weights = jnp.exp(scores - peak)
        total = jnp.sum(weights, axis=-1, keepdims=True)
        out = _times_values(weights.astype(v.dtype), v[:, :, :stop])
        outs.append((out / total).astype(q.dtype))
        totals.append(peak + jnp.log(total))
    out = jnp.concatenate(outs, axis=3)
    return out, (q, k, v, segments, out, jnp.concatenate(totals, axis=3))


def _backward(saved, d_out):
    q, k, v, segments, out, log_total = saved
    # Row sums of weights * d_weights, from the outputs alone.
    inner = jnp.sum((d_out * out).astype(jnp.float32), axis=-1, keepdims=True)
    d_q, d_k, d_v = [], jnp.zeros(k.shape, jnp.float32), jnp.zeros(v.shape, jnp.float32)
    for start, stop in _blocks(q.shape[3]):
        part = slice(start, stop)
        weights = jnp.exp(_scores(q, k, segments, start, stop) - log_total[:, :, :, part])
        d_block = d_out[:, :, :, part]
        d_weights = _times_keys(d_block, v[:, :, :stop])
        d_scores = (weights * (d_weights - inner[:, :, :, part])).astype(q.dtype)
        weights = weights.astype(v.dtype)
        d_q.append(_times_values(d_scores, k[:, :, :stop]).astype(q.dtype))
        d_k = d_k.at[:, :, :stop].add(_over_queries(d_scores, q[:, :, :, part]))
        d_v = d_v.at[:, :, :stop].add(_over_queries(weights, d_block))
    return jnp.concatenate(d_q, axis=3), d_k.astype(k.dtype), d_v.astype(v.dtype), None


_attend.defvjp(_forward, _backward)


def _blocks(width: int) -> list[tuple[int, int]]:
    block = max(BLOCK, -(-width // MAX_BLOCKS))
    return [(start, min(start + block, width)) for start in range(0, width, block)]


def _scores(q, k, segments, start: int, stop: int):
    """[R, K, Q/K, stop - start, stop] float32 scores, masked."""
    scores = _times_keys(q[:, :, :, start:stop], k[:, :, :stop])
    mask = (jnp.arange(stop) <= jnp.arange(start, stop)[:, None])[None]
    if segments is not None:
        mask = mask & (segments[:, start:stop, None] == segments[:, None, :stop])
    return jnp.where(mask[:, None, None], scores, MASKED)


# The group axis is joined with the queries, so that each of these is one matrix product per row and
# key/value head.
def _times_keys(x, k):
    """[R, K, G, w, H] x [R, K, S, H] -> [R, K, G, w, S] float32."""
    rows, kv, group, width, dim = x.shape
    out = jnp.einsum(
        "RKXH,RKSH->RKXS",
        x.reshape(rows, kv, group * width, dim),
        k,
        preferred_element_type=jnp.float32,
    )
    return out.reshape(rows, kv, group, width, -1)


def _times_values(weights, v):
    """[R, K, G, w, S] x [R, K, S, H] -> [R, K, G, w, H] float32."""
    rows, kv, group, width, keys = weights.shape
    out = jnp.einsum(
        "RKXS,RKSH->RKXH",
        weights.reshape(rows, kv, group * width, keys),
        v,
        preferred_element_type=jnp.float32,
    )
    return out.reshape(rows, kv, group, width, -1)


def _over_queries(weights, x):
    """[R, K, G, w, S] x [R, K, G, w, H] -> [R, K, S, H] float32."""
    rows, kv, group, width, keys = weights.shape
    return jnp.einsum(
        "RKXS,RKXH->RKSH",
        weights.reshape(rows, kv, group * width, keys),
        x.reshape(rows, kv, group * width, -1),
        preferred_element_type=jnp.float32,
    )

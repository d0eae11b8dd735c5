"""Causal grouped-query attention over whole rows, in blocks of queries.

A block of queries reads only the keys up to its own end, so that half of the score matrix is never
made, and the backward pass makes the scores again from the stored log-sum-exp: neither direction
holds more than one block's scores (Dao et al. 2022, arXiv 2205.14135; here in plain XLA).
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Implementation = Literal["auto", "xla", "cudnn"]
BLOCK = 64  # queries at a time: on CPU a block of scores should stay in the second-level cache
MAX_BLOCKS = 16  # longer rows loop inside blocks, so that the compiled program stays small
MASKED = -1e30  # finite: a row that sees nothing yields a mean of values, not NaN


def attend(
    q: Float[Array, "R W Q H"],
    k: Float[Array, "R W K H"],
    v: Float[Array, "R W K H"],
    segments: Int[Array, "R W"] | None = None,
    implementation: Implementation = "auto",
) -> Float[Array, "R W Q H"]:
    """Softmax attention of each position over itself and earlier positions of its segment.

    Args:
      q: [R, W, Q, H] queries, not yet scaled by H^-0.5; query head i reads key head i // (Q / K).
      k: [R, W, K, H] keys.
      v: [R, W, K, H] values.
      segments: [R, W] int32; None where each row is one segment.
      implementation: "xla" is the code below; "cudnn" cuDNN's fused kernel, on a GPU; "auto" takes
        cuDNN's where JAX runs on a GPU and the kernel knows the dtype and the head width.

    Returns:
      [R, W, Q, H] in q's dtype. Scores and their softmax are float32.
    """
    if implementation == "cudnn" or (implementation == "auto" and _cudnn_fits(q)):
        mask = None
        if segments is not None:
            mask = (segments[:, :, None] == segments[:, None, :])[:, None]
        return jax.nn.dot_product_attention(
            q, k, v, mask=mask, is_causal=True, implementation="cudnn"
        )
    rows, width, heads, dim = q.shape
    kv_heads = k.shape[2]
    q = (q * dim**-0.5).astype(q.dtype)
    # [R, W, Q, H] -> [R, K, Q/K, W, H] and [R, W, K, H] -> [R, K, W, H]
    q = q.reshape(rows, width, kv_heads, heads // kv_heads, dim).transpose(0, 2, 3, 1, 4)
    out = _attend(q, k.swapaxes(1, 2), v.swapaxes(1, 2), segments)
    return out.transpose(0, 3, 1, 2, 4).reshape(rows, width, heads, dim)


def _cudnn_fits(q: jax.Array) -> bool:
    half = q.dtype in (jnp.bfloat16, jnp.float16)
    return jax.default_backend() == "gpu" and half and q.shape[3] % 8 == 0 and q.shape[3] <= 128


@jax.custom_vjp
def _attend(q, k, v, segments):
    return _forward(q, k, v, segments)[0]


def _forward(q, k, v, segments):
    outs, totals = [], []
    for start, stop in _blocks(q.shape[3]):

        def piece(_, part, stop=stop):
            at, q, segment = part
            scores = _scores(q, k[:, :, :stop], at, segment, segments)
            peak = jnp.max(scores, axis=-1, keepdims=True)
            weights = jnp.exp(scores - peak)
            total = jnp.sum(weights, axis=-1, keepdims=True)
            out = _times_values(weights.astype(v.dtype), v[:, :, :stop])
            return None, ((out / total).astype(q.dtype), peak + jnp.log(total))

        _, (out, total) = _over_pieces(piece, None, (q,), segments, start, stop)
        outs.append(out)
        totals.append(total)
    out = jnp.concatenate(outs, axis=3)
    return out, (q, k, v, segments, out, jnp.concatenate(totals, axis=3))


def _backward(saved, d_out):
    q, k, v, segments, out, log_total = saved
    # Row sums of weights * d_weights, from the outputs alone.
    inner = jnp.sum((d_out * out).astype(jnp.float32), axis=-1, keepdims=True)
    d_q, d_k, d_v = [], jnp.zeros(k.shape, jnp.float32), jnp.zeros(v.shape, jnp.float32)
    for start, stop in _blocks(q.shape[3]):

        def piece(sums, part, stop=stop):
            at, q, log_total, d_out, inner, segment = part
            scores = _scores(q, k[:, :, :stop], at, segment, segments)
            weights = jnp.exp(scores - log_total)
            d_weights = _times_keys(d_out, v[:, :, :stop])
            d_scores = (weights * (d_weights - inner)).astype(q.dtype)
            d_k = sums[0] + _over_queries(d_scores, q)
            d_v = sums[1] + _over_queries(weights.astype(v.dtype), d_out)
            return (d_k, d_v), _times_values(d_scores, k[:, :, :stop]).astype(q.dtype)

        sums = d_k[:, :, :stop], d_v[:, :, :stop]
        sums, part = _over_pieces(piece, sums, (q, log_total, d_out, inner), segments, start, stop)
        d_q.append(part)
        d_k, d_v = d_k.at[:, :, :stop].set(sums[0]), d_v.at[:, :, :stop].set(sums[1])
    return jnp.concatenate(d_q, axis=3), d_k.astype(k.dtype), d_v.astype(v.dtype), None


_attend.defvjp(_forward, _backward)


def _blocks(width: int) -> list[tuple[int, int]]:
    """Ranges of queries that read the same keys: whole pieces, then what is left of the row."""
    block = max(1, -(-width // (BLOCK * MAX_BLOCKS))) * BLOCK
    whole = width // BLOCK * BLOCK
    blocks = [(start, min(start + block, whole)) for start in range(0, whole, block)]
    return blocks if whole == width else [*blocks, (whole, width)]


def _over_pieces(function, carry, by_query, segments, start: int, stop: int):
    """Scan `function` over the queries [start, stop) in pieces of `BLOCK`, one at a time.

    Args:
      function: (carry, (first query's place, *pieces, segments of the piece)) -> (carry, result).
      carry: what the pieces hand on.
      by_query: arrays [R, K, G, W, ...] to cut.
      segments: [R, W] or None.
      start: first query.
      stop: end of the queries.

    Returns:
      (carry, results joined along the queries).
    """
    parts = [x[:, :, :, start:stop] for x in by_query]
    segment = None if segments is None else segments[:, start:stop]
    count = (stop - start) // BLOCK
    if count <= 1:
        return function(carry, (start, *parts, segment))

    def cut(x, axis):
        x = x.reshape(*x.shape[:axis], count, BLOCK, *x.shape[axis + 1 :])
        return jnp.moveaxis(x, axis, 0)

    def join(x):
        x = jnp.moveaxis(x, 0, 3)
        return x.reshape(*x.shape[:3], count * BLOCK, *x.shape[5:])

    segment = None if segment is None else cut(segment, 1)
    places = start + BLOCK * jnp.arange(count)
    carry, results = jax.lax.scan(function, carry, (places, *(cut(x, 3) for x in parts), segment))
    return carry, jax.tree.map(join, results)


def _scores(q, k, at, segment, segments):
    """[R, K, Q/K, w, S] float32 scores of queries from place `at` on, masked."""
    width, keys = q.shape[3], k.shape[2]
    mask = (jnp.arange(keys) <= at + jnp.arange(width)[:, None])[None]
    if segments is not None:
        mask = mask & (segment[:, :, None] == segments[:, None, :keys])
    return jnp.where(mask[:, None, None], _times_keys(q, k), MASKED)


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

"""Drawing tokens from logits, with their log-probabilities."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


def row_uniforms(
    keys: Key[Array, " R"], start: Int[Array, ""], count: int
) -> Float[Array, "count R"]:
    """[count, R] uniforms in [0, 1): entry (i, r) depends on keys[r] and start + i alone."""

    def one(key, index):
        return jax.random.uniform(jax.random.fold_in(key, index), (), jnp.float32)

    indices = start + jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(jax.vmap(one, (0, None)), (None, 0))(keys, indices)


def draw(
    logits: Float[Array, "R V"], uniforms: Float[Array, " R"]
) -> tuple[Int[Array, " R"], Float[Array, " R"]]:
    """Draw one token per row by inverting the cumulative distribution.

    One uniform per row instead of one Gumbel variate per logit. The cumulative sum runs over sums
    of about sqrt(V) tokens, then inside the chosen block: two short scans instead of one of V.

    Args:
      logits: [R, V] float32, already divided by the temperature.
      uniforms: [R] float32 in [0, 1).

    Returns:
      ([R] int32 tokens, [R] float32 log-probabilities). A token of probability 0 is never drawn.
    """
    rows, vocab = logits.shape
    block = max(1, math.isqrt(vocab))
    num_blocks = -(-vocab // block)
    peak = jnp.max(logits, axis=-1, keepdims=True)
    weights = jnp.exp(logits - peak)
    weights = jnp.pad(weights, ((0, 0), (0, num_blocks * block - vocab)))
    weights = weights.reshape(rows, num_blocks, block)
    sums = jnp.sum(weights, axis=-1)
    total = jnp.sum(sums, axis=-1)

    chosen_block, before = _invert(sums, uniforms * total)
    inside = jnp.take_along_axis(weights, chosen_block[:, None, None], axis=1)[:, 0]
    offset, _ = _invert(inside, uniforms * total - before)
    tokens = chosen_block * block + offset
    chosen = jnp.take_along_axis(logits, tokens[:, None], axis=-1)[:, 0]
    return tokens, chosen - peak[:, 0] - jnp.log(total)


def _invert(weights, target):
    """First index at which the cumulative sum exceeds `target`, and the sum before it.

    Rounding may leave `target` at or above the whole sum; the last index of positive weight is
    taken then.
    """
    cumulative = jnp.cumsum(weights, axis=-1)
    positive = weights > 0
    last = weights.shape[-1] - 1 - jnp.argmax(positive[:, ::-1], axis=-1)
    reached = (cumulative > target[:, None]) & positive
    index = jnp.where(jnp.any(reached, axis=-1), jnp.argmax(reached, axis=-1), last)
    index = index.astype(jnp.int32)
    before = jnp.take_along_axis(cumulative - weights, index[:, None], axis=-1)[:, 0]
    return index, before


def take_greedy(logits: Float[Array, "R V"]) -> tuple[Int[Array, " R"], Float[Array, " R"]]:
    """The most likely token of each row and its log-probability under softmax(logits)."""
    tokens = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    peak = jnp.max(logits, axis=-1)
    return tokens, -jnp.log(jnp.sum(jnp.exp(logits - peak[:, None]), axis=-1))

"""Mean, variance and standard score of kept numbers along one axis, exact where they are equal."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Scaled(NamedTuple):
    """Kept numbers as low + spread * unit, so that unit covers exactly [0, 1] where they vary.

    The score does not depend on offset or unit, so low and spread carry no gradient; without them
    the square of a small difference underflows and a large offset eats the differences.
    """

    unit: Float[Array, "..."]  # 0 where left out, and everywhere in a flat group
    low: Float[Array, "..."]  # this and the following have size 1 along the axis
    spread: Float[Array, "..."]  # max - min; 1 in a flat group, where it is only divided by
    flat: Bool[Array, "..."]  # all kept numbers equal, or fewer than two kept
    count: Int[Array, "..."]


def scaled(values: Float[Array, "..."], kept: Bool[Array, "..."], axis: int) -> Scaled:
    """Subtracts the minimum and divides by the range, along `axis`."""
    values = jnp.where(kept, values, 0.0)
    count = jnp.sum(kept, axis=axis, keepdims=True, dtype=jnp.int32)
    fixed = jax.lax.stop_gradient(values)
    low = jnp.min(fixed, axis=axis, keepdims=True, where=kept, initial=jnp.inf)
    high = jnp.max(fixed, axis=axis, keepdims=True, where=kept, initial=-jnp.inf)
    low = jnp.where(count > 0, low, 0.0)
    flat = (count < 2) | (high - low == 0.0)
    spread = jnp.where(flat, 1.0, high - low)
    unit = jnp.where(kept & ~flat, (values - low) / spread, 0.0)
    return Scaled(unit, low, spread, flat, count)


def unit_moments(
    group: Scaled, kept: Bool[Array, "..."], axis: int, ddof: int
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Mean, deviations from it and variance, in units of `spread`; the variance of a flat group is
    1, since a square root has no finite slope at 0: the caller overwrites it.
    """
    size = jnp.maximum(group.count, 1).astype(jnp.float32)
    mean = jnp.sum(group.unit, axis=axis, keepdims=True) / size
    deviation = jnp.where(kept, group.unit - mean, 0.0)
    squares = jnp.sum(deviation**2, axis=axis, keepdims=True)
    freedom = jnp.maximum(group.count - ddof, 1).astype(jnp.float32)
    return mean, deviation, jnp.where(group.flat, 1.0, squares / freedom)


def standardise(
    values: Float[Array, "..."],
    kept: Bool[Array, "..."],
    *,
    axis: int,
    ddof: Literal[0, 1],
    eps: float,
    divide: bool = True,
) -> tuple[Float[Array, "..."], Scaled]:
    """Score (value - mean) / (std + eps), or the deviation alone; 0 where left out or flat."""
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 (population) or 1 (sample); got {ddof}")
    group = scaled(values, kept, axis)
    _, deviation, variance = unit_moments(group, kept, axis, ddof)
    if divide:
        # The common factor `spread` cancels, save in eps.
        score = deviation / (jnp.sqrt(variance) + eps / group.spread)
    else:
        score = deviation * group.spread
    return jnp.where(kept, score, 0.0), group  # a flat group has deviations of exactly 0

"""What GRAFT measures before any training: how prefixes decay and what that does to advantages.

Arrays are [B, G, S]: B problems, G trajectories, S padded steps. Every figure is given per step
number t with the number of samples behind it, and never pooled over t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Shaped

from rewards._checks import (
    as_flags,
    as_float32,
    as_int32,
    check_axes,
    check_range,
    check_shape,
    read_interval,
)
from rewards.code_steps import Ledger
from rewards.groups import group_moments

Z_95 = 1.959964  # standard normal quantile of a two-sided 95 % interval

# Kinds of residual; a bucket is a position in this tuple.
RESIDUAL_BUCKETS = ("interface mismatch", "numeric convention", "local error")


class Proportion(NamedTuple):
    """A share per step with its Wilson interval; 0 in [0, 1] where there is no trial."""

    share: Float[Array, "*cells"]
    low: Float[Array, "*cells"]
    high: Float[Array, "*cells"]
    trials: Int[Array, "*cells"]


class StepSpread(NamedTuple):
    """Mean over problems of the std of the step rewards, and how many problems are behind it."""

    across: Float[Array, " S"]  # over all trajectories, as SciWalker groups them
    within: Float[Array, " S"]  # over those with b = 1, as GRAFT groups them
    num_across: Int[Array, " S"]
    num_within: Int[Array, " S"]


def wilson_interval(
    successes: Int[ArrayLike, "*cells"], trials: Int[ArrayLike, "*cells"], *, z: float = Z_95
) -> Proportion:
    """Wilson score interval of a proportion; unlike the normal one it holds near 0 and 1.

        (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    Source: Wilson (1927).

    Args:
      successes: [...] int, 0 <= successes <= trials.
      trials: [...] int, >= 0; without trials the interval is [0, 1].
      z: standard normal quantile, >= 0.

    Returns:
      Proportion of [...] float32 in [0, 1] and int32. No gradient.

    Raises:
      ValueError: shapes that do not match, successes outside 0..trials, negative `z`.

    Example:
      >>> interval = wilson_interval(5, 10)
      >>> round(float(interval.low), 4), round(float(interval.high), 4)
      (0.2366, 0.7634)
    """
    z = read_interval("z", z, 0.0)
    successes = as_int32("successes", successes)
    trials = as_int32("trials", trials)
    check_shape("trials", trials, successes.shape, "that of successes")
    check_range("successes", successes, 0, jnp.inf, "a number of successes")
    check_range("trials - successes", trials - successes, 0, jnp.inf, "successes are trials")
    count = jnp.maximum(trials, 1).astype(jnp.float32)
    share = successes.astype(jnp.float32) / count
    centre = share + z * z / (2.0 * count)
    half = z * jnp.sqrt(share * (1.0 - share) / count + z * z / (4.0 * count * count))
    scale = 1.0 + z * z / count
    low = jnp.clip((centre - half) / scale, 0.0, share)
    high = jnp.clip((centre + half) / scale, share, 1.0)
    tried = trials > 0
    return Proportion(share, jnp.where(tried, low, 0.0), jnp.where(tried, high, 1.0), trials)


def prefix_survival(ledger: Ledger) -> Proportion:
    """Share of trajectories whose prefix still holds at step t: p̂_t = share with τ >= t.

    Source: GRAFT proposal, technical route, step 4, and prediction P1. Trajectories of one problem
    share its difficulty; the interval treats them as independent.

    Args:
      ledger: of [B, G, S] arrays. Problems with fewer than t steps are no trial at t.

    Returns:
      Proportion of [S] arrays; 1 at t = 1 by construction. No gradient.

    Raises:
      ValueError: a ledger that is not [B, G, S].

    Example:
      >>> r = jnp.array([[[1, 0], [0, 0]]])
      >>> prefix_survival(step_ledger(r, r, r, jnp.array([2]))).share.tolist()
      [1.0, 0.5]
    """
    _check_problems(ledger)
    return _proportion_per_step(ledger.prefix_ok, ledger.real)


def step_spread(ledger: Ledger) -> StepSpread:
    """Group std of the step rewards across prefixes and within b = 1, per step.

    Source: GRAFT proposal, technical route, step 1, and prediction P4 (population std).

    Args:
      ledger: of [B, G, S] arrays.

    Returns:
      StepSpread of [S] arrays. Only groups of two trajectories or more are counted; 0 where there
      is none. No gradient.

    Raises:
      ValueError: a ledger that is not [B, G, S].

    Example:
      >>> r = jnp.array([[[1, 1], [1, 1], [0, 0], [0, 0]]])
      >>> spread = step_spread(step_ledger(r, r, r, jnp.array([2])))
      >>> spread.across.tolist(), spread.within.tolist()
      ([0.5, 0.5], [0.5, 0.0])
    """
    _check_problems(ledger)
    across, num_across = _mean_std(ledger.passed, ledger.real)
    within, num_within = _mean_std(ledger.passed, ledger.prefix_ok)
    return StepSpread(across, within, num_across, num_within)


def advantage_quantiles(
    advantages: Shaped[ArrayLike, "B G S"],
    mask: Shaped[ArrayLike, "B G S"],
    *,
    quantiles: Sequence[float] = (0.1, 0.5, 0.9),
) -> Float[Array, "K S"]:
    """Quantiles of |A_{i,t}| over all problems and trajectories, per step.

    Source: GRAFT proposal, technical route, step 1.

    Args:
      advantages: [B, G, S] real; never read where not in the mask.
      mask: [B, G, S] bool, the steps that enter the loss.
      quantiles: K levels in [0, 1]. Between two samples the value is interpolated linearly.

    Returns:
      [K, S] float32; 0 for a step with no sample. No gradient intended.

    Raises:
      ValueError: a rank other than 3, shapes that do not match, no level or one outside [0, 1].

    Example:
      >>> a = jnp.array([[[-1.0], [3.0], [2.0]]])
      >>> advantage_quantiles(a, jnp.ones((1, 3, 1)), quantiles=(0.0, 0.5, 1.0))[:, 0].tolist()
      [1.0, 2.0, 3.0]
    """
    advantages, mask = as_float32("advantages", advantages), as_flags("mask", mask)
    check_axes("advantages", advantages, ("B", "G", "S"))
    if advantages.ndim != 3:
        raise ValueError(f"advantages must be [B, G, S]; got shape {advantages.shape}")
    check_shape("mask", mask, advantages.shape, "that of advantages")
    if not len(quantiles):
        raise ValueError("quantiles must hold at least one level; got none")
    levels = [read_interval(f"quantiles[{i}]", q, 0.0, 1.0) for i, q in enumerate(quantiles)]
    num_steps = advantages.shape[-1]
    sizes = jnp.where(mask, jnp.abs(advantages), jnp.inf)
    ordered = jnp.sort(sizes.reshape(-1, num_steps), axis=0)  # [B, G, S] -> [BG, S], left out last
    count = jnp.sum(mask, axis=(0, 1), dtype=jnp.int32)
    return jnp.stack([_interpolated(ordered, count, level) for level in levels])


def residual_rates(ledger: Ledger, bucket: Int[ArrayLike, "B G S"]) -> Proportion:
    """How often ε is not 0, by kind and step.

    Source: GRAFT proposal, limitations, and prediction P5. The denominator is every true step with
    a known r̃; steps that are NA are no trial.

    Args:
      ledger: of [B, G, S] arrays.
      bucket: [B, G, S] int, kind of the residual as a position in `RESIDUAL_BUCKETS`; read only
        where ε is not 0.

    Returns:
      Proportion of [4, S] arrays: one row per bucket, then all of them. No gradient.

    Raises:
      ValueError: a ledger that is not [B, G, S], `bucket` of another shape, a bucket outside 0..2.

    Example:
      >>> ledger = step_ledger(jnp.zeros((1, 4, 1)), jnp.array([[[1], [1], [0], [0]]]),
      ...                      jnp.ones((1, 4, 1)), jnp.array([1]))
      >>> residual_rates(ledger, jnp.array([[[0], [2], [0], [0]]])).share[:, 0].tolist()
      [0.25, 0.0, 0.25, 0.5]
    """
    _check_problems(ledger)
    bucket = as_int32("bucket", bucket)
    check_shape("bucket", bucket, ledger.residual.shape, "that of the ledger")
    nonzero = ledger.residual != 0
    last = len(RESIDUAL_BUCKETS) - 1
    check_range("bucket", bucket, 0, last, f"positions in {RESIDUAL_BUCKETS}", nonzero)
    kinds = [nonzero & (bucket == k) for k in range(len(RESIDUAL_BUCKETS))]
    rows = [_proportion_per_step(hit, ledger.alignable) for hit in [*kinds, nonzero]]
    return jax.tree.map(lambda *row: jnp.stack(row), *rows)


def _proportion_per_step(hit: Bool[Array, "B G S"], counted: Bool[Array, "B G S"]) -> Proportion:
    trials = jnp.sum(counted, axis=(0, 1), dtype=jnp.int32)
    return wilson_interval(jnp.sum(hit & counted, axis=(0, 1), dtype=jnp.int32), trials)


def _mean_std(
    passed: Bool[Array, "B G S"], among: Bool[Array, "B G S"]
) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    # [B, G, S] -> [B, S, G]
    moments = group_moments(jnp.swapaxes(passed, 1, 2), jnp.swapaxes(among, 1, 2))
    comparable = moments.count >= 2
    number = jnp.sum(comparable, axis=0, dtype=jnp.int32)
    total = jnp.sum(jnp.where(comparable, jnp.sqrt(moments.variance), 0.0), axis=0)
    return total / jnp.maximum(number, 1).astype(jnp.float32), number


def _interpolated(
    ordered: Float[Array, "BG S"], count: Int[Array, " S"], level: float
) -> Float[Array, " S"]:
    place = level * jnp.maximum(count - 1, 0).astype(jnp.float32)
    below = jnp.floor(place).astype(jnp.int32)
    above = jnp.minimum(below + 1, jnp.maximum(count - 1, 0))
    low = jnp.take_along_axis(ordered, below[None], axis=0)[0]
    high = jnp.take_along_axis(ordered, above[None], axis=0)[0]
    low, high = (jnp.where(count > 0, x, 0.0) for x in (low, high))
    return low + (place - below.astype(jnp.float32)) * (high - low)


def _check_problems(ledger: Ledger) -> None:
    if ledger.passed.ndim != 3:
        raise ValueError(f"ledger must hold [B, G, S] arrays; got shape {ledger.passed.shape}")

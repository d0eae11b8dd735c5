"""Rewards of a group (the G rollouts of one problem) to advantages, and what a group can teach.

The group is the last axis; leading axes are independent groups.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Shaped

from rewards._checks import as_flags, as_float32, check_axes, read_interval, read_keep


class GroupMoments(NamedTuple):
    """Moments of the kept rollouts of each group; zeros where no rollout is kept."""

    mean: Float[Array, "*batch"]
    variance: Float[Array, "*batch"]
    count: Int[Array, "*batch"]


class _UnitRewards(NamedTuple):
    """Rewards as low + spread * unit, so that unit covers exactly [0, 1] in a group that varies."""

    unit: Float[Array, "*batch G"]  # 0 where left out, and everywhere in a flat group
    low: Float[Array, "*batch 1"]
    spread: Float[Array, "*batch 1"]  # max - min; 1 in a flat group, where it is only divided by
    flat: Bool[Array, "*batch 1"]  # all kept rewards equal, or fewer than two kept
    keep: Bool[Array, "*batch G"]
    count: Int[Array, "*batch 1"]


def group_advantages(
    rewards: Shaped[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    ddof: Literal[0, 1] = 0,
    eps: float = 0.0,
    normalize_std: bool = True,
) -> Float[Array, "*batch G"]:
    """Group-relative advantage of each rollout.

        A_g = (R_g - mean_j R_j) / (std_j R_j + eps)        A_g = 0 if all R_j are equal

    Source: SCOPE-RL, Eq. (2), with population variance (Appendix A). `ddof=1, eps=1e-6` is what
    verl computes; `normalize_std=False` (A_g = R_g - mean) is Dr. GRPO. Deviations: a group is
    flat when max == min, not when its std is small: the rounded mean of equal float32 rewards
    differs from them when G is no power of two, and dividing by a std of the same size would turn
    that into |A| up to 1.

    Args:
      rewards: [..., G] real, finite where kept; any unit, since A does not depend on it.
      keep: [..., G] bool, True = the rollout counts. A rollout left out (a judge failure, say) is
        outside mean and std, gets A = 0, and its reward may hold anything. None keeps all.
      ddof: 0 divides the variance by the number kept, 1 by one less.
      eps: added to the std, >= 0, in units of the reward. Flat groups are exactly 0 with any eps.
      normalize_std: False leaves out the division.

    Returns:
      [..., G] float32. Groups with fewer than two kept rollouts are 0. A NaN reward that is kept
      makes its group NaN. Gradient: that of the formula; 0 for rollouts left out and flat groups.

    Raises:
      ValueError: G = 0, `keep` of another shape, `ddof` not 0 or 1, negative `eps`.

    Example:
      >>> group_advantages(jnp.array([1.0, 0.0, 0.0, 1.0])).tolist()
      [1.0, -1.0, -1.0, 1.0]
    """
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 (population) or 1 (sample); got {ddof}")
    eps = read_interval("eps", eps, 0.0)
    scaled = _unit_rewards(rewards, keep)
    deviation, variance = _deviation_and_variance(scaled, ddof)
    if normalize_std:
        # The common factor `spread` cancels, save in eps.
        advantages = deviation / (jnp.sqrt(variance) + eps / scaled.spread)
    else:
        advantages = deviation * scaled.spread
    return jnp.where(scaled.keep & ~scaled.flat, advantages, 0.0)


def group_moments(
    rewards: Shaped[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    ddof: Literal[0, 1] = 0,
) -> GroupMoments:
    """Mean, variance and count of each group's kept rewards: σ²_R(q) = Var_g R(q, y_g).

    Source: SCOPE-RL, Eqs. (3) and (7). Deviations: none.

    Args:
      rewards: [..., G] real, finite where kept.
      keep: [..., G] bool, True = the rollout counts; None keeps all.
      ddof: 0 divides the variance by the number kept, 1 by one less.

    Returns:
      GroupMoments of [...] float32, float32, int32. The variance of a flat group is exactly 0.

    Raises:
      ValueError: G = 0, `keep` of another shape, `ddof` not 0 or 1.

    Example:
      >>> moments = group_moments(jnp.array([1.0, 0.0, 0.0, 0.0]))
      >>> float(moments.mean), float(moments.variance), int(moments.count)
      (0.25, 0.1875, 4)
    """
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 (population) or 1 (sample); got {ddof}")
    scaled = _unit_rewards(rewards, keep)
    _, variance = _deviation_and_variance(scaled, ddof)
    mean = scaled.low + scaled.spread * _kept_mean(scaled)
    variance = jnp.where(scaled.flat, 0.0, scaled.spread**2 * variance)
    return GroupMoments(mean[..., 0], variance[..., 0], scaled.count[..., 0])


def effective_gradient_ratio(
    rewards: Shaped[ArrayLike, "*batch B G"],
    keep: Shaped[ArrayLike, "*batch B G"] | None = None,
) -> Float[Array, "*batch"]:
    """Share of groups that produce a gradient: η_R = (1/B) Σ_q [σ²_R(q) > 0].

    Source: SCOPE-RL, Eq. (4). Deviations: σ² > 0 is decided as max > min, exactly.

    Args:
      rewards: [..., B, G] real, finite where kept.
      keep: [..., B, G] bool, True = the rollout counts; None keeps all.

    Returns:
      [...] float32 in [0, 1]. The denominator is B: a group with fewer than two kept rollouts
      counts as one without gradient. No gradient.

    Raises:
      ValueError: rank below 2, B = 0, G = 0, `keep` of another shape.

    Example:
      >>> float(effective_gradient_ratio(jnp.array([[1, 0], [1, 1], [0, 0], [0, 1]])))
      0.5
    """
    check_axes("rewards", jnp.asarray(rewards), ("B", "G"))
    scaled = _unit_rewards(rewards, keep)
    return jnp.mean(~scaled.flat[..., 0], axis=-1, dtype=jnp.float32)


def outcome_gate(
    outcome: Shaped[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
) -> Bool[Array, "*batch G"]:
    """The `keep` mask without the groups in which no kept rollout is correct.

    Under a shaped reward (prefix credit, process quality) an all-wrong group has a small positive
    std, and dividing by it makes a hair of partial credit as loud as a solved problem. Passing the
    result as `keep` to `group_advantages` silences such groups. Nothing here applies it unasked:
    the prefix credit of all-wrong groups is what stage 1 of SCOPE-RL learns from.

    Source: no paper; the outcome-filter practice of DAPO-style training.

    Args:
      outcome: [..., G] bool (or 0/1), verdict of the verifier on the final answer.
      keep: [..., G] bool, True = the rollout counts; None keeps all.

    Returns:
      [..., G] bool.

    Raises:
      ValueError: G = 0, `keep` of another shape.

    Example:
      >>> outcome_gate(jnp.array([[0, 0], [0, 1]])).tolist()
      [[False, False], [True, True]]
    """
    outcome = as_flags("outcome", outcome)
    check_axes("outcome", outcome, ("G",))
    kept = read_keep(keep, outcome.shape, "that of outcome")
    solved = jnp.any(outcome & kept, axis=-1, keepdims=True)
    return kept & solved


def _unit_rewards(rewards: ArrayLike, keep: ArrayLike | None) -> _UnitRewards:
    """Subtracts the minimum and divides by the range of each group.

    The advantage does not depend on either, so they carry no gradient; without them a float32
    square of small differences underflows and a large common offset eats the differences.
    """
    rewards = as_float32("rewards", rewards)
    check_axes("rewards", rewards, ("G",))
    kept = read_keep(keep, rewards.shape, "that of rewards")
    rewards = jnp.where(kept, rewards, 0.0)
    count = jnp.sum(kept, axis=-1, keepdims=True, dtype=jnp.int32)
    fixed = jax.lax.stop_gradient(rewards)
    low = jnp.min(fixed, axis=-1, keepdims=True, where=kept, initial=jnp.inf)
    high = jnp.max(fixed, axis=-1, keepdims=True, where=kept, initial=-jnp.inf)
    low = jnp.where(count > 0, low, 0.0)
    flat = (count < 2) | (high - low == 0.0)
    spread = jnp.where(flat, 1.0, high - low)
    unit = jnp.where(kept & ~flat, (rewards - low) / spread, 0.0)
    return _UnitRewards(unit, low, spread, flat, kept, count)


def _kept_mean(scaled: _UnitRewards) -> Float[Array, "*batch 1"]:
    total = jnp.sum(scaled.unit, axis=-1, keepdims=True)
    return total / jnp.maximum(scaled.count, 1).astype(jnp.float32)


def _deviation_and_variance(
    scaled: _UnitRewards, ddof: int
) -> tuple[Float[Array, "*batch G"], Float[Array, "*batch 1"]]:
    """Deviation from the kept mean and its variance, in units of `spread`; variance 1 if flat."""
    deviation = jnp.where(scaled.keep, scaled.unit - _kept_mean(scaled), 0.0)
    squares = jnp.sum(deviation**2, axis=-1, keepdims=True)
    freedom = jnp.maximum(scaled.count - ddof, 1).astype(jnp.float32)
    # A square root has no finite slope at 0: flat groups take 1 here and are zeroed by the caller.
    return deviation, jnp.where(scaled.flat, 1.0, squares / freedom)

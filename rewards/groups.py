"""Rewards of a group (the G rollouts of one problem) to advantages, and what a group can teach.

The group is the last axis; leading axes are independent groups.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Shaped

from rewards._checks import as_flags, as_float32, check_axes, read_interval, read_keep
from rewards._standardise import scaled, standardise, unit_moments


class GroupMoments(NamedTuple):
    """Moments of the kept rollouts of each group; zeros where no rollout is kept."""

    mean: Float[Array, "*batch"]
    variance: Float[Array, "*batch"]
    count: Int[Array, "*batch"]


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
      rewards: [..., G] real, finite where kept, in any unit: with eps = 0 A does not depend on it.
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
    eps = read_interval("eps", eps, 0.0)
    rewards, kept = _read_group(rewards, keep)
    return standardise(rewards, kept, axis=-1, ddof=ddof, eps=eps, divide=normalize_std)[0]


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
      Gradient: that of the formula; 0 for rollouts left out and flat groups.

    Raises:
      ValueError: G = 0, `keep` of another shape, `ddof` not 0 or 1.

    Example:
      >>> moments = group_moments(jnp.array([1.0, 0.0, 0.0, 0.0]))
      >>> float(moments.mean), float(moments.variance), int(moments.count)
      (0.25, 0.1875, 4)
    """
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 (population) or 1 (sample); got {ddof}")
    rewards, kept = _read_group(rewards, keep)
    group = scaled(rewards, kept, axis=-1)
    mean, _, variance = unit_moments(group, kept, axis=-1, ddof=ddof)
    variance = jnp.where(group.flat, 0.0, group.spread**2 * variance)
    mean = group.low + group.spread * mean
    return GroupMoments(mean[..., 0], variance[..., 0], group.count[..., 0])


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
    rewards, kept = _read_group(rewards, keep)
    return jnp.mean(~scaled(rewards, kept, axis=-1).flat[..., 0], axis=-1, dtype=jnp.float32)


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


def _read_group(
    rewards: ArrayLike, keep: ArrayLike | None
) -> tuple[Float[Array, "*batch G"], Bool[Array, "*batch G"]]:
    array = as_float32("rewards", rewards)
    check_axes("rewards", array, ("G",))
    return array, read_keep(keep, array.shape, "that of rewards")

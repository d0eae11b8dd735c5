"""Stage 1 of SCOPE-RL: reward of a scaffolded rollout, and which problems get a scaffold.

Sub-questions are the last axis; leading axes (problems, rollouts) are independent.
"""

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
    positions,
    read_interval,
)
from rewards.groups import group_moments


def prefix_products(
    sub_correct: Shaped[ArrayLike, "*batch M"], num_sub: Int[ArrayLike, "*batch"]
) -> Bool[Array, "*batch M"]:
    """Whether a sub-answer and all before it are right: Π_i = ∏_{j<=i} [â_j = a_j].

    Source: SCOPE-RL, Eq. (9). Deviations: none.

    Args:
      sub_correct: [..., M] bool (or 0/1), verdict per sub-question; entries from `num_sub` on are
        padding and never read.
      num_sub: [...] int, true number m of sub-questions, 1 <= m <= M.

    Returns:
      [..., M] bool, False in the padding.

    Raises:
      ValueError: M = 0, shapes that do not match, `num_sub` outside 1..M.

    Example:
      >>> prefix_products(jnp.array([True, False, True, True]), 3).tolist()
      [True, False, False, False]
    """
    correct, num_sub = _read_scaffold(sub_correct, num_sub)
    return positions(correct.shape) < _prefix_length(correct, num_sub)[..., None]


def prefix_length(
    sub_correct: Shaped[ArrayLike, "*batch M"], num_sub: Int[ArrayLike, "*batch"]
) -> Int[Array, "*batch"]:
    """Number of leading sub-answers that are all right: L = Σ_i Π_i.

    Source: SCOPE-RL, Eq. (9) summed. Deviations: none.

    Args:
      sub_correct: [..., M] bool (or 0/1); entries from `num_sub` on are padding and never read.
      num_sub: [...] int, true number m of sub-questions, 1 <= m <= M.

    Returns:
      [...] int32 in 0..m.

    Raises:
      ValueError: M = 0, shapes that do not match, `num_sub` outside 1..M.

    Example:
      >>> int(prefix_length(jnp.array([True, True, False, True]), 4))
      2
    """
    return _prefix_length(*_read_scaffold(sub_correct, num_sub))


def asr_reward(
    sub_correct: Shaped[ArrayLike, "*batch M"],
    num_sub: Int[ArrayLike, "*batch"],
    main_correct: Shaped[ArrayLike, "*batch"],
    *,
    beta: float = 0.5,
) -> Float[Array, "*batch"]:
    """Reward of a scaffolded rollout: how far its sub-answers hold, and whether it ends right.

        R_ASR = β (1/m) Σ_i Π_i + (1 - β) Π_m [â_main = a]

    A right main answer after a broken prefix earns nothing from the second term.

    Source: SCOPE-RL, Eq. (10). Deviations: none.

    Args:
      sub_correct: [..., M] bool (or 0/1), verdict per sub-question; entries from `num_sub` on are
        padding and never read.
      num_sub: [...] int, true number m of sub-questions, 1 <= m <= M. A traced m < 1 gives 0.
      main_correct: [...] bool (or 0/1), verdict on the main answer.
      beta: weight of the prefix term, in [0, 1]; 0.5 in the paper.

    Returns:
      [...] float32 in [0, 1]. No gradient.

    Raises:
      ValueError: M = 0, shapes that do not match, `num_sub` outside 1..M, `beta` outside [0, 1].

    Example:
      >>> float(asr_reward(jnp.array([True, True, False, True]), 4, True))
      0.25
      >>> float(asr_reward(jnp.array([True, True, True, True]), 4, True))
      1.0
    """
    beta = read_interval("beta", beta, 0.0, 1.0)
    correct, num_sub = _read_scaffold(sub_correct, num_sub)
    main = _read_main(main_correct, num_sub)
    length = _prefix_length(correct, num_sub)
    complete = (length == num_sub) & (num_sub >= 1)
    reached = (complete & main).astype(jnp.float32)
    return beta * _share(length, num_sub) + (1.0 - beta) * reached


def final_only_reward(main_correct: Shaped[ArrayLike, "*batch"]) -> Float[Array, "*batch"]:
    """Scaffold prompt, outcome reward: R = [â_main = a], whatever the sub-answers are.

    Source: SCOPE-RL, ablation of the scaffold reward (scaffold prompt + final reward only).

    Args:
      main_correct: [...] bool (or 0/1), verdict on the main answer.

    Returns:
      [...] float32, 0 or 1. No gradient.

    Raises:
      ValueError: a dtype that is not bool or a number.

    Example:
      >>> float(final_only_reward(True))
      1.0
    """
    return as_flags("main_correct", main_correct).astype(jnp.float32)


def independent_reward(
    sub_correct: Shaped[ArrayLike, "*batch M"],
    num_sub: Int[ArrayLike, "*batch"],
    main_correct: Shaped[ArrayLike, "*batch"],
    *,
    beta: float = 0.5,
) -> Float[Array, "*batch"]:
    """Each sub-answer earns credit by itself, without the prefix product.

        R = β (1/m) Σ_i [â_i = a_i] + (1 - β) [â_main = a]

    Source: SCOPE-RL, ablation of the scaffold reward (independent sub-answer rewards).

    Args:
      sub_correct: [..., M] bool (or 0/1); entries from `num_sub` on are padding and never read.
      num_sub: [...] int, true number m of sub-questions, 1 <= m <= M. A traced m < 1 counts no
        sub-answer.
      main_correct: [...] bool (or 0/1), verdict on the main answer.
      beta: weight of the sub-answers, in [0, 1].

    Returns:
      [...] float32 in [0, 1]. No gradient.

    Raises:
      ValueError: M = 0, shapes that do not match, `num_sub` outside 1..M, `beta` outside [0, 1].

    Example:
      >>> float(independent_reward(jnp.array([True, False, True, True]), 4, True))
      0.875
    """
    beta = read_interval("beta", beta, 0.0, 1.0)
    correct, num_sub = _read_scaffold(sub_correct, num_sub)
    main = _read_main(main_correct, num_sub)
    real = positions(correct.shape) < num_sub[..., None]
    num_correct = jnp.sum(correct & real, axis=-1, dtype=jnp.int32)
    return beta * _share(num_correct, num_sub) + (1.0 - beta) * main.astype(jnp.float32)


def route_mask(
    outcome: Shaped[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    tau: float = 0.5,
) -> Bool[Array, "*batch"]:
    """Problems that the current policy solves too rarely, to be rolled out again on a scaffold.

        routed(q)  iff  mean_g r_out(y_g) < τ

    Source: SCOPE-RL, Eqs. (7) and (8); strict, so that 4 right of 8 is not routed at τ = 0.5.

    Args:
      outcome: [..., G] bool (or 0/1), outcome reward on the original prompt.
      keep: [..., G] bool, True = the rollout counts; None keeps all.
      tau: routing threshold, in [0, 1]; 0.5 in the paper.

    Returns:
      [...] bool. A group without a kept rollout says nothing of the policy and is not routed.

    Raises:
      ValueError: G = 0, `keep` of another shape, `tau` outside [0, 1].

    Example:
      >>> route_mask(jnp.array([[1, 0, 0, 0], [1, 1, 0, 0]])).tolist()
      [True, False]
    """
    tau = read_interval("tau", tau, 0.0, 1.0)
    moments = group_moments(as_flags("outcome", outcome), keep)
    return (moments.mean < tau) & (moments.count > 0)


def mixed_reward(
    routed: Shaped[ArrayLike, "*batch"],
    scaffold_reward: Shaped[ArrayLike, "*batch G"],
    outcome: Shaped[ArrayLike, "*batch G"],
) -> Float[Array, "*batch G"]:
    """Stage-1 reward: R_1 = R_ASR on routed groups, r_out on the others.

    Source: SCOPE-RL, Eq. (11). Deviations: none.

    Args:
      routed: [...] bool (or 0/1), True = the group was rolled out again on its scaffold.
      scaffold_reward: [..., G] real, reward of the scaffold rollouts; never read where not routed.
      outcome: [..., G] real, outcome reward of the original rollouts; never read where routed.

    Returns:
      [..., G] float32.

    Raises:
      ValueError: G = 0, shapes that do not match.

    Example:
      >>> mixed_reward(jnp.array([True, False]), jnp.full((2, 2), 0.25), jnp.ones((2, 2))).tolist()
      [[0.25, 0.25], [1.0, 1.0]]
    """
    scaffold_reward = as_float32("scaffold_reward", scaffold_reward)
    check_axes("scaffold_reward", scaffold_reward, ("G",))
    outcome = as_float32("outcome", outcome)
    check_shape("outcome", outcome, scaffold_reward.shape, "that of scaffold_reward")
    routed = as_flags("routed", routed)
    check_shape("routed", routed, scaffold_reward.shape[:-1], "scaffold_reward without G")
    return jnp.where(routed[..., None], scaffold_reward, outcome)


def _prefix_length(
    correct: Bool[Array, "*batch M"], num_sub: Int[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """Σ_i Π_i, unrolled: M is small, and a reduction over a short last axis is slow on CPUs."""
    product = jnp.ones(num_sub.shape, jnp.bool_)
    length = jnp.zeros(num_sub.shape, jnp.int32)
    for i in range(correct.shape[-1]):
        product = product & correct[..., i]
        length = length + product.astype(jnp.int32)
    return jnp.minimum(length, num_sub)


def _read_scaffold(
    sub_correct: ArrayLike, num_sub: ArrayLike
) -> tuple[Bool[Array, "*batch M"], Int[Array, "*batch"]]:
    correct = as_flags("sub_correct", sub_correct)
    check_axes("sub_correct", correct, ("M",))
    num_sub = as_int32("num_sub", num_sub)
    check_shape("num_sub", num_sub, correct.shape[:-1], "sub_correct without M")
    size = correct.shape[-1]
    check_range("num_sub", num_sub, 1, size, "true number of sub-questions, at most M")
    return correct, num_sub


def _read_main(main_correct: ArrayLike, like: jax.Array) -> Bool[Array, "*batch"]:
    main = as_flags("main_correct", main_correct)
    check_shape("main_correct", main, like.shape, "sub_correct without M")
    return main


def _share(part: Int[Array, "*batch"], whole: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The quotient; 0 where the whole is below 1, which only a traced count can be."""
    share = part.astype(jnp.float32) / jnp.maximum(whole, 1).astype(jnp.float32)
    return jnp.where(whole >= 1, share, 0.0)

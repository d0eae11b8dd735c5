"""GRAFT: credit for the steps of a multi-step code problem, and SciWalker, which it departs from.

Arrays are [..., G, S]: G trajectories of one problem, S padded steps, `num_steps` true ones;
leading axes are independent problems. `keep` leaves out trajectories (a sandbox failure, say).
"""

from typing import Literal, NamedTuple

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
    read_keep,
)
from rewards._standardise import standardise


class Ledger(NamedTuple):
    """What is known of every step; False and 0 in the padding and for trajectories left out."""

    passed: Bool[Array, "*batch G S"]  # r: tests pass on the own prefix
    prefix_ok: Bool[Array, "*batch G S"]  # b: all earlier steps passed; True at the first step
    grafted: Bool[Array, "*batch G S"]  # r̃: tests pass on the reference prefix; False where NA
    alignable: Bool[Array, "*batch G S"]  # r̃ is known (not NA)
    residual: Int[Array, "*batch G S"]  # ε = r - b r̃ in {-1, 0, 1}; 0 where NA, see `alignable`
    first_failure: Int[Array, "*batch G"]  # τ: first failing step from 1, n + 1 if none, 0 left out
    real: Bool[Array, "*batch G S"]  # a true step of a trajectory that counts


class StepAdvantages(NamedTuple):
    """Advantage of each step, for all its tokens, and which steps enter the loss."""

    advantages: Float[Array, "*batch G S"]  # 0 where mask is False
    mask: Bool[Array, "*batch G S"]
    degenerate: Bool[Array, "*batch S"]  # the cell left the loss: too small or without variance


def step_ledger(
    passed: Shaped[ArrayLike, "*batch G S"],
    grafted: Shaped[ArrayLike, "*batch G S"],
    alignable: Shaped[ArrayLike, "*batch G S"],
    num_steps: Int[ArrayLike, "*batch"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
) -> Ledger:
    """Splits each step verdict into what the prefix did and what the step did.

        b_t = ∏_{s<t} r_s      ε_t = r_t - b_t r̃_t      τ = min {t : r_t = 0}, n + 1 if none

    Source: GRAFT proposal, core idea and technical route, step 4. Deviations: none.

    Args:
      passed: [..., G, S] bool (or 0/1), r: all tests of step t pass on the own prefix.
      grafted: [..., G, S] bool (or 0/1), r̃: they pass with step t put into the reference prefix;
        never read where not `alignable`.
      alignable: [..., G, S] bool, False = NA: the signature of the step's code could not be
        aligned, so r̃ does not exist; it is neither 0 nor 1.
      num_steps: [...] int, true number of steps, 1 <= n <= S; later entries are never read.
      keep: [..., G] bool, False = the trajectory is left out. None keeps all.

    Returns:
      Ledger. No gradient.

    Raises:
      ValueError: G = 0, S = 0, shapes that do not match, `num_steps` outside 1..S.

    Example:
      >>> r, grafted = jnp.array([[1, 0, 0]]), jnp.array([[1, 1, 1]])
      >>> ledger = step_ledger(r, grafted, jnp.ones((1, 3)), 3)
      >>> ledger.prefix_ok.tolist(), ledger.residual.tolist(), int(ledger.first_failure[0])
      ([[True, True, False]], [[0, -1, 0]], 2)
    """
    passed = as_flags("passed", passed)
    num_steps, real = _read_cells("passed", passed, num_steps, keep)
    grafted, alignable = as_flags("grafted", grafted), as_flags("alignable", alignable)
    check_shape("grafted", grafted, passed.shape, "that of passed")
    check_shape("alignable", alignable, passed.shape, "that of passed")
    passed = real & passed
    step = positions(passed.shape)
    num_steps = num_steps[..., None, None]
    failed_at = jnp.where(passed | (step >= num_steps), num_steps, step)
    first_failed = jnp.min(failed_at, axis=-1, keepdims=True)
    prefix_ok = real & (step <= first_failed)
    known = real & alignable
    grafted = known & grafted
    residual = passed.astype(jnp.int32) - (prefix_ok & grafted).astype(jnp.int32)
    return Ledger(
        passed=passed,
        prefix_ok=prefix_ok,
        grafted=grafted,
        alignable=known,
        residual=jnp.where(known, residual, 0),
        first_failure=jnp.where(real[..., 0], first_failed[..., 0] + 1, 0),
        real=real,
    )


def sciwalker_advantages(
    rewards: Shaped[ArrayLike, "*batch G S"],
    num_steps: Int[ArrayLike, "*batch"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    delta: float = 1e-6,
    ddof: Literal[0, 1] = 0,
) -> StepAdvantages:
    """Each step against the same step of all G trajectories, whatever their prefixes are.

        A_{i,t} = (r_{i,t} - µ_t) / (σ_t + δ)

    Rewards of later steps do not flow back.

    Source: SciWalker (arXiv:2609.30054), as the GRAFT proposal states it; δ and ddof are not given
    there. Deviations: a flat cell is exactly 0.

    Args:
      rewards: [..., G, S] real, finite in true steps; later entries are never read.
      num_steps: [...] int, true number of steps, 1 <= n <= S.
      keep: [..., G] bool, False = the trajectory is left out. None keeps all.
      delta: added to σ, >= 0, in units of the reward.
      ddof: 0 divides the variance by the number kept, 1 by one less.

    Returns:
      StepAdvantages; every true step of a kept trajectory is in the mask, flat cells with
      advantage 0, and `degenerate` is False throughout. Gradient: that of the formula.

    Raises:
      ValueError: G = 0, S = 0, shapes that do not match, `num_steps` outside 1..S, negative
        `delta`, `ddof` not 0 or 1.

    Example:
      >>> cells = sciwalker_advantages(jnp.array([[1, 1], [1, 0]]), 2, delta=0.0)
      >>> cells.advantages.tolist()
      [[0.0, 1.0], [0.0, -1.0]]
    """
    rewards = as_float32("rewards", rewards)
    _, real = _read_cells("rewards", rewards, num_steps, keep)
    delta = read_interval("delta", delta, 0.0)
    return _over_all(rewards, real, delta, ddof)


def graft_rewards(ledger: Ledger, *, lam: float) -> Float[Array, "*batch G S"]:
    """Step reward with a local term: r' = r + λ r̃, the term dropped where r̃ is NA.

    Source: GRAFT proposal, core idea. Deviations: none.

    Args:
      ledger: from `step_ledger`.
      lam: λ in [0, 1): a step that is right only on the reference prefix must not earn as much as
        one that is right where it stands.

    Returns:
      [..., G, S] float32 in [0, 1 + λ]. A training signal, never an evaluation figure: the
      reference prefix is one that the policy does not have at inference. No gradient.

    Raises:
      ValueError: `lam` outside [0, 1).

    Example:
      >>> ledger = step_ledger(jnp.array([[1, 0]]), jnp.ones((1, 2)), jnp.ones((1, 2)), 2)
      >>> graft_rewards(ledger, lam=0.5).tolist()
      [[1.5, 0.5]]
    """
    lam = read_interval("lam", lam, 0.0, 1.0, open_high=True)
    local = jnp.where(ledger.alignable & ledger.grafted, lam, 0.0).astype(jnp.float32)
    return ledger.passed.astype(jnp.float32) + local


def graft_advantages(
    ledger: Ledger,
    *,
    lam: float = 0.0,
    grouping: Literal["prefix", "all"] = "prefix",
    min_group: int = 2,
    delta: float = 1e-6,
    ddof: Literal[0, 1] = 0,
) -> StepAdvantages:
    """SciWalker's advantage of r' = r + λ r̃, among the trajectories whose prefix holds.

        A_{i,t} = (r'_{i,t} - µ_t) / (σ_t + δ)    µ_t, σ_t over {i : b_{i,t} = 1}

    The arms of the proposal: A is grouping="all", λ = 0 (bit for bit `sciwalker_advantages`);
    B grouping="all", λ > 0; C grouping="prefix", λ = 0; D grouping="prefix", λ > 0.

    Source: GRAFT proposal, core idea and limitations. Deviations: none.

    Args:
      ledger: from `step_ledger`.
      lam: λ in [0, 1), see `graft_rewards`.
      grouping: "prefix" compares trajectories with b = 1 and leaves the others out of the loss;
        "all" compares and trains all.
      min_group: prefix grouping only: smallest group that is compared, >= 2. A cell (step of a
        problem) with fewer, or with no variance, leaves the loss instead of entering it with
        zeros, which would lower the learning rate unnoticed.
      delta: added to σ, >= 0, in units of the reward.
      ddof: 0 divides the variance by the number in the group, 1 by one less.

    Returns:
      StepAdvantages; `degenerate` marks the true steps that left the loss. No gradient.

    Raises:
      ValueError: `lam` outside [0, 1), an unknown `grouping`, `min_group` < 2, negative `delta`,
        `ddof` not 0 or 1.

    Example:
      >>> r = jnp.array([[1, 1], [1, 0], [0, 1]])
      >>> ledger = step_ledger(r, jnp.zeros((3, 2)), jnp.ones((3, 2)), 2)
      >>> graft_advantages(ledger, delta=0.0).advantages[:, 1].tolist()
      [1.0, -1.0, 0.0]
    """
    if grouping not in ("prefix", "all"):
        raise ValueError(f"grouping must be 'prefix' or 'all'; got {grouping!r}")
    if min_group < 2:
        raise ValueError(
            f"min_group must be >= 2, since one trajectory has no peer; got {min_group}"
        )
    rewards = graft_rewards(ledger, lam=lam)
    delta = read_interval("delta", delta, 0.0)
    if grouping == "all":
        return _over_all(rewards, ledger.real, delta, ddof)
    reached = ledger.prefix_ok
    advantages, group = standardise(rewards, reached, axis=-2, ddof=ddof, eps=delta)
    usable = (group.count >= min_group) & ~group.flat
    mask = reached & usable
    true_step = jnp.any(ledger.real, axis=-2)
    return StepAdvantages(jnp.where(mask, advantages, 0.0), mask, true_step & ~usable[..., 0, :])


def group_degenerate_rate(
    degenerate: Shaped[ArrayLike, "*batch S"], num_steps: Int[ArrayLike, "*batch"]
) -> Float[Array, ""]:
    """Share of true cells (steps of problems) that left the loss.

    Source: GRAFT proposal, limitations.

    Args:
      degenerate: [..., S] bool (or 0/1), from `graft_advantages`.
      num_steps: [...] int, true number of steps, 1 <= n <= S.

    Returns:
      [] float32 in [0, 1]; the denominator is the number of true steps of all problems. No
      gradient.

    Raises:
      ValueError: S = 0, shapes that do not match, `num_steps` outside 1..S.

    Example:
      >>> float(group_degenerate_rate(jnp.array([[0, 0, 1, 1], [0, 1, 0, 0]]), jnp.array([3, 2])))
      0.4000000059604645
    """
    degenerate = as_flags("degenerate", degenerate)
    check_axes("degenerate", degenerate, ("S",))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, degenerate.shape[:-1], "degenerate without S")
    check_range("num_steps", num_steps, 1, degenerate.shape[-1], "true number of steps, at most S")
    real = positions(degenerate.shape) < num_steps[..., None]
    total = jnp.maximum(jnp.sum(real, dtype=jnp.int32), 1)
    left = jnp.sum(real & degenerate, dtype=jnp.int32)
    return left.astype(jnp.float32) / total.astype(jnp.float32)


def _over_all(
    rewards: Float[Array, "*batch G S"],
    real: Bool[Array, "*batch G S"],
    delta: float,
    ddof: Literal[0, 1],
) -> StepAdvantages:
    """Every true step is compared over all G and stays in the loss."""
    advantages, _ = standardise(rewards, real, axis=-2, ddof=ddof, eps=delta)
    return StepAdvantages(advantages, real, jnp.zeros_like(real[..., 0, :]))


def _read_cells(
    name: str, cells: jax.Array, num_steps: ArrayLike, keep: ArrayLike | None
) -> tuple[Int[Array, "*batch"], Bool[Array, "*batch G S"]]:
    """Checks the shapes; gives the true step counts and the cells that count."""
    check_axes(name, cells, ("G", "S"))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, cells.shape[:-2], f"{name} without G and S")
    check_range("num_steps", num_steps, 1, cells.shape[-1], "true number of steps, at most S")
    kept = read_keep(keep, cells.shape[:-1], f"{name} without S")
    real = (positions(cells.shape) < num_steps[..., None, None]) & kept[..., None]
    return num_steps, real

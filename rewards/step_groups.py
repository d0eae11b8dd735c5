"""GiGPO and BEACON: an advantage of the episode plus one among steps that can be compared.

Arrays are [..., G, S]: G trajectories of one problem, S padded steps, `num_steps` [..., G] true
ones; leading axes are independent problems.
"""

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
    positions,
    read_interval,
    read_keep,
)
from rewards.groups import group_advantages


class TwoScaleAdvantages(NamedTuple):
    """Advantage of each step, for all its tokens: total = episode + ω · step, 0 in the padding."""

    total: Float[Array, "*batch G S"]
    episode: Float[Array, "*batch G S"]
    step: Float[Array, "*batch G S"]


def discounted_returns(
    rewards: Shaped[ArrayLike, "*batch S"], num_steps: Int[ArrayLike, "*batch"], *, gamma: float
) -> Float[Array, "*batch S"]:
    """Return of each step: R_t = Σ_{k >= t} γ^(k-t) r_k.

    Source: GiGPO (arXiv:2505.10978), the return of its step groups.

    Args:
      rewards: [..., S] real, finite in true steps; later entries are never read.
      num_steps: [...] int, true number of steps, 1 <= n <= S.
      gamma: discount in [0, 1].

    Returns:
      [..., S] float32, 0 in the padding. Gradient: to the rewards, as written.

    Raises:
      ValueError: S = 0, shapes that do not match, `num_steps` outside 1..S, `gamma` outside [0, 1].

    Example:
      >>> discounted_returns(jnp.array([0.0, 0.0, 1.0, 9.0]), 3, gamma=0.5).tolist()
      [0.25, 0.5, 1.0, 0.0]
    """
    gamma = read_interval("gamma", gamma, 0.0, 1.0)
    rewards = as_float32("rewards", rewards)
    check_axes("rewards", rewards, ("S",))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, rewards.shape[:-1], "rewards without S")
    check_range("num_steps", num_steps, 1, rewards.shape[-1], "true number of steps, at most S")
    rewards = jnp.where(positions(rewards.shape) < num_steps[..., None], rewards, 0.0)

    def add_step(later: jax.Array, reward: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = reward + gamma * later
        return value, value

    by_step = jnp.moveaxis(rewards, -1, 0)  # [..., S] -> [S, ...]
    _, returns = jax.lax.scan(add_step, jnp.zeros_like(by_step[0]), by_step, reverse=True)
    return jnp.moveaxis(returns, 0, -1)


def gigpo_advantages(
    episode_reward: Shaped[ArrayLike, "*batch G"],
    step_reward: Shaped[ArrayLike, "*batch G S"],
    anchor: Int[ArrayLike, "*batch G S"],
    num_steps: Int[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    omega: float = 1.0,
    gamma: float = 0.95,
    normalize_std: bool = True,
) -> TwoScaleAdvantages:
    """Steps taken from one anchor state are compared with each other, wherever they occur.

        A = A_episode + ω A_step      A_step: R_t normalised over the steps of one anchor state

    Source: GiGPO (arXiv:2505.10978). Deviations: flat groups are exactly 0.

    Args:
      episode_reward: [..., G] real, reward of the whole trajectory, finite where kept.
      step_reward: [..., G, S] real, finite in true steps of kept trajectories.
      anchor: [..., G, S] int, equal numbers = the same state, within one problem.
      num_steps: [..., G] int, true number of steps of each trajectory, 1 <= n <= S.
      keep: [..., G] bool, False = the trajectory is left out. None keeps all.
      omega: weight of the step advantage, >= 0.
      gamma: discount of the step returns, in [0, 1].
      normalize_std: divide by the (population) std at both scales; False subtracts the mean only.

    Returns:
      TwoScaleAdvantages. A state seen once has step advantage 0. Compares all pairs of steps of a
      problem: (G S)² numbers of memory. Gradient: that of the formula.

    Raises:
      ValueError: an empty axis, shapes that do not match, `num_steps` outside 1..S, `omega` < 0,
        `gamma` outside [0, 1].

    Example:
      >>> anchor = jnp.array([[7, 1], [7, 2]])
      >>> gigpo_advantages(jnp.array([1, 0]), jnp.array([[0, 1], [0, 0]]), anchor,
      ...                  jnp.array([2, 2])).total.tolist()
      [[2.0, 1.0], [-2.0, -1.0]]
    """
    step_reward = as_float32("step_reward", step_reward)
    anchor = as_int32("anchor", anchor)
    num_steps, real = _read_trajectories("step_reward", step_reward, num_steps, keep)
    check_shape("anchor", anchor, step_reward.shape, "that of step_reward")
    num_steps = jnp.where(real[..., 0], num_steps, 1)
    returns = discounted_returns(step_reward, num_steps, gamma=gamma)
    return _two_scales(episode_reward, returns, anchor, real, omega, normalize_std)


def beacon_advantages(
    episode_reward: Shaped[ArrayLike, "*batch G"],
    milestone: Shaped[ArrayLike, "*batch G S"],
    num_steps: Int[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    omega: float = 1.0,
    gamma: float = 0.95,
    normalize_std: bool = True,
) -> TwoScaleAdvantages:
    """Trajectories are cut at milestones, and steps are compared within one segment.

        r_t = γ^(steps to the milestone that ends the segment), 0 if none ends it
        A = A_episode + ω A_segment    A_segment: r_t normalised over the segment's steps

    For code, the milestone indicator is "own prefix passed up to and with this step".

    Source: BEACON (arXiv:2605.06078), as spec.md states it; γ in 0.9..0.99, ω in 1..10 there.
    Deviations: flat groups are exactly 0.

    Args:
      episode_reward: [..., G] real, reward of the whole trajectory, finite where kept.
      milestone: [..., G, S] bool (or 0/1), True = step t reaches a milestone.
      num_steps: [..., G] int, true number of steps of each trajectory, 1 <= n <= S.
      keep: [..., G] bool, False = the trajectory is left out. None keeps all.
      omega: weight of the segment advantage, >= 0.
      gamma: discount per step of distance, in [0, 1].
      normalize_std: divide by the (population) std at both scales; False subtracts the mean only.

    Returns:
      TwoScaleAdvantages. Compares all pairs of steps of a problem: (G S)² numbers of memory.
      Gradient: to the episode rewards.

    Raises:
      ValueError: an empty axis, shapes that do not match, `num_steps` outside 1..S, `omega` < 0,
        `gamma` outside [0, 1].

    Example:
      >>> milestone = jnp.array([[True, False], [False, False]])
      >>> beacon_advantages(jnp.array([1, 0]), milestone, jnp.array([1, 1])).step[:, 0].tolist()
      [1.0, -1.0]
    """
    gamma = read_interval("gamma", gamma, 0.0, 1.0)
    reached = as_flags("milestone", milestone)
    num_steps, real = _read_trajectories("milestone", reached, num_steps, keep)
    segment, reward = _segments(reached & real, gamma)
    return _two_scales(episode_reward, reward, segment, real, omega, normalize_std)


def _segments(
    reached: Bool[Array, "*batch S"], gamma: float
) -> tuple[Int[Array, "*batch S"], Float[Array, "*batch S"]]:
    """Index of each step's segment (milestones before it) and the step's reward inside it."""
    step = positions(reached.shape)
    done = reached.astype(jnp.int32)
    segment = jnp.cumsum(done, axis=-1, dtype=jnp.int32) - done
    never = reached.shape[-1]
    following = jax.lax.cummin(jnp.where(reached, step, never), axis=reached.ndim - 1, reverse=True)
    distance = jnp.where(following < never, following - step, 0).astype(jnp.float32)
    discount = jnp.power(jnp.asarray(gamma, jnp.float32), distance)
    return segment, jnp.where(following < never, discount, 0.0)


def _two_scales(
    episode_reward: ArrayLike,
    step_value: Float[Array, "*batch G S"],
    group_id: Int[Array, "*batch G S"],
    real: Bool[Array, "*batch G S"],
    omega: float,
    normalize_std: bool,
) -> TwoScaleAdvantages:
    omega = read_interval("omega", omega, 0.0)
    episode_reward = as_float32("episode_reward", episode_reward)
    check_shape("episode_reward", episode_reward, real.shape[:-1], "one reward per trajectory")
    episode = group_advantages(episode_reward, real[..., 0], normalize_std=normalize_std)
    episode = jnp.where(real, episode[..., None], 0.0)
    step = _advantages_by_id(step_value, group_id, real, normalize_std)
    return TwoScaleAdvantages(episode + omega * step, episode, step)


def _advantages_by_id(
    values: Float[Array, "*batch G S"],
    group_id: Int[Array, "*batch G S"],
    real: Bool[Array, "*batch G S"],
    normalize_std: bool,
) -> Float[Array, "*batch G S"]:
    """Advantage of each cell in the group of the problem's cells that carry the same id."""
    *batch, num_rollouts, num_steps = values.shape
    flat = (*batch, num_rollouts * num_steps)  # [..., G, S] -> [..., GS]
    values, group_id, real = (x.reshape(flat) for x in (values, group_id, real))
    together = (group_id[..., :, None] == group_id[..., None, :]) & real[..., None, :]
    rows = jnp.broadcast_to(values[..., None, :], together.shape)
    # Row k holds the group of cell k, so cell k's own advantage stands on the diagonal.
    advantages = group_advantages(rows, together, normalize_std=normalize_std)
    own = jnp.diagonal(advantages, axis1=-2, axis2=-1)
    return own.reshape(*batch, num_rollouts, num_steps)


def _read_trajectories(
    name: str, cells: jax.Array, num_steps: ArrayLike, keep: ArrayLike | None
) -> tuple[Int[Array, "*batch G"], Bool[Array, "*batch G S"]]:
    """Checks the shapes; gives the true step counts and the cells that count."""
    check_axes(name, cells, ("G", "S"))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, cells.shape[:-1], f"{name} without S")
    kept = read_keep(keep, num_steps.shape, f"{name} without S")
    check_range("num_steps", num_steps, 1, cells.shape[-1], "true number of steps, at most S", kept)
    real = (positions(cells.shape) < num_steps[..., None]) & kept[..., None]
    return num_steps, real

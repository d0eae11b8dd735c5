"""TP-GRPO: process rewards at the ends of thoughts, and the advantages of the tokens before them.

A thought is a maximal run of steps of one class: correct or incorrect steps where the answer is
right, steps that the answer uses (matched) or not (unmatched) where it is wrong. "Good" means
correct or matched. Steps are the last axis; leading axes (problems, rollouts) are independent.
"""

import math
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
from rewards.groups import group_moments

_WORD = 32  # bits of a word in the count of thought ends


class Thoughts(NamedTuple):
    """The steps of a trace as thoughts; padding steps belong to none."""

    good: Bool[Array, "*batch N"]  # class of the step's thought; False in the padding
    ends: Bool[Array, "*batch N"]  # the step is the last of its thought
    index: Int[Array, "*batch N"]  # which thought the step belongs to, from 0; -1 in the padding
    count: Int[Array, "*batch"]  # number of thoughts


def merge_thoughts(
    step_good: Shaped[ArrayLike, "*batch N"], num_steps: Int[ArrayLike, "*batch"]
) -> Thoughts:
    """Joins neighbouring steps of one class; the thoughts then alternate and end in a good one.

    Source: TP-GRPO, Sec. 3.1.2. The last step bears the answer, so it is good whatever the judge
    says of it.

    Args:
      step_good: [..., N] bool (or 0/1), True = correct (matched, in a wrong solution); entries
        from `num_steps` on are padding and never read.
      num_steps: [...] int, 0 <= n <= N; 0 = the trace was not judged and has no thought.

    Returns:
      Thoughts of [..., N] and [...] arrays.

    Raises:
      ValueError: N = 0, shapes that do not match, `num_steps` outside 0..N.

    Example:
      >>> thoughts = merge_thoughts(jnp.array([True, True, False, True, True]), 4)
      >>> thoughts.index.tolist(), int(thoughts.count)
      ([0, 0, 1, 2, -1], 3)
    """
    good = as_flags("step_good", step_good)
    check_axes("step_good", good, ("N",))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, good.shape[:-1], "step_good without N")
    check_range("num_steps", num_steps, 0, good.shape[-1], "true number of steps, at most N")
    last = num_steps[..., None] - 1
    step = positions(good.shape)
    real = step <= last
    good = real & (good | (step == last))
    following = jnp.concatenate([good[..., 1:], good[..., :1]], axis=-1)
    ends = real & ((good != following) | (step == last))
    upto = jnp.cumsum(ends, axis=-1, dtype=jnp.int32)
    index = jnp.where(real, upto - ends.astype(jnp.int32), -1)
    return Thoughts(good, ends, index, upto[..., -1])


def thought_reward_size(
    correct: Shaped[ArrayLike, "*batch G"],
    outcome_advantage: Shaped[ArrayLike, "*batch G"],
    keep: Shaped[ArrayLike, "*batch G"] | None = None,
    *,
    alpha: float = 1.0,
    only: Literal["correct", "incorrect"] | None = None,
) -> Float[Array, "*batch G"]:
    """What the end of a good thought earns, and the end of a bad one loses, per rollout.

        r_c = α acc_mean    in a correct solution        r_inc = r̂_o    in an incorrect one

    Source: TP-GRPO, Eqs. (6) and (7) and Sec. 3.1.3; `only` gives the variants of Table 4.
    Deviations: the source's text and appendix differ in the sign of r_inc; r_inc = r̂_o, a negative
    number in a mixed group, satisfies both.

    Args:
      correct: [..., G] bool (or 0/1), the verifier's verdict.
      outcome_advantage: [..., G] real, r̂_o: the group-normalised outcome reward.
      keep: [..., G] bool, False = outside acc_mean, size 0. None keeps all.
      alpha: weight of the process rewards of correct solutions, in [0, 1].
      only: process rewards for correct or for incorrect solutions alone; the others get size 0,
        which is plain GRPO.

    Returns:
      [..., G] float32. In an all-wrong group acc_mean and r̂_o are 0, and so is every size.
      Gradient: 1 to the r̂_o of an incorrect kept rollout, else 0.

    Raises:
      ValueError: G = 0, shapes that do not match, `alpha` outside [0, 1], an unknown `only`.

    Example:
      >>> thought_reward_size(jnp.array([1, 1, 0, 0]), jnp.array([1.0, 1.0, -1.0, -1.0])).tolist()
      [0.5, 0.5, -1.0, -1.0]
    """
    alpha = read_interval("alpha", alpha, 0.0, 1.0)
    if only not in (None, "correct", "incorrect"):
        raise ValueError(f"only must be None, 'correct' or 'incorrect'; got {only!r}")
    correct = as_flags("correct", correct)
    check_axes("correct", correct, ("G",))
    advantage = as_float32("outcome_advantage", outcome_advantage)
    check_shape("outcome_advantage", advantage, correct.shape, "that of correct")
    kept = read_keep(keep, correct.shape, "that of correct")
    accuracy = group_moments(correct, kept).mean[..., None]
    size = jnp.where(correct, alpha * accuracy, jnp.where(kept, advantage, 0.0))
    wanted = {None: kept, "correct": kept & correct, "incorrect": kept & ~correct}[only]
    return jnp.where(wanted, size, 0.0)


def thought_rewards(
    step_good: Shaped[ArrayLike, "*batch N"],
    num_steps: Int[ArrayLike, "*batch"],
    outcome_advantage: Shaped[ArrayLike, "*batch"],
    size: Shaped[ArrayLike, "*batch"],
) -> Float[Array, "*batch N"]:
    """Reward at the end of each step: ±size where a thought ends, r̂_o where the last one does.

    Source: TP-GRPO, Eq. (7). Deviations: none. `thought_advantages` does not need this array; it
    shows where the rewards are.

    Args:
      step_good: [..., N] bool (or 0/1), see `merge_thoughts`.
      num_steps: [...] int, 0 <= n <= N.
      outcome_advantage: [...] real, r̂_o.
      size: [...] real, see `thought_reward_size`.

    Returns:
      [..., N] float32, 0 at steps that end no thought and in the padding. Gradient: to r̂_o and
      size, as written.

    Raises:
      ValueError: N = 0, shapes that do not match, `num_steps` outside 0..N.

    Example:
      >>> thought_rewards(jnp.array([True, True, False, True]), 4, 1.0, 0.5).tolist()
      [0.0, 0.5, -0.5, 1.0]
    """
    thoughts = merge_thoughts(step_good, num_steps)
    advantage = _read_rollout("outcome_advantage", outcome_advantage, thoughts.count)[..., None]
    size = _read_rollout("size", size, thoughts.count)[..., None]
    last = thoughts.ends & (thoughts.index == thoughts.count[..., None] - 1)
    process = jnp.where(thoughts.good, size, -size)
    return jnp.where(last, advantage, jnp.where(thoughts.ends, process, 0.0))


def thought_advantages(
    step_good: Shaped[ArrayLike, "*batch N"],
    step_end: Int[ArrayLike, "*batch N"],
    num_steps: Int[ArrayLike, "*batch"],
    response_len: Int[ArrayLike, "*batch"],
    outcome_advantage: Shaped[ArrayLike, "*batch"],
    size: Shaped[ArrayLike, "*batch"],
    *,
    max_len: int,
) -> Float[Array, "*batch T"]:
    """Advantage of every token: the sum of the rewards from it on, A_t = Σ_{t' >= t} r_{t'}.

    Rewards lie on the last token of each thought. They are +size or -size save the last, r̂_o, so

        A_t = r̂_o + size · (good ends at or after t - bad ends at or after t)

    with the last thought outside the counts, which are exact integers: the propositions of the
    source (A = r̂_o on good thoughts, r̂_o - size on bad ones) hold without rounding.

    Source: TP-GRPO, Sec. 3.2 and Propositions 1 and 2. Deviations: none.

    Args:
      step_good: [..., N] bool (or 0/1), see `merge_thoughts`; entries of both step arrays from
        `num_steps` on are padding and never read.
      step_end: [..., N] int, number of response tokens up to and with the step: step i covers the
        tokens step_end[i-1] (0 for the first) to step_end[i] - 1. Strictly increasing, in
        1..response_len; tokens after the last step belong to it. Not checked when traced.
      num_steps: [...] int, 0 <= n <= N; 0 = not judged, A = r̂_o on the whole response.
      response_len: [...] int, 0 <= length <= T.
      outcome_advantage: [...] real, r̂_o.
      size: [...] real, see `thought_reward_size`; 0 gives A = r̂_o.
      max_len: T, padded number of response tokens, >= 1.

    Returns:
      [..., T] float32, 0 from `response_len` on. Gradient: to r̂_o and size, as written.

    Raises:
      ValueError: N = 0, `max_len` < 1, shapes that do not match, `num_steps` outside 0..N,
        `response_len` outside 0..T, `step_end` not increasing in 1..response_len.

    Example:
      >>> good, end = jnp.array([True, False, True]), jnp.array([2, 3, 5])
      >>> thought_advantages(good, end, 3, 5, 1.0, 0.25, max_len=6).tolist()
      [1.0, 1.0, 0.75, 1.0, 1.0, 0.0]
    """
    if max_len < 1:
        raise ValueError(f"max_len must be >= 1; got {max_len}")
    thoughts = merge_thoughts(step_good, num_steps)
    batch = thoughts.count.shape
    end = as_int32("step_end", step_end)
    check_shape("step_end", end, thoughts.good.shape, "that of step_good")
    response_len = as_int32("response_len", response_len)
    check_shape("response_len", response_len, batch, "step_good without N")
    check_range("response_len", response_len, 0, max_len, "tokens of the response, at most T")
    _check_ends(end, thoughts, response_len)
    advantage = _read_rollout("outcome_advantage", outcome_advantage, thoughts.count)[..., None]
    size = _read_rollout("size", size, thoughts.count)[..., None]

    before_last = thoughts.ends & (thoughts.index < thoughts.count[..., None] - 1)
    balance = _ends_from(end, before_last & thoughts.good, max_len) - _ends_from(
        end, before_last & ~thoughts.good, max_len
    )
    real = positions((*batch, max_len)) < response_len[..., None]
    return jnp.where(real, advantage + size * balance.astype(jnp.float32), 0.0)


def _ends_from(
    end: Int[Array, "*batch N"], selected: Bool[Array, "*batch N"], max_len: int
) -> Int[Array, "*batch T"]:
    """Number of selected steps whose last token is t or later, for every token t.

    One bit per token marks the ends. The count is then that of the bits left in the token's word
    plus that of the words after it, which costs a fraction of a cumulative sum over tokens.
    """
    batch, num_words = end.shape[:-1], -(-max_len // _WORD)
    selected = (selected & (end >= 1) & (end <= max_len)).reshape(-1, end.shape[-1])
    token = jnp.where(selected, end.reshape(selected.shape) - 1, 0)
    bit = jnp.where(selected, jnp.uint32(1) << (token % _WORD).astype(jnp.uint32), jnp.uint32(0))
    row = jnp.arange(token.shape[0], dtype=jnp.int32)[:, None]
    words = jnp.zeros((token.shape[0], num_words), jnp.uint32).at[row, token // _WORD].add(bit)
    in_word = jax.lax.population_count(words).astype(jnp.int32)
    after = jax.lax.cumsum(in_word, axis=1, reverse=True) - in_word
    shift = jax.lax.broadcasted_iota(jnp.uint32, (*words.shape, _WORD), 2)
    left = jax.lax.population_count(words[..., None] >> shift).astype(jnp.int32)
    return (left + after[..., None]).reshape(*batch, num_words * _WORD)[..., :max_len]


def _check_ends(
    end: Int[Array, "*batch N"], thoughts: Thoughts, response_len: Int[Array, "*batch"]
) -> None:
    real = thoughts.index >= 0
    check_range("step_end", end, 1, math.inf, "a step has at least one token", real)
    excess = end - response_len[..., None]
    check_range("step_end - response_len", excess, -math.inf, 0, "steps lie in the response", real)
    length = end[..., 1:] - end[..., :-1]
    rule = "step_end is strictly increasing"
    check_range("step_end[i] - step_end[i-1]", length, 1, math.inf, rule, real[..., 1:])


def _read_rollout(name: str, value: ArrayLike, like: jax.Array) -> Float[Array, "*batch"]:
    array = as_float32(name, value)
    check_shape(name, array, like.shape, "one number per rollout, step_good without N")
    return array

"""Stage 2 of SCOPE-RL: process quality of a verified-correct trace, and its variants.

Steps are the last axis; leading axes (problems, rollouts) are independent.
"""

import math
from collections.abc import Sequence
from typing import Literal

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

# A step label is a position in this tuple.
STEP_LABELS = ("useful", "mechanical", "redundant", "reversion", "error")
NUM_LABELS = len(STEP_LABELS)
USEFUL = 0

# λ of mechanical, redundant, reversion and error steps; SCOPE-RL, Appendix I.
PENALTIES = (0.05, 0.20, 0.25, 0.40)


def label_shares(
    labels: Int[ArrayLike, "*batch N"], num_steps: Int[ArrayLike, "*batch"]
) -> Float[Array, "*batch 5"]:
    """Share of each step label in a trace: S_u first, then r_k of the four low-value labels.

        S_u = (1/N) Σ_i [c_i = useful]        r_k = (1/N) Σ_i [c_i = k]

    Source: SCOPE-RL, Eqs. (13) and (26). Deviations: none.

    Args:
      labels: [..., N] int in 0..4, in the order of `STEP_LABELS`; entries from `num_steps` on are
        padding and never read. A traced label outside 0..4 is a step of no class.
      num_steps: [...] int, true number of steps, 1 <= n <= N. A traced n < 1 gives zeros.

    Returns:
      [..., 5] float32 in [0, 1]; they add up to 1. No gradient.

    Raises:
      ValueError: N = 0, shapes that do not match, `num_steps` outside 1..N, a label outside 0..4.

    Example:
      >>> label_shares(jnp.array([0, 0, 4, 1]), 4).tolist()
      [0.5, 0.25, 0.0, 0.0, 0.25]
    """
    labels, num_steps, everywhere = _read_steps(labels, num_steps, None)
    return _shares(*_read_trace(labels, num_steps, everywhere))


def penalty_factor(
    shares: Shaped[ArrayLike, "*batch 5"], *, penalties: Sequence[float] = PENALTIES
) -> Float[Array, "*batch"]:
    """Discount for low-value steps: Φ = ∏_k (1 - λ_k r_k).

    Source: SCOPE-RL, Eq. (14). Deviations: none.

    Args:
      shares: [..., 5] real, as `label_shares` gives them; the first (useful) is not used.
      penalties: λ of mechanical, redundant, reversion, error, each in [0, 1).

    Returns:
      [...] float32 in (0, 1]. Gradient: that of the formula.

    Raises:
      ValueError: a last axis that is not 5, not four penalties, a penalty outside [0, 1).

    Example:
      >>> round(float(penalty_factor(jnp.array([0.5, 0.0, 0.0, 0.0, 0.5]))), 4)
      0.8
    """
    shares = as_float32("shares", shares)
    check_axes("shares", shares, ("5",))
    check_shape("shares", shares, (*shares.shape[:-1], NUM_LABELS), "one share per step label")
    weights = _read_penalties(penalties)
    factor = jnp.ones(shares.shape[:-1], jnp.float32)
    for k, weight in enumerate(weights, start=1):
        factor = factor * (1.0 - weight * shares[..., k])
    return factor


def length_factor(
    num_steps: Int[ArrayLike, "*batch"], *, alpha: float = 0.5
) -> Float[Array, "*batch"]:
    """Soft preference for fewer steps: κ = 1 / (1 + α ln(N + 1)).

    Source: SCOPE-RL, Eq. (15); α = 0.5 in Appendix I. Deviations: none.

    Args:
      num_steps: [...] int, number of steps, >= 1. A traced n < 1 counts as 1.
      alpha: >= 0; 0 turns the factor off.

    Returns:
      [...] float32 in (0, 1]. No gradient.

    Raises:
      ValueError: `num_steps` below 1, negative `alpha`.

    Example:
      >>> round(float(length_factor(1)), 4)
      0.7426
    """
    num_steps = as_int32("num_steps", num_steps)
    check_range("num_steps", num_steps, 1, math.inf, "a trace has at least one step")
    alpha = read_interval("alpha", alpha, 0.0)
    steps = jnp.maximum(num_steps, 1).astype(jnp.float32)
    return 1.0 / (1.0 + alpha * jnp.log1p(steps))


def process_quality(
    labels: Int[ArrayLike, "*batch N"],
    num_steps: Int[ArrayLike, "*batch"],
    *,
    penalties: Sequence[float] = PENALTIES,
    alpha: float = 0.5,
    without: Literal["positive", "penalty", "length"] | None = None,
) -> Float[Array, "*batch"]:
    """How well a correct trace is organised: Q = S_u · Φ · κ.

    Source: SCOPE-RL, Eq. (16); `without` leaves one factor out, Table 3(b). Deviations: none.

    Args:
      labels: [..., N] int in 0..4, in the order of `STEP_LABELS`; entries from `num_steps` on are
        padding and never read.
      num_steps: [...] int, true number of steps, 1 <= n <= N. A traced n < 1 gives 0.
      penalties: λ of mechanical, redundant, reversion, error, each in [0, 1).
      alpha: strength of the length factor, >= 0.
      without: the factor to leave out: "positive" is S_u, "penalty" Φ, "length" κ.

    Returns:
      [...] float32 in [0, 1]. No gradient.

    Raises:
      ValueError: N = 0, shapes that do not match, `num_steps` outside 1..N, a label outside 0..4,
        a penalty outside [0, 1), negative `alpha`, an unknown `without`.

    Example:
      >>> round(float(process_quality(jnp.array([0, 0, 4, 1]), 4)), 4)
      0.2462
    """
    labels, num_steps, everywhere = _read_steps(labels, num_steps, None)
    return _quality(*_read_trace(labels, num_steps, everywhere), penalties, alpha, without)


def qpr_reward(
    correct: Shaped[ArrayLike, "*batch"],
    labels: Int[ArrayLike, "*batch N"],
    num_steps: Int[ArrayLike, "*batch"],
    keep: Shaped[ArrayLike, "*batch"] | None = None,
    *,
    penalties: Sequence[float] = PENALTIES,
    alpha: float = 0.5,
    without: Literal["positive", "penalty", "length"] | None = None,
) -> Float[Array, "*batch"]:
    """Correctness-gated process reward: R_QPR = Q for a correct rollout, 0 for a wrong one.

    Source: SCOPE-RL, Eq. (12); `without` leaves one factor of Q out, Table 3(b). Deviations: none.

    Args:
      correct: [...] bool (or 0/1), the verifier's verdict; the judge never overrides it.
      labels: [..., N] int in 0..4, in the order of `STEP_LABELS`. Never read from `num_steps` on,
        nor for a wrong rollout, which no judge sees.
      num_steps: [...] int, 1 <= n <= N where correct; never read elsewhere.
      keep: [...] bool, False = the judge failed. The reward there is a placeholder 0, never read
        if the same mask goes to `group_advantages`. None keeps all.
      penalties: λ of mechanical, redundant, reversion, error, each in [0, 1).
      alpha: strength of the length factor, >= 0.
      without: the factor to leave out: "positive" is S_u, "penalty" Φ, "length" κ.

    Returns:
      [...] float32 in [0, 1]. No gradient.

    Raises:
      ValueError: N = 0, shapes that do not match, a penalty outside [0, 1), negative `alpha`, an
        unknown `without`; for correct rollouts `num_steps` outside 1..N or a label outside 0..4.

    Example:
      >>> labels = jnp.array([[0, 0, 4, 1], [0, 0, 0, 0]])
      >>> rewards = qpr_reward(jnp.array([True, False]), labels, jnp.array([4, 4]))
      >>> [round(r, 4) for r in rewards.tolist()]
      [0.2462, 0.0]
    """
    labels, num_steps, everywhere = _read_steps(labels, num_steps, keep)
    correct = as_flags("correct", correct)
    check_shape("correct", correct, num_steps.shape, "labels without N")
    gate = correct & everywhere
    quality = _quality(*_read_trace(labels, num_steps, gate), penalties, alpha, without)
    return jnp.where(gate, quality, 0.0)


def holistic_reward(
    correct: Shaped[ArrayLike, "*batch"],
    score: Shaped[ArrayLike, "*batch"],
    keep: Shaped[ArrayLike, "*batch"] | None = None,
) -> Float[Array, "*batch"]:
    """One judge score per trace behind the same gate: R = score if correct, 0 if wrong.

    Source: SCOPE-RL, Table 3(a), Holistic Judge.

    Args:
      correct: [...] bool (or 0/1), the verifier's verdict.
      score: [...] real in [0, 1], the judge's score; never read where wrong or left out.
      keep: [...] bool, False = the judge failed; the reward there is a placeholder 0.

    Returns:
      [...] float32 in [0, 1]. Gradient: 1 to the score of a correct kept rollout, else 0.

    Raises:
      ValueError: shapes that do not match; a score outside [0, 1] where correct and kept.

    Example:
      >>> holistic_reward(jnp.array([True, False]), jnp.array([0.75, 0.75])).tolist()
      [0.75, 0.0]
    """
    correct = as_flags("correct", correct)
    score = as_float32("score", score)
    check_shape("score", score, correct.shape, "that of correct")
    gate = correct & read_keep(keep, correct.shape, "that of correct")
    check_range("score", score, 0.0, 1.0, "the judge's score of a correct trace", gate)
    return jnp.where(gate, score, 0.0)


def overlong_reward(
    correct: Shaped[ArrayLike, "*batch"],
    response_len: Int[ArrayLike, "*batch"],
    *,
    max_response_len: int,
    buffer: int,
) -> Float[Array, "*batch"]:
    """Outcome reward with a linear penalty on responses that come near the length cap.

        R = r_out - clip((len - (cap - buffer)) / buffer, 0, 1)

    Source: SCOPE-RL, Table 3(a), Overlong Penalty, which does not give the form; this is the soft
    overlong punishment of DAPO (arXiv:2503.14476).

    Args:
      correct: [...] bool (or 0/1), the verifier's verdict.
      response_len: [...] int, tokens of the response, >= 0.
      max_response_len: the cap in tokens, >= 1.
      buffer: tokens before the cap over which the penalty grows from 0 to 1, 1 <= buffer <= cap.

    Returns:
      [...] float32 in [-1, 1]: unlike the other rewards it goes below 0. No gradient.

    Raises:
      ValueError: shapes that do not match, negative `response_len`, `buffer` outside 1..cap.

    Example:
      >>> lengths = jnp.array([50, 90, 100])
      >>> overlong_reward(jnp.ones(3), lengths, max_response_len=100, buffer=20).tolist()
      [1.0, 0.5, 0.0]
    """
    if max_response_len < 1:
        raise ValueError(f"max_response_len must be >= 1; got {max_response_len}")
    if not 1 <= buffer <= max_response_len:
        raise ValueError(f"buffer must lie in 1..max_response_len={max_response_len}; got {buffer}")
    correct = as_flags("correct", correct)
    response_len = as_int32("response_len", response_len)
    check_shape("response_len", response_len, correct.shape, "that of correct")
    check_range("response_len", response_len, 0, math.inf, "a number of tokens")
    over = (response_len - (max_response_len - buffer)).astype(jnp.float32)
    return correct.astype(jnp.float32) - jnp.clip(over / buffer, 0.0, 1.0)


def _quality(
    labels: Int[Array, "*batch N"],
    num_steps: Int[Array, "*batch"],
    penalties: Sequence[float],
    alpha: float,
    without: Literal["positive", "penalty", "length"] | None,
) -> Float[Array, "*batch"]:
    if without not in (None, "positive", "penalty", "length"):
        raise ValueError(
            f"without must be None, 'positive', 'penalty' or 'length'; got {without!r}"
        )
    shares = _shares(labels, num_steps)
    useful = shares[..., USEFUL]
    penalty = penalty_factor(shares, penalties=penalties)
    length = length_factor(jnp.maximum(num_steps, 1), alpha=alpha)
    quality = {
        None: useful * penalty * length,
        "positive": penalty * length,
        "penalty": useful * length,
        "length": useful * penalty,
    }[without]
    return jnp.where(num_steps >= 1, quality, 0.0)


def _shares(
    labels: Int[Array, "*batch N"], num_steps: Int[Array, "*batch"]
) -> Float[Array, "*batch 5"]:
    real = positions(labels.shape) < num_steps[..., None]
    counts = jnp.stack(
        [jnp.sum(real & (labels == k), axis=-1, dtype=jnp.int32) for k in range(NUM_LABELS)],
        axis=-1,
    )
    return counts.astype(jnp.float32) / jnp.maximum(num_steps, 1)[..., None].astype(jnp.float32)


def _read_steps(
    labels: ArrayLike, num_steps: ArrayLike, keep: ArrayLike | None
) -> tuple[Int[Array, "*batch N"], Int[Array, "*batch"], Bool[Array, "*batch"]]:
    labels = as_int32("labels", labels)
    check_axes("labels", labels, ("N",))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, labels.shape[:-1], "labels without N")
    return labels, num_steps, read_keep(keep, num_steps.shape, "one flag per rollout")


def _read_trace(
    labels: Int[Array, "*batch N"], num_steps: Int[Array, "*batch"], gate: Bool[Array, "*batch"]
) -> tuple[Int[Array, "*batch N"], Int[Array, "*batch"]]:
    """Checks the traces that `gate` selects and gives the others zero steps."""
    size = labels.shape[-1]
    check_range("num_steps", num_steps, 1, size, "true number of steps, at most N", gate)
    num_steps = jnp.where(gate, num_steps, 0)
    real = positions(labels.shape) < num_steps[..., None]
    check_range("labels", labels, 0, NUM_LABELS - 1, f"positions in {STEP_LABELS}", real)
    return labels, num_steps


def _read_penalties(penalties: Sequence[float]) -> list[float]:
    if len(penalties) != NUM_LABELS - 1:
        raise ValueError(
            f"penalties must be four numbers, for {', '.join(STEP_LABELS[1:])}; "
            f"got {len(penalties)}: {penalties}"
        )
    return [
        read_interval(f"penalties[{i}] ({STEP_LABELS[i + 1]})", weight, 0.0, 1.0, open_high=True)
        for i, weight in enumerate(penalties)
    ]

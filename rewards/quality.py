"""Evaluation figures: step quality of traces, pass@k, agreement of two raters, preferences."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Shaped

from rewards._checks import (
    as_flags,
    as_int32,
    check_axes,
    check_range,
    check_shape,
    positions,
    read_keep,
)
from rewards.process import NUM_LABELS, STEP_LABELS

FIRST, SECOND, TIE = 0, 1, 2  # what one vote on a pair can say


class StepQuality(NamedTuple):
    """Figures of the Step-Quality Evaluation Protocol over P traces; 0 where nothing is counted."""

    accuracy: Float[Array, ""]  # F; a truncated trace is incorrect
    shares: Float[Array, "5"]  # S_u, then r_k of the four low-value labels, of all steps together
    first_error: Float[Array, ""]  # mean of i_err / n over the traces with an error
    mean_steps: Float[Array, ""]
    mean_tokens: Float[Array, ""]
    truncation_rate: Float[Array, ""]
    num_traces: Int[Array, ""]  # behind accuracy, tokens and truncation
    num_judged: Int[Array, ""]  # behind shares and mean_steps
    num_with_error: Int[Array, ""]  # behind first_error


class Agreement(NamedTuple):
    """Two raters over the same items; 0 where a denominator is empty."""

    accuracy: Float[Array, ""]
    kappa: Float[Array, ""]  # Cohen's; 0 where chance alone would agree always
    precision: Float[Array, " C"]
    recall: Float[Array, " C"]
    f1: Float[Array, " C"]
    confusion: Int[Array, "C C"]  # [reference, predicted]


class PreferenceCounts(NamedTuple):
    """Pairs by what the majority of their voters prefers."""

    first: Int[Array, ""]
    second: Int[Array, ""]
    undecided: Int[Array, ""]


def first_error_position(
    labels: Int[ArrayLike, "*batch N"], num_steps: Int[ArrayLike, "*batch"]
) -> tuple[Float[Array, "*batch"], Bool[Array, "*batch"]]:
    """Where a trace first goes wrong: i_err / n, steps numbered from 1.

    Source: SCOPE-RL, Eq. (27), one summand.

    Args:
      labels: [..., N] int in 0..4, in the order of `STEP_LABELS`; entries from `num_steps` on are
        padding and never read.
      num_steps: [...] int, 0 <= n <= N; 0 = a trace without annotation.

    Returns:
      [...] float32 in (0, 1], 0 without an error step, and [...] bool, whether there is one. No
      gradient.

    Raises:
      ValueError: N = 0, shapes that do not match, `num_steps` outside 0..N, a label outside 0..4.

    Example:
      >>> position, has_error = first_error_position(jnp.array([0, 4, 0, 4]), 4)
      >>> float(position), bool(has_error)
      (0.5, True)
    """
    labels, num_steps, real = _read_annotation(labels, num_steps)
    wrong = real & (labels == STEP_LABELS.index("error"))
    has_error = jnp.any(wrong, axis=-1)
    first = jnp.argmax(wrong, axis=-1).astype(jnp.float32) + 1.0
    share = first / jnp.maximum(num_steps, 1).astype(jnp.float32)
    return jnp.where(has_error, share, 0.0), has_error


def step_quality(
    labels: Int[ArrayLike, "P N"],
    num_steps: Int[ArrayLike, " P"],
    correct: Shaped[ArrayLike, " P"],
    truncated: Shaped[ArrayLike, " P"],
    num_tokens: Int[ArrayLike, " P"],
) -> StepQuality:
    """The diagnostic figures of a set of evaluated traces.

    Source: SCOPE-RL, Eqs. (24) to (27) and Appendix H. Category shares are shares of all judged
    steps together ("step-count fractions"); the first-error position is per trace, then averaged.
    Deviations: none.

    Args:
      labels: [P, N] int in 0..4, in the order of `STEP_LABELS`; entries from `num_steps` on are
        padding and never read.
      num_steps: [P] int, 0 <= n <= N; 0 = no annotation (the judge failed). Not read where
        truncated: such traces are left out of the process figures.
      correct: [P] bool (or 0/1), the verifier's verdict.
      truncated: [P] bool (or 0/1), the response met the length cap; counts as incorrect.
      num_tokens: [P] int, response tokens, >= 0; truncated traces count with theirs.

    Returns:
      StepQuality. No gradient.

    Raises:
      ValueError: N = 0, a rank other than 2, shapes that do not match, `num_steps` outside 0..N,
        a label outside 0..4, negative `num_tokens`.

    Example:
      >>> quality = step_quality(jnp.array([[0, 0], [0, 4]]), jnp.array([2, 2]),
      ...                        jnp.array([1, 0]), jnp.array([0, 0]), jnp.array([10, 30]))
      >>> float(quality.accuracy), float(quality.shares[0]), float(quality.first_error)
      (0.5, 0.75, 1.0)
    """
    correct, truncated = as_flags("correct", correct), as_flags("truncated", truncated)
    num_tokens = as_int32("num_tokens", num_tokens)
    num_steps = as_int32("num_steps", num_steps)
    if correct.ndim != 1:
        raise ValueError(f"correct must be [P]; got shape {correct.shape}")
    for name, array in [
        ("truncated", truncated),
        ("num_tokens", num_tokens),
        ("num_steps", num_steps),
    ]:
        check_shape(name, array, correct.shape, "that of correct")
    check_range("num_tokens", num_tokens, 0, math.inf, "tokens of a response")
    labels, num_steps, real = _read_annotation(labels, jnp.where(truncated, 0, num_steps))

    counts = [jnp.sum(real & (labels == k), dtype=jnp.int32) for k in range(NUM_LABELS)]
    all_steps = jnp.sum(num_steps, dtype=jnp.int32)
    num_judged = jnp.sum(num_steps > 0, dtype=jnp.int32)
    position, has_error = first_error_position(labels, num_steps)
    num_with_error = jnp.sum(has_error, dtype=jnp.int32)
    num_traces = jnp.int32(correct.shape[0])
    tokens = jnp.sum(num_tokens.astype(jnp.float32))
    return StepQuality(
        accuracy=_ratio(jnp.sum(correct & ~truncated), num_traces),
        shares=jnp.stack([_ratio(count, all_steps) for count in counts]),
        first_error=_ratio(jnp.sum(position), num_with_error),
        mean_steps=_ratio(all_steps, num_judged),
        mean_tokens=_ratio(tokens, num_traces),
        truncation_rate=_ratio(jnp.sum(truncated), num_traces),
        num_traces=num_traces,
        num_judged=num_judged,
        num_with_error=num_with_error,
    )


def pass_at_k(
    num_samples: Int[ArrayLike, "*batch"], num_correct: Int[ArrayLike, "*batch"], *, k: int
) -> Float[Array, "*batch"]:
    """Unbiased estimate of the chance that one of k samples is right: 1 - C(n-c, k) / C(n, k).

    Computed as 1 - ∏_{j<k} (1 - c / (n - j)) in logarithms, so that neither a binomial overflows
    nor a small estimate drowns in the rounding of 1 - (1 - x).

    Source: Chen et al. (arXiv:2107.03374), Eq. (1). Deviations: none.

    Args:
      num_samples: [...] int, n >= k samples of a problem.
      num_correct: [...] int, c of them right, 0 <= c <= n.
      k: size of the draw, >= 1.

    Returns:
      [...] float32 in [0, 1]. Average it over problems. A traced n < k gives NaN, since the
      estimate does not exist. No gradient.

    Raises:
      ValueError: k < 1, shapes that do not match, n < k, `num_correct` outside 0..n.

    Example:
      >>> float(pass_at_k(4, 2, k=1)), round(float(pass_at_k(4, 2, k=2)), 4)
      (0.5, 0.8333)
    """
    if k < 1:
        raise ValueError(f"k must be >= 1; got {k}")
    num_samples = as_int32("num_samples", num_samples)
    num_correct = as_int32("num_correct", num_correct)
    check_shape("num_correct", num_correct, num_samples.shape, "that of num_samples")
    check_range("num_samples", num_samples, k, math.inf, f"at least k = {k} samples")
    check_range("num_correct", num_correct, 0, math.inf, "samples that are right")
    num_wrong = num_samples - num_correct
    check_range("num_samples - num_correct", num_wrong, 0, math.inf, "right ones are samples")
    drawn = positions((*num_samples.shape, k))
    left = num_samples[..., None] - drawn
    certain = num_wrong < k  # any k samples hold a right one
    share = num_correct[..., None].astype(jnp.float32) / jnp.maximum(left, 1).astype(jnp.float32)
    share = jnp.where(certain[..., None], 0.0, share)
    estimate = jnp.where(certain, 1.0, -jnp.expm1(jnp.sum(jnp.log1p(-share), axis=-1)))
    return jnp.where(num_samples >= k, estimate, jnp.nan)


def agreement(
    predicted: Int[ArrayLike, "*items"],
    reference: Int[ArrayLike, "*items"],
    keep: Shaped[ArrayLike, "*items"] | None = None,
    *,
    num_classes: int,
) -> Agreement:
    """How well one rater's labels match another's.

        κ = (p_o - p_e) / (1 - p_e)    p_o observed agreement, p_e = Σ_k share_k · share'_k

    Source: SCOPE-RL, Appendix O (Tables 10 and 11); Cohen (1960).

    Args:
      predicted: [...] int in 0..C-1, labels of the rater under test.
      reference: [...] int in 0..C-1, labels taken as the truth for precision and recall.
      keep: [...] bool, True = the item counts; elsewhere labels may be anything. None keeps all.
      num_classes: C, >= 2. For useful against not, pass labels 0 and 1.

    Returns:
      Agreement over all kept items. No gradient.

    Raises:
      ValueError: `num_classes` < 2, shapes that do not match, a kept label outside 0..C-1.

    Example:
      >>> result = agreement(jnp.array([1, 1, 0, 0]), jnp.array([1, 0, 0, 0]), num_classes=2)
      >>> float(result.accuracy), float(result.kappa), result.recall.tolist()
      (0.75, 0.5, [0.6666666865348816, 1.0])
    """
    if num_classes < 2:
        raise ValueError(f"num_classes must be >= 2; got {num_classes}")
    predicted, reference = as_int32("predicted", predicted), as_int32("reference", reference)
    check_shape("reference", reference, predicted.shape, "that of predicted")
    kept = read_keep(keep, predicted.shape, "that of predicted")
    for name, labels in [("predicted", predicted), ("reference", reference)]:
        check_range(name, labels, 0, num_classes - 1, "labels below num_classes", kept)
    cell = (reference * num_classes + predicted).reshape(-1)
    valid = [(x >= 0) & (x < num_classes) for x in (predicted, reference)]
    counted = (kept & valid[0] & valid[1]).reshape(-1)
    confusion = (
        jnp.zeros(num_classes**2, jnp.int32)
        .at[jnp.where(counted, cell, 0)]
        .add(counted.astype(jnp.int32))
        .reshape(num_classes, num_classes)
    )
    hits = jnp.diagonal(confusion)
    by_reference, by_predicted = jnp.sum(confusion, axis=1), jnp.sum(confusion, axis=0)
    total = jnp.sum(by_reference)
    observed = _ratio(jnp.sum(hits), total)
    expected = jnp.sum(_ratio(by_reference, total) * _ratio(by_predicted, total))
    chance_only = (total == 0) | jnp.any((by_reference == total) & (by_predicted == total))
    kappa = (observed - expected) / jnp.where(chance_only, 1.0, 1.0 - expected)
    return Agreement(
        accuracy=observed,
        kappa=jnp.where(chance_only, 0.0, kappa),
        precision=_ratio(hits, by_predicted),
        recall=_ratio(hits, by_reference),
        f1=_ratio(2 * hits, by_predicted + by_reference),
        confusion=confusion,
    )


def majority_preferences(
    votes: Int[ArrayLike, "*pairs J"], keep: Shaped[ArrayLike, "*pairs"] | None = None
) -> PreferenceCounts:
    """Counts pairs by the side that more than half of the J voters prefer.

    Source: SCOPE-RL, Appendix P (majority of three).

    Args:
      votes: [..., J] int: 0 = the first of the pair, 1 = the second, 2 = a tie.
      keep: [...] bool, True = the pair counts; elsewhere votes may be anything. None keeps all.

    Returns:
      PreferenceCounts of [] int32 over all kept pairs. Without a majority a pair is undecided. No
      gradient.

    Raises:
      ValueError: J = 0, `keep` of another shape, a vote outside 0..2 in a kept pair.

    Example:
      >>> counts = majority_preferences(jnp.array([[0, 0, 1], [1, 1, 1], [0, 1, 2]]))
      >>> int(counts.first), int(counts.second), int(counts.undecided)
      (1, 1, 1)
    """
    votes = as_int32("votes", votes)
    check_axes("votes", votes, ("J",))
    kept = read_keep(keep, votes.shape[:-1], "votes without J")
    everyone = jnp.broadcast_to(kept[..., None], votes.shape)
    check_range("votes", votes, FIRST, TIE, "0 first, 1 second, 2 tie", everyone)

    def majority(side: int) -> Bool[Array, "*pairs"]:
        return 2 * jnp.sum(votes == side, axis=-1, dtype=jnp.int32) > votes.shape[-1]

    first, second = kept & majority(FIRST), kept & majority(SECOND)
    undecided = kept & ~first & ~second
    return PreferenceCounts(*(jnp.sum(x, dtype=jnp.int32) for x in (first, second, undecided)))


def _ratio(part: Array, whole: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The quotient in float32; 0 where the whole is empty."""
    share = part.astype(jnp.float32) / jnp.maximum(whole, 1).astype(jnp.float32)
    return jnp.where(whole > 0, share, 0.0)


def _read_annotation(
    labels: ArrayLike, num_steps: ArrayLike
) -> tuple[Int[Array, "*batch N"], Int[Array, "*batch"], Bool[Array, "*batch N"]]:
    """Checks an annotation that may be empty; gives the entries that are true steps."""
    labels = as_int32("labels", labels)
    check_axes("labels", labels, ("N",))
    num_steps = as_int32("num_steps", num_steps)
    check_shape("num_steps", num_steps, labels.shape[:-1], "labels without N")
    check_range("num_steps", num_steps, 0, labels.shape[-1], "true number of steps, at most N")
    real = positions(labels.shape) < num_steps[..., None]
    check_range("labels", labels, 0, NUM_LABELS - 1, f"positions in {STEP_LABELS}", real)
    return labels, num_steps, real

"""Does a claim hold? Decided over seeds, by an interval that is stated."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from scipy import stats

from jaxrl_scope.reproduce.arms import Claim

CONFIDENCE = 0.95
Verdict = Literal["agree", "disagree", "undecided"]
# By arm key, then seed, then measure.
Measures = Mapping[str, Mapping[int, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a claim; of several measures, the one that speaks least for it.

    Attributes:
      claim: the claim.
      difference: mean over seeds of high - low, as a share of high if the claim is relative.
      interval: 95 % interval of that mean (Student's t over the paired differences).
      num_seeds: pairs behind it.
      verdict: "agree" if the whole interval lies above the margin, "disagree" if it lies below,
        else "undecided"; one pair alone is always undecided.
    """

    claim: Claim
    difference: float
    interval: tuple[float, float]
    num_seeds: int
    verdict: Verdict


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval by Student's t; (-inf, inf) for one value.

    Raises:
      ValueError: no value.
    """
    if not len(values):
        raise ValueError("no value to average")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1) * stats.sem(values))
    return mean, mean - half, mean + half


def decide(claim: Claim, measures: Measures) -> Outcome:
    """Test a claim on the seeds that both arms have.

    Raises:
      ValueError: a measure of the claim was taken of no common seed.
    """
    outcomes = [_decide_one(claim, name, measures) for name in claim.measures]
    return min(outcomes, key=lambda outcome: outcome.interval[0])


def _decide_one(claim: Claim, name: str, measures: Measures) -> Outcome:
    high, low = measures[claim.high], measures[claim.low]
    versus = claim.versus or name
    differences = []
    for seed in sorted(high.keys() & low.keys()):
        if name in high[seed] and versus in low[seed]:
            a, b = high[seed][name], low[seed][versus]
            differences.append((a - b) / a if claim.relative and a else a - b)
    if not differences:
        raise ValueError(
            f"no seed has both {name!r} of {claim.high!r} and {versus!r} of {claim.low!r}"
        )
    mean, start, end = mean_interval(differences)
    verdict: Verdict = "undecided"
    if start > claim.margin:
        verdict = "agree"
    elif end < claim.margin:
        verdict = "disagree"
    return Outcome(claim, mean, (start, end), len(differences), verdict)

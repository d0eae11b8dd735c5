"""What a ledger says before any training: curves by step, intervals, costs and verdicts.

Every figure is per step number t with its count, and never pooled over t. Rates have 95 % intervals
that allow for trajectories of one problem being alike (`accuracy_interval`).
"""

import dataclasses
from typing import Any

import numpy as np

from jaxrl_scope.evaluate.intervals import Z95, accuracy_interval
from rewards import (
    RESIDUAL_BUCKETS,
    Ledger,
    advantage_quantiles,
    graft_advantages,
    step_spread,
)

QUANTILES = (0.1, 0.5, 0.9)
EXECUTIONS_PER_ARM = 177_000  # GRAFT proposal: 150 x 32 x 8 x 4.62, one grafted run per step


@dataclasses.dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval and the number of trials behind it."""

    share: float
    low: float
    high: float
    count: int


@dataclasses.dataclass(frozen=True)
class StepFigures:
    """All figures of one step number.

    Attributes:
      step: t, from 1.
      prefix_ok: p̂_t.
      passed: r, the step pass rate on own prefixes.
      na: share of steps whose signature could not be aligned.
      std_across, std_within: mean over problems of the std of r, over all trajectories and within
        b = 1; `num_across` and `num_within` problems are behind them.
      std_gap: mean of within minus across over problems that have both, its half-width of a 95 %
        interval, and their number. Small groups have a smaller std by themselves, and those
        within b = 1 are the smaller ones: a gap alone does not show less variance.
      advantage: quantiles of |A| of arm A, at `QUANTILES`.
      residual: share of ε ≠ 0 by kind, and "any".
      local_training_signal: r̃, a training signal; the reference's prefix is not there at inference.
    """

    step: int
    prefix_ok: Rate
    passed: Rate
    na: Rate
    std_across: float
    std_within: float
    num_across: int
    num_within: int
    std_gap: tuple[float, float, int]
    advantage: tuple[float, ...]
    residual: dict[str, Rate]
    local_training_signal: Rate


def diagnose(ledger: Ledger, bucket: np.ndarray) -> list[StepFigures]:
    """Figures of each step number, from a ledger of [B, G, S] arrays and residual kinds alike."""
    arrays = {name: np.asarray(value) for name, value in ledger._asdict().items()}
    real, known, nonzero = arrays["real"], arrays["alignable"], arrays["residual"] != 0
    spread = step_spread(ledger)
    arm_a = graft_advantages(ledger, grouping="all", lam=0.0)
    quantiles = np.asarray(advantage_quantiles(arm_a.advantages, arm_a.mask, quantiles=QUANTILES))
    out = []
    for t in range(real.shape[-1]):
        residual = {
            kind: rate(nonzero[..., t] & (bucket[..., t] == i), known[..., t])
            for i, kind in enumerate(RESIDUAL_BUCKETS)
        }
        out.append(
            StepFigures(
                step=t + 1,
                prefix_ok=rate(arrays["prefix_ok"][..., t], real[..., t]),
                passed=rate(arrays["passed"][..., t], real[..., t]),
                na=rate(~known[..., t], real[..., t]),
                std_across=float(spread.across[t]),
                std_within=float(spread.within[t]),
                num_across=int(spread.num_across[t]),
                num_within=int(spread.num_within[t]),
                std_gap=_std_gap(
                    arrays["passed"][..., t], real[..., t], arrays["prefix_ok"][..., t]
                ),
                advantage=tuple(quantiles[:, t].tolist()),
                residual=residual | {"any": rate(nonzero[..., t], known[..., t])},
                local_training_signal=rate(arrays["grafted"][..., t], known[..., t]),
            )
        )
    return out


def rate(hit: np.ndarray, counted: np.ndarray) -> Rate:
    """Share of `hit` among `counted`, both [B, G] bool; the rows are problems."""
    problem = np.broadcast_to(np.arange(hit.shape[0])[:, None], hit.shape)[counted]
    values = hit[counted]
    low, high = accuracy_interval(values, problem.astype(str).tolist())
    share = float(values.mean()) if values.size else 0.0
    return Rate(share, low, high, int(values.size))


def _std_gap(
    passed: np.ndarray, real: np.ndarray, prefix_ok: np.ndarray
) -> tuple[float, float, int]:
    gaps = [
        passed[b, prefix_ok[b]].std() - passed[b, real[b]].std()
        for b in range(len(passed))
        if prefix_ok[b].sum() >= 2
    ]
    if len(gaps) < 2:
        return 0.0, float("inf"), len(gaps)
    half = Z95 * float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5
    return float(np.mean(gaps)), half, len(gaps)


def verdicts(figures: list[StepFigures]) -> dict[str, str]:
    """What can be said of the predictions P1 to P5 without training: holds, fails or undecided."""
    out = {
        "P1": "undecided: no problem has a step 5",
        "P2": "needs training: compare arm A with its start by t (probe.py graft --runs)",
        "P3": "needs training: compare arm D with B and C by t (probe.py graft --runs)",
    }
    if len(figures) >= 5 and figures[4].prefix_ok.count:
        fifth = figures[4].prefix_ok
        word = "holds" if fifth.high < 0.5 else "fails" if fifth.low >= 0.5 else "undecided"
        shown = f"{fifth.share:.3f} [{fifth.low:.3f}, {fifth.high:.3f}], n = {fifth.count}"
        out["P1"] = f"{word}: p_5 = {shown} against 0.5"
    gaps = []
    for entry in figures[1:]:
        gap, half, count = entry.std_gap
        word = "below" if gap + half < 0 else "above" if gap - half > 0 else "not different"
        gaps.append(f"t{entry.step} {word} ({gap:+.3f} ± {half:.3f}, {count} problems)")
    out["P4"] = "std within b = 1 against across, per t: " + "; ".join(gaps)
    kinds = []
    for entry in figures:
        any_kind = entry.residual["any"]
        word = "holds" if any_kind.low > 0.05 else "fails" if any_kind.high <= 0.05 else "undecided"
        kinds.append(f"t{entry.step} {word} ({any_kind.share:.3f}, n = {any_kind.count})")
    out["P5"] = "share of residuals above 5 %, per t: " + "; ".join(kinds)
    return out


def projected_cost(executed: int, executed_s: float, workers: int) -> dict[str, float]:
    """Measured cost of a run, and what one and four arms of the published scale would take."""
    each = executed_s / executed if executed else 0.0
    hours = EXECUTIONS_PER_ARM * each / workers / 3600
    return {
        "executions": executed,
        "seconds_per_execution": each,
        "workers": workers,
        "projected_executions_per_arm": EXECUTIONS_PER_ARM,
        "projected_hours_one_arm": hours,
        "projected_hours_four_arms": 4 * hours,
    }


def to_json_values(figures: list[StepFigures]) -> list[dict[str, Any]]:
    """The figures as JSON values; an interval without an end is None."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: finite(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [finite(v) for v in value]
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return [finite(dataclasses.asdict(entry)) for entry in figures]

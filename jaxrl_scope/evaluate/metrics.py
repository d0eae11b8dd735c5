"""The figures of spec §4 from scored samples."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxrl_scope.evaluate.intervals import accuracy_interval
from jaxrl_scope.evaluate.records import SampleRecord
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import JudgeResult, pad_labels
from rewards.process import STEP_LABELS
from rewards.quality import pass_at_k, step_quality

PASS_AT = (1, 8, 16, 32, 64, 128)  # SCOPE-RL, Table 4

Summary = dict[str, Any]

# One compilation a call, where op by op it would be dozens.
_pass_at_k = jax.jit(pass_at_k, static_argnames="k")
_step_quality = jax.jit(step_quality)


def summarise(records: Sequence[SampleRecord]) -> Summary:
    """All figures: over everything, by source, and the mean accuracy of the sources.

    Returns:
      JSON values. `overall` and each entry of `by_source` hold the fields of `summarise_group`;
      `average_accuracy` is the unweighted mean over sources (the "Avg" of Table 1).

    Raises:
      ValueError: no samples, or some without a verdict.
    """
    if not records:
        raise ValueError("no samples to summarise")
    if any(record.verdict is None for record in records):
        raise ValueError("some samples have no verdict: grade them first")
    by_source: dict[str, list[SampleRecord]] = defaultdict(list)
    for record in records:
        by_source[record.source or "unnamed"].append(record)
    groups = {source: summarise_group(group) for source, group in sorted(by_source.items())}
    return {
        "overall": summarise_group(records),
        "by_source": groups,
        "average_accuracy": float(np.mean([group["accuracy"] for group in groups.values()])),
    }


def summarise_group(records: Sequence[SampleRecord]) -> Summary:
    """Figures of one set of samples.

    Samples that the verifier could not decide are counted as `num_undecided` and left out of all
    else. Step quality is over finished, judged samples: `quality` over all of them, and
    `quality_of_correct` over those with a right answer.
    """
    decided = [record for record in records if record.verdict != Verdict.FAILED]
    correct = np.array([record.verdict == Verdict.CORRECT for record in decided], bool)
    return {
        "num_problems": len({record.problem_id for record in records}),
        "num_samples": len(records),
        "num_undecided": len(records) - len(decided),
        "accuracy": float(correct.mean()) if correct.size else 0.0,
        "accuracy_interval": list(
            accuracy_interval(correct, [record.problem_id for record in decided])
        ),
        "pass_at_k": passes(decided),
        "truncation_rate": _mean([not record.finished for record in decided]),
        "mean_tokens": _mean([record.num_tokens for record in decided]),
        "quality": quality(decided),
        "quality_of_correct": quality([r for r in decided if r.verdict == Verdict.CORRECT]),
    }


def passes(records: Sequence[SampleRecord]) -> dict[str, dict[str, float]]:
    """Unbiased pass@k, averaged over the problems that have at least k decided samples.

    Returns:
      By k as text (JSON keys): `value`, and `num_problems` behind it. Only k with such a problem.
    """
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for record in records:
        counts[record.problem_id][0] += 1
        counts[record.problem_id][1] += record.verdict == Verdict.CORRECT
    table = np.array(list(counts.values()), np.int32).reshape(-1, 2)
    out = {}
    for k in PASS_AT:
        usable = table[table[:, 0] >= k]
        if len(usable):
            value = np.asarray(_pass_at_k(usable[:, 0], usable[:, 1], k=k)).mean()
            out[str(k)] = {"value": float(value), "num_problems": len(usable)}
    return out


def quality(records: Sequence[SampleRecord]) -> Summary:
    """Step quality of the judged samples among `records`.

    Returns:
      `num_judged`, `judge_failures` by reason, `mean_score` of a holistic judge or None, and where
      steps were labelled: `shares` by label, `first_error` (None if no trace has an error),
      `num_with_error`, `mean_steps`.
    """
    judged = [(r, r.judgement) for r in records if r.judgement is not None]
    failures = Counter(result.failure for _, result in judged if result.failure is not None)
    scores = [result.score for _, result in judged if result.score is not None]
    out: Summary = {
        "num_judged": len(judged) - sum(failures.values()),
        "judge_failures": dict(sorted(failures.items())),
        "mean_score": _mean(scores) if scores else None,
    }
    labelled = [(record, result) for record, result in judged if result.labels]
    if labelled:
        out |= _label_figures([record for record, _ in labelled], [res for _, res in labelled])
    return out


def _label_figures(records: list[SampleRecord], results: list[JudgeResult]) -> Summary:
    labels, num_steps, _ = pad_labels(results)
    figures = _step_quality(
        labels,
        num_steps,
        np.array([record.verdict == Verdict.CORRECT for record in records], bool),
        np.array([not record.finished for record in records], bool),
        np.array([record.num_tokens for record in records], np.int32),
    )
    num_with_error = int(figures.num_with_error)
    shares = np.asarray(figures.shares)
    return {
        "shares": {name: float(shares[i]) for i, name in enumerate(STEP_LABELS)},
        "first_error": float(figures.first_error) if num_with_error else None,
        "num_with_error": num_with_error,
        "mean_steps": float(figures.mean_steps),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0

"""Statistics of label files: shares and first errors of one, agreement of two or three.

Source: SCOPE-RL, Section 4 and Appendix O.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import numpy as np

from jaxrl_scope.evaluate.label_files import LabelledTrace
from rewards.process import STEP_LABELS
from rewards.quality import agreement, first_error_position

# One compilation a call, where op by op it would be dozens.
_agreement = jax.jit(agreement, static_argnames="num_classes")
_first_error_position = jax.jit(first_error_position)

Question = Literal["useful", "error"]
_NO, _YES = 0, 1


def label_statistics(traces: Mapping[str, LabelledTrace]) -> dict[str, Any]:
    """Shares and first-error position of one label file.

    Returns:
      `num_traces`, `num_steps`, `mean_steps`; `useful_share` and `error_share` over the steps of
      which that is known (None if it is known of none); `shares` of the five labels over the steps
      that have one (None if none has); `first_error`, the mean of i_err / N over the traces with an
      error, steps numbered from 1 and N all steps of the trace (None without errors), and
      `num_with_error` behind it.
    """
    marks = [mark for trace in traces.values() for mark in trace.marks]
    labels = [int(mark.label) for mark in marks if mark.label is not None]
    position, has_error = _first_errors(list(traces.values()))
    return {
        "num_traces": len(traces),
        "num_steps": len(marks),
        "mean_steps": len(marks) / len(traces),
        "useful_share": _share([m.useful for m in marks if m.useful is not None]),
        "error_share": _share([m.error for m in marks if m.error is not None]),
        "shares": {name: labels.count(i) / len(labels) for i, name in enumerate(STEP_LABELS)}
        if labels
        else None,
        "first_error": float(position[has_error].mean()) if has_error.any() else None,
        "num_with_error": int(has_error.sum()),
    }


def _first_errors(traces: list[LabelledTrace]) -> tuple[np.ndarray, np.ndarray]:
    width = max(len(trace.marks) for trace in traces)
    labels = np.zeros((len(traces), width), np.int32)
    error = STEP_LABELS.index("error")
    for row, trace in enumerate(traces):
        labels[row, : len(trace.marks)] = [error if mark.error else 0 for mark in trace.marks]
    num_steps = np.array([len(trace.marks) for trace in traces], np.int32)
    position, has_error = _first_error_position(labels, num_steps)
    return np.asarray(position), np.asarray(has_error)


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


@dataclasses.dataclass(frozen=True)
class PairAgreement:
    """Agreement of two raters on a yes/no question; the second one is the reference.

    Attributes:
      num_steps: steps that both answered.
      accuracy: share on which they agree.
      kappa: Cohen's.
      precision: for "yes" and "no", by name.
      recall: likewise.
      f1: likewise.
    """

    num_steps: int
    accuracy: float
    kappa: float
    precision: dict[str, float]
    recall: dict[str, float]
    f1: dict[str, float]


def compare(
    rater: Mapping[str, LabelledTrace],
    reference: Mapping[str, LabelledTrace],
    question: Question = "useful",
) -> PairAgreement:
    """Agreement over the steps of the traces that both label.

    Raises:
      ValueError: no trace in common, another number of steps for the same trace, or not one step
        answered by both.
    """
    by_rater, by_reference = _answers([rater, reference], question)
    return _pair(by_rater, by_reference, question)


def compare_with_experts(
    judge: Mapping[str, LabelledTrace],
    expert_a: Mapping[str, LabelledTrace],
    expert_b: Mapping[str, LabelledTrace],
    question: Question = "useful",
) -> dict[str, PairAgreement]:
    """The four rows of Table 10, over the steps that all three answered.

    Where the experts differ there is no consensus, and the judge is scored against each of them at
    half weight (Appendix O): steps of consensus enter twice, the others once with either expert.
    """
    by_judge, by_a, by_b = _answers([judge, expert_a, expert_b], question)
    twice = _pair(np.tile(by_judge, 2), np.concatenate([by_a, by_b]), question)
    consensus = dataclasses.replace(twice, num_steps=len(by_judge))
    return {
        "expert A vs. expert B": _pair(by_a, by_b, question),
        "judge vs. consensus": consensus,
        "judge vs. expert A": _pair(by_judge, by_a, question),
        "judge vs. expert B": _pair(by_judge, by_b, question),
    }


def _answers(files: list[Mapping[str, LabelledTrace]], question: Question) -> list[np.ndarray]:
    """[K] 0/1 answers of every rater to the K steps that all of them answered."""
    common = [name for name in files[0] if all(name in file for file in files)]
    if not common:
        raise ValueError("the label files have no trace id in common")
    rows = []
    for name in common:
        traces = [file[name] for file in files]
        counts = sorted({len(trace.marks) for trace in traces})
        if len(counts) > 1:
            raise ValueError(
                f"trace {name!r} has {' or '.join(map(str, counts))} steps, by file; agreement is "
                "measured on one and the same segmentation"
            )
        for marks in zip(*(trace.marks for trace in traces), strict=True):
            answers = [getattr(mark, question) for mark in marks]
            if None not in answers:
                rows.append(answers)
    if not rows:
        raise ValueError(f"no step has an answer to {question!r} in every file")
    return list(np.array(rows, np.int32).T)


def _pair(rater: np.ndarray, reference: np.ndarray, question: Question) -> PairAgreement:
    result = _agreement(rater, reference, num_classes=2)
    names = {question: _YES, f"not {question}": _NO}

    def by_name(values: Any) -> dict[str, float]:
        return {name: float(values[index]) for name, index in names.items()}

    return PairAgreement(
        num_steps=len(rater),
        accuracy=float(result.accuracy),
        kappa=float(result.kappa),
        precision=by_name(result.precision),
        recall=by_name(result.recall),
        f1=by_name(result.f1),
    )

"""The judge of the built-in world: exact labels from a labeller of its language."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from jaxrl_scope.grading.judge import JudgeItem, JudgeResult, Span, StepLabel
from jaxrl_scope.grading.segment import check_partition

Labeller = Callable[[str, str], tuple[Sequence[Span], Sequence[StepLabel]]]


class RulesJudge:
    """Labels traces of a language whose labels are known exactly; no model, no cost.

    Args:
      labeller: (problem text, response text) to (spans that partition the response, one label
        each). It raises ValueError where the response is not of its language, which is counted as
        the failure "not_in_language".
    """

    def __init__(self, labeller: Labeller):
        self._labeller = labeller
        self._num_items = 0
        self._failures: Counter[str] = Counter()

    def label_steps(self, items: Sequence[JudgeItem]) -> list[JudgeResult]:
        """Label all items.

        Raises:
          ValueError: the labeller returned spans that do not partition the response, which is a
            fault of the labeller and not of the trace.
        """
        return [self._label(item) for item in items]

    def _label(self, item: JudgeItem) -> JudgeResult:
        self._num_items += 1
        try:
            spans, labels = self._labeller(item.problem, item.response)
        except ValueError:
            return self._failed("not_in_language")
        if not spans:
            return self._failed("no_steps")
        check_partition(spans, item.response)
        if len(labels) != len(spans):
            raise ValueError(f"the labeller gave {len(labels)} labels for {len(spans)} steps")
        return JudgeResult(tuple(spans), tuple(StepLabel(label) for label in labels))

    def _failed(self, reason: str) -> JudgeResult:
        self._failures[reason] += 1
        return JudgeResult(failure=reason)

    def submit(self, items: Sequence[JudgeItem]) -> "Future[list[JudgeResult]]":
        """Label at once; the future is already done."""
        future: Future[list[JudgeResult]] = Future()
        future.set_result(self.label_steps(items))
        return future

    def metrics(self) -> Mapping[str, float]:
        """Items seen and failures by reason."""
        failures = {f"failures/{name}": float(n) for name, n in sorted(self._failures.items())}
        total = float(sum(self._failures.values()))
        return {"questions": float(self._num_items), "failures": total} | failures

    def close(self) -> None:
        """Nothing to release."""

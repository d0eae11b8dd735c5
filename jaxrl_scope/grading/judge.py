"""What a step judge is asked and what it answers, whoever does the judging."""

import dataclasses
import enum
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import numpy as np

Span = tuple[int, int]


class StepLabel(enum.IntEnum):
    """Role of one step of a trace (SCOPE-RL, Section 3.3.2); the order of `rewards.process`."""

    USEFUL = 0
    MECHANICAL = 1
    REDUNDANT = 2
    REVERSION = 3
    ERROR = 4


@dataclasses.dataclass(frozen=True)
class JudgeItem:
    """One verified-correct, untruncated trace to be judged.

    Attributes:
      problem: text of the problem.
      response: text of the response, the judged trace.
      gold: the gold answer; "" to withhold it.
      response_ids: [T] int32, the sampled tokens behind `response`; None if unknown. Rule-based
        labellers may read them, a model judge does not.
    """

    problem: str
    response: str
    gold: str = ""
    response_ids: np.ndarray | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class JudgeResult:
    """Steps of one trace with their labels, or the reason why there are none.

    Attributes:
      steps: half-open character spans that partition the response, in order; () on failure.
      labels: one label a step; () on failure and for the holistic judge.
      score: the holistic judge's grade in [0, 1]; None otherwise.
      failure: None, or the named reason (see `Answer.failure`; also "trace_too_long", "no_steps").
        A failed rollout leaves its group; it is never given a reward.
    """

    steps: tuple[Span, ...] = ()
    labels: tuple[StepLabel, ...] = ()
    score: float | None = None
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the trace was judged."""
        return self.failure is None


def unjudgeable(response: str, max_chars: int) -> str | None:
    """Why a response is not worth sending ("trace_too_long", "no_steps"), or None."""
    if len(response) > max_chars:
        return "trace_too_long"
    return None if response.strip() else "no_steps"


class Judge(Protocol):
    """Segments traces into steps and labels each."""

    def label_steps(self, items: Sequence[JudgeItem]) -> list[JudgeResult]:
        """Judge all items; results in their order. Failures are results, never exceptions."""
        ...

    def submit(self, items: Sequence[JudgeItem]) -> "Future[list[JudgeResult]]":
        """Start judging and return at once, so that judging overlaps with generation."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Counters since the start: calls, cache hits, retries, failures, tokens, cost."""
        ...

    def close(self) -> None:
        """Release connections and threads."""
        ...


class JudgeFailureError(RuntimeError):
    """Too large a share of judge calls fails for training to go on."""


class FailureGuard:
    """Stops a run whose judge fails too often, before it trains on what little is left.

    Args:
      max_share: largest tolerated share of failures among the last `window` results, in [0, 1].
      window: results looked back on. Nothing is decided before that many have come.

    Raises:
      ValueError: `max_share` outside [0, 1] or `window` below 1.
    """

    def __init__(self, max_share: float = 0.2, window: int = 200):
        if not 0 <= max_share <= 1:
            raise ValueError(f"max_share must be in [0, 1], got {max_share}")
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        self.max_share = max_share
        self.window = window
        self._recent: deque[str | None] = deque(maxlen=window)

    @property
    def share(self) -> float:
        """Share of failures in the window; 0 before the first result."""
        failed = sum(reason is not None for reason in self._recent)
        return failed / len(self._recent) if self._recent else 0.0

    def record(self, failures: Sequence[str | None]) -> None:
        """Take in the failure reasons of a batch (None for each success).

        Raises:
          JudgeFailureError: the share over a full window exceeds the limit. The caller saves a
            checkpoint and lets it end the run.
        """
        self._recent.extend(failures)
        if len(self._recent) == self.window and self.share > self.max_share:
            reasons = sorted({reason for reason in self._recent if reason is not None})
            raise JudgeFailureError(
                f"the judge failed on {self.share:.0%} of the last {self.window} traces, more than "
                f"the tolerated {self.max_share:.0%} (reasons: {', '.join(reasons)}). Mend the "
                "judge (server, key, model, limits) and resume: judged traces are cached. Or raise "
                "the limit, if losing that many rollouts is acceptable."
            )


def pad_labels(results: Sequence[JudgeResult]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Turn results into the arrays that `rewards.process` reads.

    Args:
      results: R results.

    Returns:
      labels: [R, N] int32, N the longest trace rounded up to a power of two (which bounds the
        number of compiled shapes); 0 in the padding, which is never read.
      num_steps: [R] int32; 0 where the judge failed.
      judged: [R] bool, False where the judge failed.
    """
    num_steps = np.array([len(result.labels) for result in results], np.int32)
    longest = max(1, int(num_steps.max(initial=1)))
    labels = np.zeros((len(results), 1 << (longest - 1).bit_length()), np.int32)
    for row, result in enumerate(results):
        labels[row, : len(result.labels)] = result.labels
    return labels, num_steps, np.array([result.ok for result in results], bool)

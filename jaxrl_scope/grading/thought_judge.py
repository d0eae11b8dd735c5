"""Thought judges of TP-GRPO: which steps of a trace are good, read from signals inside the trace.

A right solution is searched for its own retractions, a wrong one for the steps its answer rests on;
neither asks the judge to solve the problem. Source: TP-GRPO, Sections 3.1.1
and 3.1.2, Appendix B.1.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from jaxrl_scope.grading import judge_prompts as prompts
from jaxrl_scope.grading import judge_replies as replies
from jaxrl_scope.grading.judge import Span, unjudgeable
from jaxrl_scope.grading.llm_client import ChatClient, Question
from jaxrl_scope.grading.segment import check_partition, split_units

_THINK_END = "</think>"


@dataclasses.dataclass(frozen=True)
class ThoughtItem:
    """One finished response to be read for its thoughts.

    Attributes:
      problem: text of the problem.
      response: text of the response.
      correct: the verifier's verdict on the final answer; it decides what is looked for.
    """

    problem: str
    response: str
    correct: bool


@dataclasses.dataclass(frozen=True)
class ThoughtResult:
    """Steps of one response, each good or bad, or the reason why there are none.

    Attributes:
      steps: half-open character spans that partition the response, in order; () on failure.
      good: one flag a step. Right solution: False for retracted work. Wrong solution: False for
        thinking that the answer does not use. The last step is always True: it bears the answer.
      failure: None, or the named reason.
    """

    steps: tuple[Span, ...] = ()
    good: tuple[bool, ...] = ()
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the response was judged."""
        return self.failure is None


class ThoughtJudge(Protocol):
    """Marks the steps of responses as good or bad."""

    def label_thoughts(self, items: Sequence[ThoughtItem]) -> list[ThoughtResult]:
        """Judge all items; results in their order. Failures are results, never exceptions."""
        ...

    def submit(self, items: Sequence[ThoughtItem]) -> "Future[list[ThoughtResult]]":
        """Start judging and return at once."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Counters since the start."""
        ...

    def close(self) -> None:
        """Release connections and threads."""
        ...


def answer_start(response: str) -> int:
    """Character at which the final answer begins: after the last `</think>`, else the last unit.

    A response without think tags thinks aloud up to its last unit. 0 if it is one unit long or
    empty.
    """
    before, tag, after = response.rpartition(_THINK_END)
    if tag and after.strip():
        return len(before) + len(tag) + len(after) - len(after.lstrip())
    units = split_units(response)
    return units[-1][0] if units else 0


@dataclasses.dataclass(frozen=True)
class ThoughtSkips:
    """Responses not worth judging; they keep the plain outcome advantage.

    Attributes:
      min_think_chars: right solutions whose thinking part is shorter are skipped (Appendix B.1).
      min_answer_chars: wrong solutions whose answer part is shorter are skipped (Appendix B.1).
    """

    min_think_chars: int = 4096
    min_answer_chars: int = 256

    def reason(self, item: ThoughtItem, truncated: bool) -> str | None:
        """Why the response is skipped ("truncated", "short_think", "short_answer"), or None."""
        if truncated:
            return "truncated"
        start = answer_start(item.response)
        if item.correct and start < self.min_think_chars:
            return "short_think"
        if not item.correct and len(item.response) - start < self.min_answer_chars:
            return "short_answer"
        return None


class OpenAIThoughtJudge:
    """Asks a model, under the client's limits, cache and failure rules.

    Args:
      client: the chat client; closed with the judge. An offline client makes this a replay.
      max_trace_chars: longer responses fail as "trace_too_long" without being sent.
    """

    def __init__(self, client: ChatClient, *, max_trace_chars: int = 200_000):
        self._client = client
        self._max_trace_chars = max_trace_chars

    def label_thoughts(self, items: Sequence[ThoughtItem]) -> list[ThoughtResult]:
        """Judge all items concurrently; results in their order."""
        return self.submit(items).result()

    def submit(self, items: Sequence[ThoughtItem]) -> "Future[list[ThoughtResult]]":
        """Start judging; the future holds the results in the order of the items."""
        return self._client.run(self._judge_all(items))

    def metrics(self) -> Mapping[str, float]:
        """The client's counters."""
        return self._client.counters.metrics()

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    async def _judge_all(self, items: Sequence[ThoughtItem]) -> list[ThoughtResult]:
        return list(await asyncio.gather(*map(self._judge, items)))

    async def _judge(self, item: ThoughtItem) -> ThoughtResult:
        failure = unjudgeable(item.response, self._max_trace_chars)
        if failure is not None:
            self._client.counters.failures[failure] += 1
            return ThoughtResult(failure=failure)
        units = split_units(item.response)
        if item.correct:
            return await self._retractions(item, units)
        return await self._used_units(item, units)

    async def _retractions(self, item: ThoughtItem, units: tuple[Span, ...]) -> ThoughtResult:
        answer = await self._client.ask_async(
            Question(
                version=prompts.RETRACTIONS,
                system=prompts.RETRACTIONS_SYSTEM,
                user=prompts.data_message(
                    [("PROBLEM", item.problem), ("TRACE UNITS", _texts(item.response, units))]
                ),
                schema=prompts.retractions_schema(len(units)),
                parse=lambda reply: replies.read_retractions(reply, len(units)),
            )
        )
        if answer.value is None:
            return ThoughtResult(failure=answer.failure)
        # From where the mistake began up to the turn; the turn itself starts the sound work.
        retracted = {
            unit for source, reflection in answer.value for unit in range(source, reflection)
        }
        return ThoughtResult(units, tuple(n not in retracted for n in range(1, len(units) + 1)))

    async def _used_units(self, item: ThoughtItem, units: tuple[Span, ...]) -> ThoughtResult:
        start = answer_start(item.response)
        thinking = [unit for unit in units if unit[0] < start]
        if not thinking:
            return ThoughtResult(units, (True,) * len(units))
        answer = await self._client.ask_async(
            Question(
                version=prompts.USED_UNITS,
                system=prompts.USED_UNITS_SYSTEM,
                user=prompts.data_message(
                    [
                        ("PROBLEM", item.problem),
                        ("THINKING UNITS", _texts(item.response, thinking)),
                        ("FINAL ANSWER", item.response[start:]),
                    ]
                ),
                schema=prompts.used_units_schema(len(thinking)),
                parse=lambda reply: replies.read_used_units(reply, len(thinking)),
            )
        )
        if answer.value is None:
            return ThoughtResult(failure=answer.failure)
        used = {unit for first, last in answer.value for unit in range(first, last + 1)}
        return ThoughtResult(
            units, tuple(n in used or n > len(thinking) for n in range(1, len(units) + 1))
        )


def _texts(response: str, units: Sequence[Span]) -> list[str]:
    return [response[start:end] for start, end in units]


ThoughtLabeller = Callable[[str, str, bool], tuple[Sequence[Span], Sequence[bool]]]


class RulesThoughtJudge:
    """The thought judge of a language whose labels are known exactly; no model, no cost.

    Args:
      labeller: (problem text, response text, correct) to (spans that partition the response, one
        flag each). It raises ValueError where the response is not of its language, which is
        counted as the failure "not_in_language". The last flag is taken as True.
    """

    def __init__(self, labeller: ThoughtLabeller):
        self._labeller = labeller
        self._num_items = 0
        self._num_failures = 0

    def label_thoughts(self, items: Sequence[ThoughtItem]) -> list[ThoughtResult]:
        """Judge all items.

        Raises:
          ValueError: the labeller's spans do not partition the response (the labeller's fault).
        """
        return [self._label(item) for item in items]

    def _label(self, item: ThoughtItem) -> ThoughtResult:
        self._num_items += 1
        try:
            spans, good = self._labeller(item.problem, item.response, item.correct)
        except ValueError:
            self._num_failures += 1
            return ThoughtResult(failure="not_in_language")
        check_partition(spans, item.response)
        if len(good) != len(spans) or not spans:
            raise ValueError(f"the labeller gave {len(good)} flags for {len(spans)} steps")
        return ThoughtResult(tuple(spans), (*(bool(flag) for flag in good[:-1]), True))

    def submit(self, items: Sequence[ThoughtItem]) -> "Future[list[ThoughtResult]]":
        """Judge at once; the future is already done."""
        future: Future[list[ThoughtResult]] = Future()
        future.set_result(self.label_thoughts(items))
        return future

    def metrics(self) -> Mapping[str, float]:
        """Items seen and failures."""
        return {"questions": float(self._num_items), "failures": float(self._num_failures)}

    def close(self) -> None:
        """Nothing to release."""

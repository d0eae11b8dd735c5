"""Step judges that ask a language model: live, or from a recorded cache."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Literal

from jaxrl_scope.grading import judge_prompts as prompts
from jaxrl_scope.grading import judge_replies as replies
from jaxrl_scope.grading.judge import JudgeItem, JudgeResult, Span, StepLabel, unjudgeable
from jaxrl_scope.grading.llm_client import Answer, ChatClient, ChatConfig, Question, ReplyCache
from jaxrl_scope.grading.segment import join_units, split_units

JudgeMode = Literal["one_call", "two_call", "holistic"]


class OpenAIJudge:
    """Asks a model behind an OpenAI-compatible server.

    The trace is cut into units here; the model groups unit numbers into steps and labels them, so a
    step is always an exact span of the trace.

    Args:
      client: the chat client; closed with the judge.
      mode: "one_call" segments and labels at once (training, Section 3.3.2); "two_call" segments,
        then labels (the evaluation protocol, Section 4); "holistic" gives one score (ablation of
        Table 3a).
      max_trace_chars: longer traces fail as "trace_too_long" without being sent.
    """

    def __init__(
        self, client: ChatClient, *, mode: JudgeMode = "one_call", max_trace_chars: int = 200_000
    ):
        self._client = client
        self._max_trace_chars = max_trace_chars
        self._judge_one = {
            "one_call": self._one_call,
            "two_call": self._two_call,
            "holistic": self._holistic,
        }[mode]

    def label_steps(self, items: Sequence[JudgeItem]) -> list[JudgeResult]:
        """Judge all items concurrently, within the client's limits; results in their order."""
        return self.submit(items).result()

    def submit(self, items: Sequence[JudgeItem]) -> "Future[list[JudgeResult]]":
        """Start judging; the future holds the results in the order of the items."""
        return self._client.run(self._judge_all(items))

    def metrics(self) -> Mapping[str, float]:
        """The client's counters."""
        return self._client.counters.metrics()

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    async def _judge_all(self, items: Sequence[JudgeItem]) -> list[JudgeResult]:
        return list(await asyncio.gather(*map(self._judge, items)))

    async def _judge(self, item: JudgeItem) -> JudgeResult:
        failure = unjudgeable(item.response, self._max_trace_chars)
        if failure is not None:
            self._client.counters.failures[failure] += 1
            return JudgeResult(failure=failure)
        return await self._judge_one(item)

    async def _one_call(self, item: JudgeItem) -> JudgeResult:
        units = split_units(item.response)
        answer = await self._client.ask_async(
            Question(
                version=prompts.ONE_CALL,
                system=prompts.ONE_CALL_SYSTEM,
                user=_message(item, "TRACE UNITS", units),
                schema=prompts.one_call_schema(len(units)),
                parse=lambda reply: replies.read_labelled_groups(reply, len(units)),
            )
        )
        if answer.value is None:
            return JudgeResult(failure=answer.failure)
        groups, labels = answer.value
        return JudgeResult(join_units(units, groups), labels)

    async def _two_call(self, item: JudgeItem) -> JudgeResult:
        units = split_units(item.response)
        parsed = await self._client.ask_async(
            Question(
                version=prompts.PARSE,
                system=prompts.PARSE_SYSTEM,
                user=_message(item, "TRACE UNITS", units, with_gold=False),
                schema=prompts.parse_schema(len(units)),
                parse=lambda reply: replies.read_groups(reply, len(units)),
            )
        )
        if parsed.value is None:
            return JudgeResult(failure=parsed.failure)
        steps = join_units(units, parsed.value)
        scored: Answer[tuple[StepLabel, ...]] = await self._client.ask_async(
            Question(
                version=prompts.SCORE,
                system=prompts.SCORE_SYSTEM,
                user=_message(item, "TRACE STEPS", steps),
                schema=prompts.score_schema(len(steps)),
                parse=lambda reply: replies.read_labels(reply, len(steps)),
            )
        )
        if scored.value is None:
            return JudgeResult(failure=scored.failure)
        return JudgeResult(steps, scored.value)

    async def _holistic(self, item: JudgeItem) -> JudgeResult:
        answer = await self._client.ask_async(
            Question(
                version=prompts.HOLISTIC,
                system=prompts.HOLISTIC_SYSTEM,
                user=_message(item, "TRACE", ((0, len(item.response)),)),
                schema=prompts.HOLISTIC_SCHEMA,
                parse=replies.read_score,
            )
        )
        return JudgeResult(score=answer.value, failure=answer.failure)


class ReplayJudge(OpenAIJudge):
    """Repeats a recorded judge: same configuration, replies from its cache, no server and no key.

    A trace that was never recorded fails with "not_recorded".

    Args:
      config: the configuration the cache was recorded with; what decides a reply (model,
        temperature, format, limits) is part of the key.
      cache: the recorded replies.
      mode: as in `OpenAIJudge`.
    """

    def __init__(self, config: ChatConfig, cache: ReplyCache, *, mode: JudgeMode = "one_call"):
        super().__init__(ChatClient(config, cache=cache, offline=True), mode=mode)


def _message(item: JudgeItem, name: str, spans: Sequence[Span], *, with_gold: bool = True) -> str:
    sections: list[tuple[str, str | list[str]]] = [("PROBLEM", item.problem)]
    if with_gold and item.gold:
        sections.append(("REFERENCE ANSWER", item.gold))
    sections.append((name, [item.response[start:end] for start, end in spans]))
    return prompts.data_message(sections)

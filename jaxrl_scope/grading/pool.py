"""Batches of responses to verdict arrays."""

import collections
import os
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Self

import numpy as np

from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading.settle import prepare, settle
from jaxrl_scope.grading.verdicts import Item, Verdict
from jaxrl_scope.grading.workers import Outcome, Question, WorkerGroup


class VerifierPool:
    """Grades batches of responses; safe to call from any thread, several at a time.

    What exact arithmetic of bounded cost settles, nearly everything in practice, is settled in the
    calling thread. The rest goes to worker processes that are killed and replaced when an answer
    exceeds its limits; they start when first needed. Verdicts do not depend on the number of
    workers. Use as a context manager, or call `close`.

    Args:
      num_workers: processes at most; None for one per CPU, at most 4.
      wall_limit_s: seconds one answer may take.
      memory_limit_mb: MiB one answer may take.

    Attributes:
      counts: answers graded so far, by "correct", "incorrect", "failed", and "failed/<reason>" with
        the reasons limit, timeout, memory, crash and gold.

    Raises:
      ValueError: a limit is not positive.
    """

    def __init__(
        self,
        num_workers: int | None = None,
        wall_limit_s: float = 3.0,
        memory_limit_mb: float = 512,
    ) -> None:
        if num_workers is None:
            num_workers = min(4, os.cpu_count() or 1)
        for name, value in (
            ("num_workers", num_workers),
            ("wall_limit_s", wall_limit_s),
            ("memory_limit_mb", memory_limit_mb),
        ):
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        self.counts: collections.Counter[str] = collections.Counter()
        self._counts_lock = threading.Lock()
        self._workers = WorkerGroup(num_workers, wall_limit_s, memory_limit_mb)
        self._finalizer = weakref.finalize(self, self._workers.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the workers. Harmless when repeated."""
        self._finalizer()

    def grade(self, items: Sequence[Item]) -> list[Outcome]:
        """Grade K responses; returns their outcomes in order, failures with their reasons."""
        prepared = [prepare(item) for item in items]
        answered: dict[Question, Outcome] = {}
        waiting: dict[Question, Future[Outcome]] = {}
        for question in dict.fromkeys(part for part in prepared if isinstance(part, Question)):
            outcome, symbolic = settle(question)
            if outcome is None:
                waiting[question] = self._workers.submit(question, symbolic=symbolic)
            else:
                answered[question] = outcome
        answered |= {question: future.result() for question, future in waiting.items()}
        outcomes = [answered[part] if isinstance(part, Question) else part for part in prepared]
        with self._counts_lock:
            for outcome in outcomes:
                self.counts[outcome.verdict.name.lower()] += 1
                if outcome.verdict is Verdict.FAILED:
                    self.counts[f"failed/{outcome.reason}"] += 1
        return outcomes

    def verify_batch(self, items: Sequence[Item]) -> np.ndarray:
        """Grade K responses; returns [K] int8 `Verdict` values, in order."""
        verdicts = [outcome.verdict for outcome in self.grade(items)]
        return np.array(verdicts, np.int8).reshape(len(items))

    async def verify_batch_async(self, items: Sequence[Item]) -> np.ndarray:
        """Grade K responses while the event loop goes on; as `verify_batch`."""
        import asyncio  # here, because every worker imports this package and none needs it

        return await asyncio.to_thread(self.verify_batch, items)

    def verify_scaffolds(
        self, responses: Sequence[str], scaffolds: Sequence[Scaffold]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grade K scaffolded responses against K scaffolds.

        Args:
          responses: [K] texts with labelled boxes.
          scaffolds: [K] their scaffolds, `num_sub` of each at most M.

        Returns:
          sub: [K, M] int8 `Verdict` values; entries from a scaffold's `num_sub` on are 0.
          main: [K] int8 `Verdict` values of the main answers.

        Raises:
          ValueError: the two sequences differ in length.
        """
        if len(responses) != len(scaffolds):
            raise ValueError(f"{len(responses)} responses for {len(scaffolds)} scaffolds")
        items, rows, columns = [], [], []
        for row, (response, scaffold) in enumerate(zip(responses, scaffolds, strict=True)):
            for column, gold in enumerate(scaffold.answers):
                items.append(Item(gold, response, label=f"SUB-{column + 1}"))
                rows.append(row)
                columns.append(column)
        items += [
            Item(scaffold.main_answer, response, label="MAIN")
            for response, scaffold in zip(responses, scaffolds, strict=True)
        ]
        verdicts = self.verify_batch(items)
        width = max((scaffold.num_sub for scaffold in scaffolds), default=0)
        sub = np.zeros((len(responses), width), np.int8)
        sub[rows, columns] = verdicts[: len(rows)]
        return sub, verdicts[len(rows) :]

"""Batches of answers, graded by killable worker processes."""

import collections
from collections.abc import Sequence
from typing import Self

import numpy as np

from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading.verdicts import Item
from jaxrl_scope.grading.verifier import verify


class VerifierPool:
    """Grades batches; use as a context manager."""

    def __init__(
        self, num_workers: int = 1, wall_limit_s: float = 3.0, memory_limit_mb: int = 512
    ) -> None:
        self.num_workers = num_workers
        self.wall_limit_s = wall_limit_s
        self.memory_limit_mb = memory_limit_mb
        self.counts: collections.Counter[str] = collections.Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers. Harmless when called twice."""

    def verify_batch(self, items: Sequence[Item]) -> np.ndarray:
        """Grade K items; returns [K] int8 `Verdict` values, in order."""
        verdicts = [
            verify(item.gold, item.response, task=item.task, label=item.label, choices=item.choices)
            for item in items
        ]
        self.counts.update(verdict.name.lower() for verdict in verdicts)
        return np.array(verdicts, np.int8).reshape(len(items))

    def verify_scaffolds(
        self, responses: Sequence[str], scaffolds: Sequence[Scaffold]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grade K scaffolded responses against K scaffolds.

        Returns:
          sub: [K, M] int8 `Verdict` values, M the largest number of sub-questions; padded with 0.
          main: [K] int8 `Verdict` values of the main answers.
        """
        width = max((scaffold.num_sub for scaffold in scaffolds), default=0)
        items, rows, columns = [], [], []
        for row, (response, scaffold) in enumerate(zip(responses, scaffolds, strict=True)):
            for column, gold in enumerate(scaffold.answers):
                items.append(Item(gold, response, label=f"SUB-{column + 1}"))
                rows.append(row)
                columns.append(column)
        main_items = [
            Item(scaffold.main_answer, response, label="MAIN")
            for response, scaffold in zip(responses, scaffolds, strict=True)
        ]
        verdicts = self.verify_batch([*items, *main_items])
        sub = np.zeros((len(responses), width), np.int8)
        sub[rows, columns] = verdicts[: len(items)]
        return sub, verdicts[len(items) :]

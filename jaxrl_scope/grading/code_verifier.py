"""End-to-end verdicts of code responses, in the shape of the answer verifier."""

import collections
from collections.abc import Sequence
from typing import Self

import numpy as np

from jaxrl_scope.data.code_demos import split_steps
from jaxrl_scope.data.code_problems import CodeProblem, from_json
from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading.grafting import check_references
from jaxrl_scope.grading.sandbox import Run, SandboxPool, Status
from jaxrl_scope.grading.verdicts import Item, Verdict


class CodeVerifier:
    """Grades responses to code problems: correct means that every step passes on the own prefix.

    An item's gold answer is the JSON of the problem (`code_problems.to_json`). Grafted verdicts
    have no part in it: this is what evaluation reports and what guards training.

    Attributes:
      pool: the sandbox.
      counts: responses graded so far, by verdict.
    """

    def __init__(self, pool: SandboxPool):
        """Grade in `pool`, which `close` closes."""
        self.pool = pool
        self.counts: collections.Counter[str] = collections.Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox."""
        self.pool.close()

    def verify_batch(self, items: Sequence[Item]) -> np.ndarray:
        """Grade K responses; returns [K] int8 `Verdict` values, in order.

        The gold answer in a box, which loaders use to ask whether a problem can be graded at all,
        stands for the reference implementation: it must pass its own tests.
        """
        verdicts = np.zeros(len(items), np.int8)
        runs: list[Run] = []
        owners: list[int] = []
        references: list[tuple[int, CodeProblem]] = []
        for index, item in enumerate(items):
            problem = from_json(item.gold)
            if item.response == f"\\boxed{{{item.gold}}}":
                references.append((index, problem))
                continue
            codes, _ = split_steps(item.response, len(problem.steps))
            if None in codes:
                verdicts[index] = Verdict.INCORRECT
                continue
            written = [code or "" for code in codes]
            verdicts[index] = Verdict.CORRECT
            for t in range(1, len(written) + 1):
                runs.append(problem.run(t, written[:t]))
                owners.append(index)
        for index, result in zip(owners, self.pool.run_batch(runs), strict=True):
            verdict = _verdict(result.status)
            verdicts[index] = min(verdicts[index], verdict)
        bad = {name for name, *_ in check_references([p for _, p in references], self.pool)}
        for index, problem in references:
            verdicts[index] = Verdict.FAILED if problem.id in bad else Verdict.CORRECT
        self.counts.update(Verdict(verdict).name.lower() for verdict in verdicts)
        return verdicts

    def verify_scaffolds(
        self, responses: Sequence[str], scaffolds: Sequence[Scaffold]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Code problems have no scaffolds.

        Raises:
          ValueError: always.
        """
        raise ValueError("code problems have no scaffolds: train them with --stage graft")


def _verdict(status: Status) -> Verdict:
    if status is Status.NA:
        return Verdict.FAILED
    return Verdict.CORRECT if status is Status.PASS else Verdict.INCORRECT

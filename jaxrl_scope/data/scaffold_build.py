"""Offline construction: problems, teacher, chains, Valid, cache (SCOPE-RL, Section 3.2.1)."""

import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence

from jaxrl_scope.data.columns import seeded_rank
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_cache import ScaffoldCache
from jaxrl_scope.data.scaffold_rules import Verify, Violation, boxed, find_violations, form_fault
from jaxrl_scope.data.scaffold_teacher import TEACHER_VERSION, checker_question, teacher_question
from jaxrl_scope.grading import Item, Verdict
from jaxrl_scope.grading.llm_client import ChatClient


@dataclasses.dataclass(frozen=True)
class BuildSettings:
    """How hard to try.

    Attributes:
      max_attempts: chains asked for per problem; the teacher is told what was wrong with the last.
      num_workers: problems worked on at once (the teacher's own `max_concurrency` limits requests).
      retry_filtered: try problems again that an earlier run ended without a valid scaffold.
      instructions: system message and instruction that the policy will see besides the questions.
    """

    max_attempts: int = 3
    num_workers: int = 32
    retry_filtered: bool = False
    instructions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_attempts", "num_workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class ScaffoldBuilder:
    """Builds scaffolds with a teacher and writes every outcome to a cache.

    Args:
      teacher: asks the decomposing model.
      cache: outcomes; what is there already is not asked again.
      verify: grades a batch, from several threads at once (`VerifierPool.verify_batch` does).
      checker: asks the model that decides P and D beyond rules; None leaves them to the rules.
      settings: how hard to try.
    """

    def __init__(
        self,
        teacher: ChatClient,
        cache: ScaffoldCache,
        verify: Verify,
        *,
        checker: ChatClient | None = None,
        settings: BuildSettings | None = None,
    ) -> None:
        self._teacher = teacher
        self._cache = cache
        self._verify = verify
        self._checker = checker
        self._settings = settings or BuildSettings()

    def build(
        self, problems: Sequence[Problem], *, on_done: Callable[[Problem], None] | None = None
    ) -> None:
        """Bring every problem to an outcome; memory does not grow with their number.

        Interrupted or killed at any point, a second call asks only for what is missing.

        Args:
          problems: the problems.
          on_done: called after each problem, from worker threads.
        """
        workers = self._settings.num_workers
        pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="scaffold")
        pending: set[concurrent.futures.Future[None]] = set()
        try:
            for problem in self._missing(problems):
                if len(pending) >= 2 * workers:
                    pending = _wait_for_one(pending)
                pending.add(pool.submit(self._build_one, problem, on_done))
            while pending:
                pending = _wait_for_one(pending)
        finally:
            pool.shutdown(cancel_futures=True)

    def _missing(self, problems: Sequence[Problem]) -> Iterable[Problem]:
        # An order of its own for each process: two that share a cache then meet only at the end,
        # where each sees what the other has done.
        for problem in sorted(problems, key=lambda p: seeded_rank(os.getpid(), p.id)):
            if self._is_missing(problem):
                yield problem

    def _is_missing(self, problem: Problem) -> bool:
        self._cache.refresh()
        outcome = self._cache.outcome(problem)
        again = outcome == "filtered" and self._settings.retry_filtered
        return outcome is None or outcome == "failed" or again

    def _build_one(self, problem: Problem, on_done: Callable[[Problem], None] | None) -> None:
        if not self._is_missing(problem):
            return  # another process was faster
        if reason := self._gold_fault(problem):
            self._cache.give_up(problem, "filtered", [f"V: the gold answer {reason}"])
        else:
            self._ask(problem)
        if on_done is not None:
            on_done(problem)

    def _ask(self, problem: Problem) -> None:
        rejected: list[tuple[Scaffold, Sequence[Violation]]] = []
        for attempt in range(1, self._settings.max_attempts + 1):
            reply = self._teacher.ask(teacher_question(problem, rejected))
            if reply.failure is not None:
                reason = f"teacher: {reply.failure}: {reply.detail}"
                return self._cache.give_up(problem, "failed", [reason])
            chain = reply.value
            if chain is None:
                return self._cache.give_up(problem, "filtered", ["the teacher found no chain"])
            provenance = {
                "teacher": self._teacher.config.model,
                "prompt": TEACHER_VERSION,
                "attempt": attempt,
            }
            violations = self._violations(problem, chain)
            if isinstance(violations, str):
                return self._cache.give_up(problem, "failed", [f"checker: {violations}"])
            if not violations:
                return self._cache.accept(problem, chain, **provenance)
            self._cache.reject(problem, chain, violations, **provenance)
            rejected.append((chain, violations))
        last = [str(violation) for violation in rejected[-1][1]]
        self._cache.give_up(problem, "filtered", last)

    def _gold_fault(self, problem: Problem) -> str | None:
        """Why no scaffold of this problem could be verified, whatever the teacher says."""
        if fault := form_fault(problem.answer):
            return fault
        item = Item(problem.answer, boxed(problem.answer), problem.task, None, problem.choices)
        accepted = self._verify([item])[0] == Verdict.CORRECT
        return None if accepted else "is not accepted by the verifier against itself"

    def _violations(self, problem: Problem, chain: Scaffold) -> list[Violation] | str:
        """What is wrong with a chain, or as a string why the checker could not say."""
        found = find_violations(
            chain, problem, self._verify, instructions=self._settings.instructions
        )
        if found or self._checker is None:
            return found
        reply = self._checker.ask(checker_question(problem, chain))
        if reply.value is None:
            return f"{reply.failure}: {reply.detail}"
        return reply.value


def _wait_for_one(
    pending: set[concurrent.futures.Future[None]],
) -> set[concurrent.futures.Future[None]]:
    done, rest = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
    for future in done:
        future.result()  # a disk error must stop the run, not vanish in a thread
    return rest

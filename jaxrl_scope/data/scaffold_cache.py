"""What construction has decided so far: valid scaffolds, and every rejected chain with its reasons.

Two append-only files. `NAME.jsonl` holds valid scaffolds in the published schema and is what
training reads. `NAME.rejected.jsonl` beside it holds one row per rejected chain and one per problem
that ended without a scaffold. Both name problems by `problem_hash`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from jaxrl_scope.data.append_log import AppendLog
from jaxrl_scope.data.problems import Problem, Scaffold, problem_hash
from jaxrl_scope.data.rows import Row, get_path
from jaxrl_scope.data.scaffold_file import row_to_scaffold, scaffold_hash, scaffold_to_row
from jaxrl_scope.data.scaffold_rules import Violation

Outcome = Literal["success", "filtered", "failed"]


def rejected_path(path: str | Path) -> Path:
    """The file of rejections that belongs to a scaffold file."""
    return Path(path).with_suffix(".rejected.jsonl")


def content_hash(problem: Problem) -> str:
    """`problem_hash` of the problem's text and answer: its name in the cache."""
    return problem_hash(problem.text, problem.answer)


class ScaffoldCache:
    """Outcomes by problem; safe for several processes at once, resumable after a kill.

    Args:
      path: the scaffold file, NAME.jsonl.

    Raises:
      ValueError: another ending; rows are appended, which only JSONL allows.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix != ".jsonl":
            raise ValueError(f"{path}: a scaffold cache is appended to; use a name in .jsonl")
        self._scaffolds = AppendLog(self.path)
        self._rejections = AppendLog(rejected_path(self.path))
        self._outcomes: dict[str, Outcome] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take in what other processes have written."""
        for row in self._rejections.read_new():
            name, outcome = str(row.get("problem_hash")), row.get("outcome")
            if outcome in ("filtered", "failed") and self._outcomes.get(name) != "success":
                self._outcomes[name] = outcome
        for row in self._scaffolds.read_new():
            self._outcomes[_hash_of(row)] = "success"

    def outcome(self, problem: Problem) -> Outcome | None:
        """How construction ended for a problem; None if it has not."""
        return self._outcomes.get(content_hash(problem))

    def accept(self, problem: Problem, scaffold: Scaffold, **provenance: Any) -> None:
        """Store a valid scaffold; `provenance` (teacher, attempt, ...) goes to `extra_info`."""
        row = dict(scaffold_to_row(scaffold))
        row["extra_info"] |= {"problem_hash": content_hash(problem), **provenance}
        self._scaffolds.append([row])
        self._outcomes[content_hash(problem)] = "success"

    def reject(
        self, problem: Problem, chain: Scaffold, violations: Sequence[Violation], **provenance: Any
    ) -> None:
        """Record a rejected chain and why."""
        row = self._row(problem, "rejected", map(str, violations), **provenance)
        questions = zip(chain.questions, chain.answers, strict=True)
        row["chain"] = [{"question": q, "answer": a} for q, a in questions]
        self._rejections.append([row])

    def give_up(
        self, problem: Problem, outcome: Literal["filtered", "failed"], reasons: Sequence[str]
    ) -> None:
        """Record that a problem gets no scaffold.

        Args:
          problem: the problem.
          outcome: "filtered" where no valid scaffold was found (or can exist), "failed" where the
            teacher or the checker gave no usable reply; failed problems are tried again next time.
          reasons: why, in words.
        """
        self._rejections.append([self._row(problem, outcome, reasons)])
        self._outcomes[content_hash(problem)] = outcome

    def _row(
        self, problem: Problem, outcome: str, reasons: Any, **provenance: Any
    ) -> dict[str, Any]:
        return {
            "problem_hash": content_hash(problem),
            "problem_id": problem.id,
            "data_source": problem.source,
            "outcome": outcome,
            "reasons": list(reasons),
            **provenance,
        }


def _hash_of(row: Row) -> str:
    given = get_path(row, "extra_info.problem_hash")
    # A scaffold made elsewhere; its main question may or may not be the problem word for word.
    return scaffold_hash(row_to_scaffold(row)) if given is None else str(given)

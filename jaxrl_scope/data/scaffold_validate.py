"""Validation of scaffold files made anywhere, and their import."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.rows import LoadReport, write_rows
from jaxrl_scope.data.scaffold_cache import rejected_path
from jaxrl_scope.data.scaffold_file import load_scaffolds, save_scaffolds
from jaxrl_scope.data.scaffold_rules import Verify, Violation, find_violations


@dataclasses.dataclass
class ValidationReport:
    """Outcome of validating one file.

    Attributes:
      load: rows that could not be read, or that belong to none of the given problems.
      valid: valid scaffolds by problem id.
      rejected: violations by problem id.
    """

    load: LoadReport
    valid: dict[str, Scaffold] = dataclasses.field(default_factory=dict)
    rejected: dict[str, list[Violation]] = dataclasses.field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Every row of the file is a valid scaffold."""
        return not self.rejected and set(self.load.counts) <= {"replaced"}

    def summary(self) -> str:
        """Counts, then one line per rejected scaffold with every reason."""
        by_predicate = Counter(
            predicate
            for violations in self.rejected.values()
            for predicate in {violation.predicate for violation in violations}
        )
        counts = ", ".join(f"{predicate} {by_predicate[predicate]}" for predicate in "VPDH")
        lines = [
            self.load.summary(),
            f"valid {len(self.valid)}, rejected {len(self.rejected)} (by predicate: {counts})",
        ]
        lines += [f"  {name}: {'; '.join(map(str, v))}" for name, v in self.rejected.items()]
        return "\n".join(lines)


def validate_file(
    path: str | Path,
    verify: Verify,
    *,
    problems: Sequence[Problem] | None = None,
    instructions: Sequence[str] = (),
    strict: bool = False,
) -> ValidationReport:
    """Apply Valid to every scaffold of a file.

    Args:
      path: scaffold file, JSONL or parquet.
      verify: grades a batch.
      problems: the original problems. Without them nothing is known of gold answers, and the main
        question stands in for the original problem in the leak check.
      instructions: system message and instruction that the policy will see.
      strict: stop at the first unreadable row.

    Raises:
      RowError: an unreadable row, with `strict`.
      ValueError: no such file.
    """
    scaffolds, load = load_scaffolds(path, problems=problems, strict=strict)
    report = ValidationReport(load)
    by_id = {problem.id: problem for problem in problems or ()}
    for name, scaffold in scaffolds.items():
        violations = find_violations(scaffold, by_id.get(name), verify, instructions=instructions)
        if violations:
            report.rejected[name] = violations
        else:
            report.valid[name] = scaffold
    return report


def save_validated(path: str | Path, report: ValidationReport) -> None:
    """Write the valid scaffolds to `path` and the rejections to the file beside it."""
    save_scaffolds(path, report.valid)
    rows = [
        {"problem_id": name, "outcome": "rejected", "reasons": list(map(str, violations))}
        for name, violations in report.rejected.items()
    ]
    write_rows(rejected_path(path), rows)

"""How construction went, per corpus: the columns of SCOPE-RL, Table 9, and why chains fell."""

import contextlib
import dataclasses
from collections import Counter
from pathlib import Path

from jaxrl_scope.data.append_log import AppendLog
from jaxrl_scope.data.rows import Row, RowError, get_path, read_rows
from jaxrl_scope.data.scaffold_cache import rejected_path
from jaxrl_scope.data.scaffold_file import row_to_scaffold


@dataclasses.dataclass
class CorpusStats:
    """Outcomes of one corpus.

    Attributes:
      sub_counts: number of sub-questions to number of valid scaffolds.
      filtered: problems without a valid scaffold (gold answer not verifiable, no chain, every
        candidate rejected).
      failed: problems for which no usable reply came.
      predicates: rejected chains by violated predicate ("V", "P", "D", "H"); a chain counts once
        under each predicate it violates.
    """

    sub_counts: Counter[int] = dataclasses.field(default_factory=Counter)
    filtered: int = 0
    failed: int = 0
    predicates: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def success(self) -> int:
        """Problems with a valid scaffold."""
        return sum(self.sub_counts.values())

    @property
    def total(self) -> int:
        """Problems that came to an outcome."""
        return self.success + self.filtered + self.failed

    @property
    def rate(self) -> float:
        """Share of problems with a valid scaffold; 0 where there are none."""
        return self.success / self.total if self.total else 0.0

    @property
    def mean_subs(self) -> float:
        """Mean number of sub-questions of the valid scaffolds; 0 where there are none."""
        total = sum(num_sub * count for num_sub, count in self.sub_counts.items())
        return total / self.success if self.success else 0.0


def collect_stats(path: str | Path) -> dict[str, CorpusStats]:
    """Read a scaffold file, and the rejections beside it where there are any.

    A problem counts once: with its valid scaffold if it has one, else with its last outcome.

    Raises:
      ValueError: no such file.
    """
    corpora: dict[str, CorpusStats] = {}
    done: dict[str, tuple[str, int]] = {}  # problem to corpus and number of sub-questions
    ended: dict[str, tuple[str, str]] = {}  # problem to corpus and outcome
    rejections = AppendLog(rejected_path(path))
    for row in rejections.read_new():
        corpus, outcome = str(row.get("data_source")), row.get("outcome")
        if outcome == "rejected":
            stats = corpora.setdefault(corpus, CorpusStats())
            stats.predicates.update({str(reason)[0] for reason in row.get("reasons", ())})
        else:
            ended[str(row.get("problem_hash"))] = corpus, str(outcome)
    if Path(path).is_file() or not rejections.path.is_file():
        for _, row in read_rows(path):
            with contextlib.suppress(RowError):  # `validate` is the command that reports these
                name, corpus, num_sub = _read(row)
                done[name] = corpus, num_sub
    for corpus, num_sub in done.values():
        corpora.setdefault(corpus, CorpusStats()).sub_counts[num_sub] += 1
    for name, (corpus, outcome) in ended.items():
        if name not in done:
            stats = corpora.setdefault(corpus, CorpusStats())
            stats.filtered += outcome == "filtered"
            stats.failed += outcome == "failed"
    return corpora


def format_stats(corpora: dict[str, CorpusStats]) -> str:
    """A Markdown table with one row per corpus, and a line on rejected chains."""
    lines = [
        "| corpus | total | success | filtered | failed | rate | mean subs | max | min |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    chains: Counter[str] = Counter()
    for name, stats in sorted(corpora.items()):
        chains += stats.predicates
        most, least = (pick(stats.sub_counts, default=0) for pick in (max, min))
        lines.append(
            f"| {name} | {stats.total} | {stats.success} | {stats.filtered} | {stats.failed} "
            f"| {stats.rate:.1%} | {stats.mean_subs:.2f} | {most} | {least} |"
        )
    by_predicate = ", ".join(f"{predicate} {chains[predicate]}" for predicate in "VPDH")
    return "\n".join([*lines, "", f"Rejected chains by violated predicate: {by_predicate}"])


def _read(row: Row | RowError) -> tuple[str, str, int]:
    """Name, corpus and number of sub-questions of a row."""
    if isinstance(row, RowError):
        raise row
    scaffold = row_to_scaffold(row)
    name = get_path(row, "extra_info.problem_hash") or scaffold.problem_id
    return str(name), scaffold.source, scaffold.num_sub

"""A page of scaffolds for people to mark, and the marks read back (SCOPE-RL, Appendix N)."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxrl_scope.data.columns import seeded_rank
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.rows import write_atomic

CRITERIA = {
    "V": "every answer is one value, interval, set or expression, and it is right",
    "P": "every sub-question is needed for the problem and is more than arithmetic",
    "D": "every later sub-question needs the answer to an earlier one",
    "H": "no answer can be read in the questions",
}
_ANCHOR = re.compile(r"<!-- scaffold: (\S+) -->")
_MARKS = re.compile(r"^Marks: (.*)$")


@dataclasses.dataclass(frozen=True)
class Share:
    """A share with its uncertainty.

    Attributes:
      yes: items marked y.
      marked: items marked at all.
      low: lower end of the 95 % Wilson interval.
      high: its upper end.
    """

    yes: int
    marked: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.marked:
            return "not marked"
        share = self.yes / self.marked
        return f"{share:.1%} of {self.marked} (95 %: {self.low:.1%} to {self.high:.1%})"


def write_audit(
    path: str | Path,
    scaffolds: Mapping[str, Scaffold],
    *,
    size: int = 200,
    seed: int = 0,
    problems: Sequence[Problem] = (),
) -> int:
    """Write a Markdown page with `size` scaffolds drawn by seed (200 in the paper).

    Args:
      path: the page.
      scaffolds: by problem id.
      size: how many; all of them where there are fewer.
      seed: draws them.
      problems: where known, the original problem is shown too.

    Returns:
      The number of scaffolds on the page.
    """
    texts = {problem.id: problem.text for problem in problems}
    drawn = sorted(scaffolds.values(), key=lambda s: seeded_rank(seed, s.problem_id))[:size]
    criteria = "\n".join(f"- {name}: {text}." for name, text in CRITERIA.items())
    head = (
        f"# Audit of {len(drawn)} of {len(scaffolds)} scaffolds (seed {seed})\n\n"
        "On each line that starts with `Marks`, replace every `_` by `y` or `n`; leave it where "
        f"you cannot tell.\n\n{criteria}\n"
    )
    entries = [_entry(n, s, texts.get(s.problem_id)) for n, s in enumerate(drawn, start=1)]
    page = "\n".join([head, *entries])
    write_atomic(Path(path), lambda file: file.write(page.encode()))
    return len(drawn)


def _entry(number: int, scaffold: Scaffold, problem: str | None) -> str:
    marks = " | ".join(f"{name} _" for name in CRITERIA)
    lines = [f"## {number}", f"<!-- scaffold: {_anchor(scaffold)} -->"]
    if problem is not None and problem != scaffold.main_question:
        lines += ["", "Problem", _quoted(problem)]
    for index, question in enumerate(scaffold.questions, start=1):
        lines += ["", f"Sub-question {index}", _quoted(question)]
        lines.append(_quoted(f"answer: {scaffold.answers[index - 1]}"))
    lines += ["", "Main question", _quoted(scaffold.main_question)]
    lines.append(_quoted(f"answer: {scaffold.main_answer}"))
    return "\n".join([*lines, "", f"Marks: {marks}", ""])


def _anchor(scaffold: Scaffold) -> str:
    return re.sub(r"\s+", "_", scaffold.problem_id)


def _quoted(text: str) -> str:
    # Quoted lines cannot be taken for headings, anchors or marks, whatever a problem contains.
    return "\n".join(f"> {line}" for line in text.splitlines())


def read_marks(path: str | Path) -> dict[str, dict[str, bool]]:
    """Read a marked page: scaffold to criterion to mark; criteria left open are absent.

    Raises:
      ValueError: no such file, no scaffold in it, or a mark other than y, n and _; the message
        names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    marks: dict[str, dict[str, bool]] = {}
    current = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if anchor := _ANCHOR.fullmatch(line.strip()):
            current = anchor[1]
            marks[current] = {}
        elif (match := _MARKS.match(line)) and current is not None:
            marks[current] = _read_line(match[1], f"{path}:{number}")
    if not marks:
        raise ValueError(f"{path} holds no scaffold; expected a page that `audit` wrote")
    return marks


def _read_line(text: str, where: str) -> dict[str, bool]:
    marks = {}
    for item in text.split("|"):
        name, _, mark = item.strip().partition(" ")
        mark = mark.strip().lower()
        if name not in CRITERIA or mark not in ("y", "n", "_", ""):
            raise ValueError(f"{where}: expected e.g. 'V y', 'D n' or 'H _', got {item.strip()!r}")
        if mark in ("y", "n"):
            marks[name] = mark == "y"
    return marks


def summarise_marks(pages: Sequence[Mapping[str, Mapping[str, bool]]]) -> dict[str, Share]:
    """Shares by criterion, "valid" (all four y) and, for two or more annotators, "agreement".

    Args:
      pages: what `read_marks` gave, one page per annotator. Marks of all annotators are counted;
        agreement is over pairs of marks of the same scaffold and criterion.
    """
    shares = {}
    for name in CRITERIA:
        shares[name] = _share([marks[name] for p in pages for marks in p.values() if name in marks])
    full = [marks for page in pages for marks in page.values() if len(marks) == len(CRITERIA)]
    shares["valid"] = _share([all(marks.values()) for marks in full])
    if len(pages) > 1:
        pairs = [
            first[scaffold][name] == second[scaffold][name]
            for i, first in enumerate(pages)
            for second in pages[i + 1 :]
            for scaffold in first.keys() & second.keys()
            for name in first[scaffold].keys() & second[scaffold].keys()
        ]
        shares["agreement"] = _share(pairs)
    return shares


def _share(marks: Sequence[bool]) -> Share:
    """Share of True with its Wilson interval, which stays sensible at 0 and 100 %."""
    n, yes, z = len(marks), sum(marks), 1.96
    if not n:
        return Share(0, 0, 0.0, 1.0)
    centre = (yes / n + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(yes / n * (1 - yes / n) / n + z * z / (4 * n * n))
    return Share(yes, n, max(0.0, centre - half), min(1.0, centre + half))

"""One evaluated sample, as a JSONL row that can be scored again without generating again."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaxrl_scope.data.rows import Row, RowError, read_rows, write_rows
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import JudgeResult, StepLabel


@dataclasses.dataclass(frozen=True)
class SampleRecord:
    """One response to one problem.

    Attributes:
      problem_id: `Problem.id`.
      sample: index of the response among those to its problem, from 0.
      source: corpus of the problem.
      problem: its text, choices included.
      gold: its gold answer.
      response: the response's text, without the end-of-text token.
      num_tokens: sampled tokens, the end-of-text token included.
      finished: False where the response was cut off at the length cap (truncated).
      task: verifier mode; None for plain answers.
      choices: texts of the choices of a multiple-choice problem.
      verdict: of the verifier; a truncated response is incorrect. None before scoring.
      judgement: steps and labels; None before scoring, and for truncated responses.
    """

    problem_id: str
    sample: int
    source: str
    problem: str
    gold: str
    response: str
    num_tokens: int
    finished: bool
    task: str | None = None
    choices: tuple[str, ...] | None = None
    verdict: Verdict | None = None
    judgement: JudgeResult | None = None

    def unscored(self) -> "SampleRecord":
        """The record as it was generated."""
        return dataclasses.replace(self, verdict=None, judgement=None)


def record_to_row(record: SampleRecord) -> Row:
    """The record as JSON values; labels and verdicts by name."""
    row = {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in ("choices", "verdict", "judgement")
    }
    row["choices"] = list(record.choices) if record.choices else None
    row["verdict"] = None if record.verdict is None else record.verdict.name.lower()
    row["judgement"] = None if record.judgement is None else _judgement_to_row(record.judgement)
    return row


def _judgement_to_row(result: JudgeResult) -> dict[str, Any]:
    return {
        "steps": [list(span) for span in result.steps],
        "labels": [label.name.lower() for label in result.labels],
        "score": result.score,
        "failure": result.failure,
    }


def row_to_record(row: Row) -> SampleRecord:
    """Read one row.

    Raises:
      RowError: a field is missing or of the wrong type.
    """
    names = [field.name for field in dataclasses.fields(SampleRecord)]
    unknown = sorted(set(row) - set(names))
    if unknown:
        raise RowError(f"unknown fields {unknown}; known: {names}")
    try:
        values = {name: row[name] for name in row if name not in ("verdict", "judgement")}
        if values.get("choices") is not None:
            values["choices"] = tuple(values["choices"])
        if row.get("verdict") is not None:
            values["verdict"] = Verdict[row["verdict"].upper()]
        if row.get("judgement") is not None:
            values["judgement"] = _row_to_judgement(row["judgement"])
        record = SampleRecord(**values)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RowError(f"not an evaluated sample ({type(error).__name__}: {error})") from None
    wrong = [
        name
        for name, kind in (("response", str), ("num_tokens", int), ("finished", bool))
        if not isinstance(getattr(record, name), kind)
    ]
    if wrong:
        raise RowError(f"fields {wrong} have the wrong type")
    return record


def _row_to_judgement(row: dict[str, Any]) -> JudgeResult:
    return JudgeResult(
        steps=tuple((int(start), int(end)) for start, end in row["steps"]),
        labels=tuple(StepLabel[name.upper()] for name in row["labels"]),
        score=row["score"],
        failure=row["failure"],
    )


def read_records(path: str | Path) -> list[SampleRecord]:
    """Read a file of samples.

    Raises:
      RowError: a broken row; it names file and line.
      ValueError: no such file.
    """
    records = []
    for where, row in read_rows(path):
        if isinstance(row, RowError):
            raise row
        try:
            records.append(row_to_record(row))
        except RowError as error:
            raise error.at(where) from None
    return records


def write_records(path: str | Path, records: Iterable[SampleRecord]) -> int:
    """Write a file of samples, whole or not at all; returns their number."""
    return write_rows(path, map(record_to_row, records))

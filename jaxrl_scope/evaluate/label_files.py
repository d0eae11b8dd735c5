"""Files of step labels: from people or from a judge, in the layouts they come in.

    {"id", "steps": [{"label": "mechanical"}, ...]}     five-class labels, as this project writes
    {"id", "steps": [{"label": "useful"}, ...]}         "useful" / "not useful", as experts mark
    {"id", "steps": [{"rating": 1}, ...]}               PRM800K: 1, 0, -1 or null
    {"id", "steps": [{"label": 1}, ...]}                ProcessBench: 1, 0 at the first error, null
    {"problem_id", "sample", "judgement", ...}          samples of launch/evaluate.py

A step tells up to two things: whether it is useful, and whether it is an error. Either may be
unknown: people who looked for the first error (ProcessBench) say nothing about usefulness.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.data.rows import Row, RowError, read_rows
from jaxrl_scope.evaluate.records import row_to_record
from jaxrl_scope.grading.judge import Span, StepLabel

_NOT_USEFUL = ("not useful", "non-useful", "not_useful")


@dataclasses.dataclass(frozen=True)
class Mark:
    """What is known of one step; None where nothing is.

    Attributes:
      useful: whether it moves the solution on.
      error: whether it is wrong.
      label: its five-class label.
    """

    useful: bool | None = None
    error: bool | None = None
    label: StepLabel | None = None


@dataclasses.dataclass(frozen=True)
class LabelledTrace:
    """The marks of one trace.

    Attributes:
      id: names the trace; equal in files that label the same trace.
      marks: one per step.
      spans: half-open character spans of the steps that partition `response`; () if the file gives
        no response or no step texts.
      response: the trace; "" if the file gives none.
      correct: whether the final answer is right; None if the file does not say.
    """

    id: str
    marks: tuple[Mark, ...]
    spans: tuple[Span, ...] = ()
    response: str = ""
    correct: bool | None = None


def load_labels(path: str | Path) -> dict[str, LabelledTrace]:
    """Read a label file, by trace id. Samples that were not judged are left out.

    Raises:
      RowError: a row that cannot be read; it names file, line and field.
      ValueError: no such file, no labelled trace in it, or an id that stands twice.
    """
    traces: dict[str, LabelledTrace] = {}
    for where, row in read_rows(path):
        if isinstance(row, RowError):
            raise row
        try:
            trace = _read_sample(row) if "judgement" in row else read_trace(row)
        except RowError as error:
            raise error.at(where) from None
        if trace is None:
            continue
        if trace.id in traces:
            raise ValueError(f"{where}: a second trace with the id {trace.id!r}")
        traces[trace.id] = trace
    if not traces:
        raise ValueError(f"{path} holds no labelled trace")
    return traces


def _read_sample(row: Row) -> LabelledTrace | None:
    record = row_to_record(row)
    if record.judgement is None or not record.judgement.labels:
        return None
    return LabelledTrace(
        id=f"{record.problem_id}/{record.sample}",
        marks=tuple(mark_of_label(label) for label in record.judgement.labels),
        spans=record.judgement.steps,
        response=record.response,
        correct=None if record.verdict is None else record.verdict.name == "CORRECT",
    )


def read_trace(row: Row) -> LabelledTrace:
    """Read one row of the first four layouts.

    Raises:
      RowError: no id, no steps, or a step with a label of no known kind.
    """
    if not isinstance(row.get("id"), str):
        raise RowError("expected the text that names the trace", field="id")
    steps = row.get("steps")
    if not isinstance(steps, list) or not steps:
        raise RowError("expected a non-empty list of steps", field="steps")
    marks = tuple(_read_mark(step, f"steps.{i}") for i, step in enumerate(steps))
    response = row.get("response") or ""
    spans: tuple[Span, ...] = ()
    if response and all("text" in step for step in steps):
        spans = locate_steps(response, [step["text"] for step in steps])
    return LabelledTrace(row["id"], marks, spans, response, row.get("correct"))


def locate_steps(response: str, texts: Sequence[str]) -> tuple[Span, ...]:
    """Spans that partition `response`, each starting where the step's text stands.

    What lies between two steps (line breaks, an answer line) belongs to the one before it, what
    precedes the first to the first.

    Raises:
      RowError: a step's text does not stand in the response after the step before it.
    """
    starts, position = [], 0
    for index, text in enumerate(texts):
        found = response.find(text, position) if text else -1
        if found < 0:
            raise RowError("the step does not stand in the response", field=f"steps.{index}.text")
        starts.append(found)
        position = found + len(text)
    starts[0] = 0
    return tuple(zip(starts, [*starts[1:], len(response)], strict=True))


def mark_of_label(label: StepLabel) -> Mark:
    """Both things a five-class label tells."""
    return Mark(label is StepLabel.USEFUL, label is StepLabel.ERROR, label)


def _read_mark(step: Any, field: str) -> Mark:
    if not isinstance(step, Mapping) or not {"label", "rating"} & set(step):
        raise RowError('expected an object with "label" or "rating"', field=field)
    if "rating" in step:
        marks = {None: Mark(), 1: Mark(True, False), 0: Mark(False, False), -1: Mark(False, True)}
        return _look_up(marks, step["rating"], f"{field}.rating")
    marks = {None: Mark(), 1: Mark(None, False), 0: Mark(None, True)}
    marks |= {name: Mark(False) for name in _NOT_USEFUL}
    marks |= {label.name.lower(): mark_of_label(label) for label in StepLabel}
    return _look_up(marks, step["label"], f"{field}.label")


def _look_up(marks: dict[Any, Mark], value: Any, field: str) -> Mark:
    if isinstance(value, bool) or not isinstance(value, int | str | None) or value not in marks:
        known = ", ".join(repr(key) for key in marks)
        raise RowError(f"unknown value {value!r}; known: {known}", field=field)
    return marks[value]

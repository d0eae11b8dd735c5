"""Problems from JSONL, parquet or a Hugging Face data set, and back to disk in verl's layout."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from jaxrl_scope.data.columns import Columns, detect_columns, resolve_columns, row_to_problem
from jaxrl_scope.data.filters import formula_key, problem_key, subset
from jaxrl_scope.data.hub import hub_preset, is_hub_name, read_hub
from jaxrl_scope.data.problems import Problem, problem_hash
from jaxrl_scope.data.prompts import original_messages
from jaxrl_scope.data.rows import LoadReport, Row, RowError, read_rows, write_rows


def load_problems(
    path_or_name: str | Path,
    *,
    columns: Columns | str | None = None,
    limit: int | None = None,
    seed: int = 0,
    strict: bool = False,
) -> tuple[list[Problem], LoadReport]:
    """Load the problems of a file or data set, in its order, without duplicates.

    A duplicate has the text of an earlier problem, or its formulas and its answer in other words.

    Args:
      path_or_name: a .jsonl or .parquet file, or a Hugging Face name, "owner/name",
        "owner/name:split" or "owner/name:config:split".
      columns: a mapping, the name of a preset (`PRESETS`), or None to tell the layout by each row.
      limit: keep a subset of this size, drawn by `seed` (the paper trains on 2,400 problems).
      seed: draws the subset and shuffles multiple-choice answers.
      strict: stop at the first broken row instead of reporting it.

    Returns:
      The problems, and a report of the rows left out. Ids are unique: where a file gives one id to
      two problems, the later one is named by `problem_hash`.

    Raises:
      RowError: a broken row, with `strict`. It names file, line and field.
      ValueError: no such file or preset, or not one usable row.
    """
    mapping = resolve_columns(hub_preset(str(path_or_name)) if columns is None else columns)
    report = LoadReport(str(path_or_name))
    problems: list[Problem] = []
    seen = _Seen()
    for where, row in _rows(path_or_name):
        report.num_rows += 1
        try:
            problem = _read(row, where, mapping, seed)
        except RowError as error:
            if strict:
                raise
            report.drop(where, "broken row", str(error.at("")))
            continue
        if twin := seen.twin(problem):
            report.drop(where, *twin)
        else:
            problems.append(seen.add(problem))
    if not problems:
        raise ValueError(f"no usable problem.\n{report.summary()}")
    if limit is not None:
        problems = subset(problems, limit, seed=seed, report=report)
    return problems, report


class _Seen:
    """The problems loaded so far, by id and by what makes another one the same."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._by_text: dict[str, str] = {}
        self._by_formulas: dict[str | None, str] = {}

    def twin(self, problem: Problem) -> tuple[str, str] | None:
        """Reason and detail of a drop, where an earlier problem is the same as this one."""
        if earlier := self._by_text.get(problem_key(problem)):
            return "duplicate", f"same text as {earlier}"
        if earlier := self._by_formulas.get(formula_key(problem)):
            return "reworded", f"same formulas and answer as {earlier}"
        return None

    def add(self, problem: Problem) -> Problem:
        """Remember a problem; returns it, under another id where its own is taken."""
        if problem.id in self._ids:  # files merged from several corpora number each from 0
            problem = dataclasses.replace(problem, id=problem_hash(problem.text, problem.answer))
        self._ids.add(problem.id)
        self._by_text[problem_key(problem)] = problem.id
        if (formulas := formula_key(problem)) is not None:
            self._by_formulas[formulas] = problem.id
        return problem


def save_problems(path: str | Path, problems: Iterable[Problem]) -> int:
    """Write problems in verl's layout (JSONL, or parquet by the name's ending), atomically.

    The `prompt` column holds what this project would send, so that verl can train on the file;
    `extra_info` holds what `load_problems` needs to give the same problems back.

    Returns:
      The number of rows written.
    """
    return write_rows(path, map(problem_to_row, problems))


def problem_to_row(problem: Problem) -> Row:
    """One row of verl's layout. Values of `problem.meta` must be JSON."""
    extra = {
        **problem.meta,
        "id": problem.id,
        "problem": problem.text,
        "difficulty": problem.difficulty,
        "task": problem.task,
        "choices": list(problem.choices) if problem.choices else None,
        "verbatim": problem.messages is not None,
    }
    return {
        "data_source": problem.source,
        "prompt": original_messages(problem),
        "ability": "math",
        "reward_model": {"ground_truth": problem.answer, "style": "rule"},
        "extra_info": extra,
    }


def _read(row: Row | RowError, where: str, columns: Columns | None, seed: int) -> Problem:
    if isinstance(row, RowError):
        raise row
    try:
        return row_to_problem(row, columns or detect_columns(row), seed=seed)
    except RowError as error:
        raise error.at(where) from None


def _rows(path_or_name: str | Path) -> Iterator[tuple[str, Row | RowError]]:
    if not Path(path_or_name).exists() and is_hub_name(str(path_or_name)):
        return read_hub(str(path_or_name))
    return read_rows(path_or_name)

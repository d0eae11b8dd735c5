"""Scaffolds on disk, in the published file schema, and their link to problems."""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.data.problems import Problem, Scaffold, problem_hash
from jaxrl_scope.data.prompts import Messages, scaffold_messages
from jaxrl_scope.data.rows import (
    LoadReport,
    Row,
    RowError,
    as_messages,
    as_text,
    get_path,
    read_rows,
    write_rows,
)

_HEADING = re.compile(
    r"\**\b(?:sub-?\s?(?:problem|question)\s*(\d+)|main\s+(?:problem|question))\s*\**\s*:\s*\**",
    re.IGNORECASE,
)


def load_scaffolds(
    path: str | Path, *, problems: Sequence[Problem] | None = None, strict: bool = False
) -> tuple[dict[str, Scaffold], LoadReport]:
    """Load a scaffold file (JSONL or parquet).

    Args:
      path: the file. Where two rows scaffold one problem, the later one counts (the cache is
        append-only).
      problems: the problems to link to, by id, else by content (`link_scaffolds`); None keeps each
        scaffold under the id that the file gives or, without one, its `scaffold_hash`.
      strict: stop at the first broken row instead of reporting it.

    Returns:
      Scaffolds by problem id, and a report of the rows left out.

    Raises:
      RowError: a broken row, with `strict`. It names file, line and field.
      ValueError: no such file.
    """
    report = LoadReport(str(path))
    scaffolds: dict[str, Scaffold] = {}
    for where, row in read_rows(path):
        report.num_rows += 1
        try:
            if isinstance(row, RowError):
                raise row
            scaffold = row_to_scaffold(row)
        except RowError as error:
            placed = error if error.where else error.at(where)
            if strict:
                raise placed from None
            report.drop(where, "broken row", str(placed.at("")))
            continue
        if scaffold.problem_id in scaffolds:
            report.drop(where, "replaced", f"{scaffold.problem_id} stood above; this row counts")
        scaffolds[scaffold.problem_id] = scaffold
    if problems is not None:
        scaffolds = link_scaffolds(scaffolds, problems, report)
    return scaffolds, report


def save_scaffolds(path: str | Path, scaffolds: Mapping[str, Scaffold] | Iterable[Scaffold]) -> int:
    """Write scaffolds (JSONL, or parquet by the name), atomically. Returns their number."""
    values = scaffolds.values() if isinstance(scaffolds, Mapping) else scaffolds
    return write_rows(path, map(scaffold_to_row, values))


def link_scaffolds(
    scaffolds: Mapping[str, Scaffold], problems: Sequence[Problem], report: LoadReport
) -> dict[str, Scaffold]:
    """Key scaffolds by the ids of the given problems: the same id, else the same text and answer.

    Scaffolds of other problems are left out and reported.
    """
    by_hash = {problem_hash(problem.text, problem.answer): problem.id for problem in problems}
    ids = {problem.id for problem in problems}
    linked = {}
    for key, scaffold in scaffolds.items():
        problem_id = key if key in ids else by_hash.get(scaffold_hash(scaffold))
        if problem_id is None:
            report.drop(key, "no such problem", "neither its id nor its text matches")
        else:
            linked[problem_id] = dataclasses.replace(scaffold, problem_id=problem_id)
    return linked


def scaffold_hash(scaffold: Scaffold) -> str:
    """`problem_hash` of main question and answer: the problem's own where the texts are equal."""
    return problem_hash(scaffold.main_question, scaffold.main_answer)


def scaffold_to_row(scaffold: Scaffold) -> Row:
    """One row of the published schema; `extra_info` holds what the prompt alone does not tell."""
    answers = {f"sub{i}": answer for i, answer in enumerate(scaffold.answers, start=1)}
    return {
        "data_source": scaffold.source,
        "prompt": scaffold_messages(scaffold),
        "reward_model": {
            "ground_truth": {**answers, "main": scaffold.main_answer},
            "style": "rule",
        },
        "extra_info": {
            "problem_id": scaffold.problem_id,
            "sub_questions": list(scaffold.questions),
            "main_question": scaffold.main_question,
            "verbatim": scaffold.messages is not None,
        },
    }


def row_to_scaffold(row: Row) -> Scaffold:
    """Read one row.

    Raises:
      RowError: a field is missing, empty, of the wrong type, or the counts of questions and answers
        differ.
    """
    answers, main_answer = _read_answers(get_path(row, "reward_model.ground_truth"))
    messages = as_messages(row.get("prompt"), "prompt")
    texts, main = _read_questions(row, messages, len(answers))
    given_id = get_path(row, "extra_info.problem_id")
    source = row.get("data_source")
    return Scaffold(
        problem_id=(
            problem_hash(main, main_answer)
            if given_id is None
            else as_text(given_id, "extra_info.problem_id")
        ),
        questions=texts,
        answers=answers,
        main_question=main,
        main_answer=main_answer,
        # Foreign files hold the exact prompt to send; ours are rebuilt from the questions.
        messages=messages if get_path(row, "extra_info.verbatim") in (None, True) else None,
        source=as_text(source, "data_source") if source else "",
    )


def _read_questions(row: Row, messages: Messages, num_sub: int) -> tuple[tuple[str, ...], str]:
    """Questions from `extra_info`, or from the headings of the prompt where it has none."""
    field = "extra_info.sub_questions"
    questions = get_path(row, field)
    if questions is None:
        return _split_prompt(messages, num_sub)
    if not isinstance(questions, list) or len(questions) != num_sub:
        raise RowError(f"expected a list of {num_sub}, one per sub-answer", field=field)
    texts = tuple(as_text(q, f"{field}.{i}") for i, q in enumerate(questions))
    return texts, as_text(get_path(row, "extra_info.main_question"), "extra_info.main_question")


def _split_prompt(messages: Messages, num_sub: int) -> tuple[tuple[str, ...], str]:
    """Cut a published prompt at "Sub-problem 1:" ... "Main Problem:".

    What stands before the first heading are the givens; they go with the main question.
    """
    text = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
    heads = list(_HEADING.finditer(text))
    expected = [str(i) for i in range(1, num_sub + 1)] + [None]
    if [head[1] for head in heads] != expected:
        raise RowError(
            f"expected the headings 'Sub-problem 1:' to 'Sub-problem {num_sub}:' and "
            f"'Main Problem:' in this order, found {[head[0] for head in heads]}",
            field="prompt",
        )
    ends = [head.start() for head in heads[1:]] + [len(text)]
    bodies = [
        as_text(text[head.end() : end], "prompt") for head, end in zip(heads, ends, strict=True)
    ]
    givens = text[: heads[0].start()].strip()
    return tuple(bodies[:-1]), "\n\n".join(filter(None, (givens, bodies[-1])))


def _read_answers(ground_truth: Any) -> tuple[tuple[str, ...], str]:
    field = "reward_model.ground_truth"
    if isinstance(ground_truth, str):  # a column of strings in many parquet files
        with contextlib.suppress(json.JSONDecodeError):
            ground_truth = json.loads(ground_truth)
    if not isinstance(ground_truth, Mapping):
        raise RowError('expected an object {"sub1": ..., "main": ...}', field=field)
    # Parquet fills the keys that other rows have with nulls.
    given = {key: value for key, value in ground_truth.items() if value is not None}
    num_sub = len(given) - 1
    expected = [f"sub{i}" for i in range(1, num_sub + 1)]
    if num_sub < 1 or set(given) != {*expected, "main"}:
        raise RowError(f"expected keys sub1..subm and main, got {sorted(given)}", field=field)
    texts = tuple(as_text(given[key], f"{field}.{key}") for key in expected)
    return texts, as_text(given["main"], f"{field}.main")

"""Code problems from files: this project's own layout, SciCode's, HumanEval's and MBPP's."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.data.code_problems import CodeProblem, CodeStep, find_function, from_row
from jaxrl_scope.data.rows import LoadReport, RowError, read_rows

_DEFINED = re.compile(r"^(?:async\s+)?def\s+(\w+)", re.MULTILINE)


def load_code_problems(
    path: str | Path, *, strict: bool = False
) -> tuple[list[CodeProblem], LoadReport]:
    """Load a JSONL or parquet file; the layout is told by each row's fields.

    Raises:
      RowError: a broken row, with `strict`.
      ValueError: no such file, or no usable row.
    """
    report = LoadReport(str(path))
    problems: list[CodeProblem] = []
    for where, row in read_rows(path):
        report.num_rows += 1
        try:
            if isinstance(row, RowError):
                raise row
            problems.append(read_row(row))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if strict:
                raise RowError(f"not a code problem: {error!r}", where=where) from error
            report.drop(where, "broken row", repr(error))
    if not problems:
        raise ValueError(f"no usable problem.\n{report.summary()}")
    return problems, report


def read_row(row: Mapping[str, Any]) -> CodeProblem:
    """Read one row of any known layout.

    Raises:
      KeyError, TypeError, ValueError: the row is of no known layout.
    """
    steps = row.get("steps")
    if steps and "reference" in steps[0]:
        return from_row(row)
    if steps:
        return _scicode(row)
    if "entry_point" in row:
        return _humaneval(row)
    if "gold_code" in row and isinstance(row.get("tests"), list):
        return _mbpp(row)
    raise ValueError(f"no known layout has the fields {sorted(row)}")


def _scicode(row: Mapping[str, Any]) -> CodeProblem:
    steps = []
    for step in row["steps"]:
        name = _DEFINED.findall(step["header"])[-1]
        targets = tuple(read_target(target) for target in step.get("targets") or ())
        steps.append(
            CodeStep(name, step["prompt"], step["gold_code"], tuple(step["tests"]), targets)
        )
    setup = row.get("dependencies") or ""
    return CodeProblem(str(row["id"]), row["problem"], tuple(steps), setup, row.get("source") or "")


def _humaneval(row: Mapping[str, Any]) -> CodeProblem:
    name = row["entry_point"]
    reference = row["problem"] + row["gold_code"]
    test = f"{row['tests']}\ncheck({name})\n"
    step = CodeStep(name, row["problem"], reference, (test,))
    # What stands before the function, imports and helpers, is there for tests and programs alike.
    given = re.split(rf"^def\s+{re.escape(name)}\b", row["problem"], flags=re.MULTILINE)[0]
    return CodeProblem(str(row["id"]), row["problem"], (step,), given, row.get("source") or "")


def _mbpp(row: Mapping[str, Any]) -> CodeProblem:
    tests = tuple(row["tests"])
    called = " ".join(tests)
    named = [n for n in _DEFINED.findall(row["gold_code"]) if re.search(rf"\b{n}\s*\(", called)]
    if not named or find_function(row["gold_code"], named[-1]) is None:
        raise ValueError("no top-level function of gold_code is called by the tests")
    step = CodeStep(named[-1], row["problem"], row["gold_code"], tests)
    setup = "\n".join(row.get("test_imports") or ())
    return CodeProblem(str(row["id"]), row["problem"], (step,), setup, row.get("source") or "")


def read_target(value: Any) -> Any:
    """A target as SciCode-like files write it: a JSON scalar, or an object with a `type`.

    Raises:
      ValueError: an unknown type.
    """
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if kind == "ndarray":
        data = (
            np.array(value["data"])
            if "data" in value
            else np.array(value["real"]) + 1j * np.array(value["imag"])
        )
        return data.astype(value["dtype"]).reshape(value["shape"])
    if kind == "complex":
        return complex(value["real"], value["imag"])
    if kind in ("tuple", "list", "set"):
        items = [read_target(item) for item in value["items"]]
        return {"tuple": tuple, "list": list, "set": set}[kind](items)
    raise ValueError(f"unknown type of target {kind!r}")

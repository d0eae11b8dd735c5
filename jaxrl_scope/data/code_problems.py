"""Multi-step code problems: schema, JSON form, and the prefixes of the reference implementation."""

import ast
import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading.sandbox import Run
from jaxrl_scope.grading.sandbox.wire import WireError, decode, encode

TASK = "code"  # `Problem.task` of a problem whose answer is the JSON of a `CodeProblem`


@dataclasses.dataclass(frozen=True)
class CodeStep:
    """One function to write.

    Attributes:
      name: of the function.
      description: what it has to do.
      reference: its source in basic numerics, one top-level function `name` (and helpers).
      tests: sources that call it (and functions of earlier steps); all must hold.
      targets: one value per test, bound to `target` before it runs; () for none.
      oracle: a second source by a library's own function; "" for none.
    """

    name: str
    description: str
    reference: str
    tests: tuple[str, ...]
    targets: tuple[Any, ...] = ()
    oracle: str = ""


@dataclasses.dataclass(frozen=True)
class CodeProblem:
    """Steps 1..S, each a function that may call the earlier ones.

    Attributes:
      id: unique name.
      text: the problem as the user states it.
      steps: in order, at least one, with distinct names.
      setup: source that comes before every program and every test, imports mostly.
      source: corpus.
    """

    id: str
    text: str
    steps: tuple[CodeStep, ...]
    setup: str = ""
    source: str = ""

    def __post_init__(self):
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"problem {self.id}: steps need distinct names, got {names}")
        for step in self.steps:
            if not step.tests:
                raise ValueError(f"problem {self.id}: step {step.name} has no test")

    def run(self, number: int, codes: Sequence[str], seed: int = 0) -> Run:
        """The run that tests step `number` (from 1) on a program of the given step sources."""
        step = self.steps[number - 1]
        return Run(
            program="\n\n".join([self.setup, *codes]),
            tests=step.tests,
            targets=step.targets,
            names=tuple(step.name for step in self.steps[:number]),
            setup=self.setup,
            seed=seed,
        )


def to_json(problem: CodeProblem) -> str:
    """One line that `from_json` reads back."""
    row = dataclasses.asdict(problem)
    for step, own in zip(row["steps"], problem.steps, strict=True):
        step["targets"] = [encode(target) for target in own.targets]
    return json.dumps(row)


@functools.lru_cache(maxsize=1 << 14)
def from_json(text: str) -> CodeProblem:
    """Read what `to_json` wrote; equal texts give the same object.

    Raises:
      ValueError: the text is something else; it says which field.
    """
    try:
        row = json.loads(text)
        return from_row(row)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, WireError) as error:
        raise ValueError(f"not a code problem ({error!r}): {text[:80]!r}") from None


def from_row(row: Mapping[str, Any]) -> CodeProblem:
    """Build a problem from a row in this project's own layout."""
    steps = tuple(
        CodeStep(
            name=step["name"],
            description=step.get("description", ""),
            reference=step["reference"],
            tests=tuple(step["tests"]),
            targets=tuple(decode(target) for target in step.get("targets") or ()),
            oracle=step.get("oracle") or "",
        )
        for step in row["steps"]
    )
    return CodeProblem(
        str(row["id"]), row["text"], steps, row.get("setup") or "", row.get("source") or ""
    )


def to_problem(problem: CodeProblem, prompt: str, difficulty: str = "") -> Problem:
    """The problem as the trainer's loaders, samplers and graders know problems."""
    return Problem(
        id=problem.id,
        text=problem.text,
        answer=to_json(problem),
        source=problem.source,
        difficulty=difficulty or f"t{len(problem.steps)}",
        task=TASK,
        messages=({"role": "user", "content": prompt},),
    )


class PrefixLibrary:
    """The reference sources cut at step boundaries, once per problem: p*_{<t}."""

    def __init__(self) -> None:
        self._prefixes: dict[str, tuple[tuple[str, ...], ...]] = {}

    def prefix(self, problem: CodeProblem, number: int) -> tuple[str, ...]:
        """Sources of the reference's steps before step `number` (from 1)."""
        if problem.id not in self._prefixes:
            sources = tuple(step.reference for step in problem.steps)
            self._prefixes[problem.id] = tuple(sources[:t] for t in range(len(sources)))
        return self._prefixes[problem.id][number - 1]


def find_function(source: str, name: str) -> ast.FunctionDef | None:
    """The last top-level function `name` of a source; None if there is none or it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else None

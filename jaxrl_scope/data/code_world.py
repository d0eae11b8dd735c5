"""Generated code problems: random walks over the operators, as chains of functions.

Step t of a problem is a function `st` of the input that applies its operator to the result of
`s(t-1)`; so every step needs the one before it, and a wrong prefix shows in all later tests.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.code_operators import OPERATORS, Operator
from jaxrl_scope.data.code_problems import CodeProblem, CodeStep
from jaxrl_scope.data.problems import problem_hash

SETUP = "import numpy as np"
_MAX_SIZE = 1e6  # a chain whose values outgrow this tests rounding more than code


@dataclasses.dataclass(frozen=True)
class Link:
    """An operator with its parameter (None where it has none)."""

    operator: Operator
    parameter: int | None = None

    @property
    def words(self) -> str:
        """As the tiny model's prompt names it, "rotate 2"."""
        return (
            self.operator.name
            if self.parameter is None
            else f"{self.operator.name} {self.parameter}"
        )

    def fill(self, text: str) -> str:
        """Put the parameter where K stands."""
        return text if self.parameter is None else text.replace("K", str(self.parameter))


Walk = tuple[Link, ...]


def draw_walk(
    rng: np.random.Generator, length: int, operators: Sequence[Operator] = OPERATORS
) -> Walk:
    """A random walk of `length` operators from a vector; each takes what the one before gives.

    No operator follows itself, and one after which the walk could not go on is taken last only.

    Raises:
      ValueError: no operator takes a vector.
    """
    kind, links = "vector", []
    for place in range(length):
        usable = [
            op
            for op in operators
            if op.takes == kind
            and (not links or op != links[-1].operator)
            and (place == length - 1 or any(o.takes == op.gives for o in operators))
        ]
        if not usable:
            raise ValueError(f"no operator takes a {kind} at step {place + 1} of a walk")
        operator = usable[rng.integers(len(usable))]
        parameter = int(rng.choice(operator.parameters)) if operator.parameters else None
        links.append(Link(operator, parameter))
        kind = operator.gives
    return tuple(links)


def make_problem(walk: Walk, rng: np.random.Generator) -> CodeProblem | None:
    """Write a walk as a problem: text, reference, oracle, and tests with the reference's values.

    Tests of each step: values on random vectors, edge cases (one entry, zeros, equal entries), the
    operator's invariant, and that its parameter and input matter where they should. None where the
    values grow too large or are not finite.
    """
    references = [_source(link, t, link.operator.basic) for t, link in enumerate(walk, start=1)]
    oracles = [_source(link, t, link.operator.library) for t, link in enumerate(walk, start=1)]
    inputs = _inputs(rng)
    # The operators are this project's own source, not a model's: they may run here.
    namespace: dict = {}
    exec("\n".join([SETUP, *references]), namespace)
    steps = []
    for t, link in enumerate(walk, start=1):
        targets = [namespace[f"s{t}"](np.array(x)) for x in inputs]
        if not all(np.isfinite(y).all() and np.max(np.abs(y)) < _MAX_SIZE for y in targets):
            return None
        tests = [f"assert np.allclose(s{t}(np.array({x})), target)" for x in inputs]
        if link.operator.invariant:
            tests.append(_invariant_test(link, t, inputs[0]))
            targets.append(None)
        description = link.operator.text.format(k=link.parameter)
        steps.append(
            CodeStep(
                f"s{t}",
                description,
                references[t - 1],
                tuple(tests),
                tuple(targets),
                oracles[t - 1],
            )
        )
    words = " ; ".join(link.words for link in walk)
    return CodeProblem(problem_hash(words, "code"), _text(steps), tuple(steps), SETUP, "operators")


def _source(link: Link, number: int, body: str) -> str:
    before = "np.asarray(x, float)" if number == 1 else f"s{number - 1}(x)"
    lines = [f"x = {before}", *link.fill(body).split("\n")]
    return f"def s{number}(x):\n" + "\n".join("    " + line for line in lines)


def _inputs(rng: np.random.Generator) -> list[list[float]]:
    drawn = [np.round(rng.uniform(-3, 3, size), 2).tolist() for size in (4, 5)]
    return [*drawn, [1.5], [0.0, 0.0, 0.0]]


def _invariant_test(link: Link, number: int, example: list[float]) -> str:
    before = "np.asarray(v, float)" if number == 1 else f"s{number - 1}(v)"
    condition = link.fill(link.operator.invariant)
    return (
        f"v = np.array({example})\nx = {before}\ny = np.asarray(s{number}(v))\nassert {condition}"
    )


def _text(steps: Sequence[CodeStep]) -> str:
    lines = ["Write these Python functions; each takes a one-dimensional numpy array x."]
    for t, step in enumerate(steps, start=1):
        of = "x" if t == 1 else f"the result of s{t - 1}(x)"
        lines.append(f"{t}. {step.name}(x): from {of}, {step.description}.")
    return "\n".join(lines)


def draw_problems(
    rng: np.random.Generator,
    lengths: Sequence[int],
    per_length: int,
    operators: Sequence[Operator] = OPERATORS,
) -> list[tuple[Walk, CodeProblem]]:
    """Draw `per_length` distinct problems of each length; the lengths alternate.

    Raises:
      ValueError: so many distinct problems of a length were not found.
    """
    columns = []
    for length in lengths:
        found: dict[str, tuple[Walk, CodeProblem]] = {}
        for _ in range(200 * per_length):
            if len(found) == per_length:
                break
            walk = draw_walk(rng, length, operators)
            problem = make_problem(walk, rng)
            if problem is not None:
                found.setdefault(problem.id, (walk, problem))
        if len(found) < per_length:
            raise ValueError(f"only {len(found)} of {per_length} problems of {length} steps found")
        columns.append(list(found.values()))
    return [pair for row in zip(*columns, strict=True) for pair in row]

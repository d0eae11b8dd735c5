"""The built-in world: chains of operations modulo a prime, a language small enough for two cores.

A problem is a start value and k operations, `55 - 3 * 2 ?`. Each operation applies a unary map n
times: `+` v+1, `-` v-1, `*` 2v, modulo N. A step of an answer is worked in one of two ways:

    careful   55 - 3 : 54 53 52 ;     every application written out, right whenever its facts are
    mental    55 - 3 = 52 ;           right only with probability `mental_right`

so what RL has to find is a choice between two behaviours that the warm-started model has already.
Around the steps stand low-value ones whose labels are known exactly (`world_labels.py`): `check`
repeats a step, `so 52` restates a value, `wait` takes a step back and does it again.

A mental slip is one application short for `+` and `*` and one too many for `-`: each slip is then
off in the same direction, so that a `+` and a `-` done wrong do not cancel into a right answer.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem, Scaffold, problem_hash

OPERATORS = ("+", "-", "*")
COUNTS = (2, 3)
PARITY = "odd"  # the question whether a value is odd, and the word of the step that answers it


@dataclasses.dataclass(frozen=True)
class Operation:
    """`operator` applied `count` times."""

    operator: str
    count: int

    def __str__(self) -> str:
        return f"{self.operator} {self.count}"


@dataclasses.dataclass(frozen=True)
class Chain:
    """A problem of the world: a start value, then operations from left to right."""

    start: int
    operations: tuple[Operation, ...]
    modulus: int

    @property
    def values(self) -> tuple[int, ...]:
        """The true value after each operation."""
        values, value = [], self.start
        for operation in self.operations:
            value = apply(value, operation, self.modulus)[-1]
            values.append(value)
        return tuple(values)

    def __str__(self) -> str:
        return " ".join([str(self.start), *map(str, self.operations)])


def apply(value: int, operation: Operation, modulus: int) -> list[int]:
    """Return the value after each of the `operation.count` applications."""
    out = []
    for _ in range(operation.count):
        if operation.operator == "*":
            value = 2 * value
        else:
            value = value + 1 if operation.operator == "+" else value - 1
        value %= modulus
        out.append(value)
    return out


def slip(value: int, operation: Operation, modulus: int) -> int:
    """Return the wrong result of a mental step: one `-` too many, or else one application short."""
    count = operation.count + (1 if operation.operator == "-" else -1)
    return apply(value, Operation(operation.operator, count), modulus)[-1]


def parse_chain(text: str, modulus: int) -> Chain:
    """Read `55 - 3 * 2 ?` (the final `?` may be missing).

    Raises:
      ValueError: the text is no chain of this world.
    """
    words = text.replace("?", " ").split()
    pairs = list(zip(words[1::2], words[2::2], strict=False))
    well_formed = (
        len(words) >= 3
        and len(words) % 2 == 1
        and words[0].isdigit()
        and all(o in OPERATORS and n.isdigit() for o, n in pairs)
    )
    if not well_formed:
        raise ValueError(
            f"not a chain of the built-in world: {text!r}; expected a value and then pairs of an "
            f"operator {OPERATORS} and a count, such as '55 - 3 * 2 ?'"
        )
    return Chain(int(words[0]), tuple(Operation(o, int(n)) for o, n in pairs), modulus)


def draw_chains(
    rng: np.random.Generator, lengths: Sequence[int], per_length: int, modulus: int
) -> list[Chain]:
    """Draw `per_length` distinct chains of each length; the lengths alternate in the result.

    Raises:
      ValueError: there are not that many chains of one of the lengths.
    """
    most = modulus * (len(OPERATORS) * len(COUNTS)) ** min(lengths)
    if per_length > most:
        raise ValueError(f"only {most} chains have length {min(lengths)}; asked for {per_length}")
    seen: set[Chain] = set()
    columns = []
    for length in lengths:
        column: list[Chain] = []
        while len(column) < per_length:
            chain = Chain(
                int(rng.integers(modulus)),
                tuple(
                    Operation(OPERATORS[rng.integers(3)], COUNTS[rng.integers(2)])
                    for _ in range(length)
                ),
                modulus,
            )
            if chain not in seen:
                seen.add(chain)
                column.append(chain)
        columns.append(column)
    return [chain for row in zip(*columns, strict=True) for chain in row]


def to_problem(chain: Chain) -> Problem:
    """Write a chain as a problem; its difficulty is its length, "k1" to "k5"."""
    text, answer = f"{chain} ?", str(chain.values[-1])
    return Problem(
        id=problem_hash(text, answer),
        text=text,
        answer=answer,
        source="chains",
        difficulty=f"k{len(chain.operations)}",
        messages=({"role": "user", "content": text},),
    )


def sub_questions(chain: Chain, parity: bool = False) -> list[tuple[str, int]]:
    """Write the sub-questions with their answers: the start value and each operation but the last.

    With `parity`, every result after the first is also asked for its parity, "odd": 1 or 0.
    """
    pairs = []
    for i, (operation, value) in enumerate(zip(chain.operations, chain.values, strict=True)):
        pairs.append((str(operation) if i else f"{chain.start} {operation}", value))
        if parity and i:
            pairs.append((PARITY, value % 2))
    return pairs[: -2 if parity else -1]


def scaffold_prompt(chain: Chain, parity: bool = False) -> str:
    """Write the scaffold prompt: `[SUB] 55 - 3 [SUB] * 2 [MAIN] 55 - 3 * 2 + 3 ?`."""
    subs = "".join(f"[SUB] {question} " for question, _ in sub_questions(chain, parity))
    return f"{subs}[MAIN] {chain} ?"


def to_scaffold(chain: Chain, parity: bool = False) -> Scaffold | None:
    """Write the scaffold of a chain: one sub-question for every operation but the last.

    A chain of one operation has none, and gives None. With `parity` the scaffold has sub-questions
    that can be guessed without the ones before them (`sub_questions`).
    """
    if len(chain.operations) < 2:
        return None
    problem, pairs = to_problem(chain), sub_questions(chain, parity)
    return Scaffold(
        problem_id=problem.id,
        questions=tuple(question for question, _ in pairs),
        answers=tuple(str(answer) for _, answer in pairs),
        main_question=problem.text,
        main_answer=problem.answer,
        messages=({"role": "user", "content": scaffold_prompt(chain, parity)},),
        source=problem.source,
    )

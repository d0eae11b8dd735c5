"""Demonstrations of the built-in world: what the warm start imitates."""

import dataclasses

import numpy as np

from jaxrl_scope.data.world import PARITY, Chain, Operation, apply, slip


@dataclasses.dataclass(frozen=True)
class DemoRates:
    """How often demonstrations do what; every rate is a probability.

    Attributes:
      careful: a step is written out rather than done mentally.
      mental_right: a mental step is right.
      check: a step is followed by a `check` that repeats it (redundant).
      restate: a step is followed by `so VALUE` (mechanical).
      doubt: a right step is followed by a `wait` that redoes it (reversion).
      repair: a wrong mental step is followed by a `wait` that mends it (reversion).
      late: a wrong step that stands is taken back one operation later, and the branch that grew
        from it with it (reversion); on original prompts only.
    """

    careful: float = 0.20
    mental_right: float = 0.15
    check: float = 0.05
    restate: float = 0.05
    doubt: float = 0.0
    repair: float = 0.06
    late: float = 0.0


def write_careful(value: int, operation: Operation, modulus: int) -> str:
    """Write a step with every application, `55 - 3 : 54 53 52`."""
    return f"{value} {operation} : {' '.join(map(str, apply(value, operation, modulus)))}"


def write_step(
    rng: np.random.Generator, value: int, operation: Operation, modulus: int, rates: DemoRates
) -> tuple[list[str], int]:
    """Write one operation and the low-value steps after it; return them with the value reached."""
    right = apply(value, operation, modulus)[-1]
    careful = write_careful(value, operation, modulus)
    if rng.random() < rates.careful:
        steps, reached = [careful], right
    else:
        reached = right if rng.random() < rates.mental_right else slip(value, operation, modulus)
        steps = [f"{value} {operation} = {reached}"]
    if reached != right:
        if rng.random() < rates.repair:
            steps.append(f"wait {careful}")
            reached = right
    elif rng.random() < rates.doubt:
        steps.append(f"wait {careful}")
    if rng.random() < rates.check:
        steps.append(f"check {careful}" if reached == right else f"check {steps[0]}")
    if rng.random() < rates.restate:
        steps.append(f"so {reached}")
    return steps, reached


def write_original(rng: np.random.Generator, chain: Chain, rates: DemoRates) -> str:
    r"""Answer the original prompt: `55 - 3 : 54 53 52 ; 52 * 2 = 25 ; \boxed{ 25 }`."""
    values, words = [chain.start], []
    while len(values) <= len(chain.operations):
        operation = chain.operations[len(values) - 1]
        steps, reached = write_step(rng, values[-1], operation, chain.modulus, rates)
        words += [f"{step} ;" for step in steps]
        mended = _mend_late(rng, chain, values, rates)
        if mended is None:
            values.append(reached)
        else:
            words.append(f"wait {mended} ;")
            values[-1] = int(mended.split()[-1])
    return " ".join([*words, f"\\boxed{{ {values[-1]} }}"])


def _mend_late(
    rng: np.random.Generator, chain: Chain, values: list[int], rates: DemoRates
) -> str | None:
    """Write the operation that led to `values[-1]` again, if it was wrong and that is noticed."""
    if rates.late == 0.0 or len(values) < 2:
        return None
    value, operation = values[-2], chain.operations[len(values) - 2]
    if values[-1] == apply(value, operation, chain.modulus)[-1] or rng.random() >= rates.late:
        return None
    return write_careful(value, operation, chain.modulus)


def write_scaffolded(
    rng: np.random.Generator, chain: Chain, rates: DemoRates, parity: bool = False
) -> str:
    r"""Answer the scaffold prompt: every operation under its label, each result in a box.

    A question for the parity is answered from the value, `odd 52 : 0`, as often as a step is worked
    with care, and else guessed, `odd = 1`.
    """
    value, answers = chain.start, []
    for i, operation in enumerate(chain.operations, start=1):
        steps, value = write_step(rng, value, operation, chain.modulus, rates)
        answers.append((steps, value))
        if parity and 1 < i < len(chain.operations):
            if rng.random() < rates.careful:
                bit = value % 2
                answers.append(([f"{PARITY} {value} : {bit}"], bit))
            else:
                bit = int(rng.integers(2))
                answers.append(([f"{PARITY} = {bit}"], bit))
    words = []
    for i, (steps, value) in enumerate(answers, start=1):
        words.append("[MAIN ANSWER]" if i == len(answers) else f"[SUB-{i} ANSWER]")
        words += [f"{step} ;" for step in steps]
        words.append(f"\\boxed{{ {value} }}")
    return " ".join(words)

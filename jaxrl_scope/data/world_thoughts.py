"""Exact thought labels of the built-in world: what TP-GRPO's judge reads off a trace."""

from collections.abc import Sequence

from jaxrl_scope.data.world import parse_chain
from jaxrl_scope.data.world_walk import Move, Walker, split_units
from jaxrl_scope.grading.extract import final_answer
from jaxrl_scope.grading.judge import Span


def label_thoughts(
    problem: str, response: str, correct: bool, *, modulus: int
) -> tuple[Sequence[Span], Sequence[bool]]:
    """Segment an answer at its semicolons and flag each unit; the final box is the last unit.

    Right answers: a `wait` takes back the work since the step that it does again. From the first
    mistake in that work up to the `wait`, units are bad; a `wait` that doubts sound work makes
    nothing bad, for there is no error that it retracts. A mistake never taken back stays good: the
    trace itself says nothing against it. Wrong answers: a unit is good (matched) if the boxed value
    comes from it, step by step backwards; branches taken back, checks and restatements are not.

    Source: TP-GRPO, Sec. 3.1.1.

    Args:
      problem: text of the problem, `55 - 3 * 2 ?`.
      response: the trace.
      correct: the verifier's verdict on it.
      modulus: N of the world.

    Returns:
      Half-open character spans that partition the response, and a flag for each; the last is True.

    Raises:
      ValueError: the problem is no chain of this world, or the response is empty.
    """
    walker = Walker(parse_chain(problem, modulus))
    spans = split_units(response)
    if not spans:
        raise ValueError("an empty response has no thoughts")
    moves = [walker.move(response[start:end]) for start, end in spans]
    good = _without_retracted(moves) if correct else _used(moves, final_answer(response))
    return spans, [*good[:-1], True]


def _without_retracted(moves: Sequence[Move]) -> list[bool]:
    good = [True] * len(moves)
    for turn, move in enumerate(moves):
        if not move.goes_back:
            continue
        same = [i for i in range(turn) if moves[i].index == move.index]
        taken_back = range(same[-1] if same else turn, turn)
        wrong = [i for i in taken_back if not moves[i].sound]
        for i in range(wrong[0] if wrong else turn, turn):
            good[i] = False
    return good


def _used(moves: Sequence[Move], answer: str | None) -> list[bool]:
    """Follow the boxed value back to the start of the chain, or to where it appears from nowhere.

    Of several units that reach a value the latest stands; what it replaced was taken back.
    """
    good = [False] * len(moves)
    needed, below = (answer or "").strip(), None
    for i in range(len(moves) - 1, -1, -1):
        move = moves[i]
        if move.index is None or str(move.result) != needed:
            continue
        if below is not None and move.index != below - 1:
            continue
        good[i] = True
        needed, below = str(move.value), move.index
        if move.index <= 0:
            break
    return good

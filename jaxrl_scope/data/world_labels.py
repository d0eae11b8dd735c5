"""Exact step labels of the built-in world: what an LLM judge only estimates."""

from collections.abc import Sequence

from jaxrl_scope.data.world import COUNTS, OPERATORS, Chain, Operation, apply, parse_chain
from jaxrl_scope.grading.judge import Span, StepLabel


def label_trace(
    problem: str, response: str, *, modulus: int
) -> tuple[Sequence[Span], Sequence[StepLabel]]:
    """Segment an answer of the world at its semicolons and label each step.

    A plain step is useful if it works the next operation from the value reached and is right, else
    an error. `check` is redundant if it repeats the step before it rightly, `so` mechanical if it
    restates the value reached; either is an error otherwise. `wait` is a reversion, which goes
    before error. The final box belongs to the last step.

    Args:
      problem: text of the problem, `55 - 3 * 2 ?`.
      response: the trace.
      modulus: N of the world.

    Returns:
      Half-open character spans that partition the response, and a label for each.

    Raises:
      ValueError: the problem is no chain of this world.
    """
    chain = parse_chain(problem, modulus)
    spans = split_steps(response)
    walker = _Walker(chain)
    return spans, [walker.label(response[start:end]) for start, end in spans]


def split_steps(response: str) -> list[Span]:
    """Cut after each semicolon and the white space behind it; what follows the last joins it."""
    ends = [i + 1 for i, char in enumerate(response) if char == ";"]
    ends = [_skip_space(response, end) for end in ends]
    if not ends:
        return [(0, len(response))] if response else []
    ends[-1] = len(response)
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


class _Walker:
    """Follows an answer along its chain."""

    def __init__(self, chain: Chain):
        self._modulus = chain.modulus
        self._todo = list(chain.operations)
        self._value = chain.start
        self._last: tuple[int, Operation] | None = None  # what the latest step worked on

    def label(self, text: str) -> StepLabel:
        words = text.split(";")[0].split()
        mark = words[0] if words and words[0] in ("check", "so", "wait") else ""
        words = words[1:] if mark else words
        if mark == "so":
            return StepLabel.MECHANICAL if words == [str(self._value)] else StepLabel.ERROR
        work = _read_work(words, self._modulus)
        if mark == "wait":
            if work is not None:
                self._value = work[2]
            return StepLabel.REVERSION
        if work is None:
            return StepLabel.ERROR
        value, operation, result, is_right = work
        if mark == "check":
            repeats = self._last == (value, operation)
            return StepLabel.REDUNDANT if repeats and is_right else StepLabel.ERROR
        is_next = bool(self._todo) and (value, operation) == (self._value, self._todo[0])
        if self._todo:
            self._todo.pop(0)
        self._last, self._value = (value, operation), result
        return StepLabel.USEFUL if is_next and is_right else StepLabel.ERROR


def _read_work(words: Sequence[str], modulus: int) -> tuple[int, Operation, int, bool] | None:
    """Read `55 - 3 : 54 53 52` or `55 - 3 = 52`: value, operation, result, whether it is right."""
    numbers = [word for i, word in enumerate(words) if i not in (1, 3)]
    if len(words) < 5 or words[3] not in (":", "=") or not all(w.isdigit() for w in numbers):
        return None
    if words[1] not in OPERATORS:
        return None
    value, operation = int(words[0]), Operation(words[1], int(words[2]))
    written = [int(word) for word in words[4:]]
    if operation.count not in COUNTS:
        return value, operation, written[-1], False
    right = apply(value, operation, modulus)
    is_right = written == (right if words[3] == ":" else right[-1:])
    return value, operation, written[-1], is_right

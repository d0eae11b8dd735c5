"""Follows an answer of the built-in world along its chain, unit by unit."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxrl_scope.data.world import COUNTS, OPERATORS, Chain, Operation, apply
from jaxrl_scope.grading.judge import Span, StepLabel


class Move(NamedTuple):
    """What one unit of an answer does.

    Attributes:
      label: its role.
      index: operation of the chain that it works on, from 0; None for a unit that no later one
        builds on (`check`, `so`, words that are no step).
      value: that it starts from; 0 without an index.
      result: that it reaches; 0 without an index.
      sound: it works the right operation from the value reached, and rightly; True without an
        index.
      goes_back: it takes back what stands from the latest unit of the same index on.
    """

    label: StepLabel
    index: int | None = None
    value: int = 0
    result: int = 0
    sound: bool = True
    goes_back: bool = False


def split_units(response: str) -> list[Span]:
    """Cut after each semicolon and the white space behind it; the final box is the last unit."""
    ends = [i + 1 for i, char in enumerate(response) if char == ";"]
    ends = [_skip_space(response, end) for end in ends]
    if not ends or ends[-1] < len(response):
        ends.append(len(response))
    return list(zip([0, *ends[:-1]], ends, strict=True)) if response else []


def _skip_space(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


class Walker:
    """Reads the units of one answer in order."""

    def __init__(self, chain: Chain):
        self._chain = chain
        self._value = chain.start
        self._done: list[tuple[int, Operation]] = []  # value and operation of the works that stand
        self._last: tuple[int, Operation] | None = None  # what the latest step worked on

    def move(self, text: str) -> Move:
        """Read the next unit."""
        words = text.split(";")[0].split()
        mark = words[0] if words and words[0] in ("check", "so", "wait") else ""
        words = words[1:] if mark else words
        if mark == "so":
            restates = words == [str(self._value)]
            return Move(StepLabel.MECHANICAL if restates else StepLabel.ERROR)
        work = _read_work(words, self._chain.modulus)
        if work is None:
            return Move(StepLabel.REVERSION if mark == "wait" else StepLabel.ERROR)
        if mark == "check":
            repeats = self._last == work[:2]
            return Move(StepLabel.REDUNDANT if repeats and work[3] else StepLabel.ERROR)
        return self._go_back(*work) if mark == "wait" else self._go_on(*work)

    def _go_on(self, value: int, operation: Operation, result: int, is_right: bool) -> Move:
        index = len(self._done)
        is_next = self._chain.operations[index : index + 1] == (operation,)
        sound = is_right and is_next and value == self._value
        self._stand(index, value, operation, result)
        label = StepLabel.USEFUL if sound else StepLabel.ERROR
        return Move(label, index, value, result, sound)

    def _go_back(self, value: int, operation: Operation, result: int, is_right: bool) -> Move:
        """Take back the works since the latest one that is done again; else only the latest."""
        if (value, operation) in self._done:
            index = len(self._done) - 1 - self._done[::-1].index((value, operation))
            self._stand(index, value, operation, result)
        else:
            index, is_right, self._value = len(self._done) - 1, False, result
        return Move(StepLabel.REVERSION, index, value, result, is_right, goes_back=True)

    def _stand(self, index: int, value: int, operation: Operation, result: int) -> None:
        self._last = (value, operation)
        self._done[index:] = [self._last]
        self._value = result


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

"""High-precision evaluation, for expressions that exact arithmetic does not settle.

Runs in worker processes only: sizes are bounded, times are not quite. Two values count as equal if
they agree to 90 digits, or if their difference shrinks with the working precision, as that of
sin(pi) and 0 does. No published answer comes near such an agreement by chance.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import mp
from mpmath.libmp import NoConvergence

from jaxrl_scope.grading.equivalence.exact import ATOMIC, InexactError, rational
from jaxrl_scope.grading.equivalence.limits import (
    MAX_MAGNITUDE,
    LimitExceededError,
    UndefinedError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, canonical, walk

_LOW, _HIGH = 50, 110  # decimal digits
_MAX_TRIG_MAGNITUDE = 2000
_MAX_FACTORIAL = 10**5
# Where symbols are drawn from. Small, medium and negative: domains of arcsin, log and roots differ.
_RANGES = ((1, 9), (11, 30), (30, 80), (-9, -1), (-30, -11), (2, 8), (12, 50), (-80, -30))
_MIN_POINTS = 2

_UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": mp.sqrt, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "cot": mp.cot, "sec": mp.sec,
    "csc": mp.csc, "arcsin": mp.asin, "arccos": mp.acos, "arctan": mp.atan, "arccot": mp.acot,
    "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "coth": mp.coth, "arcsinh": mp.asinh,
    "arccosh": mp.acosh, "arctanh": mp.atanh, "ln": mp.log, "log": mp.log, "lg": mp.log10,
    "exp": mp.exp, "abs": abs, "norm": abs, "Re": mp.re, "Im": mp.im, "arg": mp.arg,
}  # fmt: skip
_SCALED = frozenset(["sin", "cos", "tan", "cot", "sec", "csc", "exp", "sinh", "cosh"])
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "pi": lambda: +mp.pi, "e": lambda: +mp.e, "i": lambda: mp.mpc(0, 1),
}  # fmt: skip


class Evaluator:
    """Values of nodes at one point.

    Args:
      point: value per atom (canonical spelling).
      common_log: read `log` without a base as the logarithm to base ten.
      has_i: the expressions are complex; else odd roots of negative numbers are real.
    """

    def __init__(self, point: dict[str, Fraction], *, common_log: bool, has_i: bool) -> None:
        self.point = point
        self.common_log = common_log
        self.has_i = has_i

    def of(self, node: Node) -> Any:
        """Return the value of a node at the current working precision."""
        value = self._of(node)
        if not mp.isfinite(value):
            raise UndefinedError("no finite value")
        if value and mp.mag(value) > MAX_MAGNITUDE:
            raise LimitExceededError("a number that is too large")
        return value

    def _of(self, node: Node) -> Any:
        kind = node.kind
        if kind == "num":
            return _number(node.data.value)
        if kind in ATOMIC:
            return _number(self.point[canonical(node)])
        if kind == "const" and node.data in _CONSTANTS:
            return _CONSTANTS[node.data]()
        args = node.args
        if kind == "add":
            return mp.fsum(map(self.of, args))
        if kind == "mul":
            return mp.fprod(map(self.of, args))
        if kind == "neg":
            return -self.of(args[0])
        if kind == "div":
            bottom = self.of(args[1])
            if _is_zero(bottom):
                raise UndefinedError("a division by zero")
            return self.of(args[0]) / bottom
        if kind == "pow":
            return self.power(*args)
        if kind in ("percent", "deg"):
            return self.of(args[0]) * (mp.mpf(1) / 100 if kind == "percent" else mp.pi / 180)
        if kind == "fn":
            return self.function(node)
        raise UndefinedError(f"no number: {kind}")

    def power(self, base_node: Node, exponent_node: Node) -> Any:
        base, exponent = self.of(base_node), self.of(exponent_node)
        if _is_zero(base):
            if _is_zero(exponent) or mp.re(exponent) <= 0:
                raise UndefinedError("zero to a power that is not positive")
            return mp.mpf(0)
        if abs(exponent) * (abs(mp.mag(base)) + 1) > MAX_MAGNITUDE:
            raise LimitExceededError("a power that is too large")
        if not self.has_i and _is_real(base) and mp.re(base) < 0:
            try:
                fraction = rational(exponent_node)
            except InexactError:
                return mp.power(base, exponent)
            if fraction.denominator % 2:
                sign = -1 if fraction.numerator % 2 else 1
                return sign * mp.power(-mp.re(base), _number(fraction))
        return mp.power(base, exponent)

    def function(self, node: Node) -> Any:
        name = node.data
        args = [self.of(arg) for arg in node.args]
        if name in ("max", "min") and all(map(_is_real, args)):
            return max(map(mp.re, args)) if name == "max" else min(map(mp.re, args))
        if name in ("floor", "ceil") and _is_real(args[0]):
            value = mp.re(args[0])
            nearest = mp.nint(value)
            if abs(value - nearest) < mp.mpf(10) ** (-mp.dps // 2):
                return nearest
            return mp.floor(value) if name == "floor" else mp.ceil(value)
        if name in ("factorial", "factorial2", "binom"):
            if max(map(abs, args)) > _MAX_FACTORIAL:
                raise LimitExceededError("a factorial that is too large")
            function = {"factorial": mp.factorial, "factorial2": mp.fac2, "binom": mp.binomial}
            return function[name](*args)
        if name not in _UNARY or len(args) != 1:
            raise UndefinedError(f"no number: {name}")
        value = args[0]
        if name in _SCALED and value and mp.mag(value) > _MAX_TRIG_MAGNITUDE:
            raise LimitExceededError("an argument that is too large")
        if name in ("ln", "log", "lg") and _is_zero(value):
            raise UndefinedError("the logarithm of zero")
        return mp.log10(value) if name == "log" and self.common_log else _UNARY[name](value)


def _number(value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


def _is_zero(value: Any) -> bool:
    return abs(value) < mp.mpf(10) ** (-mp.dps * 9 // 10)


def _is_real(value: Any) -> bool:
    imaginary = abs(mp.im(value))
    return imaginary == 0 or imaginary < mp.mpf(10) ** (-mp.dps // 2) * abs(value)


def value_of(node: Node) -> Any:
    """Return the real value of a constant, to 50 digits.

    Raises:
      UndefinedError: it has none, or it is not real.
    """
    has_i = any(part.kind == "const" and part.data == "i" for part in walk(node))
    with mp.workdps(_LOW):
        value = _evaluate(Evaluator({}, common_log=False, has_i=has_i), node)
        if not _is_real(value):
            raise UndefinedError("not real")
        return mp.re(value)


def _evaluate(evaluator: Evaluator, node: Node) -> Any:
    try:
        return evaluator.of(node)
    except (ZeroDivisionError, ValueError, OverflowError, KeyError) as error:
        raise UndefinedError(str(error)) from error
    except NoConvergence as error:
        raise LimitExceededError(str(error)) from error


def equal(gold: Node, answer: Node) -> bool:
    """Decide whether two expressions have the same value wherever both are real.

    Raises:
      UndefinedError: one has no value anywhere.
      LimitExceededError: a number on the way is too large.
    """
    parts = [*walk(gold), *walk(answer)]
    names = sorted({canonical(part) for part in parts if part.kind in ATOMIC})
    has_i = any(part.kind == "const" and part.data == "i" for part in parts)
    has_log = any(part.kind == "fn" and part.data == "log" for part in parts)
    # A bare log has no agreed base: what holds for one base only is not accepted.
    return all(
        _equal_everywhere(gold, answer, names, common_log=common_log, has_i=has_i)
        for common_log in ((False, True) if has_log else (False,))
    )


def _equal_everywhere(
    gold: Node, answer: Node, names: list[str], *, common_log: bool, has_i: bool
) -> bool:
    if not names:
        return _agree(gold, answer, Evaluator({}, common_log=common_log, has_i=has_i)) is not False
    verdicts: list[bool | None] = []
    undefined: UndefinedError | None = None
    for index, (low, high) in enumerate(_RANGES):
        draw = random.Random(f"{index}")
        point = {name: Fraction(draw.randrange(low * 1000, high * 1000), 10007) for name in names}
        try:
            verdict = _agree(
                gold, answer, Evaluator(point, common_log=common_log, has_i=has_i), real=not has_i
            )
        except UndefinedError as error:
            undefined = error
            continue
        if verdict is False:
            return False
        verdicts.append(verdict)
    if not verdicts:
        raise undefined or UndefinedError("no value at any point")
    return sum(verdict is True for verdict in verdicts) >= _MIN_POINTS


def _agree(gold: Node, answer: Node, evaluator: Evaluator, *, real: bool = False) -> bool | None:
    """Compare at one point; None where `real` is asked and one value is not."""
    with mp.workdps(_LOW):
        low = _evaluate(evaluator, gold), _evaluate(evaluator, answer)
        if real and not all(map(_is_real, low)):
            return None
        coarse = abs(low[0] - low[1])
        if coarse > mp.mpf(10) ** -30 * max(map(abs, low)) and coarse > mp.mpf(10) ** -30:
            return False
    with mp.workdps(_HIGH):
        high = _evaluate(evaluator, gold), _evaluate(evaluator, answer)
        fine = abs(high[0] - high[1])
        if fine <= mp.mpf(10) ** -90 * max(map(abs, high)):
            return True
        return bool(fine < mp.mpf(10) ** -80 and fine < mp.mpf(10) ** -30 * coarse)

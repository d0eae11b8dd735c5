r"""Constant expressions in normalised text: what numbers a reader finds, and where.

A number is *final* where it is written the way answers are written (`12`, `-3/4`, `2\sqrt{3}`,
`1.5 * 10^{3}`, `50%`) and *unevaluated* where it takes a calculation to see it (`2^{10}`, `5!`,
`3 * 4`).
"""

import dataclasses
import math
import re
from collections.abc import Iterator
from fractions import Fraction

Value = Fraction | float

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+")
_COMMAND = re.compile(r"\\(frac|binom|sqrt|pi)(?![a-zA-Z])")
_START = re.compile(rf"{_NUMBER.pattern}|{_COMMAND.pattern}|\(")
_NEXT_FACTOR = re.compile(r"\\(?:sqrt|pi)(?![a-zA-Z])|\(")
_FRACTION_PART = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_SIGNED_DIGIT = re.compile(r"-?\d")
_SPACE = re.compile(r"\s*")
_MAX_DEPTH = 12
_MAX_FACTORS = 12
_MAX_DIGITS = 400  # of any exact value; powers beyond it are nobody's answer
_MAX_NOTATION = 3  # largest integer that notation is full of: x^2, a_1, 2x, f(3)


@dataclasses.dataclass(frozen=True)
class Found:
    """A number in a text.

    Attributes:
      value: exact where rational, float otherwise.
      is_final: written as answers are written.
      is_notation: a small integer in a place where notation has one (exponent, index, coefficient,
        argument); it states no result.
    """

    value: Value
    is_final: bool
    is_notation: bool = False


def evaluate(expression: str) -> Value | None:
    """The value of a normalised constant expression; None where it is anything else."""
    result = _sum(expression, _skip(expression, 0), 0)
    if result is None or expression[result[1] :].strip():
        return None
    return result[0]


def same_value(a: Value, b: Value) -> bool:
    """Equality, up to rounding where one of them is irrational."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    return math.isclose(_float(a), _float(b), rel_tol=1e-9)


def find_numbers(text: str) -> Iterator[Found]:
    """Yield every number that a normalised text shows, from every place where one may start."""
    for match in _START.finditer(text):
        start = match.start()
        notation = _in_notation(text, start)
        negative = bool(re.search(r"-\s*[({$]*\s*$", text[max(0, start - 6) : start]))
        for value, is_final, kinds, end in _prefixes(text, start):
            if kinds == ["group"]:
                continue  # what stands in it is found by itself
            small = isinstance(value, Fraction) and value.denominator == 1
            small = small and abs(value) <= _MAX_NOTATION
            exempt = small and is_final and (notation or _is_coefficient(text, start, end))
            yield Found(value, is_final, exempt)
            if negative:  # a sign or a subtraction: both readings are open to the reader
                yield Found(-value, is_final, exempt)
        yield from _list_items(text, start)


def _list_items(text: str, start: int) -> Iterator[Found]:
    """A reader may take "1,234" for a list as well as for one number."""
    number = _NUMBER.match(text, start)
    if number and "," in number[0]:
        for item in number[0].split(","):
            yield Found(Fraction(item), True)


def _prefixes(text: str, start: int) -> Iterator[tuple[Value, bool, list[str], int]]:
    """Value, finality, kinds of factors and end of the product here, after each of its factors."""
    first = _power(text, start, 0)
    if first is None:
        return
    value, end, kind = first
    if kind == "power" and (base := _primary(text, start, 0)):
        yield base[0], base[2] != "group", [base[2]], base[1]  # "12!" shows 12 as well
    yield value, kind not in ("power", "group"), [kind], end
    if text[end : end + 1] == "%":
        yield value / 100, True, [kind, "percent"], end + 1
    kinds = [kind]
    for _ in range(_MAX_FACTORS):
        step = _factor(text, end, value, kinds[-1], 0)
        if step is None:
            return
        value, end, kind, operator = step
        kinds.append(kind)
        yield value, _is_final(kinds, operator, text[start:end]), kinds, end


def _is_final(kinds: list[str], operator: str, written: str) -> bool:
    if operator == "mixed" or (operator == "/" and kinds == ["number", "number"]):
        return True
    if "root" in kinds and not {"power", "group"} & set(kinds):
        return len(kinds) <= 3
    return bool(re.fullmatch(r"[\d.,]+\s*\*\s*10\s*\^\s*\{?\s*-?\d+\s*\}?", written))


def _in_notation(text: str, start: int) -> bool:
    """Exponent, index, argument, or glued to a name."""
    before = text[max(0, start - 4) : start]
    return bool(re.search(r"[\^_]\s*\{?-?$|[A-Za-z]\($|(?<![\\A-Za-z])[A-Za-z]$", before))


def _is_coefficient(text: str, start: int, end: int) -> bool:
    number = _NUMBER.fullmatch(text, start, end)
    return bool(number and re.match(r"[A-Za-z(]|\s?\\(?!infty)[a-zA-Z]", text[end : end + 3]))


# The parser: every function reads from `start` and returns what it read and where it ended.


def _skip(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _sum(text: str, start: int, depth: int) -> tuple[Value, int] | None:
    if depth > _MAX_DEPTH:
        return None
    sign = 1
    while text[start : start + 1] in ("-", "+") and start < len(text):
        sign = -sign if text[start] == "-" else sign
        start = _skip(text, start + 1)
    term = _product(text, start, depth)
    if term is None:
        return None
    total, end = sign * term[0], term[1]
    while (position := _skip(text, end)) < len(text) and text[position] in "+-":
        term = _product(text, _skip(text, position + 1), depth)
        if term is None:
            break
        combined = _combine(text[position], total, term[0])
        if combined is None:
            return None
        total, end = combined, term[1]
    return total, end


def _product(text: str, start: int, depth: int) -> tuple[Value, int] | None:
    first = _power(text, start, depth)
    if first is None:
        return None
    value, end, kind = first
    for _ in range(_MAX_FACTORS):
        step = _factor(text, end, value, kind, depth)
        if step is None:
            break
        value, end, kind, _ = step
    return value, end


def _factor(
    text: str, start: int, value: Value, kind: str, depth: int
) -> tuple[Value, int, str, str] | None:
    """Multiply or divide `value` by the next factor, if there is one."""
    position = _skip(text, start)
    operator = text[position : position + 1]
    if operator in ("*", "/") and operator:
        other = _power(text, _skip(text, position + 1), depth)
    elif _NEXT_FACTOR.match(text, position):
        operator, other = "*", _power(text, position, depth)
    else:
        operator, other = "mixed", _mixed_part(text, start, kind, depth)
    if other is None:
        return None
    result = _combine(operator, value, other[0])
    return None if result is None else (result, other[1], other[2], operator)


def _mixed_part(text: str, start: int, kind: str, depth: int) -> tuple[Value, int, str] | None:
    r"""The fraction of `3\frac{1}{2}` or `3 1/2`."""
    position = _skip(text, start)
    if kind != "number":
        return None
    if text.startswith(r"\frac", position):
        return _power(text, position, depth)
    match = _FRACTION_PART.match(text, position)
    if position == start or not match or not int(match[2]):
        return None
    return Fraction(int(match[1]), int(match[2])), match.end(), "number"


def _power(text: str, start: int, depth: int) -> tuple[Value, int, str] | None:
    """A primary with its exponent and factorials. The kind tells how it is written."""
    primary = _primary(text, start, depth)
    if primary is None:
        return None
    value, end, kind = primary
    while True:
        position = _skip(text, end)
        if text[position : position + 1] == "^":
            exponent = _argument(text, position + 1, depth)
            raised = None if exponent is None else _raise(value, exponent[0])
            if exponent is None or raised is None:
                return value, end, kind
            value, end, kind = raised, exponent[1], "power"
        elif text[end : end + 1] == "!" and text[end + 1 : end + 2] != "=" and _is_small(value):
            value, end, kind = Fraction(math.factorial(int(value))), end + 1, "power"
        else:
            return value, end, kind


def _primary(text: str, start: int, depth: int) -> tuple[Value, int, str] | None:
    if depth > _MAX_DEPTH:
        return None
    if number := _NUMBER.match(text, start):
        digits = number[0].replace(",", "")
        if len(digits) > _MAX_DIGITS:
            return None
        return Fraction(digits), number.end(), "number"
    if command := _COMMAND.match(text, start):
        return _command(text, command[1], command.end(), depth)
    closing = {"(": ")", "{": "}"}.get(text[start : start + 1])
    if closing is None:
        return None
    inside = _sum(text, _skip(text, start + 1), depth + 1)
    if inside is None:
        return None
    end = _skip(text, inside[1])
    return (inside[0], end + 1, "group") if text[end : end + 1] == closing else None


def _command(text: str, name: str, start: int, depth: int) -> tuple[Value, int, str] | None:
    if name == "pi":
        return math.pi, start, "root"
    index: tuple[Value, int] | None = (Fraction(2), start)
    if name == "sqrt" and text[_skip(text, start) :].startswith("["):
        position = _skip(text, start)
        index = _sum(text, position + 1, depth + 1)
        if index is None or text[index[1] : index[1] + 1] != "]":
            return None
        index = index[0], index[1] + 1
    first = _argument(text, index[1], depth)
    if first is None:
        return None
    if name == "sqrt":
        root = _raise(first[0], 1 / index[0]) if index[0] else None
        return None if root is None else (root, first[1], "root")
    second = _argument(text, first[1], depth)
    if second is None:
        return None
    if name == "frac":
        value = _combine("/", first[0], second[0])
        kind = "number" if isinstance(value, Fraction) else "root"
        return None if value is None else (value, second[1], kind)
    if not (_is_small(first[0]) and _is_small(second[0])):
        return None
    return Fraction(math.comb(int(first[0]), int(second[0]))), second[1], "power"


def _argument(text: str, start: int, depth: int) -> tuple[Value, int] | None:
    """What TeX takes as an argument: a group, else one token; a sign and a plain number too."""
    start = _skip(text, start)
    if text[start : start + 1] in ("{", "(", "\\"):
        primary = _primary(text, start, depth + 1)
        return None if primary is None else primary[:2]
    match = _SIGNED_DIGIT.match(text, start)
    return None if match is None else (Fraction(match[0]), match.end())


def _is_small(value: Value) -> bool:
    return isinstance(value, Fraction) and value.denominator == 1 and 0 <= value <= 100


def _raise(base: Value, exponent: Value) -> Value | None:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if not base:
            return Fraction(0) if exponent > 0 else None
        if exponent.denominator == 1:
            digits = abs(exponent) * len(str(max(abs(base.numerator), base.denominator)))
            return base ** int(exponent) if digits <= _MAX_DIGITS else None
        exact = _exact_root(base, exponent)
        if exact is not None:
            return exact
    if base < 0:
        return None
    try:
        return _checked(_float(base) ** _float(exponent))
    except OverflowError:
        return None


def _exact_root(base: Fraction, exponent: Fraction) -> Fraction | None:
    r"""`\sqrt{16}` is 4 exactly."""
    if exponent != Fraction(1, 2) or base < 0:
        return None
    root = Fraction(math.isqrt(base.numerator), math.isqrt(base.denominator))
    return root if root * root == base else None


def _combine(operator: str, left: Value, right: Value) -> Value | None:
    """Apply + - * / or "mixed" (a whole and its fraction); None out of range."""
    try:
        if operator in ("+", "mixed"):
            return _checked(left + right)
        if operator == "-":
            return _checked(left - right)
        if operator == "*":
            return _checked(left * right)
        return _checked(left / right) if right else None
    except OverflowError:  # an exact value too large for the float it meets
        return None


def _checked(value: Value) -> Value | None:
    if isinstance(value, Fraction):
        size = max(abs(value.numerator), value.denominator)
        return value if size < 10**_MAX_DIGITS else None
    return value if math.isfinite(value) else None


def _float(value: Value) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf

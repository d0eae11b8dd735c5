"""Numbers and expressions: numerals by their digits, everything else by its value."""

from jaxrl_scope.grading.equivalence.exact import InexactError, rational, residues
from jaxrl_scope.grading.equivalence.limits import NeedsWorkerError, UndefinedError
from jaxrl_scope.grading.equivalence.nodes import Node, canonical, integer, walk
from jaxrl_scope.grading.equivalence.shapes import (
    atoms,
    contains,
    contains_function,
    difference,
    numeral,
    rename,
    split_mark,
    written_value,
)

_MIN_ROUNDED_DIGITS = 3  # 33.3 may be a rounding of 100/3; 0.1 is one tenth
_SYMBOLIC_CONSTANTS = ("oo", "RR", "ZZ", "NN", "QQ", "CC")
_TO_BE_EVALUATED = [
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "arcsin",
    "arccos",
    "arctan",
    "arccot",
    "sinh",
    "cosh",
    "tanh",
    "coth",
    "ln",
    "log",
    "lg",
    "exp",
]
_METRE = Node("sym", (), "m")
_BARE_METRES = (_METRE, *(Node("pow", (_METRE, integer(power))) for power in (2, 3)))
_INTEGRATION_CONSTANTS = ("C", "c", "K", "k")
_NOT_NUMBERS = ("seq", "set", "list", "matrix", "rel", "text", "ratio", "cases")


class ScalarComparator:
    """Compares numbers and expressions.

    Args:
      allow_numeric: evaluate roots and transcendental functions, at a cost that is not bounded
        tightly; for worker processes.
    """

    def __init__(self, *, allow_numeric: bool) -> None:
        self.allow_numeric = allow_numeric

    def order(self, a: Node, b: Node) -> int:
        """Compare two real constants (or two equal expressions): -1, 0 or 1."""
        try:
            left, right = rational(a), rational(b)
        except InexactError:
            if self.same_scalar(a, b):
                return 0
            if not self.allow_numeric:
                raise NeedsWorkerError from None
            from jaxrl_scope.grading.equivalence.numeric import value_of

            left, right = value_of(a), value_of(b)
        return int(left > right) - int(left < right)

    # Scalars.

    def same_scalar(self, gold: Node, answer: Node, *, strict: bool = False) -> bool:
        """Compare numbers and expressions, percent and degree signs read either way."""
        gold, gold_mark = split_mark(gold)
        answer, answer_mark = split_mark(answer)
        pairs = [(gold, answer)]
        if gold_mark and not answer_mark:
            pairs.append((Node(gold_mark, (gold,)), answer))
        elif answer_mark and not gold_mark:
            pairs.append((gold, Node(answer_mark, (answer,))))
        elif gold_mark != answer_mark:
            return False
        if strict and gold_mark == "percent" and not _is_written(answer):
            return False
        return any(self.same_number(*pair, strict=strict and not gold_mark) for pair in pairs)

    def same_number(self, gold: Node, answer: Node, *, strict: bool) -> bool:
        """Apply the rules for integer and decimal gold answers; else compare values."""
        if "based" in (gold.kind, answer.kind):
            return _same_digits(gold, answer)
        written = numeral(gold)
        if written and strict and written[0].denominator == 1:
            answer = _drop_bare_unit(answer)
            if answer.kind == "percent":
                value = written_value(answer.args[0])
                return value is not None and value / 100 == written[0]
            return written_value(answer) == written[0]
        if written and written[1].decimals and written[1].digits >= _MIN_ROUNDED_DIGITS:
            return self.rounds_to(gold, answer, written[1].decimals)
        return self.same_expression(gold, answer)

    def rounds_to(self, gold: Node, answer: Node, decimals: int) -> bool:
        """Accept the decimal itself, an exact value or a longer decimal that rounds to it."""
        if self.same_expression(gold, answer):
            return True
        written = numeral(answer)
        if written and (written[1].decimals or 0) <= decimals and written[1].decimals is not None:
            return False
        if atoms(answer) or contains(answer, *_NOT_NUMBERS):
            return False
        half = Node("div", (integer(1), integer(2 * 10**decimals)))
        try:
            distance = Node("fn", (difference(gold, answer),), "abs")
            return self.order(distance, half) <= 0
        except UndefinedError:
            return False

    def same_expression(self, gold: Node, answer: Node) -> bool:
        """Decide equality of value."""
        if canonical(gold) == canonical(answer):
            return True
        gold, answer = _same_integration_constant(gold, answer)
        if not atoms(answer) <= atoms(gold):  # a free symbol, or an integral left to do
            return False
        if _is_rational(gold) and contains_function(answer, *_TO_BE_EVALUATED):
            return False  # sin 30° for 1/2: still to be evaluated
        if any(_has_symbolic_constant(node) for node in (gold, answer)):
            return canonical(gold) == canonical(answer)
        try:
            return residues(gold) == residues(answer)
        except UndefinedError:
            return False
        except InexactError:
            if not self.allow_numeric:
                raise NeedsWorkerError from None
        from jaxrl_scope.grading.equivalence.numeric import equal

        try:
            return equal(gold, answer)
        except UndefinedError:
            return False


def _is_rational(node: Node) -> bool:
    """Return whether a value is written with numerals and arithmetic only."""
    kinds = ("num", "div", "neg", "add", "mul", "percent", "deg")
    return all(part.kind in kinds for part in walk(node))


def _is_written(node: Node) -> bool:
    """Return whether a number is a numeral or a fraction, with nothing left to work out."""
    return all(part.kind in ("num", "div", "neg", "percent") for part in walk(node))


def _has_symbolic_constant(node: Node) -> bool:
    if node.kind == "const":
        return node.data in _SYMBOLIC_CONSTANTS
    return any(map(_has_symbolic_constant, node.args))


def _same_digits(gold: Node, answer: Node) -> bool:
    """Compare numerals of another base: the digits, and the bases where both are given."""
    spellings = []
    for node in (gold, answer):
        if node.kind == "based":
            spellings.append(node.data)
            continue
        written = numeral(node)
        if not written or written[0].denominator != 1:
            return False
        spellings.append((str(written[0].numerator), None))
    (gold_digits, gold_base), (answer_digits, answer_base) = spellings
    if gold_base and answer_base and gold_base != answer_base:
        return False
    return gold_digits == answer_digits


def _drop_bare_unit(node: Node) -> Node:
    """Read "10m" and "10m^2" as ten of a unit: of bare letters, only m may be one."""
    if node.kind == "mul" and len(node.args) == 2 and node.args[1] in _BARE_METRES:
        return node.args[0]
    return node


def _same_integration_constant(gold: Node, answer: Node) -> tuple[Node, Node]:
    """Rename the constant of an antiderivative, where both sides end in one."""
    found = []
    for node in (gold, answer):
        terms = node.args if node.kind == "add" else ()
        names = [term.data for term in terms if term.kind == "sym"]
        found.append([name for name in names if name in _INTEGRATION_CONSTANTS])
    is_renamed = len(found[0]) == 1 == len(found[1]) and found[0] != found[1]
    if is_renamed and found[0] == ["C"] and canonical(Node("sym", (), "C")) not in atoms(answer):
        return gold, rename(answer, found[1][0], "C")
    return gold, answer

"""Small questions about trees, and small rewrites of them."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from jaxrl_scope.grading.equivalence.exact import ATOMIC
from jaxrl_scope.grading.equivalence.nodes import Node, canonical, integer, walk
from jaxrl_scope.grading.equivalence.units import Unit

INEQUALITIES = frozenset("<>≤≥≠")
_MARKS = ("percent", "deg")
_MAX_SCIENTIFIC = 400


def atoms(node: Node) -> frozenset[str]:
    """Return the canonical spellings of the symbols and opaque parts that a value depends on."""
    found: set[str] = set()
    stack = [node]
    while stack:
        part = stack.pop()
        if part.kind in ATOMIC:
            found.add(canonical(part))
        else:
            stack.extend(part.args)
    return frozenset(found)


def contains(node: Node, *kinds: str) -> bool:
    """Return whether a node of one of these kinds is in the tree."""
    return node.kind in kinds or any(contains(arg, *kinds) for arg in node.args)


def contains_function(node: Node, *names: str) -> bool:
    """Return whether one of these functions is applied in the tree."""
    return any(part.kind == "fn" and part.data in names for part in walk(node))


def rewrite(node: Node, rule: Callable[[Node], Node | None]) -> Node:
    """Replace, from the top, every node for which the rule returns another."""
    replacement = rule(node)
    if replacement is not None:
        return replacement
    return node._replace(args=tuple(rewrite(arg, rule) for arg in node.args))


def difference(left: Node, right: Node) -> Node:
    """Return left - right."""
    return Node("add", (left, Node("neg", (right,))))


def rename(node: Node, old: str, new: str) -> Node:
    """Replace a symbol by another."""
    symbol = Node("sym", (), new)
    return rewrite(node, lambda part: symbol if part == Node("sym", (), old) else None)


def split_unit(node: Node) -> tuple[Node, Unit]:
    """Separate a value from its unit; a degree sign counts as one, radians do not."""
    unit: Unit = ()
    while node.kind == "unit":
        node, unit = node.args[0], node.data
    if node.kind == "deg" and not unit:
        return node, (("degree", 1),)
    return node, () if unit == (("rad", 1),) else unit


def split_mark(node: Node) -> tuple[Node, str | None]:
    """Separate a value from a percent or degree sign after the whole of it."""
    if node.kind in _MARKS:
        return node.args[0], node.kind
    if node.kind == "neg" and node.args[0].kind in _MARKS:
        return Node("neg", node.args[0].args), node.args[0].kind
    return node, None


def numeral(node: Node) -> tuple[Fraction, Any] | None:
    """Return the value and the `Numeral` of a signed written number, None for anything else."""
    sign = 1
    while node.kind == "neg":
        sign, node = -sign, node.args[0]
    return (sign * node.data.value, node.data) if node.kind == "num" else None


def written_value(node: Node) -> Fraction | None:
    """Return the value of a numeral or of scientific notation; None for what must be computed."""
    found = numeral(node)
    if found:
        return found[0]
    if node.kind == "neg":
        value = written_value(node.args[0])
        return None if value is None else -value
    if node.kind == "mul" and len(node.args) == 2 and node.args[1].kind == "pow":
        mantissa, power = numeral(node.args[0]), node.args[1]
        exponent = numeral(power.args[1])
        if not mantissa or not exponent or power.args[0] != integer(10):
            return None
        is_small = exponent[0].denominator == 1 and abs(exponent[0]) <= _MAX_SCIENTIFIC
        if is_small and 1 <= abs(mantissa[0]) < 10:
            return mantissa[0] * Fraction(10) ** int(exponent[0])
    return None


def plus_minus(node: Node) -> tuple[Node, ...]:
    """Return the values of an expression with ±: all signs read the upper way, then the lower."""
    if not contains(node, "pm", "mp"):
        return (node,)

    def resolve(part: Node, upper: bool) -> Node | None:
        if part.kind not in ("pm", "mp"):
            return None
        left, right = (rewrite(arg, lambda inner: resolve(inner, upper)) for arg in part.args)
        is_plus = upper == (part.kind == "pm")
        return Node("add", (left, right)) if is_plus else difference(left, right)

    return tuple(rewrite(node, lambda part, up=up: resolve(part, up)) for up in (True, False))


def as_matrix(node: Node) -> Node | None:
    """Return a matrix with scalar factors multiplied in, None for what is no matrix."""
    if node.kind == "matrix":
        return node
    if node.kind == "neg":
        factors, inner = (integer(-1),), node.args[0]
    elif node.kind == "div":
        factors, inner = (Node("div", (integer(1), node.args[1])),), node.args[0]
    elif node.kind == "mul" and sum(contains(arg, "matrix") for arg in node.args) == 1:
        inner = next(arg for arg in node.args if contains(arg, "matrix"))
        factors = tuple(arg for arg in node.args if arg is not inner)
    else:
        return None
    matrix = as_matrix(inner)
    if matrix is None:
        return None
    rows = (
        Node("row", tuple(Node("mul", (*factors, entry)) for entry in row.args))
        for row in matrix.args
    )
    return Node("matrix", tuple(rows))


def is_name(node: Node) -> bool:
    """Return whether a gold answer's left side only names its right side: x, f(x), |AB|, (p, q)."""
    if node.kind == "sym":
        return True
    if node.kind == "apply":
        return all(arg.kind in ("sym", "num") for arg in node.args)
    if node.kind == "mul":
        return all(_is_capital(arg) for arg in node.args) or _is_function_name(node)
    if node.kind == "fn":
        return node.data in ("abs", "norm") and all(map(is_name, node.args))
    if node.kind == "opaque":
        return node.data == "derivative"
    return node.kind == "seq" and all(arg.kind == "sym" for arg in node.args)


def _is_capital(node: Node) -> bool:
    return node.kind == "sym" and node.data[0].isupper()


def _is_function_name(node: Node) -> bool:
    """Match P(x) and P(2), which read as products."""
    return len(node.args) == 2 and _is_capital(node.args[0]) and node.args[1].kind in ("sym", "num")


def is_label(node: Node) -> bool:
    """Return whether an answer's left side names a quantity: any expression without numbers.

    "m+n = 204" and "cos A = 1/2" state a value; "2x+z = 1" and "x-7 = 0" are equations.
    """
    if is_name(node):
        return True
    return bool(atoms(node)) and not contains(node, "num", "opaque", "rel", "set", "list", "seq")

"""Groups: brackets, braces, sets, bars and environments.

Each function reads one group; its opening token has just been taken from the parser.
"""

from typing import TYPE_CHECKING

from jaxrl_scope.grading.equivalence.lexer import Token
from jaxrl_scope.grading.equivalence.limits import (
    MAX_DEPTH,
    LimitExceededError,
    UnreadableError,
)
from jaxrl_scope.grading.equivalence.nodes import Node

if TYPE_CHECKING:
    from jaxrl_scope.grading.equivalence.parser import Parser

_OPEN_TO_CLOSE = {"(": ")]", "[": ")]", "⟨": "⟩"}
_BUILDER_BARS = ("|", "¦", ":")
_DETERMINANTS = ("vmatrix", "Vmatrix")
_SYSTEMS = ("cases", "dcases", "aligned", "align", "gathered")
_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array")


def _items(parser: "Parser", closers: str | tuple[str, ...]) -> tuple[list[Node], str]:
    """Read comma-separated relations up to a closing token."""
    found: list[Node] = []
    if token := parser.accept(*closers):
        return found, token.kind
    while True:
        if parser.accept("…"):
            found.append(Node("sym", (), "…"))
        else:
            found.append(parser.nested(parser.relation))
        if parser.accept(",", ";"):
            continue
        return found, parser.expect(tuple(closers)).kind


def bracket(parser: "Parser", token: Token) -> Node:
    """Read (a), [a], (a, b], ⟨a, b⟩."""
    found, closer = _items(parser, tuple(_OPEN_TO_CLOSE[token.kind]))
    if not found:
        raise UnreadableError("empty brackets")
    if len(found) == 1 and token.kind != "⟨":
        return found[0]
    return Node("seq", tuple(found), (token.kind, closer))


def braces(parser: "Parser", _: Token) -> Node:
    """Read a group; bare braces around several values are a list."""
    found, _closer = _items(parser, ("}",))
    if not found:
        raise UnreadableError("an empty group")
    return found[0] if len(found) == 1 else Node("list", tuple(found), ",")


def set_braces(parser: "Parser", _: Token) -> Node:
    """Read a set, by its elements or by a condition."""
    start = parser.pos
    variable = parser.accept("sym")
    if variable and parser.accept("∈"):
        parser.accept("const")
    if variable and parser.accept(*_BUILDER_BARS):
        conditions, _closer = _items(parser, ("\\}",))
        return Node("builder", tuple(conditions), variable.text)
    parser.pos = start
    return Node("set", tuple(_items(parser, ("\\}",))[0]))


def bars(parser: "Parser", token: Token) -> Node:
    """Read an absolute value or a norm."""
    parser.open_bars += 1
    parser.depth += 1
    if parser.depth > MAX_DEPTH:
        raise LimitExceededError(f"more than {MAX_DEPTH} nested groups")
    node = parser.sum()
    parser.expect(token.kind)
    parser.open_bars -= 1
    parser.depth -= 1
    return Node("fn", (node,), "abs" if token.kind == "|" else "norm")


def rounding(parser: "Parser", token: Token) -> Node:
    """Read a floor or a ceiling."""
    node = parser.nested(parser.sum)
    parser.expect({"⌊": "⌋", "⌈": "⌉"}[token.kind])
    return Node("fn", (node,), "floor" if token.kind == "⌊" else "ceil")


def environment(parser: "Parser", token: Token) -> Node:
    """Read a matrix or a system."""
    if token.text == "array":
        parser.subscript()  # the columns' alignment
    rows: list[Node] = []
    cells: list[Node] = []
    while parser.next.kind != "end":
        if parser.accept("\\\\"):
            rows, cells = ([*rows, Node("row", tuple(cells))] if cells else rows), []
        elif parser.accept("&"):
            continue
        else:
            cells.append(parser.nested(parser.relation))
            parser.accept(",", ";")
    parser.take()
    rows = [*rows, Node("row", tuple(cells))] if cells else rows
    return _environment(token.text, rows)


def _environment(name: str, rows: list[Node]) -> Node:
    if not rows or len({len(row.args) for row in rows}) != 1:
        raise UnreadableError("a matrix with uneven rows")
    if name in _DETERMINANTS:
        return Node("opaque", tuple(rows), name)
    if name in _SYSTEMS:
        if all(len(row.args) == 1 for row in rows):
            return Node("list", tuple(row.args[0] for row in rows), "and")
        return Node("cases", tuple(rows))
    if name in _MATRICES:
        return Node("matrix", tuple(rows))
    raise UnreadableError(f"unknown environment {name!r}")

"""Sets of real numbers: intervals, unions, solved inequalities, set-builders.

A region is a tree of intervals. Two regions are equal if they hold the same points among all their
ends and the gaps between those, so unions need no normal form.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxrl_scope.grading.equivalence.limits import (
    MAX_ITEMS,
    LimitExceededError,
    UndefinedError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, canonical
from jaxrl_scope.grading.equivalence.shapes import INEQUALITIES, atoms, is_name

Order = Callable[[Node, Node], int]
INFINITY = Node("const", (), "oo")
_MINUS_INFINITY = Node("neg", (INFINITY,))
_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}


class Region(NamedTuple):
    """A set of reals.

    Attributes:
      kind: "interval", or "or", "and", "not" of its parts.
      parts: regions under an operator.
      ends: low and high end of an interval.
      closed: whether each end belongs to it.
    """

    kind: str
    parts: tuple["Region", ...] = ()
    ends: tuple[Node, ...] = ()
    closed: tuple[bool, bool] = (False, False)


_REALS = Region("interval", (), (_MINUS_INFINITY, INFINITY))


def looks_like_region(node: Node) -> bool:
    """Return whether a node is a set of reals whatever it is compared with."""
    if node.kind in ("union", "inter", "minus", "member", "builder"):
        return True
    if node.kind == "rel":
        return bool(INEQUALITIES & set(node.data))
    if node.kind == "list":
        return any(looks_like_region(arg) and arg.kind in ("rel", "member") for arg in node.args)
    if node.kind == "seq":
        return node.data in (("(", "]"), ("[", ")"))
    return node == Node("const", (), "RR") or (
        node.kind == "add" and node.args[0] == Node("const", (), "RR")
    )


def read_region(node: Node) -> tuple[Region, frozenset[str]] | None:
    """Read a node as a region; returns it and the names of its variable, None if it is none."""
    variables: set[str] = set()
    region = _read(node, variables)
    if node.kind == "builder":
        variables.clear()  # bound
    return None if region is None else (region, frozenset(variables))


def _is_variable(node: Node) -> bool:
    """Return whether an inequality in this quantity is solved: x, f(x), AB, but not |x|."""
    return is_name(node) and node.kind not in ("fn", "seq")


def _read(node: Node, variables: set[str]) -> Region | None:
    if node == Node("const", (), "RR"):
        return _REALS
    if node.kind == "seq":
        closed = (node.data[0] == "[", node.data[1] == "]")
        if len(node.args) != 2 or node.data[0] == "⟨":
            return None
        return Region("interval", (), node.args, closed)
    if node.kind == "set":
        return Region("or", tuple(_point(arg) for arg in node.args))
    if node.kind == "rel":
        return _read_inequality(node, variables)
    if node.kind == "member":
        variables.add(canonical(node.args[0]))
        inner = _read(node.args[1], variables)
        return inner and (Region("not", (inner,)) if node.data == "∉" else inner)
    if node.kind == "minus" or (node.kind == "add" and len(node.args) == 2):
        removed = node.args[1]
        if node.kind == "add" and removed.kind != "neg":
            return None
        removed = removed.args[0] if node.kind == "add" else removed
        parts = [_read(node.args[0], variables), _read(removed, variables)]
        if parts[0] is None or parts[1] is None:
            return None
        return Region("and", (parts[0], Region("not", (parts[1],))))
    return _read_combination(node, variables)


def _read_combination(node: Node, variables: set[str]) -> Region | None:
    kind = {"union": "or", "inter": "and", "builder": "and", "list": node.data}.get(node.kind)
    if kind is None:
        return None
    if kind == ",":
        excludes = any(arg.kind == "rel" and "≠" in arg.data for arg in node.args)
        kind = "and" if excludes else "or"
    parts = [_read(arg, variables) for arg in node.args]
    found = tuple(part for part in parts if part is not None)
    return Region(kind, found) if len(found) == len(parts) else None


def _point(node: Node) -> Region:
    return Region("interval", (), (node, node), (True, True))


def _read_inequality(node: Node, variables: set[str]) -> Region | None:
    """Read "x > 2", "2 < x", "1 < x <= 3"; an unsolved inequality is no region."""
    operators = node.data
    if len(node.args) == 2 and not _is_variable(node.args[0]) and _is_variable(node.args[1]):
        node = Node("rel", node.args[::-1], (_FLIPPED.get(operators[0], "="),))
        operators = node.data
    if not set(operators) <= INEQUALITIES:
        return None
    if len(node.args) == 2:
        name, value = node.args
        if not _is_variable(name):
            return None
        variables.add(canonical(name))
        return _half_line(operators[0], value)
    if len(node.args) != 3 or not _is_variable(node.args[1]):
        return None
    low, name, high = node.args
    variables.add(canonical(name))
    return Region("and", (_half_line(_FLIPPED[operators[0]], low), _half_line(operators[1], high)))


def _half_line(operator: str, value: Node) -> Region:
    if operator == "≠":
        return Region("not", (_point(value),))
    if operator in "<≤":
        return Region("interval", (), (_MINUS_INFINITY, value), (False, operator == "≤"))
    return Region("interval", (), (value, INFINITY), (operator == "≥", False))


def _ends(region: Region) -> list[Node]:
    if region.kind == "interval":
        return [end for end in region.ends if not _infinite(end)]
    return [end for part in region.parts for end in _ends(part)]


def _infinite(node: Node) -> int:
    """Return 1 or -1 for an infinite end, 0 for a finite one."""
    return {INFINITY: 1, _MINUS_INFINITY: -1}.get(node, 0)


def same_region(gold: Region, answer: Region, order: Order) -> bool:
    """Decide whether two regions hold the same reals.

    Args:
      gold, answer: regions whose ends are numbers, or expressions in the same symbols.
      order: compares two ends as -1, 0 or 1.

    Raises:
      LimitExceededError: there are too many intervals.
    """
    ends = [*_ends(gold), *_ends(answer)]
    if len(ends) > 2 * MAX_ITEMS:
        raise LimitExceededError(f"{len(ends)} ends of intervals; at most {2 * MAX_ITEMS}")
    if any(atoms(end) for end in ends):
        return _same_pieces(gold, answer, order)
    ranked: list[list[Node]] = []
    for end in sorted(ends, key=functools.cmp_to_key(order)):
        if ranked and order(ranked[-1][0], end) == 0:
            ranked[-1].append(end)
        else:
            ranked.append([end])
    rank = {end: 2 * index + 1 for index, group in enumerate(ranked) for end in group}
    positions = range(2 * len(ranked) + 1)  # even: the gaps; odd: the ends
    return all(_holds(gold, pos, rank) == _holds(answer, pos, rank) for pos in positions)


def _holds(region: Region, position: int, rank: dict[Node, int]) -> bool:
    if region.kind == "interval":
        last = 2 * len(rank) + 2
        low, high = (rank.get(end, last * _infinite(end)) for end in region.ends)
        above = position > low or (position == low and region.closed[0])
        below = position < high or (position == high and region.closed[1])
        return above and below
    if region.kind == "not":
        return not _holds(region.parts[0], position, rank)
    test = any if region.kind == "or" else all
    return test(_holds(part, position, rank) for part in region.parts)


def _same_pieces(gold: Region, answer: Region, order: Order) -> bool:
    """Compare regions with symbolic ends interval by interval."""
    if gold.kind != answer.kind or gold.closed != answer.closed:
        return False
    if gold.kind == "interval":
        return all(
            a == b or (not _infinite(a) and not _infinite(b) and _equal_ends(a, b, order))
            for a, b in zip(gold.ends, answer.ends, strict=True)
        )
    if len(gold.parts) != len(answer.parts):
        return False
    left = list(answer.parts)
    for part in gold.parts:
        match = next((other for other in left if _same_pieces(part, other, order)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _equal_ends(a: Node, b: Node, order: Order) -> bool:
    try:
        return order(a, b) == 0
    except UndefinedError:
        return False

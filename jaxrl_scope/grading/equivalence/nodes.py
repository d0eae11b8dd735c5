"""The tree that an answer is read into.

A node is a kind, its parts and some data. Kinds, with `args` and `data`:

  num        -; Numeral              sym, const  -; name ("pi", "e", "i", "oo", "RR", ...)
  add, mul   terms or factors        div, pow    two parts           neg  one part
  fn         arguments; name         apply       arguments; name of an unknown function
  pm, mp     a and b of "a ± b"      deg, percent  the number before the sign
  unit       the value; unit tuple   based       -; (digits, base)
  ratio      a : b : ...             opaque      parts; name of an operation left unevaluated
  seq        components; brackets    set         elements            list  values; separator
  matrix     rows                    row         entries
  union, inter, minus  sets          builder     condition; bound variable
  rel        sides; operators        member      element, set
  text       -; folded words         cases       rows
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple


class Numeral(NamedTuple):
    """A written number.

    Attributes:
      value: what it denotes, exactly.
      decimals: digits after the point, 0 without a point; None for a repeating decimal.
      digits: significant digits.
      padded: it has leading zeros, as in "033".
    """

    value: Fraction
    decimals: int | None
    digits: int
    padded: bool = False


class Node(NamedTuple):
    """One node of an answer tree; hashable."""

    kind: str
    args: tuple["Node", ...] = ()
    data: Any = None


def integer(value: int) -> Node:
    """Return the node of a plain integer."""
    return Node("num", (), Numeral(Fraction(value), 0, len(str(abs(value)))))


def total(terms: list[Node]) -> Node:
    """Return the sum of terms; a single term is itself."""
    return terms[0] if len(terms) == 1 else Node("add", tuple(terms))


def product(factors: list[Node]) -> Node:
    """Return the product of factors; a single factor is itself."""
    return factors[0] if len(factors) == 1 else Node("mul", tuple(factors))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes under it."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.args)


def canonical(node: Node) -> str:
    """Return a spelling that is the same for trees that differ in order of terms only."""
    parts = [canonical(arg) for arg in node.args]
    if node.kind == "num":
        return str(node.data.value)
    if node.kind in ("add", "mul"):
        flat = [arg for arg in node.args if arg.kind != node.kind]
        nested = [part for arg in node.args if arg.kind == node.kind for part in arg.args]
        parts = sorted(canonical(arg) for arg in (*flat, *nested))
    elif node.kind in ("set", "union", "inter"):
        parts.sort()
    return f"{node.kind}:{node.data}({','.join(parts)})"


def symbols(node: Node) -> frozenset[str]:
    """Return the names of the free symbols and unknown functions of a tree."""
    return frozenset(part.data for part in walk(node) if part.kind in ("sym", "apply"))

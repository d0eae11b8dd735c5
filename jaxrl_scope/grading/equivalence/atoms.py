"""Operands: numerals, letters, functions, fractions, roots, big operators.

Each function reads one operand; its first token has just been taken from the parser.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from jaxrl_scope.grading.equivalence import groups
from jaxrl_scope.grading.equivalence.lexer import Token
from jaxrl_scope.grading.equivalence.limits import UnreadableError
from jaxrl_scope.grading.equivalence.nodes import Node, Numeral, canonical, integer, product

if TYPE_CHECKING:
    from jaxrl_scope.grading.equivalence.parser import Parser

_APPLIED = ("f", "g", "\\Gamma", "\\zeta")  # letters that are functions before a bracket
_INVERSES = {
    "sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sinh": "arcsinh",
    "cosh": "arccosh", "tanh": "arctanh",
}  # fmt: skip
_MINUS_ONE = (Node("neg", (integer(1),)), integer(-1))
_DIFFERENTIALS = (Node("sym", (), "d"), Node("sym", (), "\\partial"))


def number(parser: "Parser", token: Token) -> Node:
    """Read a numeral, a mixed number ("1 1/2") or a numeral with its base ("204_5")."""
    numeral = token.numeral
    assert numeral is not None
    if parser.accept("_"):
        return Node("based", (), (token.text.lstrip("0"), parser.subscript()))
    if numeral.decimals == 0 and not numeral.padded and (part := _mixed_part(parser)):
        return Node("num", (), Numeral(numeral.value + part, None, 0))
    return Node("num", (), numeral)


def _mixed_part(parser: "Parser") -> Fraction | None:
    r"""Read the proper fraction that makes a mixed number of the integer before it."""
    start = parser.pos
    if parser.accept("frac"):
        parts = [_digits_argument(parser), _digits_argument(parser)]
    else:
        first, slash, second = (parser.take() for _ in range(3))
        parts = [first, second] if slash.kind == "/" else [None, None]
    values = [part.numeral.value for part in parts if part and part.numeral]
    are_integers = len(values) == 2 and all(value.denominator == 1 for value in values)
    if are_integers and 0 < values[0] < values[1]:
        return values[0] / values[1]
    parser.pos = start
    return None


def _digits_argument(parser: "Parser") -> Token | None:
    """Read an argument that is one plain numeral; None if it is not."""
    if parser.accept("{"):
        token = parser.accept("num")
        return token if token and parser.accept("}") else None
    return parser.accept("num") and parser.split_digit()


def symbol(parser: "Parser", token: Token) -> Node:
    """Read a letter with its index; f, g and known functions take a bracket as argument."""
    name = token.text
    if parser.accept("_"):
        name += "_" + parser.subscript()
    return applied(parser, Node(token.kind, (), name))


def applied(parser: "Parser", head: Node) -> Node:
    """Read the bracket after a function letter."""
    is_function = head.data.startswith(_APPLIED) or head.data.endswith("'")
    start = parser.pos
    name = head.data
    if is_function and parser.accept("^"):
        exponent = parser.exponent() if parser.next.kind != "-" else integer(0)
        name += f"^{canonical(exponent)}"
    if is_function and parser.next.kind == "(":
        argument = parser.atom()
        parts = argument.args if argument.kind == "seq" else (argument,)
        return Node("apply", parts, name)
    parser.pos = start
    return head


def function(parser: "Parser", token: Token) -> Node:
    r"""Read a known function: `\sin^2 x`, `\log_2 3`, `\sin^{-1} x`, `max(a, b)`."""
    name, exponent, base = token.text, None, None
    while parser.next.kind in ("^", "_"):
        if parser.take().kind == "^":
            negative = parser.accept("-")
            exponent = parser.exponent()
            exponent = Node("neg", (exponent,)) if negative else exponent
        else:
            base = parser.argument()
    arguments = _function_arguments(parser)
    if base is not None and name != "log":
        node = Node("opaque", (base, *arguments), name)
    elif base is not None:
        logs = [Node("fn", (part,), "ln") for part in (*arguments, base)]
        if len(logs) != 2:
            raise UnreadableError("a logarithm of several arguments")
        node = Node("div", (logs[0], logs[1]))
    elif exponent in _MINUS_ONE and name in _INVERSES:
        return Node("fn", arguments, _INVERSES[name])
    else:
        node = Node("fn", arguments, name)
    return node if exponent is None else Node("pow", (node, exponent))


def _function_arguments(parser: "Parser") -> tuple[Node, ...]:
    """Read a bracket, or the product that follows up to an operator or another function."""
    if parser.next.kind in ("(", "{", "[", "\\{"):
        node = parser.atom()
        return node.args if node.kind in ("seq", "set") else (node,)
    if parser.next.kind == "-":
        parser.take()
        return (Node("neg", (parser.power(),)),)
    factors = [parser.power()]
    while parser.starts_atom() and parser.next.kind not in ("fn", "(", "[", "big"):
        factors.append(parser.juxtaposed())
    return (product(factors),)


def fraction(parser: "Parser", _: Token) -> Node:
    """Read a fraction; d/dx before something is a derivative."""
    top, bottom = parser.argument(), parser.argument()
    if _is_differential(bottom) and _is_differential(top, bare=True):
        body = (parser.term(),) if parser.starts_atom() else ()
        return Node("opaque", (top, bottom, *body), "derivative")
    return Node("div", (top, bottom))


def root(parser: "Parser", _: Token) -> Node:
    r"""Read `\sqrt[n]{x}`, and the malformed but clear `\sqrt(x)`."""
    index = None
    if parser.accept("["):
        index = parser.nested(parser.relation)
        parser.expect("]")
    inside = parser.atom() if parser.next.kind == "(" else parser.argument()
    if index is None:
        return Node("fn", (inside,), "sqrt")
    return Node("pow", (inside, Node("div", (integer(1), index))))


def binomial(parser: "Parser", _: Token) -> Node:
    """Read a binomial coefficient."""
    return Node("fn", (parser.argument(), parser.argument()), "binom")


def styled(parser: "Parser", token: Token) -> Node:
    """Read an accented letter or a letter run under a line; accents of vectors are one."""
    mark = "vec" if token.kind == "style" else token.kind
    if token.kind == "angle":
        letters = []
        while parser.next.kind in ("sym", "const"):
            letters.append(parser.take().text)
        return Node("sym", (), f"angle {''.join(letters)}")
    inner = parser.argument()
    text = inner.data if inner.kind in ("sym", "const") else canonical(inner)
    return Node("sym", (), f"{mark} {text}")


def big_operator(parser: "Parser", token: Token) -> Node:
    """Read a sum, integral, limit...: it stays unevaluated."""
    limits: dict[str, Node] = {}
    while parser.next.kind in ("_", "^"):
        side = parser.take().kind
        limits[side] = parser.atom() if parser.next.kind == "{" else parser.argument()
    parts = [limits[side] for side in ("_", "^") if side in limits]
    return Node("opaque", (*parts, parser.term()), token.text)


def _is_differential(node: Node, *, bare: bool = False) -> bool:
    """Match d x (with `bare` also d and d^n), and the same with ∂."""
    if node.kind == "pow" and bare:
        node = node.args[0]
    if node.kind == "mul" and node.args[0] in _DIFFERENTIALS:
        return True
    return bare and node in _DIFFERENTIALS


ATOMS: dict[str, Callable[["Parser", Token], Node]] = {
    "num": number, "sym": symbol, "const": symbol, "fn": function, "frac": fraction, "sqrt": root,
    "binom": binomial, "overline": styled, "style": styled, "angle": styled, "big": big_operator,
    "begin": groups.environment, "(": groups.bracket, "[": groups.bracket, "⟨": groups.bracket,
    "{": groups.braces, "\\{": groups.set_braces, "|": groups.bars, "‖": groups.bars,
    "⌊": groups.rounding, "⌈": groups.rounding, "∅": lambda _parser, _token: Node("set"),
}  # fmt: skip

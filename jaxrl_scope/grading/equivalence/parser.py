r"""Tokens to a tree: a recursive-descent parser for what one answer may be.

    relation := sets (REL sets)*              sets := ratio ((∪ | ∩ | ∖) ratio)*
    ratio    := sum (":" sum)*                sum  := [sign] term ((+ | - | ± | ∓) [sign] term)*
    term     := factor ((* | / | nothing) factor)*     nothing: not before a plain numeral
    factor   := sign factor | atom (^ arg | ! | ' | % | °)*

TeX's rule for arguments holds: `\frac12` is 1/2, and `\sqrt13`, which TeX prints as √1·3, is
refused. Only in text without any command does a power take the whole numeral, as in "2^10".
"""

from jaxrl_scope.grading.equivalence.atoms import ATOMS, applied
from jaxrl_scope.grading.equivalence.cursor import END, Cursor
from jaxrl_scope.grading.equivalence.lexer import Token
from jaxrl_scope.grading.equivalence.limits import UnreadableError
from jaxrl_scope.grading.equivalence.nodes import Node, canonical, integer, product, total

_ADDITIVE = ("+", "-", "±", "∓")
_SET_OPERATORS = {"∪": "union", "∩": "inter", "∖": "minus"}
# What may stand beside another factor; a bar may only where none is open.
_STARTS_ATOM = frozenset(ATOMS) - {"|"}


def parse(tokens: list[Token], *, is_latex: bool) -> Node:
    """Read all tokens as one value, set, or relation.

    Args:
      tokens: without words; see `tokenize`.
      is_latex: the text holds commands, so that TeX's rule for arguments applies to powers.

    Raises:
      UnreadableError: the tokens are no sentence of the grammar.
      LimitExceededError: groups are nested too deeply.
    """
    parser = Parser([token for token in tokens if token.kind != "hidden"], is_latex=is_latex)
    node = parser.relation()
    if parser.next.kind != END.kind:
        raise UnreadableError(f"unexpected {parser.next.text!r}")
    _check_padding(node)
    return node


def _check_padding(node: Node) -> None:
    """Leading zeros are for whole numerals ("033", "12:05"), not for parts of expressions."""
    inner = node
    while inner.kind in ("neg", "deg", "percent", "unit") or (
        inner.kind == "rel" and inner.args[-1].kind in ("num", "neg")
    ):
        inner = inner.args[-1]
    if inner.kind == "ratio" or inner.kind == "num":
        return
    stack = [inner]
    while stack:
        part = stack.pop()
        if part.kind == "num" and part.data.padded:
            raise UnreadableError("a numeral with leading zeros inside an expression")
        stack.extend(part.args)


class Parser(Cursor):
    """One pass over one list of tokens; a method per rule, from the loosest to the tightest."""

    def relation(self) -> Node:
        """Read a chain of relations, or what stands alone."""
        sides, operators = [self.sets()], []
        while self.next.kind in ("rel", "not", "∈"):
            negated = self.accept("not")
            token = self.expect(("rel", "∈"))
            operator = token.text
            if negated:
                if operator not in ("=", "∈"):
                    raise UnreadableError(f"negated {operator}")
                operator = {"=": "≠", "∈": "∉"}[operator]
            operators.append(operator)
            sides.append(self.sets())
        if not operators:
            return sides[0]
        if operators[-1] in ("∈", "∉") and len(sides) == 2:
            return Node("member", tuple(sides), operators[0])
        return Node("rel", tuple(sides), tuple(operators))

    def sets(self) -> Node:
        """Read a union, intersection or difference."""
        node = self.ratio()
        while self.next.kind in _SET_OPERATORS:
            kind = _SET_OPERATORS[self.take().kind]
            node = Node(kind, (node, self.ratio()))
        return node

    def ratio(self) -> Node:
        """Read a : b : ..., or a sum."""
        parts = [self.sum()]
        while self.next.kind == ":":
            self.take()
            parts.append(self.sum())
        return parts[0] if len(parts) == 1 else Node("ratio", tuple(parts))

    def sum(self) -> Node:
        """Read a sum; "a ± b" gives a pm node."""
        node = self.term()
        terms = [node]
        while self.next.kind in _ADDITIVE or self.next.kind in ("mod", "pmod"):
            operator = self.take().kind
            if operator in ("mod", "pmod"):
                left = total(terms)
                right = self.argument() if operator == "pmod" else self.term()
                terms = [Node("opaque", (left, right), operator)]
                continue
            term = self.term()
            if operator in "±∓":
                kind = "pm" if operator == "±" else "mp"
                terms = [Node(kind, (total(terms), term))]
            else:
                terms.append(Node("neg", (term,)) if operator == "-" else term)
        return total(terms)

    def term(self) -> Node:
        """Read a product; juxtaposition multiplies, except two numerals."""
        node = self.factor()
        factors = [node]
        while True:
            if self.accept("*"):
                factors.append(self.factor())
            elif self.accept("/"):
                divisor = self.factor()
                factors = [Node("div", (product(factors), divisor))]
            elif self.starts_atom():
                factors.append(self.juxtaposed())
            else:
                return product(factors)

    def juxtaposed(self) -> Node:
        """Read a factor that no sign precedes: a numeral there needs a power, as in "2^6 3^5"."""
        is_numeral = self.next.kind == "num"
        node = self.power()
        if is_numeral and node.kind == "num":
            raise UnreadableError("a numeral right after another factor")
        return node

    def starts_atom(self) -> bool:
        """Return whether juxtaposition goes on."""
        return self.next.kind in _STARTS_ATOM or (self.next.kind == "|" and not self.open_bars)

    def factor(self) -> Node:
        """Read a signed power."""
        signs = 0
        while self.next.kind in _ADDITIVE:
            signs += 1
            if signs > 4:
                raise UnreadableError("a row of signs")
            operator = self.take().kind
            if operator == "+":
                continue
            # A leading minus binds looser than a product, so it takes the whole power here only.
            inner = self.factor()
            if operator == "-":
                return Node("neg", (inner,))
            return Node("pm" if operator == "±" else "mp", (integer(0), inner))
        return self.power()

    def power(self) -> Node:
        """Read an atom with its exponents, factorials, primes and signs of degree or percent."""
        node = self.atom()
        while True:
            if self.accept("^"):
                node = self.raised(node)
            elif token := self.accept("!", "!!"):
                node = Node("fn", (node,), "factorial" if token.kind == "!" else "factorial2")
            elif self.accept("'"):
                node = Node("sym", (), canonical(node) + "'")
                node = applied(self, node)
            elif self.accept("%"):
                if node.kind == "percent":
                    raise UnreadableError("two percent signs")
                node = Node("percent", (node,))
            elif self.accept("°"):
                node = self.degrees(node)
            else:
                return node

    def raised(self, base: Node) -> Node:
        r"""Read an exponent; `^\\circ` and the transpose are not powers."""
        start = self.pos
        braced = bool(self.accept("{"))
        if self.accept("∘", "°") and (not braced or self.accept("}")):
            return self.degrees(base)
        self.pos = start
        if self.accept("'"):
            return Node("sym", (), canonical(base) + "'")
        if self.accept("transpose"):
            exponent = Node("sym", (), "T")
        elif self.next.kind == "-":
            self.take()
            exponent = Node("neg", (self.exponent(),))
        else:
            exponent = self.exponent()
        if base.kind == "matrix" and exponent == Node("sym", (), "T"):
            columns = zip(*(row.args for row in base.args), strict=True)
            return Node("matrix", tuple(Node("row", column) for column in columns))
        return Node("pow", (base, exponent))

    def exponent(self) -> Node:
        """Read one exponent; in plain text "2^3^4" is 2^(3^4) and "2^10" is one numeral."""
        if self.is_latex:
            return self.argument()
        node = self.atom()
        if self.accept("^"):
            return Node("pow", (node, self.exponent()))
        return node

    def degrees(self, value: Node) -> Node:
        """Wrap a number before a degree sign; "°C" is a unit of its own."""
        for letter, name in (("C", "degC"), ("F", "degF")):
            if self.next.text == letter:
                self.take()
                return Node("unit", (value,), ((name, 1),))
        return Node("deg", (value,))

    def atom(self) -> Node:
        """Read one operand."""
        token = self.take()
        reader = ATOMS.get(token.kind)
        if reader is None:
            raise UnreadableError(f"unexpected {token.text!r}")
        return reader(self, token)

    def argument(self) -> Node:
        """Read the argument of a command: a group, or one token."""
        if self.next.kind == "num":
            self.take()
            token = self.split_digit()
            return Node("num", (), token.numeral)
        if self.next.kind in ("(", "[", "|"):
            raise UnreadableError("a command without its argument")
        if self.next.kind in ("sym", "const"):
            token = self.take()
            return Node(token.kind, (), token.text)
        return self.atom()

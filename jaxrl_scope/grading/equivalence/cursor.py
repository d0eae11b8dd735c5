"""Reading a list of tokens from left to right."""

from collections.abc import Callable
from fractions import Fraction

from jaxrl_scope.grading.equivalence.lexer import Token
from jaxrl_scope.grading.equivalence.limits import (
    MAX_DEPTH,
    LimitExceededError,
    UnreadableError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, Numeral

END = Token("end of text", "")


class Cursor:
    """A place in a list of tokens.

    Args:
      tokens: what is read.
      is_latex: the text holds commands, so that TeX's rule for arguments applies to powers.
    """

    def __init__(self, tokens: list[Token], *, is_latex: bool) -> None:
        self.tokens = tokens
        self.pos = 0
        self.is_latex = is_latex
        self.depth = 0
        self.open_bars = 0

    @property
    def next(self) -> Token:
        """The token to be read, an end mark after the last."""
        return self.tokens[self.pos] if self.pos < len(self.tokens) else END

    def take(self) -> Token:
        """Consume one token."""
        token = self.next
        self.pos += 1
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Consume the next token if it is of one of these kinds."""
        return self.take() if self.next.kind in kinds else None

    def expect(self, kinds: str | tuple[str, ...]) -> Token:
        """Consume the next token, which must be of one of these kinds."""
        token = self.take()
        if token.kind not in kinds:
            raise UnreadableError(f"expected {kinds!r}, found {token.text!r}")
        return token

    def nested(self, rule: Callable[[], Node]) -> Node:
        """Apply a rule inside a group: bars opened outside cannot close there."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitExceededError(f"more than {MAX_DEPTH} nested groups")
        bars, self.open_bars = self.open_bars, 0
        node = rule()
        self.open_bars = bars
        self.depth -= 1
        return node

    def split_digit(self) -> Token:
        """Give back all but the first digit of the numeral just read: TeX's argument."""
        token = self.tokens[self.pos - 1]
        if len(token.text) == 1 or not token.text.isdigit():
            return token
        self.pos -= 1
        head, rest = token.text[0], token.text[1:]
        rest_numeral = Numeral(Fraction(int(rest)), 0, len(rest), len(rest) > 1 and rest[0] == "0")
        head_numeral = Numeral(Fraction(int(head)), 0, 1)
        pieces = [Token("num", head, head_numeral), Token("num", rest, rest_numeral)]
        self.tokens = [*self.tokens[: self.pos], *pieces, *self.tokens[self.pos + 1 :]]
        return self.take()

    def subscript(self) -> str:
        """Read an index, as its spelling."""
        if not self.accept("{"):
            if self.next.kind == "num":
                self.take()
                return self.split_digit().text
            return self.take().text
        parts, depth = [], 1
        while depth:
            token = self.take()
            if token is END:
                raise UnreadableError("an index that does not close")
            depth += {"{": 1, "}": -1}.get(token.kind, 0)
            if depth:
                parts.append(token.text)
        return "".join(parts)

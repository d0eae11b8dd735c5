r"""An answer text to its tree: lists, leading phrases, units, remarks and plain words.

What the parser reads is mathematics; what stands around it is read here:

    \text{Yes, } 4      \text{The area is } 12 \text{ cm}^2      x=1 \text{ or } x=2
    \frac{737}{39} \text{ (about 18.9)}      1.5 \text{ million}      \$15,000
"""

import functools
import itertools
import re
from typing import NamedTuple

from jaxrl_scope.grading.equivalence import vocabulary
from jaxrl_scope.grading.equivalence.lexer import Token, tokenize
from jaxrl_scope.grading.equivalence.limits import (
    MAX_CHARS,
    MAX_ITEMS,
    LimitExceededError,
    UnreadableError,
)
from jaxrl_scope.grading.equivalence.nodes import Node, integer
from jaxrl_scope.grading.equivalence.normalize import normalize
from jaxrl_scope.grading.equivalence.parser import parse
from jaxrl_scope.grading.equivalence.units import read_unit

_NO_UNITS = vocabulary.NEGATIONS | vocabulary.SCALES.keys() | vocabulary.NOT_UNITS
_OPENERS = frozenset(["(", "[", "{", "\\{", "⟨", "⌊", "⌈", "begin"])
_CLOSERS = frozenset([")", "]", "}", "\\}", "⟩", "⌋", "⌉", "end"])
_SEPARATORS = frozenset([",", ";", "and", "or"])
_TEMPERATURES = {"c": "degC", "degC": "degC", "f": "degF", "degF": "degF"}
_PHRASES = {
    "all real numbers": Node("const", (), "RR"), "all reals": Node("const", (), "RR"),
    "real numbers": Node("const", (), "RR"), "all integers": Node("const", (), "ZZ"),
    "empty set": Node("set"),
}  # fmt: skip
_BASED = re.compile(
    r"\{?\(?(?P<digits>(?=[0-9A-Za-z]*[0-9])[0-9A-Fa-f]+)\)?\s*_\s*"
    r"(?:\{\s*\(?(?:\\(?:text|mathrm)\s*\{\s*(?P<word>[a-z]+)\s*\}|(?P<base>\d{1,2}))\)?\s*\}"
    r"|\\text\s*\{\s*(?P<word2>[a-z]+)\s*\}|(?P<base2>\d))\}?"
)


class Answer(NamedTuple):
    r"""What an answer text was read as.

    Attributes:
      node: its tree.
      text: the normalised text.
      has_hidden: it holds a \phantom, whose content is not printed.
    """

    node: Node
    text: str
    has_hidden: bool


def read(raw: str, *, prose: bool = False) -> Answer:
    """Read an answer.

    Args:
      raw: the text of a box, or a gold answer.
      prose: read letters as words, as for comparison with a gold answer that is text.

    Raises:
      UnreadableError: it is no answer.
      LimitExceededError: it is too long, too deep, or holds too many values.
    """
    if len(raw) > MAX_CHARS:
        raise LimitExceededError(f"an answer of {len(raw)} characters; at most {MAX_CHARS}")
    text = normalize(raw)
    if based := _BASED.fullmatch(text):
        return Answer(_read_based(based), text, has_hidden=False)
    tokens = tokenize(text, prose=prose)
    has_hidden = any(token.kind == "hidden" for token in tokens)
    reader = _Reader(is_latex="\\" in raw)
    node = reader.read_all(_unwrap([token for token in tokens if token.kind != "hidden"]))
    return Answer(node, text, has_hidden)


@functools.lru_cache(maxsize=4096)
def read_gold(raw: str) -> Answer:
    """Read a gold answer; the same as `read`, and cached, since a group shares its gold."""
    return read(raw)


def _read_based(match: re.Match[str]) -> Node:
    word = match["word"] or match["word2"]
    if word and word not in vocabulary.DIGIT_WORDS:
        raise UnreadableError(f"unknown base {word!r}")
    base = str(vocabulary.DIGIT_WORDS.index(word)) if word else match["base"] or match["base2"]
    return Node("based", (), (match["digits"].upper().lstrip("0"), base))


def _unwrap(tokens: list[Token]) -> list[Token]:
    """Drop braces around the whole."""
    while len(tokens) > 2 and tokens[0].kind == "{" and tokens[-1].kind == "}":
        depths = itertools.accumulate({"{": 1, "}": -1}.get(token.kind, 0) for token in tokens)
        if 0 in list(depths)[:-1]:
            break
        tokens = tokens[1:-1]
    return tokens


def _split(tokens: list[Token]) -> tuple[list[list[Token]], list[str]]:
    """Cut at separators outside all groups; returns the parts and what separates them."""
    parts: list[list[Token]] = [[]]
    separators: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token.kind in _OPENERS) - (token.kind in _CLOSERS)
        if depth == 0 and token.kind in _SEPARATORS:
            is_joined = bool(separators) and not parts[-1] and separators[-1] == ","
            if is_joined and token.kind in ("and", "or"):
                separators[-1] = token.kind  # "1, 2, and 3"
                continue
            separators.append(token.kind)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, separators


class _Reader:
    def __init__(self, *, is_latex: bool) -> None:
        self.is_latex = is_latex

    def read_all(self, tokens: list[Token]) -> Node:
        """Read a list of items, or the single one."""
        if not tokens:
            raise UnreadableError("an empty answer")
        parts, separators = _split(_drop_quantifier(tokens))
        if len(parts) == 2 and separators == [","] and _words(parts[0]) in vocabulary.ASSENT:
            parts, separators = parts[1:], []
        if len(parts) > MAX_ITEMS:
            raise LimitExceededError(f"{len(parts)} values; at most {MAX_ITEMS}")
        if len(parts) == 1:
            return self.item(parts[0])
        if any(not part for part in parts):
            raise UnreadableError("an empty item in a list")
        kinds = set(separators)
        kind = "or" if "or" in kinds else "and" if "and" in kinds else ","
        return Node("list", tuple(self.item(part) for part in parts), kind)

    def item(self, tokens: list[Token]) -> Node:
        """Read one value with the words around it."""
        if [token.kind for token in tokens] == ["…"]:
            return Node("sym", (), "…")
        if tokens and tokens[0].kind in vocabulary.CURRENCIES:
            unit = ((vocabulary.CURRENCIES[tokens[0].kind], 1),)
            tokens = tokens[:-1] if tokens[-1].kind == tokens[0].kind else tokens
            return Node("unit", (self.item(tokens[1:]),), unit)
        if tokens and tokens[-1].kind in vocabulary.CURRENCIES:
            unit = ((vocabulary.CURRENCIES[tokens[-1].kind], 1),)
            return Node("unit", (self.item(tokens[:-1]),), unit)
        if len(tokens) > 2 and tokens[0].kind in "-+" and tokens[1].kind in vocabulary.CURRENCIES:
            return self.item([tokens[1], tokens[0], *tokens[2:]])
        if all(token.kind not in ("word", "and", "or") for token in tokens):
            return parse(tokens, is_latex=self.is_latex)
        phrase = _PHRASES.get(_words(tokens))
        if phrase is not None:
            return phrase
        tokens = _drop_remark(tokens)
        lead = _leading_phrase(tokens)
        if lead == len(tokens):
            return _text(tokens)
        name, tokens = tokens[:lead], tokens[lead:]
        start = _unit_start(tokens)
        try:
            if start is None:
                value = parse(tokens, is_latex=self.is_latex)
            else:
                value = self.with_unit(tokens[:start], tokens[start:])
        except UnreadableError:
            return _text([*name, *tokens])
        return value

    def with_unit(self, tokens: list[Token], unit_tokens: list[Token]) -> Node:
        """Read a value followed by words; scale words multiply it."""
        if not tokens:
            raise UnreadableError("words before a value")
        value = parse(tokens, is_latex=self.is_latex)
        following = [token.text.lower() for token in unit_tokens if token.kind == "word"]
        if following and following[0] in vocabulary.SCALES:
            value = Node("mul", (value, integer(vocabulary.SCALES[following[0]])))
            unit_tokens = unit_tokens[1:]
        elif following and following[0] in vocabulary.PERCENT_WORDS | vocabulary.DEGREE_WORDS:
            kind = "percent" if following[0] in vocabulary.PERCENT_WORDS else "deg"
            value = Node(kind, (value,)) if value.kind not in ("deg", "unit") else value
            unit_tokens = unit_tokens[1:]
        unit = read_unit(_unit_parts(unit_tokens))
        if value.kind == "deg" and len(unit) == 1 and unit[0][0] in _TEMPERATURES:
            value, unit = value.args[0], ((_TEMPERATURES[unit[0][0]], 1),)
        return Node("unit", (value,), unit) if unit else value


def _words(tokens: list[Token]) -> str:
    """Return the folded words of an item that holds nothing else; else an empty string."""
    if any(token.kind != "word" for token in tokens):
        return ""
    return " ".join(token.text.lower() for token in tokens)


def _drop_quantifier(tokens: list[Token]) -> list[Token]:
    r"""Cut a closing "for all x", "for every real x", "\forall x"."""
    for index in range(1, len(tokens)):
        is_symbol = tokens[index].text == "\\forall"
        following = tokens[index + 1].text.lower() if index + 1 < len(tokens) else ""
        is_phrase = tokens[index].text == "for" and following in vocabulary.QUANTIFIERS
        if is_symbol or (is_phrase and tokens[index].kind == "word"):
            end = index - 1 if tokens[index - 1].kind == "," else index
            return tokens[:end]
    return tokens


def _drop_remark(tokens: list[Token]) -> list[Token]:
    """Cut a closing "(about 18.9 cards)"."""
    for index, token in enumerate(tokens[:-1]):
        if token.kind == "(" and tokens[-1].kind == ")":
            following = tokens[index + 1]
            if index and following.text.lower() in vocabulary.APPROXIMATE:
                return tokens[:index]
    return tokens


def _leading_phrase(tokens: list[Token]) -> int:
    """Return how many tokens introduce the value: "The area of triangle ABC is", "Area:"."""
    end = 0
    for index, token in enumerate(tokens):
        is_end = token.kind == ":" or (token.kind == "rel" and token.text == "=")
        if token.kind == "word" and token.text.lower() in vocabulary.NEGATIONS:
            return end
        if is_end and index and tokens[0].kind == "word":
            return index + 1
        if token.kind == "word" and token.text.lower() in vocabulary.COPULAS:
            end = index + 1
        elif token.kind not in ("word", "sym", "const", "num"):
            break
    return end


def _unit_start(tokens: list[Token]) -> int | None:
    """Return where the words after a value start, None if there are none."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.kind in _OPENERS) - (token.kind in _CLOSERS)
        if depth == 0 and token.kind == "word":
            return index
        following = [follower.kind for follower in tokens[index + 1 : index + 3]]
        if depth == 0 and token.kind == "frac" and following == ["{", "word"]:
            return index
    return None


def _unit_parts(tokens: list[Token]) -> list[tuple[str, int | str]]:
    """Translate tokens for `read_unit`.

    Raises:
      UnreadableError: something else than a unit stands there.
    """
    parts: list[tuple[str, int | str]] = []
    in_fraction = False
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].kind if index else ""
        if token.kind == "word":
            if token.text.lower() in _NO_UNITS:
                raise UnreadableError("words that change the value")
            parts.append(("/", 0) if token.text.lower() == "per" else ("word", token.text))
        elif token.kind == "num" and token.numeral and _is_exponent(tokens, index):
            sign = -1 if previous == "-" else 1
            parts.append(("^", sign * int(token.numeral.value)))
        elif token.kind == "frac":
            in_fraction = True
        elif token.kind == "/" or (in_fraction and token.kind == "{" and previous == "}"):
            parts.append(("/", 0))
        elif token.kind not in ("^", "{", "}", "*", "-", "(", ")"):
            raise UnreadableError(f"unexpected {token.text!r} after the value")
    return parts


def _is_exponent(tokens: list[Token], index: int) -> bool:
    before = [token.kind for token in tokens[max(0, index - 3) : index] if token.kind not in "{-"]
    return bool(before) and before[-1] == "^"


def _text(tokens: list[Token]) -> Node:
    """Fold an item of words: case, articles, ordinal endings, closing brackets of a letter."""
    folded: list[str] = []
    for index, token in enumerate(tokens):
        text = token.text
        if token.kind in ("word", "and", "or"):
            text = text if len(text) == 1 else text.lower()
            follows_number = index > 0 and tokens[index - 1].kind == "num"
            if text in vocabulary.ARTICLES or (
                follows_number and text in vocabulary.ORDINAL_ENDINGS
            ):
                continue
        elif token.kind in ("{", "}"):
            continue
        folded.append(text)
    if len(folded) == 3 and folded[0] == "(" and folded[2] == ")":
        folded = folded[1:2]
    if not folded:
        raise UnreadableError("no words")
    return Node("text", (), " ".join(folded))


def text_of(raw: str) -> Node:
    """Read a whole answer as words, items of a list apart.

    Raises:
      UnreadableError, LimitExceededError: as `read`.
    """
    if len(raw) > MAX_CHARS:
        raise LimitExceededError(f"an answer of {len(raw)} characters; at most {MAX_CHARS}")
    tokens = _unwrap(tokenize(normalize(raw), prose=True))
    parts, separators = _split(tokens)
    if not all(parts):
        raise UnreadableError("an empty item in a list")
    nodes = tuple(_text(part) for part in parts)
    return nodes[0] if len(nodes) == 1 else Node("list", nodes, separators[0])

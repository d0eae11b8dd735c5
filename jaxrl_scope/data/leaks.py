"""Can a hidden answer be read in a text? (Predicate H of SCOPE-RL, Eq. 6.)

An answer is cut into parts (a number, an expression, a name; several for a set, a tuple or an
interval). It leaks through a text when every part that the original problem does not already show
can be read there. Numbers are compared by value, however they are written; expressions by their
symbols in order; names as words.
"""

import dataclasses
import functools
import re
from collections.abc import Callable

from jaxrl_scope.data.constants import Value, evaluate, find_numbers, same_value
from jaxrl_scope.data.mathtext import flatten, normalise
from jaxrl_scope.data.number_words import to_digits

_RELATIONS = re.compile(r"[=<>≠∈;:,]")
_SEPARATOR = re.compile(rf"{_RELATIONS.pattern}|\\cup(?![a-zA-Z])|\band\b|\bor\b")
_SHELL = re.compile(r"^[\s([{\\]+(?![a-zA-Z])|[\s)\]}\\]+$")  # brackets around a list
_NAME_OF_VALUE = re.compile(r"\s*[A-Za-z](?:_\{?\w+\}?)?\s*(?:\([^()]*\)?)?\s*")  # x, a_1, f(x)
_UNIT = re.compile(r"[\s{}]*(?:%|[\s{]+[A-Za-z][A-Za-z\s{}/.]*(?:\^\s*\{?-?\d\}?)?)?[\s{}]*")
_WORDS = re.compile(r"[A-Za-z][A-Za-z\s'-]*[A-Za-z]")
_FORMULA = re.compile(
    # A run of numbers, symbols, commands and single letters; a word ends it.
    r"(?:\\[a-zA-Z]+|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|[\d\s.+\-*/^_(){}\[\]!|=<>≠∈,])+"
)
_PLAIN_NUMBER = re.compile(r"[\s{}()-]*[\d.,]+[\s{}()]*")  # `find_numbers` judges these
_GROUP = re.compile(r"\(([^()]*)\)")
_REFERENCE = re.compile(
    r"\b(?:sub-?\s?(?:question|problem|answer|result|step)s?|sub|questions?|problems?|parts?|steps?)"
    r"[\s-]*(?:no\.?|numbers?|#)?\s*[(\[]?((?:\d+(?:\s*(?:,|and|&|-|to|or)\s*)?)+)",
    re.IGNORECASE,
)

Equivalent = Callable[[str, str], bool]


@dataclasses.dataclass(frozen=True)
class Number:
    """A part that is a number; a percentage has two readings."""

    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Expression:
    """A part with symbols in it: `flat` is compared, `text` is what it was."""

    flat: str
    text: str


@dataclasses.dataclass(frozen=True)
class Name:
    """A part in words, lower case."""

    words: str


Part = Number | Expression | Name


@dataclasses.dataclass(frozen=True)
class Readable:
    """What a reader finds in a text.

    Attributes:
      numbers: values as written.
      calculated: values that it takes a calculation to see.
      expressions: pieces between relation signs, and inside parentheses: flat form to text.
      words: the text in lower case, for names.
    """

    numbers: frozenset[Value]
    calculated: frozenset[Value]
    expressions: dict[str, str]
    words: str


def leaked(
    answer: str,
    text: str,
    original: str,
    *,
    num_sub: int = 0,
    calculations: bool = True,
    equivalent: Equivalent | None = None,
) -> bool:
    """Whether `answer` can be read in `text` though it does not stand in the original problem.

    Args:
      answer: a hidden answer, LaTeX or plain.
      text: something that the policy sees.
      original: the original problem; what it shows may be shown again.
      num_sub: number of sub-questions: "sub-question 3" is no 3 if there are three of them.
      calculations: whether a calculation that gives the answer shows it. Not so in the question
        that asks for this very answer ("find $2^{10} - 1$"); anywhere else it gives it away.
      equivalent: says whether two expressions are equal; None compares symbols only.
    """
    given = read_text(original, generous=True)
    shown = read_text(strip_references(text, num_sub), generous=False)
    # "2^{10}" in the original lets others write "2^{10}", and does not let them write 1024.
    calculated = shown.calculated - given.calculated if calculations else frozenset()
    shown = dataclasses.replace(shown, calculated=calculated)
    given = dataclasses.replace(given, calculated=frozenset())
    hidden = [part for part in answer_parts(answer) if not _stands_in(part, given, equivalent)]
    if not calculations:
        equivalent = None
    return bool(hidden) and all(_stands_in(part, shown, equivalent) for part in hidden)


def answer_parts(answer: str) -> list[Part]:
    """Cut an answer into what could be read on its own; [] where nothing can (an infinity)."""
    text = normalise(answer)
    whole = _part(text)
    if isinstance(whole, Number | Name):
        return [whole]
    pieces = [_SHELL.sub("", piece) for piece in _SEPARATOR.split(text.replace("$", " "))]
    if len(pieces) == 1:
        pieces = [text]
    elif any(not _NAME_OF_VALUE.fullmatch(piece) for piece in pieces):
        pieces = [piece for piece in pieces if not _NAME_OF_VALUE.fullmatch(piece)]
    parts = map(_part, pieces)
    return [part for part in parts if part is not None]


def _part(text: str) -> Part | None:
    text = text.replace("$", " ").strip()
    if not flatten(text) or re.fullmatch(r"[+-]?\s*\\infty", text):
        return None
    if value := _number(text):
        return value
    words = re.sub(r"[{}]", " ", text).strip(" .")
    if _WORDS.fullmatch(words) and len(words) > 3:
        return Name(" ".join(words.lower().split()))
    return Expression(flatten(text), text)


def _number(text: str) -> Number | None:
    """A number, with or without a unit, in digits or in words."""
    digits = to_digits(text, generous=True)
    for end in (len(digits), *(m.start() for m in re.finditer(r"%|[\s{]+[A-Za-z]", digits))):
        value = evaluate(digits[:end])
        if value is not None and _UNIT.fullmatch(digits, end):
            is_percent = digits[end:].strip().startswith("%")
            return Number((value, value / 100) if is_percent else (value,))
    return None


@functools.lru_cache(maxsize=256)
def read_text(text: str, *, generous: bool) -> Readable:
    """Read a text.

    Args:
      text: LaTeX, plain or mixed.
      generous: read loose statements of numbers too (`number_words.to_digits`), and small numbers
        that are mere notation: for the text that *allows* numbers.
    """
    text = normalise(text)
    digits = to_digits(text, generous=generous)
    found = [n for n in find_numbers(digits) if generous or not n.is_notation]
    calculated = {n.value for n in found if not n.is_final}
    expressions = _expressions(digits) | _expressions(text)
    for piece in expressions.values():
        value = None if _PLAIN_NUMBER.fullmatch(piece) else evaluate(piece)
        if value is not None:
            calculated.add(value)
    return Readable(
        numbers=frozenset(n.value for n in found if n.is_final),
        calculated=frozenset(calculated),
        expressions=expressions,
        words=" ".join(re.sub(r"[{}$\\]", " ", text).lower().split()),
    )


def _expressions(text: str) -> dict[str, str]:
    """Pieces of formulas, in `$...$` or bare, cut at relation signs; and their groups."""
    inside = text.split("$")[1::2]
    bare = _FORMULA.findall(" ; ".join(text.split("$")[::2]))
    pieces = [piece for formula in (*inside, *bare) for piece in _RELATIONS.split(formula)]
    groups = [group for piece in (*inside, *bare) for group in _groups(piece)]
    flat = {flatten(piece): piece.strip().rstrip(".?") for piece in (*pieces, *groups)}
    flat.pop("", None)
    return flat


def _groups(text: str) -> list[str]:
    groups = []
    for _ in range(4):  # parentheses inside parentheses, from the inside out
        if "(" not in text:
            break
        groups += _GROUP.findall(text)
        text = _GROUP.sub(r"{\1}", text)
    return groups


def _stands_in(part: Part, text: Readable, equivalent: Equivalent | None) -> bool:
    if isinstance(part, Number):
        shown = text.numbers | text.calculated
        return any(same_value(value, other) for value in part.values for other in shown)
    if isinstance(part, Name):
        return bool(re.search(rf"(?<![a-z]){re.escape(part.words)}(?![a-z])", text.words))
    if part.flat in text.expressions:
        return True
    if equivalent is None:
        return False
    symbols = _symbols(part.flat)
    return any(
        _symbols(flat) == symbols and equivalent(part.text, piece)
        for flat, piece in text.expressions.items()
    )


def _symbols(flat: str) -> frozenset[str]:
    """Letters and commands of an expression: equal expressions nearly always share them."""
    return frozenset(re.findall(r"\\[a-zA-Z]+|[a-zA-Z]", flat)) - {r"\frac", r"\sqrt"}


def strip_references(text: str, num_sub: int) -> str:
    """Remove "sub-question 2", "parts 1 and 3": their numbers name questions, not results."""

    def replace(match: re.Match[str]) -> str:
        indices = [int(digits[:9]) for digits in re.findall(r"\d+", match[1])]
        return " ; " if all(1 <= index <= num_sub for index in indices) else match[0]

    return _REFERENCE.sub(replace, text)

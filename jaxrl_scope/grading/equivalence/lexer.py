r"""LaTeX or program-style text to tokens.

Numerals are read here, separators of thousands included, because "12,345" and "1,23" differ in
nothing else. Text commands are opened, so that `\text{18 cm}` and "18 cm" give the same tokens.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from jaxrl_scope.grading.equivalence import vocabulary
from jaxrl_scope.grading.equivalence.limits import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_TOKENS,
    LimitExceededError,
    UnreadableError,
)
from jaxrl_scope.grading.equivalence.nodes import Numeral
from jaxrl_scope.grading.equivalence.units import is_unit_word


class Token(NamedTuple):
    """One token: `kind` is "num", "sym", "const", "fn", "word", "big", "rel", or the operator."""

    kind: str
    text: str
    numeral: Numeral | None = None


_SEPARATOR = r"(?:,?\\[,!]\s?|\s?\{,\s?\}\s?(?:\\!)?)"
_NUMBER = re.compile(
    rf"(?P<grouped>\d{{1,3}}(?:{_SEPARATOR}\d{{3}})+(?!{_SEPARATOR}?\d))(?P<gfrac>\.\d+)?"
    r"|(?P<commas>\d{1,3}(?:,\d{3})+(?!,?\d))(?P<cfrac>\.\d+)?"
    r"|(?P<int>\d*)\.(?P<lead>\d*)"
    r"(?:\\(?:overline|bar)\s*\{\s*(?P<bar>\d+)\s*\}|\\(?:overline|bar)\s*(?P<bar1>\d)"
    r"|\((?P<paren>\d+)\)"
    r"|\\dot\s*\{?\s*(?P<dot>\d)\s*\}?(?:(?P<mid>\d*)\\dot\s*\{?\s*(?P<dot2>\d)\s*\}?)?)"
    r"|(?P<plain>\d+\.\d+|\.\d+|\d+\.(?![.\d\\(])|\d+)(?:[eE](?P<exp>[+-]?\d{1,4})(?![\da-zA-Z.]))?"
)
_SCAN = re.compile(
    r"\s+|\\[,!]|(?P<command>\\[a-zA-Z]+|\\.)|(?P<letters>[A-Za-z]+)"
    r"|(?P<relation><=|>=|=<|!=|==|[=<>])|(?P<operator>\*\*|!!|[-+*/^_!|,;:()\[\]{}%'&€£¥])",
    re.DOTALL,
)
_QUOTED_MATH = re.compile(r"\\[a-zA-Z]+|[\^_]")


def tokenize(text: str, *, prose: bool = False) -> list[Token]:
    """Split a normalised text into tokens.

    Args:
      text: what `normalize` returned.
      prose: read every run of letters as a word.

    Raises:
      UnreadableError: a character that no answer contains.
      LimitExceededError: too many tokens, or a numeral of too many digits.
    """
    lexer = _Lexer(text)
    lexer.run(0, len(text), prose=prose)
    return lexer.tokens


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.brackets = 0  # open ( [ \{ : there a comma separates, it never groups digits
        self.depth = 0

    def add(self, kind: str, text: str = "", numeral: Numeral | None = None) -> None:
        if len(self.tokens) >= MAX_TOKENS:
            raise LimitExceededError(f"more than {MAX_TOKENS} tokens")
        self.tokens.append(Token(kind, text or kind, numeral))

    def run(self, pos: int, end: int, *, prose: bool) -> None:
        """Read `text[pos:end]`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitExceededError(f"more than {MAX_DEPTH} nested text commands")
        while pos < end:
            char = self.text[pos]
            if char in "0123456789.":
                pos = self.number(pos, end)
                continue
            match = _SCAN.match(self.text, pos, end)
            if not match:
                if not prose:
                    raise UnreadableError(f"unexpected character {char!r}")
                self.add("word", char)
                pos += 1
                continue
            pos = match.end()
            if match["command"]:
                pos = self.command(match["command"][1:], pos, end, prose=prose)
            elif match["letters"]:
                pos = self.letters(match["letters"], match.start(), pos, prose=prose)
            elif match["relation"]:
                self.add("rel", vocabulary.RELATIONS[match["relation"]])
            elif match["operator"]:
                self.operator(match["operator"])
        self.depth -= 1

    def operator(self, text: str) -> None:
        if text in ("(", "[", "\\{"):
            self.brackets += 1
        elif text in (")", "]", "\\}"):
            self.brackets -= 1
        self.add("^" if text == "**" else text)

    def number(self, pos: int, end: int) -> int:
        match = _NUMBER.match(self.text, pos, end)
        if match and match["commas"] and self.brackets > 0:
            match = re.compile(r"(?P<plain>\d+)").match(self.text, pos, end)
            assert match is not None
            self.add("num", match[0], _plain_numeral(match[0], None))
            return match.end()
        if not match:
            if self.text[pos] == "." and not self.tokens:
                raise UnreadableError("a lone full stop")
            if self.text.startswith("..", pos):
                self.add("…")
                return pos + 3
            return pos + 1  # a full stop after a word or an abbreviation
        if match.end() - pos > MAX_DIGITS:
            raise LimitExceededError(f"a numeral of more than {MAX_DIGITS} digits")
        self.add("num", match[0], _numeral(match))
        return match.end()

    def letters(self, run: str, start: int, pos: int, *, prose: bool) -> int:
        lowered = run.lower()
        follows_number = bool(self.tokens) and self.tokens[-1].kind == "num"
        meridiem = re.compile(r"[ap]\.\s?m\b\.?", re.I).match(self.text, start)
        if meridiem and follows_number:
            self.add("word", lowered[0] + "m")
            return meridiem.end()
        name = vocabulary.FUNCTION_SYNONYMS.get(run, run)
        if prose or lowered in vocabulary.SHORT_WORDS or (run == "min" and follows_number):
            self.add(lowered if lowered in ("and", "or") else "word", run)
        elif name in vocabulary.FUNCTIONS:
            self.add("fn", name)
        elif run in ("pi", "Pi"):
            self.add("const", "pi")
        elif len(run) > 3 and name not in vocabulary.FUNCTIONS:
            self.add("word", run)
        else:
            for letter in run:
                self.letter(letter)
        return pos

    def letter(self, letter: str) -> None:
        self.add("const" if letter in "ei" else "sym", letter)

    def command(self, name: str, pos: int, end: int, *, prose: bool) -> int:
        if name in vocabulary.TEXT_COMMANDS or name in vocabulary.UPRIGHT_COMMANDS:
            return self.styled(name, pos, end, prose=prose)
        if name in vocabulary.HIDING_COMMANDS:
            self.add("hidden")
            return self.group(pos, end)[1]
        if name in ("begin", "end"):
            start, pos = self.group(pos, end)
            self.add(name, self.text[start : pos - 1].strip())
            return pos
        if name in vocabulary.LETTER_COMMANDS:
            start, pos = self.group(pos, end)
            letter = self.text[start:pos].strip("{} ")
            is_set = name == "mathbb" and letter in vocabulary.NUMBER_SETS
            self.add(
                *(
                    ("const", vocabulary.NUMBER_SETS[letter])
                    if is_set
                    else ("sym", f"{name} {letter}")
                )
            )
            return pos
        name = vocabulary.GLYPHS.get(
            vocabulary.FUNCTION_SYNONYMS.get(name, name),
            vocabulary.FUNCTION_SYNONYMS.get(name, name),
        )
        if name in vocabulary.IGNORED:
            return pos
        if name in vocabulary.FUNCTIONS - {"sqrt"}:
            self.add("fn", name)
        elif name in vocabulary.CONSTANTS:
            self.add("const", vocabulary.CONSTANTS[name])
        elif name in vocabulary.BIG_OPERATORS:
            self.add("big", name)
        elif name in vocabulary.RELATIONS:
            self.add("rel", vocabulary.RELATIONS[name])
        elif name in vocabulary.OPERATORS:
            self.operator(vocabulary.OPERATORS[name])
        elif name == "not":
            self.add("not")
        elif name.isalpha() and not _opens_group(self.text, pos):
            self.add("sym", "\\" + name)
        else:
            raise UnreadableError(f"unknown command \\{name}")
        return pos

    def group(self, pos: int, end: int) -> tuple[int, int]:
        """Return where the argument at `pos` starts, and where what follows it starts."""
        while pos < end and self.text[pos].isspace():
            pos += 1
        if pos >= end:
            raise UnreadableError("a command without its argument")
        if self.text[pos] != "{":
            return pos, pos + 1
        depth = 0
        for brace in re.compile(r"\\[{}\\]|[{}]").finditer(self.text, pos, end):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                return pos + 1, brace.end()
        raise UnreadableError("unbalanced braces")

    def styled(self, name: str, pos: int, end: int, *, prose: bool) -> int:
        pos += self.text.startswith("*", pos)  # \operatorname*
        start, after = self.group(pos, end)
        stop = after - 1 if after - start > 1 or self.text[start - 1] == "{" else after
        content = self.text[start:stop].strip()
        function = vocabulary.FUNCTION_SYNONYMS.get(content, content)
        if name in vocabulary.BOLD_COMMANDS and len(content) == 1 and content.isalpha():
            self.add("sym", f"vec {content}")
        elif content in ("e", "i") and name == "mathrm":
            self.add("const", content)
        elif name == "mathit" or (name == "mathrm" and content == "d"):
            self.run(start, stop, prose=prose)
        elif function in vocabulary.FUNCTIONS and (function != "min" or name == "operatorname"):
            self.add("fn", function)
        else:
            is_text = bool(re.match(r"[a-zA-Z]", content)) and not _QUOTED_MATH.search(content)
            is_text |= all(map(is_unit_word, re.findall(r"[a-zA-Z]+", content) or ["?"]))
            self.run(start, stop, prose=prose or is_text or name in vocabulary.TEXT_COMMANDS)
        return after


def _opens_group(text: str, pos: int) -> bool:
    while pos < len(text) and text[pos].isspace():
        pos += 1
    return text.startswith(("{", "["), pos)


def _numeral(match: re.Match[str]) -> Numeral:
    if match["grouped"] or match["commas"]:
        digits = re.sub(r"\D", "", match["grouped"] or match["commas"])
        return _plain_numeral(digits + (match["gfrac"] or match["cfrac"] or ""), None)
    if match["plain"]:
        return _plain_numeral(match["plain"], match["exp"])
    lead = match["lead"] or ""
    period = match["bar"] or match["bar1"] or match["paren"]
    if not period:
        period = match["dot"] + ((match["mid"] or "") + match["dot2"] if match["dot2"] else "")
    scale = 10 ** len(lead)
    value = Fraction(int((match["int"] or "0") + lead), scale)
    value += Fraction(int(period), scale * (10 ** len(period) - 1))
    return Numeral(value, None, 0)


def _plain_numeral(text: str, exponent: str | None) -> Numeral:
    whole, _, decimals = text.partition(".")
    digits = (whole + decimals).lstrip("0")
    value = Fraction(int(whole + decimals or "0"), 10 ** len(decimals))
    if exponent:
        value *= Fraction(10) ** int(exponent)
        return Numeral(value, None, len(digits))
    return Numeral(value, len(decimals), len(digits), len(whole) > 1 and whole[0] == "0")

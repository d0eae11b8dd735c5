r"""Multiple choice: the letters that a response settles on.

The last box decides if letters can be read from it. Otherwise the last plain statement after it
does ("The answer is C", "Answer: (C)", "C. because ..."); a statement that denies a letter states
none. The text of an option is not its letter.
"""

import re

from jaxrl_scope.grading.equivalence.limits import MAX_CHARS
from jaxrl_scope.grading.extract import after_think, final_answer, find_boxes, join_boxes

_STYLE = re.compile(
    r"\\(?:text(?:bf|rm|it|sf|tt|normal|up)?|math(?:rm|bf|sf|it)|mbox|boldsymbol|bm)(?![a-zA-Z])\s*"
    r"|\\[,;:! ]|\\q?quad|[${}*`~]|\\[()\[\]]|\\left|\\right|\\boxed"
)
_LETTERS = re.compile(
    r"(?i:(?:option|choice|answer)s?:?\s+)?\(?([A-Z])\)?(?:\s*(?:,|;|&|and)?\s*\(?([A-Z])\)?)*"
)
_LETTER_THEN_TEXT = re.compile(r"(?:\(([A-Z])\)|([A-Z])[.):])\s*\S.*", re.DOTALL)
_DENIAL = re.compile(r"\b(?:not|isn't|cannot|can't|never|neither|nor|no)\b", re.IGNORECASE)
_STATEMENT = re.compile(
    r"\b(?i:answer|choice|option|selection)s?\b[*_\s]{0,4}"
    r"(?i:(?:is|are|was|seems to be|should be|must be|would be|will be|:|=)[*_\s:]{0,4})"
    r"(?i:(?:the\s)?(?:correct\s|final\s)?(?:answer|choice|option|letter)[*_\s:]{0,4})?"
    r"(?i:(?:for sure|definitely|clearly|certainly|surely|probably|likely|indeed|thus)\s)?"
    r"(?:\$|\\\(|\\(?:text|math)\w{0,4}\s?\{|[*_\s]){0,8}"
    r"(?P<letters>[(\[]?[A-Z][)\]]?(?:\s?(?:,|&|and)\s?[(\[]?[A-Z][)\]]?)*)(?P<after>[^\n]{0,12})",
)
_OPTION = re.compile(
    r"\b(?i:option|choice)\s\(?(?P<letters>[A-Z])\)?"
    r"(?P<after>\s(?i:is\s(?:the\s)?(?:correct|right|answer|best)).{0,12})"
)
_CHOSEN = re.compile(
    r"\b(?i:choose|pick|select|go with)\s(?i:(?:option|choice|answer)\s)?"
    r"\(?(?P<letters>[A-Z])\)?(?P<after>\s{0,4}(?:[.,;:]|$).{0,8})",
    re.MULTILINE,
)
_LEADING = re.compile(
    r"\s*[*_]{0,3}\(?(?P<letters>[A-Z])(?:[.):][*_]{0,3}(?:\s|$)|\)?[*_]{0,3}\s*$)"
)
_HEDGE = re.compile(r"[*_)\]}$]*,?\s*(?:or|/)\s*\W{0,3}[A-Z]\b")
_OPTION_LINE = re.compile(r"^\s{0,8}[*_]{0,3}\(?[A-Z][.)]", re.MULTILINE)
# After A or I, which are also words, the sentence must not run on as prose does.
_ENDS_LETTER = re.compile(r"[*_)\]}$\\]*(?:\s*$|[.,;:!*)\]\\}$]|\s(?:because|since|as|for|and|-))")


def gold_letters(gold: str) -> frozenset[str]:
    r"""Return the letters of a gold answer: "C", "(C)", "\text{A, D}".

    Raises:
      ValueError: it names no letters.
    """
    letters = _letters(gold, max_letters=26)
    if letters is None:
        raise ValueError(f"a multiple-choice gold answer is letters such as 'C', got {gold!r}")
    return letters


def chosen_letters(
    response: str, *, label: str | None = None, num_choices: int | None = None
) -> frozenset[str] | None:
    """Return the letters that a response chooses, None if it settles on none."""
    last = num_choices or 26
    if label is not None:
        boxed = final_answer(response, label)
        return None if boxed is None else _letters(boxed, max_letters=last)
    text = after_think(response)
    if text is None:
        return None
    boxes = find_boxes(text)
    if boxes:
        boxed = join_boxes(text, boxes)
        letters = _letters(boxed, max_letters=last) if boxed else None
        return letters or _stated(text[boxes[-1].end :], last)
    return _stated(text, last)


def is_choice_correct(
    gold: str, response: str, *, label: str | None = None, num_choices: int | None = None
) -> bool:
    """Return whether a response chooses exactly the letters of the gold answer."""
    return chosen_letters(response, label=label, num_choices=num_choices) == gold_letters(gold)


def _letters(text: str, *, max_letters: int) -> frozenset[str] | None:
    """Read letters from a box or a gold answer."""
    if len(text) > MAX_CHARS:
        return None
    plain = " ".join(_STYLE.sub(" ", text).split()).rstrip(".。 ")
    if _DENIAL.search(plain):
        return None
    found: str | None = None
    if _LETTERS.fullmatch(plain):
        found = re.sub(r"[^A-Z]", "", re.sub(r"[A-Za-z]{3,}", "", plain))
    elif match := _LETTER_THEN_TEXT.fullmatch(plain):
        found = match[1] or match[2]
    elif statement := _last_statement(plain):
        found = statement
    if not found or any(ord(letter) - ord("A") >= max_letters for letter in found):
        return None
    if len(set(found)) != len(found):
        return None
    return frozenset(found)


def _stated(text: str, num_letters: int) -> frozenset[str] | None:
    """Read the last statement of the text, or a letter that the text opens with."""
    found = _last_statement(text)
    if found is None:
        match = _LEADING.match(text)
        found = match["letters"] if match and len(_OPTION_LINE.findall(text)) < 2 else None
    if not found or any(ord(letter) - ord("A") >= num_letters for letter in found):
        return None
    return frozenset(found)


def _last_statement(text: str) -> str | None:
    best: tuple[int, str] | None = None
    for pattern in (_STATEMENT, _OPTION, _CHOSEN):
        for match in pattern.finditer(text):
            letters = re.sub(r"[^A-Z]", "", match["letters"])
            after = match["after"]
            if after[:1].isalnum() or after[:1] in ("'", "’"):
                continue
            if letters in ("A", "I") and pattern is _STATEMENT and not _ENDS_LETTER.match(after):
                continue
            if _HEDGE.match(after):
                letters = ""
            if best is None or match.start() > best[0]:
                best = match.start(), letters
    return best[1] if best else None

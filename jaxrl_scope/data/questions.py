"""What the wording of one question tells: is it arithmetic only, does it point to another one?"""

import difflib
import re

from jaxrl_scope.data.leaks import read_text
from jaxrl_scope.data.mathtext import normalise
from jaxrl_scope.data.number_words import to_digits

_LABEL = re.compile(r"^\W*sub-?\s?(?:question|problem)\s*\d+\W*[:.)]\s*", re.IGNORECASE)
_POINTER = re.compile(
    r"\b(sub-?\s?(?:question|problem|answer|result|step)s?|questions?|problems?|parts?|steps?)"
    r"[\s-]*(?:no\.?|numbers?|#)?\s*[(\[]?(\d{1,3}(?:\s*(?:,|and|&|or)\s*\d{1,3})*)",
    re.IGNORECASE,
)
_THINGS = (
    r"(?:answers?|values?|numbers?|quantit(?:y|ies)|expressions?|equations?|functions?|points?"
    r"|sets?|sums?|counts?|lengths?|totals?)"
)
_FOUND = r"(?:found|obtained|computed|derived|determined)"
_BACKWARD = re.compile(
    r"\b(?:previous|preceding|earlier|above|prior|former|foregoing|results?|your answer"
    rf"|just {_FOUND}|(?:you|we|was|were|been) {_FOUND}"
    rf"|(?:the|that|its|this|these|those) {_THINGS}(?: \w+){{0,4}} (?:{_FOUND}|you|from)"
    r"|(?:that|this|these|those) (?:answers?|values?|results?)"
    r"|(?:first|second|third|last) (?:sub-?question|sub-?problem|part|step|answer))\b",
    re.IGNORECASE,
)
_PREVIOUS = re.compile(
    r"\b(?:previous|preceding|earlier) (?:sub-?)?(?:question|problem|part|step|result|answer)s?\b",
    re.IGNORECASE,
)
_OPERATOR_FIRST = re.compile(r"\s*[+*/^-]\s*\d")
_ARITHMETIC_VOCABULARY = frozenset(
    re.findall(
        r"\w+",
        """
        a an the of and by to from with in it its this that these those is are be what how much
        find compute calculate evaluate determine work out get give simplify perform do take now
        then next also please using use your you both them together found obtained got
        previous earlier above result results answer answers value values number numbers quantity
        expression step sub question subquestion problem subproblem part
        sum difference product quotient total half double twice triple square squared cube cubed
        add added subtract subtracted multiply multiplied divide divided plus minus times over per
        power raised frac
        """,
    )
)
_OPERATION = re.compile(
    r"[\d)}]\s*[-+*/^]\s*[\d({\\]|\\frac"
    r"|\b(?:add|subtract|multipl\w+|divide\w*|plus|minus|times|sum|difference|product|quotient"
    r"|half|double|twice|triple|squared?|cubed?)\b",
    re.IGNORECASE,
)


def strip_label(question: str) -> str:
    """Remove a question's own heading ("Sub-question 2:")."""
    return _LABEL.sub("", question)


def is_arithmetic(question: str) -> bool:
    """Whether a question is nothing but a calculation with given numbers and earlier results."""
    text = normalise(to_digits(strip_label(question), generous=False))
    text = re.sub(r"(?<=\d)\s*[xX]\s*(?=\d)", "*", text)
    words = re.findall(r"[A-Za-z]+", text)
    return bool(_OPERATION.search(text)) and all(
        word.lower() in _ARITHMETIC_VOCABULARY for word in words
    )


def similarity(first: str, second: str, *, at_least: float) -> float:
    """Share of common words in order, case and punctuation aside; 0 where below `at_least`."""
    a, b = (
        re.findall(r"\w+|[-+*/^=<>]", normalise(strip_label(text)).lower())
        for text in (first, second)
    )
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # cheapest first
    ratio = 0.0
    for bound in bounds:
        ratio = bound()
        if ratio < at_least:
            return 0.0
    return ratio


def pointers(question: str, num_sub: int) -> list[int]:
    """Indices of the sub-questions that a question names.

    "Problem 12" names none where there are four, and neither does "step 9"; "sub-question 12" does.
    """
    return [
        int(digits)
        for match in _POINTER.finditer(strip_label(question))
        for digits in re.findall(r"\d+", match[2])
        if match[1].lower().startswith("sub") or int(digits) <= num_sub
    ]


def continues(question: str) -> bool:
    """Whether a question is an operation on the result before it ("* 2")."""
    return bool(_OPERATOR_FIRST.match(strip_label(question)))


def points_back(question: str, num_sub: int) -> bool:
    """Whether a question speaks of an earlier result, or continues one."""
    return bool(
        _BACKWARD.search(strip_label(question))
        or continues(question)
        or pointers(question, num_sub)
    )


def names_predecessor(question: str) -> bool:
    """Whether a question speaks of the one before it."""
    return bool(_PREVIOUS.search(question))


def symbols(text: str) -> set[str]:
    """Letters and commands that stand in formulas; "a" and "I" are words more often."""
    pieces = read_text(text, generous=False).expressions
    found = {s for flat in pieces for s in re.findall(r"\\[a-zA-Z]+|[A-Za-z](?:_\w)?", flat)}
    return found - {"a", "A", "I"}

"""Two answer texts, one verdict: the order in which the readings are tried."""

import re

from jaxrl_scope.grading.equivalence.compare import Comparator
from jaxrl_scope.grading.equivalence.forms import has_form
from jaxrl_scope.grading.equivalence.limits import (
    MAX_CHARS,
    LimitExceededError,
    NeedsSympyError,
    UndefinedError,
    UnreadableError,
)
from jaxrl_scope.grading.equivalence.nodes import Node
from jaxrl_scope.grading.equivalence.normalize import normalize
from jaxrl_scope.grading.equivalence.reader import Answer, read, read_gold, text_of
from jaxrl_scope.grading.equivalence.shapes import contains, numeral, split_unit

_INTEGER = re.compile(r"[+-]?[0-9]+")
_GROUPS = re.compile(r"-?\d{1,3}(?:,\d{3})+")
_DIGITS = re.compile(r"(?=[0-9A-F]*[0-9])[0-9A-F]+", re.IGNORECASE)


def equivalent(
    gold: str, answer: str, *, task: str | None = None, allow_numeric: bool = False
) -> bool:
    """Decide whether an answer text is the gold answer.

    Args:
      gold: the gold answer.
      answer: what `extract.final_answer` found.
      task: "factor", "expand" or "simplify" demand a form; others do not matter here.
      allow_numeric: see `Comparator`.

    Raises:
      NeedsWorkerError: exact arithmetic does not settle it.
      LimitExceededError, RecursionError: the answer, or a number in it, is too large to be graded.
    """
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):
        return _sign_and_digits(gold) == _sign_and_digits(answer)
    if gold.strip() == answer.strip() and len(answer) <= MAX_CHARS:
        return bool(gold.strip())
    try:
        gold_answer = read_gold(gold)
    except UnreadableError:
        return _same_unreadable(gold, answer, allow_numeric=allow_numeric)
    is_integer = _is_integer(gold_answer.node)
    try:
        return _equivalent(gold, gold_answer, answer, task, allow_numeric=allow_numeric)
    except (LimitExceededError, RecursionError):
        if is_integer:  # whatever the answer is, it is no numeral of a sensible length
            return False
        raise


def _equivalent(
    gold: str, gold_answer: Answer, answer: str, task: str | None, *, allow_numeric: bool
) -> bool:
    gold_node = gold_answer.node
    if contains(gold_node, "text"):
        return _same_text(gold, answer)
    if gold_node.kind == "based" and _DIGITS.fullmatch(answer.strip()):
        return answer.strip().upper().lstrip("0") == gold_node.data[0]
    try:
        answer_read = read(answer)
    except UnreadableError:
        return False
    if contains(answer_read.node, "text"):
        return _same_text(gold, answer)
    if answer_read.has_hidden and _is_integer(gold_node):
        return False  # digits that are not printed
    if _GROUPS.fullmatch(answer_read.text) and gold_node.kind in ("list", "set", "seq"):
        answer_read = read(answer_read.text.replace(",", ", "))
    comparator = Comparator(allow_numeric=allow_numeric)
    try:
        if not comparator.same(gold_node, answer_read.node, strict=True):
            return False
    except UndefinedError:  # an end of an interval that is no real number
        return False
    return has_form(task, gold_node, answer_read.node)


def _sign_and_digits(text: str) -> tuple[bool, str]:
    """Return the sign and the digits of an integer; comparing spellings has no length limit."""
    digits = text.lstrip("+-").lstrip("0")
    return text.startswith("-") and bool(digits), digits


def _is_integer(node: Node) -> bool:
    written = numeral(split_unit(node)[0])
    return written is not None and written[0].denominator == 1


def _same_text(gold: str, answer: str) -> bool:
    try:
        gold_text, answer_text = text_of(gold), text_of(answer)
    except UnreadableError:
        return False
    return Comparator(allow_numeric=False).same_value(gold_text, answer_text)


def _same_unreadable(gold: str, answer: str, *, allow_numeric: bool) -> bool:
    """Grade against a gold answer that the grammar does not know: its spelling, then sympy."""
    if len(answer) > MAX_CHARS:
        raise LimitExceededError(f"an answer of {len(answer)} characters")
    if _spelling(gold) == _spelling(answer):
        return True
    if not allow_numeric:
        raise NeedsSympyError
    from jaxrl_scope.grading.equivalence.symbolic import equal_by_sympy

    return equal_by_sympy(gold, answer)


def _spelling(text: str) -> str:
    return re.sub(r"[\s{}]", "", normalize(text))

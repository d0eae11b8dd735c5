"""Equality by sympy, for gold answers that the grammar does not read.

Runs in worker processes only. latex2sympy2 builds the expressions from its own grammar; no text is
ever given to `sympify` or `parse_expr`.
"""

import re

from jaxrl_scope.grading.equivalence.normalize import normalize

_MAX_CHARS = 300
_MAX_DIGITS = 12
_TOWER = re.compile(r"\^\s*\{[^{}]*\^|\^[^{}\s]*\^|!\s*\)?\s*!|\*\*")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|operatorname|textbf)|[\"'`#@_?]{2}")


def equal_by_sympy(gold: str, answer: str) -> bool:
    """Decide equality of two LaTeX expressions with the same free symbols.

    Returns False where either does not parse, is long, or holds words or towers of powers.
    """
    from latex2sympy2_extended import latex2sympy
    from sympy import Expr, simplify

    expressions = []
    for text in (normalize(gold), normalize(answer)):
        if len(text) > _MAX_CHARS or _TOWER.search(text) or _TEXT.search(text):
            return False
        if re.search(rf"\d{{{_MAX_DIGITS},}}", text):
            return False
        try:
            expression = latex2sympy(text)
        except Exception:
            return False
        if not isinstance(expression, Expr):
            return False
        expressions.append(expression)
    left, right = expressions
    if left.free_symbols != right.free_symbols:
        return False
    return bool(left == right or simplify(left - right) == 0)

"""Equality by sympy, for gold answers that the grammar does not read.

Runs in worker processes only. latex2sympy2 builds the expressions from its own grammar; no text is
ever given to `sympify` or `parse_expr`.
"""

import re

from jaxrl_scope.grading.equivalence.normalize import normalize

_MAX_CHARS = 300
# Towers of powers and factorials, long numerals, words, and what looks like code.
_REFUSED = re.compile(
    r"\^\s*\{[^{}]*\^|\^[^{}\s]*\^|!\s*\)?\s*!|\*\*|\d{12}"
    r"|\\(?:text|mbox|mathrm|operatorname|textbf)|[\"'`#@?]|__"
)


def equal_by_sympy(gold: str, answer: str) -> bool:
    """Decide equality of two LaTeX expressions with the same free symbols.

    Returns False where either does not parse, is long, or holds words or towers of powers.
    """
    from latex2sympy2_extended import latex2sympy
    from sympy import Expr, simplify

    texts = [normalize(gold), normalize(answer)]
    if any(len(text) > _MAX_CHARS or _REFUSED.search(text) for text in texts):
        return False
    try:
        left, right = map(latex2sympy, texts)
        if not (isinstance(left, Expr) and isinstance(right, Expr)):
            return False
        if left.free_symbols != right.free_symbols:
            return False
        return bool(left == right or simplify(left - right) == 0)
    except MemoryError:  # a failure, not a verdict
        raise
    except Exception:  # sympy and its parser raise whatever their rules run into
        return False

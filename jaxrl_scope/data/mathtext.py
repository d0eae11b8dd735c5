r"""One spelling for mathematical text: LaTeX, unicode and plain typing are folded together.

What comes out is read by machines only (`constants`, `leaks`): `\dfrac 12`, `½` and `1/2`, or
`1{,}234`, `1\,234` and `1,234`, look alike to them. Mathematical delimiters all become `$`.
"""

import re
import unicodedata

_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SUBSCRIPTS = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_VULGAR = re.compile("[¼-¾⅐-⅞↉]")
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("−‒–﹣‐‑", "-"),  # the last two are hyphens
        **dict.fromkeys("×∙·⋅∗", "*"),
        **dict.fromkeys("÷⁄∕", "/"),
        **dict.fromkeys("≤⩽", "<"),
        **dict.fromkeys("≥⩾", ">"),
        **dict.fromkeys("≈≡≅≃", "="),
        **dict.fromkeys("→⇒⟹—", ";"),
        **dict.fromkeys("°`", ""),
        "π": r"\pi ",
        "∞": r"\infty ",
        "√": r"\sqrt",
    }
)
# Applied in this order; each rule relies on the ones above it.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\(?:\[[^\]]*\])?", " ; "),  # line breaks of arrays, before "\[" can be seen in them
        (r"\\(?:left|right)\s*\.|\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])", ""),
        (r"(?<=\d)(?:\{,\}|\\[,;:! ]|~|[_'’\u2009\u202f\u00a0])(?=\d{3}(?!\d))", ","),
        (r"\\[,;:! ]|~|\\q?quad(?![a-zA-Z])", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\[dt]binom(?![a-zA-Z])", r"\\binom"),
        (
            r"\\(?:text|math|mbox|boxed|fbox|hbox|operatorname|bm|boldsymbol|emph|underline)[a-z]*",
            " ",
        ),
        (r"\\(?:displaystyle|textstyle|limits|nolimits)(?![a-zA-Z])", " "),
        (r"(?<![\\a-zA-Z])sqrt(?![a-zA-Z])", r"\\sqrt"),
        (r"\\sqrt\s*(\d+(?:\.\d+)?)", r"\\sqrt{\1}"),
        (r"\^\s*\{?\s*\\(?:circ|degree)(?![a-zA-Z])\s*\}?|\\degree(?![a-zA-Z])", ""),
        (r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*"),
        (r"\\div(?![a-zA-Z])", "/"),
        (r"\\(?:leq?|leqslant|lt)(?![a-zA-Z])", "<"),
        (r"\\(?:geq?|geqslant|gt)(?![a-zA-Z])", ">"),
        (r"\\(?:approx|equiv|simeq|cong)(?![a-zA-Z])", "="),
        (r"\\neq?(?![a-zA-Z])", "≠"),
        (r"\\in(?![a-zA-Z])", "∈"),
        (r"\\(?:to|rightarrow|Rightarrow|implies|mapsto)(?![a-zA-Z])|&", ";"),
        (r"\\%", "%"),
        (r"\\\$", " "),
        (r"\\[()\[\]]|\$\$?", " $ "),
        (r"(?<=\d)\*\*(?=\d)", "^"),
        (r"\*\*", " "),  # Markdown bold
    )
)
_FRACTION = re.compile(r"\\frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")


def normalise(text: str) -> str:
    """Fold the spellings of `text`. Characters that do not show (zero-width, soft hyphen) go."""
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = _SUPERSCRIPTS.sub(lambda m: f"^{{{unicodedata.normalize('NFKC', m[0])}}}", text)
    text = _SUBSCRIPTS.sub(lambda m: f"_{{{unicodedata.normalize('NFKC', m[0])}}}", text)
    text = _VULGAR.sub(lambda m: f" {unicodedata.normalize('NFKC', m[0])} ", text)
    # Spaces that group digits must be told from plain ones before NFKC makes them plain.
    text = re.sub(r"(?<=\d)[\u2009\u202f\u00a0](?=\d{3}(?!\d))", ",", text)
    text = unicodedata.normalize("NFKC", text).translate(_CHARACTERS)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def flatten(expression: str) -> str:
    r"""Reduce a normalised expression to its symbols in order.

    Brackets, products and spaces go and `\frac{a}{b}` becomes `a/b`, so that spellings of one
    expression meet. Different expressions may meet too: this is for finding likely leaks, where a
    false alarm costs one more request to the teacher and a miss costs a training signal.
    """
    for _ in range(8):
        expression, count = _FRACTION.subn(
            lambda m: f"({m[1] or m[2] or ''})/({m[3] or m[4] or ''})", expression
        )
        if not count:
            break
    return re.sub(r"\\[{}]|[\s{}()\[\]*$]", "", expression).rstrip(".,;:?")

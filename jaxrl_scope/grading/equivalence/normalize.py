r"""Fold the spellings of one text: unicode, LaTeX layout commands, stray delimiters.

Only what cannot change a value is folded here. Unicode is folded to LaTeX before NFKC, which would
turn "x²" into "x2" and "½" into a bare "1⁄2".
"""

import re
import unicodedata

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩϵϕϑ",
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "iota",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "pi",
            "rho",
            "sigma",
            "tau",
            "upsilon",
            "phi",
            "chi",
            "psi",
            "omega",
            "Gamma",
            "Delta",
            "Theta",
            "Lambda",
            "Xi",
            "Pi",
            "Sigma",
            "Phi",
            "Psi",
            "Omega",
            "epsilon",
            "phi",
            "theta",
        ],
        strict=True,
    )
)
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "÷": r"\div ",
    "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "∗": "*", "±": r"\pm ", "∓": r"\mp ",
    "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "≡": r"\equiv ", "∞": r"\infty ", "°": r"^\circ ", "º": r"^\circ ", "˚": r"^\circ ",
    "∪": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ", "∈": r"\in ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R} ", "ℤ": r"\mathbb{Z} ", "ℕ": r"\mathbb{N} ", "ℚ": r"\mathbb{Q} ",
    "ℂ": r"\mathbb{C} ", "⟨": r"\langle ", "⟩": r"\rangle ", "〈": r"\langle ", "〉": r"\rangle ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "∣": "|",
    "′": "'", "’": "'", "…": r"\ldots ", "∑": r"\sum ", "∏": r"\prod ", "∫": r"\int ",
    "∂": r"\partial ", "∠": r"\angle ", "△": r"\triangle ", "→": r"\to ", "⁄": "/",
    "。": ".", "、": ",",
    "\u2009": r"\,", "\u202f": r"\,", "\u200b": "", "\ufeff": "", "\u2061": "", "\u2062": "",
}  # fmt: skip
_TRANSLATION = str.maketrans(
    _SYMBOLS
    | {char: rf"\{name} " for char, name in _GREEK.items()}
    | {char: rf"\frac{{{a}}}{{{b}}}" for char, a, b in
       ("½12", "⅓13", "⅔23", "¼14", "¾34", "⅕15", "⅖25", "⅗35", "⅘45", "⅙16", "⅚56", "⅛18",
        "⅜38", "⅝58", "⅞78")}
)  # fmt: skip
_RAISED = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_LOWERED = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")
_ROOT = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?)?")
_ROOT_INDEX = {"√": "", "∛": "[3]", "∜": "[4]"}

_SPECIAL_TOKEN = re.compile(r"<\|[\w▁｜|.-]{1,40}\|>|</?(?:answer|s|eos)>")
_LAYOUT = re.compile(
    r"\\(?:(?:left|right|middle)(?:\s*\.)?|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle"
    r"|limits|nolimits|tiny|small|normalsize|large|Large|LARGE|huge|Huge|boldmath|rm|bf|it|sf|tt|centering|hfill|allowbreak|nobreak|strut)"
    r"(?![a-zA-Z])"
)
_LENGTH = re.compile(
    r"\\[hv]space\*?\s*\{[^{}]*\}|\\(?:mkern|kern|hskip|mskip)\s*-?[\d.]+\s*[a-z]{2}"
)
_COLOR = re.compile(r"\\color\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}|\\textcolor\s*\{[^{}]*\}")
_SYNONYMS = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\[dt]binom(?![a-zA-Z])"), r"\\binom"),
    (re.compile(r"\\(?:fbox|framebox|boxed)(?![a-zA-Z])\s*"), ""),
    (re.compile(r"(?<!\\)\\[\[\]()]"), " "),
    (re.compile(r"(?<!\\)\$"), " "),
    (re.compile(r"\\(?:quad|qquad|enspace|thinspace|medspace|thickspace)(?![a-zA-Z])"), " "),
    (re.compile(r"(?<!\\)\\[:;> \n]|~"), " "),
)


def normalize(text: str) -> str:
    r"""Return the text with unicode folded to LaTeX, layout dropped and synonyms merged.

    `\,`, `\!` and `{,}` stay, because they may separate the thousands of a numeral.
    """
    if not text.isascii():
        text = _fold_unicode(text)
    text = _SPECIAL_TOKEN.sub("", text)
    if "\\" in text or "$" in text or "~" in text:
        text = _LAYOUT.sub("", _LENGTH.sub(" ", _COLOR.sub("", text)))
        for pattern, replacement in _SYNONYMS:
            text = pattern.sub(replacement, text)
    return _strip_end(text.strip())


def _strip_end(text: str) -> str:
    """Drop closing punctuation, spacing commands and line breaks."""
    while not text.endswith(".."):  # an ellipsis says that values follow
        # A backslash that is left over belonged to "\\," or to a line break.
        stripped = text.removesuffix("\\!").rstrip(" \t\n.,;:").rstrip("\\")
        if stripped == text:
            break
        text = stripped
    return text


def _fold_unicode(text: str) -> str:
    text = _RAISED.sub(lambda m: "^{" + "".join(_SUPERSCRIPTS[char] for char in m[0]) + "}", text)
    text = _LOWERED.sub(lambda m: "_{" + "".join(_SUBSCRIPTS[char] for char in m[0]) + "}", text)
    text = _ROOT.sub(
        lambda m: rf"\sqrt{_ROOT_INDEX[m[1]]}" + (f"{{{m[2]}}}" if m[2] else " "), text
    )
    return unicodedata.normalize("NFKC", text.translate(_TRANSLATION))

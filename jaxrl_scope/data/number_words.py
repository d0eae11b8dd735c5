"""English number words as digits: "twenty-one plus x squared" and "21+x^2" say the same thing."""

import re
from collections.abc import Iterable

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_UNITS += " fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_UNITS.split())}
_SMALL |= {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_TO_TWENTIETH = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_TO_TWENTIETH += " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
_TO_TWENTIETH += " twentieth"
_ORDINALS = {word: value for value, word in enumerate(_TO_TWENTIETH.split(), start=1)}
_ORDINALS |= {"hundredth": 100, "thousandth": 1000}
_DENOMINATORS = {word: value for word, value in _ORDINALS.items() if value >= 3}
_DENOMINATORS |= {f"{word}s": value for word, value in _DENOMINATORS.items()}
_DENOMINATORS |= {"half": 2, "halves": 2, "quarter": 4, "quarters": 4}
_MULTIPLES = {
    **dict.fromkeys(("once", "single"), 1),
    **dict.fromkeys(("twice", "double", "doubled", "pair", "pairs", "both", "couple"), 2),
    **dict.fromkeys(("thrice", "triple", "tripled"), 3),
}


def _any(words: Iterable[str]) -> str:
    """A pattern for any of the words, longest first ("seventeen" before "seven")."""
    return "|".join(sorted(words, key=len, reverse=True))


_WORD = _any([*_SMALL, *_SCALES, "dozen"])
_PHRASE = re.compile(
    rf"\b(?:{_WORD})(?:(?:[\s-]+|\s+and\s+)(?:{_WORD})\b)*(?:\s+point(?:\s+(?:{_any(_SMALL)})\b)+)?\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(rf"\b({_any(_ORDINALS)})\b", re.IGNORECASE)
_LONG_ORDINAL = re.compile(
    rf"\b({_any(_TENS.split())})[\s-]+({_TO_TWENTIETH.replace(' ', '|')})\b", re.IGNORECASE
)
_MULTIPLE = re.compile(rf"\b({_any(_MULTIPLES)})\b", re.IGNORECASE)
_PART = re.compile(rf"(\d+)[\s-]+({_any(_DENOMINATORS)})\b", re.IGNORECASE)
_ONE_PART = re.compile(rf"\b(?:an?|one)[\s-]+({_any(_DENOMINATORS)})\b|\bhalf\b", re.IGNORECASE)
_AND_A_PART = re.compile(
    rf"(\d|\b(?:{_WORD}))\s+and\s+(?:an?|one)\s+({_any(_DENOMINATORS)})\b", re.IGNORECASE
)
# "one" is a number after these words and mostly a pronoun elsewhere ("which one", "one of").
_STATED_ONE = re.compile(
    r"((?:\b(?:results?|values?|answers?|is|are|equals?|equal to|be|namely|getting|get|plus|minus"
    r"|times|over|by)|=|:)\s*\(?)"
    r"one\b(?!\s+of\b|-)",
    re.IGNORECASE,
)
_OPERATORS = {"plus": "+", "minus": "-", "times": "*", "over": "/", "divided by": "/"}
_OPERAND_END, _OPERAND_START = r"(?<=[\w)}$])", r"(?=[\d\\({$]|[A-Za-z]\b)"
_SPOKEN_OPERATOR = re.compile(
    rf"{_OPERAND_END}\s+({_any(_OPERATORS)})\s+{_OPERAND_START}", re.IGNORECASE
)
_SPOKEN_POWER = re.compile(r"(?<=\b[A-Za-z])\s+(squared|cubed)\b", re.IGNORECASE)
_ROMAN = re.compile(
    r"\b(?=[IVXLCDM]{2})M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b"
)
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def to_digits(text: str, *, generous: bool) -> str:
    """Write the number words of `text` as digits, and spoken operations as signs.

    Args:
      text: English text; mathematics in it is left alone.
      generous: also read what states a number only loosely: "one" anywhere, "first" to "third",
        "twice", "both". Wanted where numbers are *allowed* because they stand in a problem; not
        where they would be *held against* a text that says "the one on the left".
    """
    text = _AND_A_PART.sub(lambda m: f"{m[1]} 1/{_DENOMINATORS[m[2].lower()]}", text)
    text = _ONE_PART.sub(lambda m: f"1/{_DENOMINATORS[m[1].lower()] if m[1] else 2}", text)
    text = _LONG_ORDINAL.sub(lambda m: str(_SMALL[m[1].lower()] + _ORDINALS[m[2].lower()]), text)
    text = _PHRASE.sub(lambda m: _phrase_to_digits(m[0], generous), text)
    if not generous:
        text = _STATED_ONE.sub(r"\g<1>1", text)
    text = _PART.sub(lambda m: f"{m[1]}/{_DENOMINATORS[m[2].lower()]}", text)
    text = _ORDINAL.sub(lambda m: _ordinal_to_digits(m, generous), text)
    if generous:
        text = _MULTIPLE.sub(lambda m: str(_MULTIPLES[m[1].lower()]), text)
    text = re.sub(r"\b(?:minus|negative)\s+(?=[\d$\\(])", "-", text, flags=re.IGNORECASE)
    text = _SPOKEN_POWER.sub(lambda m: "^2" if m[1].lower() == "squared" else "^3", text)
    text = _SPOKEN_OPERATOR.sub(lambda m: _OPERATORS[m[1].lower()], text)
    return _ROMAN.sub(_roman_to_digits, text)


def _phrase_to_digits(phrase: str, generous: bool) -> str:
    """Digits of a run of number words; several numbers where the run holds several."""
    whole, _, decimals = " ".join(phrase.lower().split()).partition(" point ")
    numbers = _read_numbers(re.split(r"[ -]+", whole))
    if not generous and numbers == [1] and not decimals:
        return phrase  # left to the rule for a stated "one"
    digits = " ".join(map(str, numbers))
    return digits + (
        "." + "".join(str(_SMALL[word]) for word in decimals.split()) if decimals else ""
    )


def _read_numbers(words: list[str]) -> list[int]:
    """[two, hundred, and, five, seven] -> [205, 7]."""
    numbers: list[int] = []
    total = group = 0
    last = ""  # kind of the last word of the number being read: "", "unit", "ten" or "scale"
    for position, word in enumerate(words):
        if word == "and":
            joins = last == "scale" and position + 1 < len(words)
            if not joins and last:
                numbers.append(total + group)
                total, group, last = 0, 0, ""
            continue
        if word in _SMALL:
            value = _SMALL[word]
            if last == "unit" or (last == "ten" and not 1 <= value <= 9):
                numbers.append(total + group)
                total = group = 0
            group += value
            last = "ten" if value >= 20 else "unit"
        elif word == "dozen":
            group = 12 * (group or 1)
            last = "unit"
        elif word == "hundred":
            group = 100 * (group or 1)
            last = "scale"
        else:
            total += (group or 1) * _SCALES[word]
            group, last = 0, "scale"
    return [*numbers, total + group] if last else numbers


def _ordinal_to_digits(match: re.Match[str], generous: bool) -> str:
    value = _ORDINALS[match[1].lower()]
    # "first", "second" and "third" number the items of any text and state nothing.
    return str(value) if generous or value > 3 else match[0]


def _roman_to_digits(match: re.Match[str]) -> str:
    values = [_ROMAN_VALUES[letter] for letter in match[0]]
    signed = [
        -value if any(later > value for later in values[i + 1 : i + 2]) else value
        for i, value in enumerate(values)
    ]
    return str(sum(signed)) if sum(signed) > 3 else match[0]

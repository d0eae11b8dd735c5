"""Unit words: which words are units, and whether two units conflict.

A unit is a sorted tuple of (base, power). A word that is in no table ("meals") is a unit of its
own: a count noun. Nothing is converted, so 60 minutes and 1 hour are different answers.
"""

from collections import Counter

from jaxrl_scope.grading.equivalence import vocabulary

Unit = tuple[tuple[str, int], ...]

_BASES = {word: base for base, spellings in vocabulary.UNITS.items() for word in spellings.split()}
_COMPOUND = {"mph": (("h", -1), ("mi", 1))}


def unit_base(word: str) -> str:
    """Return the canonical name of a unit word; of a count noun, the folded word itself."""
    return _BASES.get(word) or _BASES.get(word.lower()) or _noun(word)


def is_unit_word(word: str) -> bool:
    """Return whether a word is in the table of units."""
    return word in _BASES


def _noun(word: str) -> str:
    """Fold case and the plural of a count noun."""
    word = word.lower()
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


def read_unit(tokens: list[tuple[str, int | str]]) -> Unit:
    """Combine a run of unit words and operators into a unit.

    Args:
      tokens: ("word", text), ("^", power), ("/", 0) or ("*", 0), in order; "per" is a "/".
    """
    total: Counter[str] = Counter()
    sign, prefix, last = 1, 1, ""
    for kind, value in tokens:
        if kind == "/":
            sign = -1
        elif kind == "^" and last:
            total[last] += sign * (int(value) - 1)
        elif kind == "word" and value in vocabulary.POWER_WORDS:
            prefix = vocabulary.POWER_WORDS[str(value)]
        elif kind == "word" and value in vocabulary.POWER_SUFFIXES and last:
            total[last] += sign * (vocabulary.POWER_SUFFIXES[str(value)] - 1)
        elif kind == "word" and str(value).lower() not in vocabulary.UNIT_FILLER:
            last = unit_base(str(value))
            total[last] += sign * prefix
            prefix = 1
    for name, parts in _COMPOUND.items():
        power = total.pop(name, 0)
        for base, exponent in parts:
            total[base] += power * exponent
    return tuple(sorted((base, power) for base, power in total.items() if power))


def conflict(gold: Unit, answer: Unit) -> bool:
    """Return whether two units contradict each other.

    A missing unit contradicts nothing. The placeholder "units" stands for any unit of its power.
    Two phrases of count nouns agree if one holds all words of the other ("ways", "different ways").
    """
    if not gold or not answer or gold == answer:
        return False
    known = set(vocabulary.UNITS)
    if {base for base, _ in gold} == {"unit"} or {base for base, _ in answer} == {"unit"}:
        return sum(power for _, power in gold) != sum(power for _, power in answer)
    gold_known = {part for part in gold if part[0] in known}
    answer_known = {part for part in answer if part[0] in known}
    if gold_known and answer_known:
        return gold_known != answer_known
    return not (set(gold) <= set(answer) or set(answer) <= set(gold))

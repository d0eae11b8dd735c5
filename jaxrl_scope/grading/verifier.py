"""The plain entry points of the verifier: one answer in, one verdict out."""

import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading.extract import final_answer
from jaxrl_scope.grading.verdicts import Verdict

_NUMERAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:/\d+)?")


def _compare(gold: str, answer: str) -> Verdict:
    gold, answer = (re.sub(r"[\s$]|\\!|\{,\}", "", text) for text in (gold, answer))
    if gold == answer:
        return Verdict.CORRECT
    if _NUMERAL.fullmatch(gold) and _NUMERAL.fullmatch(answer) and len(answer) < 1000:
        if answer.endswith("/0"):
            return Verdict.INCORRECT
        return Verdict(Fraction(gold.rstrip(".")) == Fraction(answer.rstrip(".")))
    return Verdict.INCORRECT


def verify(
    gold: str,
    response: str,
    *,
    task: str | None = None,
    label: str | None = None,
    choices: Sequence[str] | None = None,
) -> Verdict:
    """Grade one response against the gold answer."""
    answer = final_answer(response, label)
    return Verdict.INCORRECT if answer is None else _compare(gold, answer)


def is_correct(
    gold: str,
    response: str,
    *,
    task: str | None = None,
    label: str | None = None,
    choices: Sequence[str] | None = None,
) -> bool:
    """Return whether a response's final answer equals the gold answer."""
    verdict = verify(gold, response, task=task, label=label, choices=choices)
    return verdict is Verdict.CORRECT


def verify_scaffold(response: str, scaffold: Scaffold) -> tuple[np.ndarray, int]:
    """Grade every sub-answer and the main answer of one scaffolded response.

    Returns:
      sub: [m] int8, `Verdict` value per sub-question.
      main: `Verdict` value of the main answer.
    """
    sub = [
        verify(gold, response, label=f"SUB-{i}") for i, gold in enumerate(scaffold.answers, start=1)
    ]
    return np.array(sub, np.int8), int(verify(scaffold.main_answer, response, label="MAIN"))

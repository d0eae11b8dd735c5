"""What can be said of one response without a worker process."""

import logging

from jaxrl_scope.grading.choices import is_choice_correct
from jaxrl_scope.grading.equivalence.answers import equivalent
from jaxrl_scope.grading.equivalence.limits import (
    LimitExceededError,
    NeedsSympyError,
    NeedsWorkerError,
)
from jaxrl_scope.grading.extract import final_answer, stated_answer
from jaxrl_scope.grading.verdicts import Item, Verdict
from jaxrl_scope.grading.workers import Outcome, Question

_LOG = logging.getLogger(__name__)
_INCORRECT = Outcome(Verdict.INCORRECT)
_BAD_GOLD = Outcome(Verdict.FAILED, "gold")


def prepare(item: Item) -> Outcome | Question:
    """Find the answer of a response: a question to settle, or the outcome where none is needed."""
    if not item.gold.strip():
        return _BAD_GOLD
    if item.task == "mcq":
        num_choices = len(item.choices) if item.choices else None
        try:
            is_correct = is_choice_correct(
                item.gold, item.response, label=item.label, num_choices=num_choices
            )
        except ValueError:
            return _BAD_GOLD
        return Outcome(Verdict(is_correct))
    answer = final_answer(item.response, item.label)
    if answer is None and item.lenient:
        answer = stated_answer(item.response)
    return _INCORRECT if answer is None else Question(item.gold, answer, item.task)


def settle(question: Question) -> tuple[Outcome | None, bool]:
    """Settle a question by exact arithmetic.

    Returns:
      The outcome, None if a worker must be asked; and whether that worker needs sympy.
    """
    gold, answer, task = question
    try:
        return Outcome(Verdict(equivalent(gold, answer, task=task))), False
    except (LimitExceededError, RecursionError):
        return Outcome(Verdict.FAILED, "limit"), False
    except NeedsWorkerError as error:
        return None, isinstance(error, NeedsSympyError)
    except Exception:  # a defect of the verifier must not end a run: it is counted as a crash
        _LOG.exception("verifier crashed on gold %r, answer %.200r", gold, answer)
        return Outcome(Verdict.FAILED, "crash"), False

"""The plain entry points of the verifier: one answer in, one verdict out."""

import functools
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Scaffold
from jaxrl_scope.grading.pool import VerifierPool
from jaxrl_scope.grading.verdicts import Item, Verdict


@functools.lru_cache(maxsize=1)
def _shared_pool() -> VerifierPool:
    """One worker for all plain calls of this process; it starts when first needed."""
    return VerifierPool(num_workers=1)


def verify(
    gold: str,
    response: str,
    *,
    task: str | None = None,
    label: str | None = None,
    choices: Sequence[str] | None = None,
    lenient: bool = False,
) -> Verdict:
    r"""Grade one response against the gold answer.

    Hostile input is safe: it may take the wall limit (3 s), never more. A truncated response (no
    end-of-text before the cap) is the caller's to count as incorrect.

    Args:
      gold: the gold answer, LaTeX or plain text.
      response: the whole response.
      task: "mcq"; or "factor", "expand", "simplify" where a form is asked for; others are plain.
      label: "MAIN" or "SUB-<i>" to read a labelled answer of a scaffolded response.
      choices: the texts of the choices of a multiple-choice problem.
      lenient: evaluation only: read an unboxed "the answer is ..." where there is no box.

    Returns:
      `Verdict`; FAILED where a limit was exceeded or the gold answer is none.

    Raises:
      ValueError: the label is neither "MAIN" nor "SUB-<i>".

    Example:
      >>> verify("1/2", r"So it is \boxed{0.5}.").name
      'CORRECT'
    """
    item = Item(gold, response, task, label, tuple(choices) if choices else None, lenient)
    return _shared_pool().grade([item])[0].verdict


def is_correct(
    gold: str,
    response: str,
    *,
    task: str | None = None,
    label: str | None = None,
    choices: Sequence[str] | None = None,
    lenient: bool = False,
) -> bool:
    """Return whether a response's final answer is the gold answer; arguments as for `verify`."""
    verdict = verify(gold, response, task=task, label=label, choices=choices, lenient=lenient)
    return verdict is Verdict.CORRECT


def is_gradable(gold: str, *, task: str | None = None) -> bool:
    """Return whether the verifier accepts a gold answer as an answer to itself.

    A problem whose gold answer is not gradable should be dropped from the data.
    """
    response = gold if task == "mcq" else rf"\boxed{{{gold}}}"
    return is_correct(gold, response, task=task)


def verify_scaffold(response: str, scaffold: Scaffold) -> tuple[np.ndarray, int]:
    """Grade every sub-answer and the main answer of one scaffolded response.

    Returns:
      sub: [m] int8, `Verdict` value per sub-question.
      main: `Verdict` value of the main answer.
    """
    sub, main = _shared_pool().verify_scaffolds([response], [scaffold])
    return sub[0], int(main[0])

"""What the verifier is asked and what it may say."""

import dataclasses
import enum


class Verdict(enum.IntEnum):
    """Outcome of grading one answer; the integers are what int8 verdict arrays hold.

    FAILED is not a wrong answer: a limit was exceeded, a worker was killed, or the gold answer does
    not parse. Such a rollout leaves its group's statistics and the loss.
    """

    FAILED = -1
    INCORRECT = 0
    CORRECT = 1


@dataclasses.dataclass(frozen=True)
class Item:
    """One response to grade.

    Attributes:
      gold: the gold answer, LaTeX or plain text.
      response: the model's whole response.
      task: "mcq" for multiple choice; "factor", "expand" or "simplify" where the problem asks for a
        form; anything else (None, "aime", ...) is a plain answer.
      label: which labelled answer to read: "MAIN", "SUB-1", "SUB-2", ...; None reads the last box.
      choices: texts of the choices of a multiple-choice problem, in order A, B, C...
      lenient: for evaluation only; reads an unboxed final statement where there is no box.
    """

    gold: str
    response: str
    task: str | None = None
    label: str | None = None
    choices: tuple[str, ...] | None = None
    lenient: bool = False

"""What every system here trains on: a problem, and the answer-hidden scaffold of a problem."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any


def problem_hash(text: str, answer: str) -> str:
    """Name a problem by its content: the first 16 hex digits of the SHA-256 of text and answer.

    White space is folded first, so that a re-wrapped copy keeps its name.
    """
    folded = " ".join(text.split()) + "\x00" + " ".join(answer.split())
    return hashlib.sha256(folded.encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem with its gold answer.

    Attributes:
      id: stable name, unique in a data set; `problem_hash` where the file gives none.
      text: the problem as the user states it, without instructions about the answer's format.
      answer: the gold answer, as the verifier reads it.
      source: corpus the problem comes from (verl's `data_source`).
      difficulty: label used by offline routing and accuracy tables ("k4", "level 5"); "" if none.
      task: verifier mode ("mcq", ...); None for plain answers.
      choices: texts of the choices of a multiple-choice problem, in order A, B, C...
      messages: chat messages to send instead of `text` where a file gives them; None otherwise.
      meta: whatever else the file held.
    """

    id: str
    text: str
    answer: str
    source: str = ""
    difficulty: str = ""
    task: str | None = None
    choices: tuple[str, ...] | None = None
    messages: tuple[Mapping[str, str], ...] | None = None
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Scaffold:
    """An ordered chain of sub-questions that ends in the main question (SCOPE-RL, Eq. 5).

    The policy sees `questions` and `main_question`; `answers` and `main_answer` are read by the
    verifier alone.

    Attributes:
      problem_id: `Problem.id` of the problem it decomposes.
      questions: the m >= 1 sub-questions, in order.
      answers: their m hidden answers.
      main_question: the final question; its answer is the problem's gold answer.
      main_answer: the problem's gold answer.
      messages: the chat messages of the scaffolded prompt where a file gives them; None to build
        them from the questions.
      source: corpus the problem comes from.
    """

    problem_id: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    main_question: str
    main_answer: str
    messages: tuple[Mapping[str, str], ...] | None = None
    source: str = ""

    @property
    def num_sub(self) -> int:
        """m, the number of sub-questions."""
        return len(self.answers)

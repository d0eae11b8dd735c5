"""Valid = V and P and D and H: which scaffolds may be trained on (SCOPE-RL, Eq. 6).

Each predicate is a function from a scaffold to the violations it finds; none means that it holds.
P and D can only be approximated by rules; a checker model decides the rest where one is configured
(`scaffold_teacher`).
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from jaxrl_scope.data.leaks import Equivalent, leaked
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import problem_text
from jaxrl_scope.data.questions import (
    continues,
    is_arithmetic,
    names_predecessor,
    pointers,
    points_back,
    similarity,
    symbols,
)
from jaxrl_scope.grading import Item, Verdict

MAX_SUB_QUESTIONS = 16  # the longest published chain has 15 (SCOPE-RL, Table 9)
MAX_ANSWER_CHARS = 300
MAX_ANSWER_WORDS = 5
SAME_QUESTION = 0.8  # share of common words from which two questions with one answer are one

# Corpora in a formal language: there an operation is the concept that is taught, and its symbols
# do not mean what they mean in arithmetic.
FORMAL_SOURCES = frozenset({"chains"})

Verify = Callable[[Sequence[Item]], Sequence[int] | np.ndarray]

_TRUTH_VALUE = re.compile(r"(?:\\text\w*\{)?\s*(?:true|false|yes|no)\s*\}?\.?", re.IGNORECASE)
_PROOF = re.compile(
    r"\b(?:if and only if|iff|holds|because|therefore|hence|since|q\.?e\.?d|proof|proven|proved)\b"
    r"|\\(?:blacksquare|square|Box|qed)\b",
    re.IGNORECASE,
)
_ASKS_FOR_PROOF = re.compile(
    r"\b(?:prove|disprove|show that|true or false|is it true|explain|justify|verify that|"
    r"determine whether|decide whether|state whether)\b",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Violation:
    """Why a scaffold is not valid.

    Attributes:
      predicate: V verifiable, P relevant, D dependent, H hidden.
      detail: what is wrong and where, for people and for the teacher's next attempt. It never
        quotes a hidden answer's other spellings.
    """

    predicate: Literal["V", "P", "D", "H"]
    detail: str

    def __str__(self) -> str:
        return f"{self.predicate}: {self.detail}"


def find_violations(
    scaffold: Scaffold,
    problem: Problem | None,
    verify: Verify,
    *,
    instructions: Sequence[str] = (),
) -> list[Violation]:
    """Apply all four predicates.

    Args:
      scaffold: the candidate.
      problem: the problem it decomposes. None where it is not known: then the main question stands
        in for its text, without the clauses that tell earlier results.
      verify: grades a batch, for instance `VerifierPool.verify_batch`.
      instructions: system message and instruction that the policy will see besides the questions.

    Returns:
      The violations, in the order V, P, D, H; empty for a valid scaffold.
    """
    equivalent = _equivalence(verify)
    return [
        *check_verifiable(scaffold, problem, verify),
        *check_relevant(scaffold, equivalent),
        *check_dependent(scaffold, original_text(scaffold, problem)),
        *check_hidden(
            scaffold,
            original_text(scaffold, problem),
            instructions=instructions,
            equivalent=equivalent,
        ),
    ]


def original_text(scaffold: Scaffold, problem: Problem | None) -> str:
    """The original problem as far as it is known: what it shows is no secret."""
    if problem is not None:
        return problem_text(problem)
    clauses = re.split(r"(?<=[.,;:?!])\s", scaffold.main_question)
    return " ".join(c for c in clauses if not points_back(c, scaffold.num_sub))


# V


def check_verifiable(
    scaffold: Scaffold, problem: Problem | None, verify: Verify
) -> list[Violation]:
    """V: every answer is one value, interval, finite set or expression that the verifier can read.

    The main answer must equal the problem's gold answer.
    """
    found = []
    if not 1 <= scaffold.num_sub <= MAX_SUB_QUESTIONS:
        found.append(
            Violation(
                "V", f"{scaffold.num_sub} sub-questions; 1 to {MAX_SUB_QUESTIONS} are allowed"
            )
        )
    names = [*(f"sub-answer {i}" for i in range(1, scaffold.num_sub + 1)), "the main answer"]
    answers = (*scaffold.answers, scaffold.main_answer)
    unreadable = [form_fault(answer) for answer in answers]
    found += [
        Violation("V", f"{name} {fault}")
        for name, fault in zip(names, unreadable, strict=True)
        if fault
    ]
    for index, question in enumerate(scaffold.questions, start=1):
        if match := _ASKS_FOR_PROOF.search(question):
            detail = f"sub-question {index} asks for an argument ({match[0]!r}), not a value"
            found.append(Violation("V", detail))
    if not found:  # the verifier is asked only about answers that look like answers
        found += _verifier_faults(scaffold, problem, names, verify)
    return found


def form_fault(answer: str) -> str | None:
    """What rules an answer out by its form alone, as the end of a sentence; None if nothing."""
    text = answer.strip()
    if not text:
        return "is empty"
    if len(text) > MAX_ANSWER_CHARS:
        return f"is longer than {MAX_ANSWER_CHARS} characters"
    if _TRUTH_VALUE.fullmatch(text):
        return "is a truth value"
    if match := _PROOF.search(text):
        return f"reads like an argument ({match[0]!r})"
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", text)
    if len(words) > MAX_ANSWER_WORDS:
        return f"is prose ({len(words)} words)"
    return None


def _verifier_faults(
    scaffold: Scaffold, problem: Problem | None, names: Sequence[str], verify: Verify
) -> list[Violation]:
    task = problem.task if problem else None
    choices = problem.choices if problem else None
    items = [Item(a, boxed(a)) for a in scaffold.answers]
    items.append(Item(scaffold.main_answer, boxed(scaffold.main_answer), task, None, choices))
    if problem is not None:
        items.append(Item(problem.answer, boxed(scaffold.main_answer), task, None, choices))
    verdicts = verify(items)
    found = [
        Violation("V", f"the verifier does not accept {name} against itself")
        for name, verdict in zip(names, verdicts, strict=False)
        if verdict != Verdict.CORRECT
    ]
    if problem is not None and verdicts[-1] != Verdict.CORRECT:
        found.append(Violation("V", "the main answer differs from the problem's gold answer"))
    return found


def boxed(answer: str) -> str:
    r"""A response that gives exactly this answer."""
    return f"\\boxed{{{answer}}}"


def _equivalence(verify: Verify) -> Equivalent:
    def equivalent(gold: str, other: str) -> bool:
        return verify([Item(gold, boxed(other))])[0] == Verdict.CORRECT

    return equivalent


# P


def check_relevant(scaffold: Scaffold, equivalent: Equivalent) -> list[Violation]:
    """P, as far as rules go: no sub-question is arithmetic only, and none is asked twice.

    The last sub-question must differ from the main question above all. Whether a sub-question is a
    prerequisite at all is left to the checker.
    """
    found = []
    if scaffold.source not in FORMAL_SOURCES:
        found += [
            Violation("P", f"sub-question {index} is arithmetic only")
            for index, question in enumerate(scaffold.questions, start=1)
            if is_arithmetic(question)
        ]
    questions = (*scaffold.questions, scaffold.main_question)
    answers = (*scaffold.answers, scaffold.main_answer)
    for late in range(1, len(questions)):
        if continues(questions[late]):
            continue  # "* 2" asks something else at every place
        for early in range(late):
            # One number changed makes another question, unless the answer stays the same.
            likeness = similarity(questions[early], questions[late], at_least=SAME_QUESTION)
            if likeness == 1 or (likeness and equivalent(answers[early], answers[late])):
                is_main = late == scaffold.num_sub
                other = "the main question" if is_main else f"sub-question {late + 1}"
                found.append(Violation("P", f"sub-question {early + 1} repeats {other}"))
    return found


# D


def check_dependent(scaffold: Scaffold, original: str) -> list[Violation]:
    """D, as far as rules go: sub-questions from the second on use an earlier result, none a later.

    A use shows as a pointer ("sub-question 1", "the previous result"), as a symbol that an earlier
    sub-question brought in, or, in a formal language, as an operator with nothing before it.
    """
    found = []
    num_sub = scaffold.num_sub
    known = symbols(original)
    introduced: set[str] = set()
    for index, question in enumerate(scaffold.questions, start=1):
        name = f"sub-question {index}"
        found += _order_faults(question, index, num_sub, name)
        if index == 1 and names_predecessor(question):
            found.append(Violation("D", f"{name} refers to an earlier result; there is none"))
        own = symbols(question)
        if index > 1 and not (own & introduced or points_back(question, num_sub)):
            found.append(Violation("D", f"{name} uses no earlier result"))
        introduced |= own - known
    return found + _order_faults(scaffold.main_question, num_sub + 1, num_sub, "the main question")


def _order_faults(question: str, index: int, num_sub: int, name: str) -> list[Violation]:
    return [
        Violation("D", f"{name} refers to sub-question {k}, which does not stand before it")
        for k in pointers(question, num_sub)
        if k >= index
    ]


# H


def check_hidden(
    scaffold: Scaffold,
    original: str,
    *,
    instructions: Sequence[str] = (),
    equivalent: Equivalent | None = None,
) -> list[Violation]:
    """H: no hidden answer can be read in what the policy sees, unless the original shows it.

    Looked through are the questions, the instructions, and where the scaffold brings its own
    messages those too (a published file may hold a talkative system message).
    """
    texts = [
        *((f"sub-question {i}", text) for i, text in enumerate(scaffold.questions, start=1)),
        ("the main question", scaffold.main_question),
        *(("the instructions", text) for text in instructions),
        *((f"the {m['role']} message", m["content"]) for m in scaffold.messages or ()),
    ]
    found = []
    answers = (*scaffold.answers, scaffold.main_answer)
    for index, answer in enumerate(answers):
        secret = f"sub-answer {index + 1}" if index < scaffold.num_sub else "the main answer"
        for place, (name, text) in enumerate(texts):
            # A calculation gives away the answer to another question. In its own it is the task,
            # and a user message holds all of them.
            others_question = place <= scaffold.num_sub and place != index
            if leaked(
                answer,
                text,
                original,
                num_sub=scaffold.num_sub,
                calculations=others_question and scaffold.source not in FORMAL_SOURCES,
                equivalent=equivalent,
            ):
                found.append(Violation("H", f"{secret} can be read in {name}"))
    return found

"""What the teacher and the checker are asked, and how their replies are read."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import problem_text
from jaxrl_scope.data.questions import strip_label
from jaxrl_scope.data.scaffold_rules import Violation
from jaxrl_scope.grading.chat_types import Question
from jaxrl_scope.grading.extract import find_boxes

TEACHER_VERSION = "scaffold-teacher/1"
CHECKER_VERSION = "scaffold-checker/1"

TEACHER_SYSTEM = r"""
You turn one mathematics problem into a ladder: a few sub-questions that a learner answers in order
and that lead up to the problem. You get the problem and its correct answer. The learner sees your
sub-questions, then the problem, and never sees an answer. A program checks the learner's answers,
and another one checks your ladder against these rules:

1. Every answer is one number, one interval, one finite set or tuple, or one algebraic expression,
   as LaTeX without dollar signs. Never yes or no, true or false, a proof, or a sentence. If an
   answer can be written in several ways, the sub-question says which one is wanted. Prefer counts.
2. Every sub-question is about one idea or technique that the problem needs. A calculation with
   numbers at hand is not an idea.
3. From the second on, every sub-question needs the answer to an earlier one and says so ("Using the
   answer to sub-question 1, ..."). It refers to that answer by name or by a letter and never states
   it.
4. No sub-question shows any answer of the ladder, its own or another's, in digits, in words or as a
   calculation. Numbers that stand in the problem may be repeated.
5. The learner reads the sub-questions before the problem: repeat what a sub-question needs to know.
6. The last sub-question asks for something else than the problem does; the problem still takes
   thought once all sub-questions are answered.

Two to six sub-questions suit most problems. If the answer to the problem is of none of the kinds in
rule 1, or if you cannot keep these rules, give an empty list.

Reply with one JSON object: {"sub_questions": [{"question": "...", "answer": "..."}, ...]}
""".strip()

CHECKER_SYSTEM = r"""
You check a ladder of sub-questions that leads up to a mathematics problem. For every sub-question,
in order, decide three things by its content, not by how it is worded:

- is_prerequisite: a sound solution of the problem needs its answer, or the idea it asks for.
- is_arithmetic_only: answering it takes nothing but a calculation with numbers at hand.
- needs_earlier_answer: it cannot be answered without the answer to an earlier sub-question. The
  first one never does.

Reply with one JSON object that has one entry per sub-question:
{"sub_questions": [{"is_prerequisite": true, "is_arithmetic_only": false,
"needs_earlier_answer": false, "reason": "a few words"}, ...]}
""".strip()


def _list_schema(properties: Mapping[str, str]) -> dict[str, Any]:
    """Schema of {"sub_questions": [...]} whose entries have the given fields and no other."""
    entry = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"sub_questions": {"type": "array", "items": entry}},
        "required": ["sub_questions"],
        "additionalProperties": False,
    }


_TEACHER_FIELDS = {"question": "string", "answer": "string"}
_CHECKER_FIELDS = {
    "is_prerequisite": "boolean",
    "is_arithmetic_only": "boolean",
    "needs_earlier_answer": "boolean",
    "reason": "string",
}


def teacher_question(
    problem: Problem, rejected: Sequence[tuple[Scaffold, Sequence[Violation]]] = ()
) -> Question[Scaffold | None]:
    """Ask for a ladder.

    Args:
      problem: the problem, with its gold answer.
      rejected: earlier chains and what was wrong with them; the teacher is told.

    Returns:
      A question whose answer is a candidate scaffold, not yet validated, or None where the teacher
      says that there is none. The main question is the problem itself, word for word.
    """
    user = _tagged("problem", problem_text(problem)) + _tagged("answer", problem.answer)
    for chain, violations in rejected:
        faults = "\n".join(f"- {violation}" for violation in violations)
        user += _tagged("rejected_ladder", f"{_ladder(chain)}\nFaults:\n{faults}")

    def parse(reply: dict[str, Any]) -> Scaffold | None:
        entries = _entries(reply, _TEACHER_FIELDS)
        if not entries:
            return None
        return Scaffold(
            problem_id=problem.id,
            questions=tuple(strip_label(entry["question"]).strip() for entry in entries),
            answers=tuple(_bare(entry["answer"]) for entry in entries),
            main_question=problem_text(problem),
            main_answer=problem.answer,
            source=problem.source,
        )

    return Question(TEACHER_VERSION, TEACHER_SYSTEM, user, _list_schema(_TEACHER_FIELDS), parse)


def checker_question(problem: Problem, chain: Scaffold) -> Question[list[Violation]]:
    """Ask whether a chain is relevant and dependent: P and D as far as rules cannot tell."""

    def parse(reply: dict[str, Any]) -> list[Violation]:
        entries = _entries(reply, _CHECKER_FIELDS)
        if len(entries) != chain.num_sub:
            raise ValueError(f"expected {chain.num_sub} entries, one per sub-question")
        return [
            violation
            for index, entry in enumerate(entries, start=1)
            for violation in _checker_violations(index, entry)
        ]

    user = _tagged("problem", problem_text(problem)) + _tagged("ladder", _ladder(chain))
    return Question(CHECKER_VERSION, CHECKER_SYSTEM, user, _list_schema(_CHECKER_FIELDS), parse)


def _checker_violations(index: int, entry: Mapping[str, Any]) -> list[Violation]:
    name, why = f"sub-question {index}", f"(checker: {entry['reason'].strip()[:200]})"
    found = []
    if not entry["is_prerequisite"]:
        found.append(Violation("P", f"{name} is no prerequisite {why}"))
    if entry["is_arithmetic_only"]:
        found.append(Violation("P", f"{name} is arithmetic only {why}"))
    if index > 1 and not entry["needs_earlier_answer"]:
        found.append(Violation("D", f"{name} needs no earlier answer {why}"))
    return found


def _entries(reply: Mapping[str, Any], fields: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The validated list of a reply. Raises ValueError with what to mend."""
    entries = reply.get("sub_questions")
    if not isinstance(entries, list):
        raise ValueError('expected a key "sub_questions" that holds a list')
    types = {"string": str, "boolean": bool}
    for index, entry in enumerate(entries, start=1):
        for name, kind in fields.items():
            value = entry.get(name) if isinstance(entry, dict) else None
            if not isinstance(value, types[kind]) or (value == "" and name != "reason"):
                raise ValueError(f"entry {index}: expected a {kind} under {name!r}")
    return entries


def _ladder(chain: Scaffold) -> str:
    pairs = zip(chain.questions, chain.answers, strict=True)
    return "\n".join(
        f"Sub-question {index}: {question}\nAnswer {index}: {answer}"
        for index, (question, answer) in enumerate(pairs, start=1)
    )


def _tagged(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>\n"


def _bare(answer: str) -> str:
    """The answer without dollar signs or a box around it."""
    text = answer.strip()
    for start, end in (("$$", "$$"), ("$", "$"), (r"\(", r"\)")):
        inner = text[len(start) : len(text) - len(end)]
        if text.startswith(start) and text.endswith(end) and inner and end not in inner:
            text = inner.strip()
            break
    boxes = find_boxes(text)
    is_one_box = len(boxes) == 1 and (boxes[0].start, boxes[0].end) == (0, len(text))
    return boxes[0].text.strip() if is_one_box else text

import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_rules import Violation
from jaxrl_scope.data.scaffold_teacher import checker_question, teacher_question

PROBLEM = Problem("p", "Find $m+n$.", "29", source="s")
CHAIN = Scaffold("p", ("First?", "Second?"), ("66", "7"), "Find $m+n$.", "29", source="s")


def ladder(*pairs):
    return {"sub_questions": [{"question": q, "answer": a} for q, a in pairs]}


def test_a_reply_becomes_a_scaffold_of_the_problem_itself():
    parse = teacher_question(PROBLEM).parse
    assert parse(ladder(("First?", "66"), ("Second?", "7"))) == CHAIN


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("$66$", "66"),
        ("\\boxed{66}", "66"),
        ("$\\boxed{\\frac{1}{2}}$", "\\frac{1}{2}"),
        ("\\(x\\)", "x"),
        ("$1$ and $2$", "$1$ and $2$"),
        ("\\boxed{1}, \\boxed{2}", "\\boxed{1}, \\boxed{2}"),
    ],
)
def test_answers_lose_their_wrapping(written, kept):
    assert teacher_question(PROBLEM).parse(ladder(("First?", written))).answers == (kept,)


def test_headings_of_the_teacher_go():
    chain = teacher_question(PROBLEM).parse(ladder(("Sub-question 1: First?", "66")))
    assert chain.questions == ("First?",)


def test_an_empty_list_means_no_chain():
    assert teacher_question(PROBLEM).parse({"sub_questions": []}) is None


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"sub_questions": "none"},
        {"sub_questions": ["First?"]},
        {"sub_questions": [{"question": "First?"}]},
        {"sub_questions": [{"question": "First?", "answer": 66}]},
        {"sub_questions": [{"question": "", "answer": "66"}]},
    ],
)
def test_malformed_replies_say_what_to_mend(reply):
    with pytest.raises(ValueError, match="expected"):
        teacher_question(PROBLEM).parse(reply)


def test_the_teacher_is_told_what_was_wrong():
    question = teacher_question(PROBLEM, [(CHAIN, [Violation("H", "sub-answer 1 can be read")])])
    assert "First?" in question.user
    assert "H: sub-answer 1 can be read" in question.user
    assert question.user != teacher_question(PROBLEM).user


def verdict(prerequisite=True, arithmetic=False, dependent=True):
    return {
        "is_prerequisite": prerequisite,
        "is_arithmetic_only": arithmetic,
        "needs_earlier_answer": dependent,
        "reason": "so",
    }


@pytest.mark.parametrize(
    ("entries", "predicates"),
    [
        ([verdict(dependent=False), verdict()], ""),
        ([verdict(), verdict(dependent=False)], "D"),
        ([verdict(prerequisite=False), verdict(arithmetic=True)], "PP"),
    ],
)
def test_checker_verdicts_become_violations(entries, predicates):
    found = checker_question(PROBLEM, CHAIN).parse({"sub_questions": entries})
    assert "".join(violation.predicate for violation in found) == predicates


def test_a_checker_that_skips_a_sub_question_is_asked_again():
    with pytest.raises(ValueError, match="2 entries"):
        checker_question(PROBLEM, CHAIN).parse({"sub_questions": [verdict()]})

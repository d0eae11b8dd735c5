import dataclasses

import numpy as np
import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_rules import check_hidden, find_violations, form_fault, original_text
from jaxrl_scope.data.world import draw_chains, to_problem, to_scaffold
from jaxrl_scope.grading import verify

PROBLEM = Problem(
    "p",
    "A box holds 7 red and 5 blue balls. Two balls are drawn without replacement. The probability "
    "that both are red is $\\frac{m}{n}$ in lowest terms. Find $m+n$.",
    "29",
    source="test",
)
FIRST = (
    "Let $N$ be the number of unordered pairs of balls that can be drawn from the box. Find $N$."
)
SECOND = "Among the $N$ pairs of sub-question 1, what fraction has two red balls, in lowest terms?"
GOOD = Scaffold("p", (FIRST, SECOND), ("66", "\\frac{7}{22}"), PROBLEM.text, "29", source="test")


def verify_all(items):
    return [verify(i.gold, i.response, task=i.task, choices=i.choices) for i in items]


def chain(questions, answers, **changes):
    changed = dataclasses.replace(GOOD, questions=tuple(questions), answers=tuple(answers))
    return dataclasses.replace(changed, **changes)


def predicates(scaffold, problem=PROBLEM, **settings):
    return "".join(v.predicate for v in find_violations(scaffold, problem, verify_all, **settings))


def test_a_good_chain_has_no_violation():
    assert predicates(GOOD) == ""
    assert predicates(GOOD, problem=None) == ""


@pytest.mark.parametrize(
    ("name", "scaffold", "expected"),
    [
        ("truth value", chain([FIRST, "Is the previous result even?"], ["66", "yes"]), "V"),
        ("asks for proof", chain([FIRST, "Prove that $N$ is even; give it."], ["66", "66"]), "V"),
        ("prose", chain([FIRST, SECOND], ["66", "seven of the twenty two pairs are red"]), "V"),
        ("argument", chain([FIRST, SECOND], ["66", "7/22 because of symmetry"]), "V"),
        ("wrong main", chain([FIRST, SECOND], GOOD.answers, main_answer="30"), "V"),
        ("arithmetic", chain([FIRST, "Divide sub-answer 1 by 2."], ["66", "33"]), "P"),
        ("main repeated", chain([FIRST, f"Using $N$: {PROBLEM.text}"], ["66", "29"]), "P"),
        ("last is main", chain([FIRST, PROBLEM.text], ["66", "29"]), "PD"),
        ("asked twice", chain([FIRST, FIRST], ["66", "66"]), "P"),
        (
            "unordered",
            chain(["Using sub-question 2, what fraction is red?", FIRST], ["\\frac{7}{22}", "66"]),
            "DD",
        ),
        ("nothing before", chain(["Use the previous result to count pairs."], ["66"]), "D"),
        ("unrelated", chain([FIRST, "How many sides has a cube?"], ["66", "6"]), "D"),
        ("digits", chain([FIRST, "Of the 66 pairs of sub-question 1, which share is red?"],
                         GOOD.answers), "H"),
        ("words", chain([FIRST, "Of the sixty-six pairs found above, which share is red?"],
                        GOOD.answers), "H"),
        ("calculation", chain([FIRST, "Of your $\\binom{12}{2}$ results, which share is red?"],
                              GOOD.answers), "H"),
        ("own question", chain([FIRST + " (It is 66.)", SECOND], GOOD.answers), "H"),
        ("main answer", chain([FIRST, SECOND + " Then $m + n$ is 29."], GOOD.answers), "H"),
        ("main question", chain([FIRST, SECOND], GOOD.answers,
                                main_question=PROBLEM.text + " Recall that $N = 66$."), "H"),
    ],
)  # fmt: skip
def test_each_fault_is_found_for_its_own_reason(name, scaffold, expected):
    assert predicates(scaffold) == expected


def test_leaks_in_messages_and_instructions_count():
    system = ({"role": "system", "content": "Hint: 66."}, {"role": "user", "content": "..."})
    assert predicates(dataclasses.replace(GOOD, messages=system)) == "H"
    assert predicates(GOOD, instructions=["Write $\\frac{7}{22}$ as a decimal."]) == "H"
    assert predicates(GOOD, instructions=["Box every answer."]) == ""


def test_numbers_of_the_original_problem_may_be_repeated():
    scaffold = chain(["How many of the balls in the box are red?", SECOND], ["7", "\\frac{7}{22}"])
    violations = check_hidden(scaffold, PROBLEM.text)
    assert violations == []


def test_without_the_original_a_leak_in_the_main_question_is_still_found():
    scaffold = dataclasses.replace(
        GOOD, main_question="Two of 12 balls are drawn. Using the result 66, find $m+n$."
    )
    assert "66" not in original_text(scaffold, None)
    assert predicates(scaffold, problem=None) == "H"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("12", None),
        ("[2, 5)", None),
        ("\\{1, 2\\}", None),
        ("\\text{Friday}", None),
        ("x^2 + \\sqrt{2}", None),
        ("\\text{No}", "truth"),
        ("True.", "truth"),
        ("x = 1 if and only if y = 2", "argument"),
        ("a\\blacksquare", "argument"),
        ("", "empty"),
        ("1" * 400, "longer"),
        ("the number of ways is large and odd", "prose"),
    ],
)
def test_form_of_answers(answer, fault):
    found = form_fault(answer)
    assert found is None if fault is None else fault in (found or "")


def test_an_answer_that_the_verifier_fails_on_is_not_verifiable():
    def verify_none(items):
        return np.full(len(items), -1, np.int8)

    found = find_violations(GOOD, PROBLEM, verify_none)
    assert [v.predicate for v in found] == ["V"] * 4


def test_too_many_sub_questions():
    long = chain([SECOND] * 17, ["1"] * 17)
    assert "17 sub-questions" in str(find_violations(long, PROBLEM, verify_all)[0])


def test_multiple_choice_problems_are_verified_as_such():
    problem = Problem("q", "Which gas is noble?", "B", "test", task="mcq", choices=("O", "Ar"))
    scaffold = Scaffold(
        "q", ("How many electrons fill the shell of a noble gas below helium?",), ("8",),
        "Which gas is noble?\n\n(A) O\n(B) Ar", "B", source="test",
    )  # fmt: skip
    assert predicates(scaffold, problem) == ""
    assert predicates(dataclasses.replace(scaffold, main_answer="A"), problem) == "V"


def test_every_scaffold_of_the_built_in_world_is_valid():
    chains = draw_chains(np.random.default_rng(7), (2, 3, 5, 8), 40, 61)
    for drawn in chains:
        scaffold = to_scaffold(drawn)
        assert find_violations(scaffold, to_problem(drawn), verify_all) == []
        assert find_violations(scaffold, None, verify_all) == []

import numpy as np
import pytest

from jaxrl_scope.data.filters import (
    drop_long_prompts,
    drop_unverifiable,
    formula_key,
    problem_key,
    subset,
)
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.rows import LoadReport
from jaxrl_scope.grading import VerifierPool

PROBLEMS = [Problem(f"p{i}", "word " * i, str(i)) for i in range(1, 31)]


def encode(problem):
    return np.arange(len(problem.text.split()), dtype=np.int32)


def test_long_prompts_are_dropped_and_reported():
    report = LoadReport("x", num_rows=30)
    kept = drop_long_prompts(PROBLEMS, encode, 10, report)
    assert [p.id for p in kept] == [f"p{i}" for i in range(1, 11)]
    assert report.counts == {"too long": 20}
    assert report.drops[0].where == "p11"
    assert "11 tokens" in report.drops[0].detail


def test_problems_without_a_readable_gold_answer_are_dropped():
    problems = [
        Problem("a", "?", "\\frac{1}{2}"),
        Problem("b", "?", "\\frac{"),
        Problem("c", "?", "B", task="mcq", choices=("x", "y")),
        Problem("d", "?", "D", task="mcq", choices=("x", "y")),
    ]
    report = LoadReport("x", num_rows=4)
    with VerifierPool(num_workers=1) as pool:
        kept = drop_unverifiable(problems, pool.verify_batch, report)
    assert [p.id for p in kept] == ["a", "c"]
    assert report.counts == {"gold not verifiable": 2}


@pytest.mark.parametrize("text", ["Find 2.", "Let $x$ be $1$ and $y$ be $2$ and $z$."])
def test_few_or_short_formulas_tell_nothing(text):
    assert formula_key(Problem("a", text, "1")) is None


def test_subset_keeps_the_order_and_ignores_that_of_the_file():
    drawn = subset(PROBLEMS, 8, seed=3)
    assert drawn == sorted(drawn, key=PROBLEMS.index)
    assert {p.id for p in subset(PROBLEMS[::-1], 8, seed=3)} == {p.id for p in drawn}


def test_smaller_subsets_lie_inside_larger_ones():
    small, large = ({p.id for p in subset(PROBLEMS, size, seed=0)} for size in (5, 20))
    assert small < large


def test_subset_is_the_same_on_every_machine():
    # sha256("0\0p1"), ... ranked by hand with sha256sum.
    assert [p.id for p in subset(PROBLEMS, 3, seed=0)] == ["p15", "p17", "p22"]


@pytest.mark.parametrize("size", [0, -1, 31])
def test_impossible_sizes(size):
    with pytest.raises(ValueError, match="subset"):
        subset(PROBLEMS, size, seed=0)


def test_problem_key_tells_choices_apart_but_not_answers():
    base = Problem("a", "What?", "1")
    assert problem_key(base) == problem_key(Problem("b", " What? ", "2"))
    with_choices = Problem("a", "What?", "A", choices=("x", "y"))
    assert problem_key(base) != problem_key(with_choices)
    assert problem_key(with_choices) == problem_key(Problem("c", "What?", "B", choices=("y", "x")))

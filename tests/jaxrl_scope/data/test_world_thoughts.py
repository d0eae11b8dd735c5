"""Thought labels of the built-in world, by hand and against what the demonstrations do."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxrl_scope.data.world import draw_chains, to_problem
from jaxrl_scope.data.world_demos import DemoRates, write_original
from jaxrl_scope.data.world_labels import label_trace
from jaxrl_scope.data.world_thoughts import label_thoughts
from jaxrl_scope.data.world_walk import Walker
from jaxrl_scope.grading import is_correct
from jaxrl_scope.grading.judge import StepLabel
from jaxrl_scope.grading.segment import check_partition
from jaxrl_scope.presets import PRESETS

N = 61
PROBLEM = "55 - 3 * 2 + 3 ?"  # 52, 25, 28
label = functools.partial(label_thoughts, modulus=N)


def flags(response: str, correct: bool) -> str:
    """One letter a unit: g for good, b for bad."""
    spans, good = label(PROBLEM, response, correct)
    check_partition(spans, response)
    return "".join("g" if flag else "b" for flag in good)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        # Mended at once; a check and a restatement retract nothing.
        ("55 - 3 = 51 ; wait 55 - 3 : 54 53 52 ; so 52 ; 52 * 2 = 25 ; 25 + 3 = 28 ;", "bggggg"),
        # Mended one operation later: the branch goes with its source.
        (
            "55 - 3 = 51 ; 51 * 2 = 21 ; wait 55 - 3 : 54 53 52 ; 52 * 2 = 25 ; 25 + 3 = 28 ;",
            "bbgggg",
        ),
        # A sound step doubted: there is no mistake to retract.
        ("55 - 3 = 52 ; wait 55 - 3 : 54 53 52 ; 52 * 2 = 25 ; 25 + 3 = 28 ;", "ggggg"),
        # The mistake lies within what is taken back: sound work before it stays good.
        (
            "55 - 3 = 52 ; 52 * 2 = 24 ; wait 55 - 3 : 54 53 52 ; 52 * 2 = 25 ; 25 + 3 = 28 ;",
            "gbgggg",
        ),
        # Mended wrongly, then mended.
        (
            "55 - 3 = 51 ; wait 55 - 3 = 50 ; wait 55 - 3 = 52 ; 52 * 2 = 25 ; 25 + 3 = 28 ;",
            "bbgggg",
        ),
        # Never retracted, though wrong: the trace says nothing against it.
        ("55 - 3 = 51 ; 52 * 2 = 25 ; 25 + 3 = 28 ;", "gggg"),
    ],
)
def test_right_answers_by_hand(response, expected):
    assert flags(response + " \\boxed{ 28 }", correct=True) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        # All the work leads to the box; checks and restatements do not.
        (
            "55 - 3 = 51 ; check 55 - 3 = 51 ; 51 * 2 = 21 ; so 21 ; 21 + 3 = 24 ; \\boxed{ 24 }",
            "gbgbgg",
        ),
        # A branch taken back is not used.
        (
            "55 - 3 = 51 ; wait 55 - 3 : 54 53 52 ; 52 * 2 = 24 ; 24 + 3 = 27 ; \\boxed{ 27 }",
            "bgggg",
        ),
        (
            "55 - 3 = 51 ; 51 * 2 = 21 ; wait 55 - 3 = 52 ; 52 * 2 = 24 ; so 24 ; \\boxed{ 24 }",
            "bbggbg",
        ),
        # The box says what no step has reached.
        ("55 - 3 = 51 ; 51 * 2 = 21 ; \\boxed{ 5 }", "bbg"),
        # A value from nowhere: what stands before it is not used.
        ("55 - 3 = 51 ; 9 * 2 = 36 ; 36 + 3 = 39 ; \\boxed{ 39 }", "bggg"),
        ("hello", "g"),
    ],
)
def test_wrong_answers_by_hand(response, expected):
    assert flags(response, correct=False) == expected


def test_what_is_not_of_the_language_is_refused():
    with pytest.raises(ValueError, match="chain"):
        label("What is 1 + 1?", "2", True)
    with pytest.raises(ValueError, match="empty"):
        label(PROBLEM, "", True)


@given(st.text(alphabet="0123456789 ;:=+-*chekwaitso\\boxed{}", max_size=120), st.booleans())
def test_any_text_is_labelled_without_losing_a_character(text, correct):
    if text:
        spans, good = label(PROBLEM, text, correct)
        check_partition(spans, text)
        assert len(good) == len(spans)
        assert good[-1] is True


def demonstrations(rates: DemoRates, count: int = 200):
    rng = np.random.default_rng(0)
    for chain in draw_chains(rng, [3, 4], count, N):
        text, problem = write_original(rng, chain, rates), to_problem(chain)
        yield problem, text, is_correct(problem.answer, text)


def test_demonstrations_hold_back_tracks_and_abandoned_branches():
    rates = DemoRates(careful=0.3, repair=0.45, late=0.45)
    counts = {True: 0, False: 0}
    branches = 0
    for problem, text, correct in demonstrations(rates):
        _, good = label(problem.text, text, correct)
        counts[correct] += not all(good)
        branches += "".join("g" if flag else "b" for flag in good).find("bb") >= 0
    assert min(*counts.values(), branches) > 20


def test_every_error_of_a_right_answer_that_mends_all_is_bad():
    """With every slip mended, what is bad is exactly the errors and what grew from them."""
    rates = DemoRates(careful=0.3, check=0.0, restate=0.0, repair=0.5, late=1.0)
    for problem, text, correct in demonstrations(rates):
        if correct:
            _, good = label(problem.text, text, True)
            _, steps = label_trace(problem.text, text, modulus=N)
            wrong = [step == StepLabel.ERROR for step in steps]
            assert not any(flag and error for flag, error in zip(good, wrong, strict=False))


def test_unused_work_of_wrong_answers_is_mistaken_more_often_than_used_work():
    # Why sparing unused thoughts does not pay here: it spares mistakes, not sound exploration.
    rates = PRESETS["world-backtrack"]("tp").world.original
    rng = np.random.default_rng(0)
    steps, mistakes = {True: 0, False: 0}, {True: 0, False: 0}
    for chain in draw_chains(rng, (3, 4), 1000, modulus=N):
        problem, response = to_problem(chain), write_original(rng, chain, rates)
        if is_correct(problem.answer, response):
            continue
        spans, used = label(problem.text, response, False)
        walker = Walker(chain)
        for (start, end), good in zip(spans, used, strict=True):
            move = walker.move(response[start:end])
            if move.index is not None:
                steps[good] += 1
                mistakes[good] += not move.sound
    share = {good: mistakes[good] / steps[good] for good in steps}
    assert min(steps.values()) > 1000
    assert share[False] == pytest.approx(0.85, abs=0.03)
    assert share[True] == pytest.approx(0.37, abs=0.03)

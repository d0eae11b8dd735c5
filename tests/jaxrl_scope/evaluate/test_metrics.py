"""The figures of the protocol on a set small enough to count by hand."""

import dataclasses
import math

import numpy as np
import pytest

from jaxrl_scope.evaluate.intervals import accuracy_interval, wilson_interval
from jaxrl_scope.evaluate.metrics import passes, summarise
from jaxrl_scope.evaluate.records import SampleRecord
from jaxrl_scope.evaluate.tables import result_table, show
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import JudgeResult, StepLabel

U, M, D, R, E = StepLabel


def sample(problem, verdict, labels=(), *, source="a", tokens=10, finished=True, failure=None):
    judgement = None
    if labels or failure:
        steps = tuple((i, i + 1) for i in range(len(labels)))
        judgement = JudgeResult(steps, tuple(labels), failure=failure)
    return SampleRecord(
        problem, 0, source, "?", "1", "r", tokens, finished, verdict=verdict, judgement=judgement
    )


RIGHT, WRONG, FAILED = Verdict.CORRECT, Verdict.INCORRECT, Verdict.FAILED
RECORDS = [
    sample("1", RIGHT, (U, U, E, M), tokens=10),
    sample("1", WRONG, (E, U), tokens=20),
    sample("2", WRONG, tokens=60, finished=False),
    sample("2", FAILED, (R, R, R), tokens=1000),
    sample("3", RIGHT, (U, D), tokens=30, source="b"),
    sample("3", RIGHT, tokens=40, source="b", failure="timeout"),
]


def test_overall_figures_by_hand():
    overall = summarise(RECORDS)["overall"]
    assert (overall["num_problems"], overall["num_samples"]) == (3, 6)
    assert overall["num_undecided"] == 1  # out of every figure below
    assert overall["accuracy"] == 3 / 5
    assert overall["truncation_rate"] == 1 / 5
    assert overall["mean_tokens"] == (10 + 20 + 60 + 30 + 40) / 5
    figures = overall["quality"]
    assert figures["num_judged"] == 3 and figures["judge_failures"] == {"timeout": 1}
    # 8 steps in all: 4 useful, 1 mechanical, 1 redundant, 2 errors
    expected = {"useful": 4, "mechanical": 1, "redundant": 1, "reversion": 0, "error": 2}
    assert figures["shares"] == {name: count / 8 for name, count in expected.items()}
    assert figures["first_error"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert figures["num_with_error"] == 2
    assert figures["mean_steps"] == pytest.approx(8 / 3)


def test_correct_responses_alone():
    figures = summarise(RECORDS)["overall"]["quality_of_correct"]
    assert figures["num_judged"] == 2
    assert figures["shares"]["useful"] == 0.5 and figures["first_error"] == 0.75


def test_sources_apart_and_their_mean():
    summary = summarise(RECORDS)
    assert {name: group["accuracy"] for name, group in summary["by_source"].items()} == {
        "a": 1 / 3,
        "b": 1.0,
    }
    assert summary["average_accuracy"] == pytest.approx(2 / 3)
    assert summary["by_source"]["b"]["quality"]["first_error"] is None


def test_an_empty_quality_is_no_figure_and_prints():
    summary = summarise([sample("1", WRONG), sample("2", RIGHT)])
    assert summary["overall"]["quality"] == {
        "num_judged": 0,
        "judge_failures": {},
        "mean_score": None,
    }
    show(result_table(summary))


def test_the_table_holds_the_figures(capsys):
    show(result_table(summarise(RECORDS)))
    text = capsys.readouterr().out
    for figure in ("60.0", "66.7 %", "50.0", "0.625", "32.0"):
        assert figure in text, figure


def test_unscored_or_missing_samples_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        summarise([])
    with pytest.raises(ValueError, match="no verdict"):
        summarise([dataclasses.replace(RECORDS[0], verdict=None)])


def test_pass_at_k_needs_k_decided_samples():
    records = [sample("1", RIGHT if g < 2 else WRONG) for g in range(8)]
    records += [sample("2", WRONG) for _ in range(7)] + [sample("2", FAILED)]
    decided = [record for record in records if record.verdict != FAILED]
    out = passes(decided)
    assert list(out) == ["1", "8"]
    assert out["1"] == {"value": pytest.approx((2 / 8 + 0) / 2), "num_problems": 2}
    assert out["8"] == {"value": 1.0, "num_problems": 1}


def test_wilson_by_the_textbook():
    # 8 of 10, 95 %: 0.490 to 0.943 (Newcombe 1998, method 3, formula evaluated by hand)
    low, high = wilson_interval(0.8, 10)
    assert low == pytest.approx(0.4902, abs=2e-4) and high == pytest.approx(0.9433, abs=2e-4)
    assert wilson_interval(0.0, 0) == (0.0, 1.0)
    assert wilson_interval(1.0, 5)[1] == pytest.approx(1.0)
    assert wilson_interval(0.0, 5)[0] == pytest.approx(0.0)


def test_one_sample_a_problem_is_wilson_itself():
    correct = [True] * 8 + [False] * 2
    names = [str(i) for i in range(10)]
    assert accuracy_interval(correct, names) == pytest.approx(wilson_interval(0.8, 10))


def test_copies_of_a_sample_add_nothing():
    """Eight identical samples a problem are worth one: the interval is that of the problems."""
    correct = [True] * 8 + [False] * 2
    names = [str(i) for i in range(10)]
    repeated = accuracy_interval(np.repeat(correct, 8), np.repeat(names, 8).tolist())
    assert repeated == pytest.approx(accuracy_interval(correct, names))
    agreeing = accuracy_interval([True] * 80, np.repeat(names, 8).tolist())
    assert agreeing == pytest.approx(wilson_interval(1.0, 10))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Problems with their own pass rates, 8 samples each: nominal 95 %, naive would be far off."""
    rng = np.random.default_rng(0)
    names = np.repeat([str(i) for i in range(60)], 8).tolist()
    covered = naive = 0
    for _ in range(400):
        rates = rng.beta(0.4, 0.6, 60)
        correct = rng.random((60, 8)) < rates[:, None]
        low, high = accuracy_interval(correct.reshape(-1), names)
        covered += low <= 0.4 <= high
        low, high = wilson_interval(correct.mean(), correct.size)
        naive += low <= 0.4 <= high
    assert covered / 400 > 0.91 and naive / 400 < 0.75
    assert math.isclose(covered / 400, 0.95, abs_tol=0.04)

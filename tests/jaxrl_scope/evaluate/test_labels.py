"""Label and vote files: every layout, statistics by hand, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.data.rows import RowError
from jaxrl_scope.evaluate.agreement import compare, compare_with_experts, label_statistics
from jaxrl_scope.evaluate.label_files import Mark, load_labels, locate_steps
from jaxrl_scope.evaluate.preference import Preference, count_preferences
from jaxrl_scope.evaluate.records import SampleRecord, write_records
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import JudgeResult, StepLabel
from jaxrl_scope.grading.segment import check_partition

TRACES = Path(__file__).parents[4] / "shared" / "data" / "traces"

# Rows of the layouts of ../shared/data/traces, made by hand.
PRM = [
    {"id": "a", "response": "One.\nTwo.\nThree.", "correct": True,
     "steps": [{"text": "One.", "rating": 1, "human_written": False, "alternatives": []},
               {"text": "Two.", "rating": 0, "human_written": False, "alternatives": []},
               {"text": "Three.", "rating": None, "human_written": True, "alternatives": []}]},
    {"id": "b", "response": "Bad.\nGood.", "correct": False,
     "steps": [{"text": "Bad.", "rating": -1}, {"text": "Good.", "rating": 1}]},
]  # fmt: skip
PROCESSBENCH = [
    {"id": "x", "response": "A.\n\nB.\n\nC.\n\nD.", "correct": False, "first_error": 2,
     "steps": [{"text": "A.", "label": 1}, {"text": "B.", "label": 1}, {"text": "C.", "label": 0},
               {"text": "D.", "label": None}]},
    {"id": "y", "response": "A.\n\nB.", "correct": True, "first_error": -1,
     "steps": [{"text": "A.", "label": 1}, {"text": "B.", "label": 1}]},
    {"id": "z", "response": "A.\n\nB.", "correct": True, "first_error": 1,
     "steps": [{"text": "A.", "label": 1}, {"text": "B.", "label": 0}]},
]  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def marked(path, **traces):
    """A file of useful (u) and not useful (n) marks, one letter a step."""
    rows = [
        {"id": name, "steps": [{"label": {"u": "useful", "n": "not useful", "-": None}[m]}
                               for m in marks]}
        for name, marks in traces.items()
    ]  # fmt: skip
    return load_labels(write(path, rows))


def test_prm800k_ratings(tmp_path):
    traces = load_labels(write(tmp_path / "prm.jsonl", PRM))
    assert traces["a"].marks == (Mark(True, False), Mark(False, False), Mark())
    assert traces["b"].marks == (Mark(False, True), Mark(True, False))
    assert [traces["a"].response[s:e] for s, e in traces["a"].spans] == [
        "One.\n",
        "Two.\n",
        "Three.",
    ]
    assert label_statistics(traces) == {
        "num_traces": 2,
        "num_steps": 5,
        "mean_steps": 2.5,
        "useful_share": 2 / 4,
        "error_share": 1 / 4,
        "shares": None,
        "first_error": 1 / 2,
        "num_with_error": 1,
    }


def test_processbench_first_errors(tmp_path):
    traces = load_labels(write(tmp_path / "pb.jsonl", PROCESSBENCH))
    statistics = label_statistics(traces)
    assert statistics["first_error"] == pytest.approx((3 / 4 + 2 / 2) / 2)
    assert statistics["num_with_error"] == 2
    assert statistics["error_share"] == 2 / 7 and statistics["useful_share"] is None
    assert statistics["mean_steps"] == 8 / 3
    assert traces["y"].correct is True


def test_samples_of_an_evaluation_are_a_label_file(tmp_path):
    judged = JudgeResult(((0, 2), (2, 4), (4, 5)), (StepLabel.USEFUL, StepLabel.ERROR,
                         StepLabel.REDUNDANT))  # fmt: skip
    records = [
        SampleRecord("p", 0, "", "?", "1", "abcde", 5, True, None, None, Verdict.CORRECT, judged),
        SampleRecord("p", 1, "", "?", "1", "abcde", 5, True, None, None, Verdict.CORRECT,
                     JudgeResult(failure="timeout")),
        SampleRecord("p", 2, "", "?", "1", "abc", 5, False, None, None, Verdict.INCORRECT),
    ]  # fmt: skip
    write_records(tmp_path / "scored.jsonl", records)
    traces = load_labels(tmp_path / "scored.jsonl")
    assert list(traces) == ["p/0"]
    statistics = label_statistics(traces)
    assert statistics["shares"] == {
        "useful": 1 / 3, "mechanical": 0, "redundant": 1 / 3, "reversion": 0, "error": 1 / 3,
    }  # fmt: skip
    assert statistics["first_error"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"steps": [{"label": 1}]}, "id"),
        ({"id": "a"}, "steps"),
        ({"id": "a", "steps": []}, "steps"),
        ({"id": "a", "steps": ["useful"]}, "steps.0"),
        ({"id": "a", "steps": [{"label": 1}, {"text": "b"}]}, "steps.1"),
        ({"id": "a", "steps": [{"label": "great"}]}, "steps.0.label"),
        ({"id": "a", "steps": [{"label": True}]}, "steps.0.label"),
        ({"id": "a", "steps": [{"label": [1]}]}, "steps.0.label"),
        ({"id": "a", "steps": [{"rating": 2}]}, "steps.0.rating"),
        ({"id": "a", "response": "x", "steps": [{"text": "y", "label": 1}]}, "steps.0.text"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path, row, field):
    path = write(tmp_path / "labels.jsonl", [PRM[1], row])
    with pytest.raises(RowError, match=rf"labels\.jsonl:2.*'{field}'"):
        load_labels(path)


def test_empty_files_and_repeated_ids_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no labelled trace"):
        load_labels(write(tmp_path / "empty.jsonl", []))
    with pytest.raises(ValueError, match="second trace with the id 'b'"):
        load_labels(write(tmp_path / "twice.jsonl", [PRM[1], PRM[1]]))


def test_steps_are_located_in_order():
    assert locate_steps("> A\nA\nB\n", ["A", "A", "B"]) == ((0, 4), (4, 6), (6, 8))
    with pytest.raises(RowError, match=r"steps\.1"):
        locate_steps("B A", ["A", "B"])


def test_agreement_by_hand(tmp_path):
    """Judge uuun|un, expert uunn|un: 5 of 6 agree; p_e = 4/6 3/6 + 2/6 3/6 = 1/2; kappa = 2/3."""
    judge = marked(tmp_path / "j.jsonl", a="uuun", b="un", only_here="u")
    expert = marked(tmp_path / "e.jsonl", a="uunn", b="un")
    pair = compare(judge, expert)
    assert pair.num_steps == 6
    assert pair.accuracy == pytest.approx(5 / 6) and pair.kappa == pytest.approx(2 / 3)
    assert pair.precision == pytest.approx({"useful": 3 / 4, "not useful": 1.0})
    assert pair.recall == pytest.approx({"useful": 1.0, "not useful": 2 / 3})
    assert pair.f1 == pytest.approx({"useful": 6 / 7, "not useful": 4 / 5})


def test_five_labels_collapse_to_useful_or_not(tmp_path):
    names = ["useful", "mechanical", "redundant", "reversion", "error"]
    rows = [{"id": "a", "steps": [{"label": name} for name in names]}]
    judge = load_labels(write(tmp_path / "j.jsonl", rows))
    assert compare(judge, marked(tmp_path / "e.jsonl", a="unnnn")).accuracy == 1.0
    soundness = [{"id": "a", "steps": [{"label": v} for v in (1, 1, 1, 1, 0)]}]
    people = load_labels(write(tmp_path / "p.jsonl", soundness))
    assert compare(judge, people, "error").kappa == 1.0
    with pytest.raises(ValueError, match="no step has an answer to 'useful'"):
        compare(judge, people)


def test_where_experts_differ_the_judge_gets_half(tmp_path):
    """Experts agree on 4 of 5 steps; the judge matches 3 of those, and one expert on the fifth."""
    judge = marked(tmp_path / "j.jsonl", t="uuunu-")
    a = marked(tmp_path / "a.jsonl", t="uunnuu")
    b = marked(tmp_path / "b.jsonl", t="uunnnu")
    pairs = compare_with_experts(judge, a, b)
    assert pairs["expert A vs. expert B"].accuracy == pytest.approx(4 / 5)
    consensus = pairs["judge vs. consensus"]
    assert consensus.num_steps == 5
    assert consensus.accuracy == pytest.approx((3 + 0.5) / 5)
    assert pairs["judge vs. expert A"].accuracy == pytest.approx(4 / 5)
    assert pairs["judge vs. expert B"].accuracy == pytest.approx(3 / 5)
    # Cohen by weights: judge useful 4/5; consensus useful 2.5/5; p_e = .8 * .5 + .2 * .5 = .5
    assert consensus.kappa == pytest.approx((0.7 - 0.5) / 0.5)


def test_other_segmentations_and_other_traces_do_not_compare(tmp_path):
    a = marked(tmp_path / "a.jsonl", t="uu")
    with pytest.raises(ValueError, match="has 2 or 3 steps"):
        compare(a, marked(tmp_path / "b.jsonl", t="uuu"))
    with pytest.raises(ValueError, match="no trace id in common"):
        compare(a, marked(tmp_path / "c.jsonl", s="uu"))


VOTES = [
    {"id": "1", "dimension": "clarity", "votes": ["scope", "scope", "grpo"]},
    {"id": "2", "dimension": "clarity", "votes": ["grpo", "grpo", "grpo"]},
    {"id": "3", "dimension": "clarity", "votes": ["scope", "grpo", "tie"]},
    {"id": "1", "dimension": "overall", "votes": ["scope", "scope", "scope"]},
]


def test_preferences_are_counted_by_majority(tmp_path):
    counts = count_preferences(write(tmp_path / "votes.jsonl", VOTES), "scope", "grpo")
    assert counts == {"clarity": Preference(1, 1, 1), "overall": Preference(1, 0, 0)}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "4", "dimension": "clarity", "votes": ["scope", "other", "grpo"]}, "'other'"),
        ({"id": "4", "dimension": "clarity", "votes": []}, "votes"),
        ({"id": 4, "votes": ["scope"]}, "id"),
        ({"id": "4", "dimension": 1, "votes": ["scope"]}, "dimension"),
        ({"id": "4", "dimension": "clarity", "votes": ["scope"]}, "one number"),
        (VOTES[0], "twice"),
    ],
)
def test_votes_that_cannot_be_counted_are_refused(tmp_path, row, message):
    path = write(tmp_path / "votes.jsonl", [*VOTES, row])
    with pytest.raises(ValueError, match=message):
        count_preferences(path, "scope", "grpo")


def test_two_systems_need_two_names(tmp_path):
    path = write(tmp_path / "votes.jsonl", VOTES)
    for first, second in (("scope", "scope"), ("tie", "grpo")):
        with pytest.raises(ValueError, match="two different names"):
            count_preferences(path, first, second)
    with pytest.raises(ValueError, match="no votes"):
        count_preferences(write(tmp_path / "none.jsonl", []), "scope", "grpo")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not part of the repository")
def test_real_label_files_match_a_count_by_hand():
    for name in ("processbench_sample.jsonl", "prm800k_phase1_sample.jsonl"):
        rows = [json.loads(line) for line in (TRACES / name).read_text().splitlines()]
        traces = load_labels(TRACES / name)
        statistics = label_statistics(traces)
        assert len(traces) == len(rows)
        for trace in traces.values():
            check_partition(trace.spans, trace.response)
        if name.startswith("process"):
            firsts = [r["first_error"] for r in rows if r["first_error"] >= 0]
            positions = [(r["first_error"] + 1) / len(r["steps"]) for r in rows
                         if r["first_error"] >= 0]  # fmt: skip
            rated = [s["label"] for r in rows for s in r["steps"] if s["label"] is not None]
            assert statistics["num_with_error"] == len(firsts) == rated.count(0)
            assert statistics["first_error"] == pytest.approx(np.mean(positions))
            assert statistics["error_share"] == pytest.approx(rated.count(0) / len(rated))
            assert compare(traces, traces, "error").kappa == 1.0
        else:
            rated = [s["rating"] for r in rows for s in r["steps"] if s["rating"] is not None]
            assert statistics["useful_share"] == pytest.approx(rated.count(1) / len(rated))

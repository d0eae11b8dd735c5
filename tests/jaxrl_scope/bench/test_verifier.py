r"""The verifier benchmark: case files, summary figures, and a run beside math-verify."""

import json

import pytest

from jaxrl_scope.bench.math_verify_baseline import MathVerify
from jaxrl_scope.bench.verifier import Result, load_cases, main, make_stream, summarize
from jaxrl_scope.grading import Verdict

ROWS = [
    {"id": "a", "gold": "7", "response": r"\boxed{7}", "expected": True},
    {"id": "b", "gold": "7", "response": r"\boxed{8}", "expected": False},
    {"id": "c", "gold": "7", "response": "7", "expected": None, "recommend": False},
    {
        "id": "d",
        "gold": "7",
        "response": r"\boxed{9^{9^9}}",
        "expected": False,
        "tags": ["resource"],
    },
    {"id": "e", "gold": "C", "response": "Answer: C", "expected": True, "task": "mcq"},
]


@pytest.fixture
def case_file(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_case_file_is_read(case_file):
    cases = load_cases(case_file)
    assert [case.expected for case in cases] == [True, False, False, False, True]
    assert [case.is_policy for case in cases] == [False, False, True, False, False]
    assert cases[4].item.task == "mcq"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"gold": "7", "response": "7"}, r":1: missing \['expected'\]"),
        ({"gold": "7", "response": "7", "expected": None}, "recommend must be a boolean"),
    ],
)
def test_bad_case_names_its_line(tmp_path, row, message):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=message):
        load_cases(path)


def test_summary_counts_errors_by_direction(case_file):
    verdicts = [
        Verdict.INCORRECT,
        Verdict.CORRECT,
        Verdict.INCORRECT,
        Verdict.FAILED,
        Verdict.CORRECT,
    ]
    results = [Result(verdict, 0.001 * n) for n, verdict in enumerate(verdicts, start=1)]
    summary = summarize(load_cases(case_file), results)
    assert summary["accuracy %"] == 50
    assert summary["false positives"] == 1
    assert summary["false negatives"] == 1
    assert summary["policy agreement %"] == 100
    assert summary["failed"] == 1
    assert summary["failed, not tagged resource"] == 0
    assert summary["median ms"] == pytest.approx(3)
    assert summary["slowest ms"] == pytest.approx(5)


def test_stream_is_shaped_like_rl():
    items = make_stream(200)
    assert len(items) == 1600
    integers = sum(item.gold.isdigit() for item in items) / len(items)
    assert 0.8 < integers < 0.97
    assert len({(item.gold, item.response.rsplit("boxed")[-1]) for item in items[:8]}) < 8
    assert make_stream(3) == make_stream(3)


def test_math_verify_is_ended_when_it_hangs():
    baseline = MathVerify(limit_s=20)
    try:
        assert baseline.grade("1/2", r"\boxed{0.5}").is_correct
        baseline._limit_s = 0.0
        assert baseline.grade("1", r"\boxed{10^{10^{10}}}").is_correct is None
        baseline._limit_s = 20
        assert not baseline.grade("1", r"\boxed{2}").is_correct
    finally:
        baseline.close()


def test_run_prints_the_table(case_file, capsys):
    main(["--cases", str(case_file), "--groups", "3", "--no-math-verify"])
    output = capsys.readouterr().out
    assert "false positives" in output
    assert "stream of 24" in output

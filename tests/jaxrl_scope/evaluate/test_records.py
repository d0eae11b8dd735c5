"""Samples on disk: what is written is what is read, and broken rows are named."""

import json

import pytest

from jaxrl_scope.data.rows import RowError
from jaxrl_scope.evaluate.records import SampleRecord, read_records, write_records
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import JudgeResult, StepLabel

PLAIN = SampleRecord("p", 0, "chains", "1 + 1?", "2", "So \u2028 2.", 7, True)
SCORED = SampleRecord(
    "p", 1, "gpqa", "Which?", "B", "(B)", 3, True, "mcq", ("x", "y"), Verdict.CORRECT,
    JudgeResult(((0, 3),), (StepLabel.USEFUL,)),
)  # fmt: skip
FAILED = SampleRecord(
    "q", 0, "", "?", "1", "", 9, False, verdict=Verdict.FAILED,
    judgement=JudgeResult(failure="timeout"),
)  # fmt: skip


def test_records_come_back_as_they_were(tmp_path):
    path = tmp_path / "samples.jsonl"
    assert write_records(path, [PLAIN, SCORED, FAILED]) == 3
    assert read_records(path) == [PLAIN, SCORED, FAILED]
    assert SCORED.unscored().verdict is None and SCORED.unscored().judgement is None


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "perhaps"},
        {"response": None},
        {"finished": "yes"},
        {"num_tokens": "7"},
        {"surprise": 1},
        {"judgement": {"steps": []}},
        {"judgement": {"steps": [[0, 1]], "labels": ["fine"], "score": None, "failure": None}},
    ],
)
def test_a_broken_row_is_named_by_file_and_line(tmp_path, change):
    path = tmp_path / "samples.jsonl"
    write_records(path, [PLAIN, SCORED])
    rows = [json.loads(line) for line in path.read_text().split("\n") if line]
    rows[1] |= change
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(RowError, match=r"samples\.jsonl:2"):
        read_records(path)


def test_a_missing_field_is_named(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"problem_id": "p"}\n')
    with pytest.raises(RowError, match=r":1: .*missing"):
        read_records(path)

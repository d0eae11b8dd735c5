import json

import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.rows import RowError
from jaxrl_scope.data.scaffold_cache import rejected_path
from jaxrl_scope.data.scaffold_file import load_scaffolds, save_scaffolds
from jaxrl_scope.data.scaffold_validate import save_validated, validate_file
from jaxrl_scope.grading import verify

PROBLEM = Problem("p", "Pairs are drawn from 7 red and 5 blue balls. Find $m+n$.", "29", "test")
FIRST = "How many pairs $N$ can be drawn from 7 red and 5 blue balls?"
GOOD = Scaffold("p", (FIRST, "Which share of the $N$ pairs is red?"), ("66", "\\frac{7}{22}"),
                PROBLEM.text, "29", source="test")  # fmt: skip
LEAKING = Scaffold("q", (FIRST, "Which share of the 66 results is red?"), ("66", "\\frac{7}{22}"),
                   "Find $m+n$.", "29", source="test")  # fmt: skip


def verify_all(items):
    return [verify(i.gold, i.response, task=i.task, choices=i.choices) for i in items]


def test_valid_and_rejected_are_told_apart_and_saved(tmp_path):
    path = tmp_path / "in.parquet"
    save_scaffolds(path, [GOOD, LEAKING])
    report = validate_file(path, verify_all)
    assert set(report.valid) == {"p"}
    assert [v.predicate for v in report.rejected["q"]] == ["H"]
    assert not report.is_clean
    assert "valid 1, rejected 1 (by predicate: V 0, P 0, D 0, H 1)" in report.summary()
    assert "q: H: sub-answer 1 can be read in sub-question 2" in report.summary()

    out = tmp_path / "out.jsonl"
    save_validated(out, report)
    assert load_scaffolds(out)[0] == {"p": GOOD}
    assert json.loads(rejected_path(out).read_text())["problem_id"] == "q"
    assert validate_file(out, verify_all).is_clean


def test_gold_answers_come_from_the_problems_where_given(tmp_path):
    save_scaffolds(tmp_path / "s.jsonl", [GOOD])
    wrong = Problem("p", PROBLEM.text, "30", "test")
    assert validate_file(tmp_path / "s.jsonl", verify_all, problems=[PROBLEM]).is_clean
    report = validate_file(tmp_path / "s.jsonl", verify_all, problems=[wrong])
    assert "differs from the problem's gold answer" in report.summary()


def test_scaffolds_of_other_problems_are_not_valid(tmp_path):
    save_scaffolds(tmp_path / "s.jsonl", [GOOD])
    report = validate_file(tmp_path / "s.jsonl", verify_all, problems=[Problem("z", "?", "1")])
    assert not report.is_clean
    assert report.load.counts == {"no such problem": 1}


def test_unreadable_rows_are_not_clean(tmp_path):
    path = tmp_path / "s.jsonl"
    save_scaffolds(path, [GOOD])
    path.write_text(path.read_text() + "{broken\n")
    assert not validate_file(path, verify_all).is_clean
    with pytest.raises(RowError, match=r"s\.jsonl:2"):
        validate_file(path, verify_all, strict=True)


def test_an_append_only_cache_with_a_newer_row_is_clean(tmp_path):
    save_scaffolds(tmp_path / "s.jsonl", [GOOD, GOOD])
    assert validate_file(tmp_path / "s.jsonl", verify_all).is_clean

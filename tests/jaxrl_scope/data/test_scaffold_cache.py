import json

import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_cache import ScaffoldCache, rejected_path
from jaxrl_scope.data.scaffold_file import load_scaffolds, save_scaffolds
from jaxrl_scope.data.scaffold_rules import Violation

PROBLEM = Problem("p", "Main?", "29", source="s")
CHAIN = Scaffold("p", ("First?",), ("66",), "Main?", "29", source="s")


def test_outcomes_survive_and_reach_other_processes(tmp_path):
    path = tmp_path / "s.jsonl"
    mine, other = ScaffoldCache(path), ScaffoldCache(path)
    assert mine.outcome(PROBLEM) is None
    mine.give_up(PROBLEM, "failed", ["teacher: timeout"])
    assert (mine.outcome(PROBLEM), other.outcome(PROBLEM)) == ("failed", None)
    other.refresh()
    assert other.outcome(PROBLEM) == "failed"
    other.accept(PROBLEM, CHAIN, teacher="t")
    assert ScaffoldCache(path).outcome(PROBLEM) == "success"


def test_success_is_not_undone_by_an_older_failure(tmp_path):
    cache = ScaffoldCache(tmp_path / "s.jsonl")
    cache.accept(PROBLEM, CHAIN)
    ScaffoldCache(tmp_path / "s.jsonl").give_up(PROBLEM, "filtered", ["late"])
    cache.refresh()
    assert cache.outcome(PROBLEM) == "success"


def test_an_outcome_belongs_to_the_content_and_not_to_the_id(tmp_path):
    cache = ScaffoldCache(tmp_path / "s.jsonl")
    cache.accept(PROBLEM, CHAIN)
    assert cache.outcome(Problem("renamed", "Main?", "29")) == "success"
    assert cache.outcome(Problem("p", "Another?", "29")) is None


def test_the_scaffold_file_is_what_training_reads(tmp_path):
    cache = ScaffoldCache(tmp_path / "s.jsonl")
    cache.accept(PROBLEM, CHAIN, teacher="t", attempt=2)
    assert load_scaffolds(cache.path, problems=[PROBLEM], strict=True)[0] == {"p": CHAIN}
    extra = json.loads(cache.path.read_text())["extra_info"]
    assert (extra["teacher"], extra["attempt"]) == ("t", 2)


def test_rejections_hold_the_chain_and_every_reason(tmp_path):
    cache = ScaffoldCache(tmp_path / "s.jsonl")
    cache.reject(PROBLEM, CHAIN, [Violation("P", "x"), Violation("H", "y")], attempt=1)
    row = json.loads(rejected_path(cache.path).read_text())
    assert row["reasons"] == ["P: x", "H: y"]
    assert row["chain"] == [{"question": "First?", "answer": "66"}]
    assert row["outcome"] == "rejected"
    assert cache.outcome(PROBLEM) is None


def test_a_file_made_elsewhere_can_be_continued(tmp_path):
    save_scaffolds(tmp_path / "s.jsonl", [CHAIN])
    assert ScaffoldCache(tmp_path / "s.jsonl").outcome(PROBLEM) == "success"


def test_only_jsonl_can_be_appended_to(tmp_path):
    with pytest.raises(ValueError, match=r"\.jsonl"):
        ScaffoldCache(tmp_path / "s.parquet")

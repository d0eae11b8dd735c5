"""Stage `graft` and its diagnosis from the command line."""

import json

import pytest

from launch.probe import main as probe
from launch.train import main as train

SETTINGS = {
    "code-world.lengths": 3,
    "code-world.train-per-length": 8,
    "code-world.eval-per-length": 3,
    "code-world.warm-start.updates": 3,
    "data.batch-problems": 2,
    "rollout.group": 4,
    "rollout.max-response-len": 48,
    "eval.samples": 1,
}
TINY = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]


def test_diagnosis_of_a_simulated_policy(tmp_path, capsys):
    assert probe(["graft", "--simulate", "400", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "P1: holds" in printed
    report = json.loads((tmp_path / "diagnosis.json").read_text())
    assert len(report["steps"]) == 5
    assert report["steps"][0]["prefix_ok"]["share"] == 1.0
    assert (tmp_path / "graft.png").stat().st_size > 1000


def test_bad_input_is_told(tmp_path, capsys):
    assert probe(["graft", "--runs", str(tmp_path)]) == 2
    assert "ledger.jsonl" in capsys.readouterr().err


@pytest.mark.slow
def test_training_keeps_a_ledger_that_the_probe_reads(tmp_path, capsys):
    run, cache = str(tmp_path / "D-0"), str(tmp_path / "cache")
    arguments = ["--stage", "graft", "--updates", "2", "--run-dir", run, "--cache-dir", cache]
    assert train([*arguments, *TINY]) == 0
    rows = [json.loads(line) for line in (tmp_path / "D-0" / "ledger.jsonl").open()]
    assert len(rows) == 2 * 2 * 4
    assert {"b", "r", "grafted", "epsilon", "bucket", "tau"} <= set(rows[0])
    metrics = (tmp_path / "D-0" / "metrics.jsonl").read_text()
    assert "graft/end_to_end" in metrics
    assert "eval/grafted" not in metrics
    capsys.readouterr()
    assert probe(["graft", "--runs", run, "--last", "1"]) == 0
    assert "all steps" in capsys.readouterr().out
    out = str(tmp_path / "probe")
    options = ["--limit", "2", "--samples", "2", "--out", out, "--cache-dir", cache]
    assert probe(["graft", "--model", run, "--problems", _train_file(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert "P5" in printed
    assert "four arms" in printed


def _train_file(tmp_path):
    (found,) = (tmp_path / "cache" / "worlds").glob("code-world-*/train.jsonl")
    return str(found)

"""`launch/reproduce.py` with the two programs replaced by ones that only write their results."""

import json
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from jaxrl_scope.reproduce import schedule
from jaxrl_scope.reproduce.arms import Arm, Claim, Table
from launch import reproduce
from launch.reproduce import main

TRAIN = """
    import json, pathlib, sys
    words = sys.argv[1:]
    value = lambda name: words[words.index(name) + 1]
    run = pathlib.Path(value("--run-dir"))
    run.mkdir(parents=True, exist_ok=True)
    with (run.parent / "calls").open("a") as file:
        file.write(run.name + (" resumed" if "--resume" in words else "") + "\\n")
    (run / "config.json").write_text('{"updates": 2}')
    if "--fail" in words and not (run / "tried").exists():
        (run / "tried").touch()
        sys.exit("the policy went away")
    if "--model.path" in words:
        assert (pathlib.Path(value("--model.path")) / "metrics.jsonl").exists()
    last = 1 if "--stop" in words and "--resume" not in words else 2
    rows = [{"update": u, "eta_r": 0.5, "eval/accuracy": 0.1 * u} for u in range(last + 1)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""
EVALUATE = """
    import json, pathlib, sys
    words = sys.argv[1:]
    out = pathlib.Path(words[words.index("--out") + 1])
    out.mkdir(parents=True)
    seed = int(words[words.index("--seed") + 1])
    accuracy = {"base": 0.1, "one": 0.5, "two": 0.8}[out.name.split("-")[0]] + seed / 100
    overall = {"accuracy": accuracy, "mean_tokens": 20.0, "pass_at_k": {}}
    (out / "results.json").write_text(json.dumps({"results": {"overall": overall}}))
"""


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "train.py").write_text(textwrap.dedent(TRAIN))
    (tmp_path / "launch" / "evaluate.py").write_text(textwrap.dedent(EVALUATE))
    monkeypatch.setattr(schedule, "ROOT", tmp_path)
    monkeypatch.setattr(schedule, "_warm_start", lambda preset, cache_dir: ["--model", "warm"])
    monkeypatch.setattr(reproduce, "locate", lambda config: None)
    return tmp_path


def table(*extra: str) -> Table:
    arms = (
        Arm("base", "base"),
        Arm("one", "one", ("--stage", "asr", *extra)),
        Arm("two", "two", ("--stage", "qpr"), start="one"),
    )
    claims = (Claim("two over one", ("accuracy",), "two", "one"),)
    return Table("small", arms, ("accuracy", "tokens"), claims)


def run(tmp_path: Path, *words: str) -> int:
    return main(["small", "--seeds", "2", "--jobs", "2", "--out", str(tmp_path / "out"), *words])


def test_some_arms_bring_what_they_start_from_and_the_claims_about_them(
    programs, monkeypatch, capsys
):
    monkeypatch.setitem(reproduce.TABLES, "small", table)
    assert run(programs, "--arms", "two") == 0
    written = json.loads((programs / "out" / "small.json").read_text())
    assert (
        set(written["measures"]) == {"one", "two"} and "two over one" not in capsys.readouterr().out
    )
    assert run(programs, "--arms", "two", "one") == 0
    assert "two over one |  | +30.0" in capsys.readouterr().out
    assert run(programs, "--arms", "tow") == 2
    assert "unknown arms ['tow']; known: base, one, two" in capsys.readouterr().err


def test_runs_arms_in_order_and_only_once(programs, monkeypatch, capsys):
    monkeypatch.setitem(reproduce.TABLES, "small", table)
    assert run(programs) == 0
    assert "two over one |  | +30.0 (+30.0 to +30.0) | agrees" in capsys.readouterr().out
    written = json.loads((programs / "out" / "small.json").read_text())
    assert written["measures"]["two"]["1"]["accuracy"] == pytest.approx(0.81)
    assert (programs / "out" / "small.png").read_bytes().startswith(b"\x89PNG")
    calls = (programs / "out" / "runs" / "calls").read_text().splitlines()
    assert sorted(calls) == ["one-s0", "one-s1", "two-s0", "two-s1"]
    assert run(programs) == 0
    assert (programs / "out" / "runs" / "calls").read_text().splitlines() == calls


def test_a_failed_run_is_named_and_resumed_by_the_same_command(programs, monkeypatch, capsys):
    monkeypatch.setitem(reproduce.TABLES, "small", lambda: table("--fail"))
    assert run(programs, "--jobs", "1") == 1
    error = capsys.readouterr().err
    assert "the policy went away" in error
    assert "one-s0.log" in error
    for _ in range(2):  # the other seed fails once too
        run(programs, "--jobs", "1")
    assert run(programs, "--jobs", "1") == 0
    calls = (programs / "out" / "runs" / "calls").read_text().splitlines()
    assert calls.count("one-s0 resumed") == 1


def test_a_run_that_saved_and_ended_early_is_not_evaluated(programs, monkeypatch, capsys):
    monkeypatch.setitem(reproduce.TABLES, "small", lambda: table("--stop"))
    assert run(programs, "--jobs", "1") == 1
    assert "stopped before its last update" in capsys.readouterr().err
    assert not (programs / "out" / "evaluations" / "one-s0").exists()


def test_bad_input(capsys):
    for words, said in ((["nothing"], "known: main"), (["main", "--seeds", "-1"], "negative")):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_stopped_reproduction_stops_its_runs(programs, monkeypatch):
    (programs / "launch" / "train.py").write_text("import time; time.sleep(60)")
    started = []
    popen = subprocess.Popen

    def start(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(schedule.subprocess, "Popen", start)

    def interrupt(futures):
        deadline = time.monotonic() + 30
        while not started and time.monotonic() < deadline:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "as_completed", interrupt)
    only = Table("small", (Arm("one", "one", ("--stage", "asr")),), ("accuracy",), ())
    monkeypatch.setitem(reproduce.TABLES, "small", lambda: only)
    assert run(programs) == 1
    assert started
    assert all(process.poll() is not None for process in started)

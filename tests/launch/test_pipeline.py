"""The off-policy pipeline from the command line: killed in each phase, resumed, same parameters."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.train.loop import Trainer
from launch.train import main

TINY = [
    *("--world.width", "32", "--world.layers", "1", "--world.train-per-length", "40"),
    *("--world.eval-per-length", "2", "--world.warm-start.updates", "3"),
    *("--world.warm-start.rows", "4", "--data.batch-problems", "4", "--rollout.group", "4"),
    *("--rollout.max-response-len", "32", "--eval.every", "0", "--eval.samples", "2"),
    *("--checkpoint.every", "100", "--log.no-tensorboard", "--log.no-plots"),
    *("--loss.entropy-coef", "0.1", "--lr", "1e-2"),  # moves the weights where no reward is earned
]
OFF_POLICY = ("--updates", "5", "--pipeline.update-interval", "2")
# Dies of SIGKILL at the nth write of a kind, or in the nth optimizer step.
# The devices are those of tests/conftest.py: their number decides how sums are cut: rounding.
KILLED = """
import os, signal, sys
import jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
from jaxrl_scope.train import phase_files, update
from launch.train import main
owner, method = {"rollouts": (phase_files.PhaseFiles, "save_rolled"),
                 "judge": (phase_files.PhaseFiles, "save_experience"),
                 "update": (update.Updater, "update")}[sys.argv[1]]
left, real = int(sys.argv[2]), getattr(owner, method)
def deadly(*args, **kwargs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(owner, method, deadly)
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def arguments(run: Path, cache: Path, *more: str) -> list[str]:
    return ["--stage", "tp", *TINY, "--run-dir", str(run), "--cache-dir", str(cache), *more]


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "whole"
    assert main(arguments(run, cache, *OFF_POLICY, "--check-propositions")) == 0
    return run


def rows(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def final_parameters(run: Path) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(load_policy(str(run)).model)]


def assert_same_parameters(run: Path, other: Path) -> None:
    for a, b in zip(final_parameters(run), final_parameters(other), strict=True):
        assert (a == b).all()


def test_staleness_and_ratios_are_logged(finished):
    history = rows(finished)[1:]
    assert [row["pipeline/staleness"] for row in history] == [0, 1, 0, 1, 0]
    spread = [row["policy/ratio_spread"] for row in history]
    assert max(spread[0], spread[2], spread[4]) < 1e-8  # the weights that rolled out
    assert min(spread[1], spread[3]) > 1e-6
    names = {"policy/ratio_mean", "policy/clip_frac", "policy/old_kl", "tp/judged"}
    assert all(names <= set(row) for row in history)


def test_only_the_last_two_phases_stay_on_disk(finished):
    numbers = {int(path.name.split("-")[0]) for path in (finished / "phases").iterdir()}
    assert numbers == {3, 4, 5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "count"),
    [("rollouts", 1), ("rollouts", 3), ("judge", 1), ("judge", 3), ("update", 3)],
)
def test_killed_in_a_phase_and_resumed(phase, count, finished, cache, tmp_path):
    run = tmp_path / "run"
    words = arguments(run, cache, *OFF_POLICY, "--check-propositions")
    command = [sys.executable, "-c", KILLED, phase, str(count), *words]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": root}, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert main([*words, "--resume"]) == 0
    assert_same_parameters(run, finished)


@pytest.mark.slow
def test_phases_of_one_update_are_the_on_policy_path(cache, tmp_path, monkeypatch):
    assert main(arguments(tmp_path / "plain", cache, "--updates", "3")) == 0
    start = Trainer.__init__

    def with_pipeline(self, *args, **kwargs):
        start(self, *args, **kwargs)
        assert self._pipeline is None
        self._pipeline = self._make_pipeline()

    monkeypatch.setattr(Trainer, "__init__", with_pipeline)
    assert main(arguments(tmp_path / "phased", cache, "--updates", "3")) == 0
    assert [row["pipeline/staleness"] for row in rows(tmp_path / "phased")[1:]] == [0, 0, 0]
    plain, phased = (final_parameters(tmp_path / name) for name in ("plain", "phased"))
    for a, b in zip(plain, phased, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_stages_that_route_are_refused(cache, tmp_path, capsys):
    words = arguments(tmp_path / "run", cache, *OFF_POLICY)
    assert main([*words, "--stage", "asr"]) == 2
    assert "on-policy only" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--pipeline.update-interval", "0"])
    assert "at least 1" in capsys.readouterr().err


def test_gspo_and_off_policy_grpo_run(cache, tmp_path):
    short = ("--updates", "2", "--pipeline.update-interval", "2")
    assert main(arguments(tmp_path / "gspo", cache, *short, "--loss", "gspo")) == 0
    words = arguments(tmp_path / "grpo", cache, *short)
    assert main([*words, "--stage", "outcome"]) == 0
    assert rows(tmp_path / "grpo")[2]["pipeline/staleness"] == 1

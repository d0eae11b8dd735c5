"""`launch/train.py` in two processes on loopback is the run of one process with two devices."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.train.distributed import check_processes

ROOT = str(Path(__file__).parents[2])
TINY = (
    *("--stage", "asr", "--mesh.fsdp", "2", "--world.width", "32", "--world.layers", "1"),
    *("--world.train-per-length", "40", "--world.eval-per-length", "2"),
    *("--world.warm-start.updates", "20", "--world.warm-start.rows", "4"),
    *("--data.batch-problems", "4", "--rollout.group", "4", "--rollout.max-response-len", "32"),
    *("--eval.every", "2", "--eval.samples", "2", "--checkpoint.every", "1"),
    *("--log.no-tensorboard", "--log.no-plots", "--lr", "1e-2", "--optimizer.warmup-updates", "0"),
    *("--loss.entropy-coef", "0.1"),  # moves the weights where no reward is earned
)


def train(count: int, *words: str) -> None:
    """Run to the end in `count` processes, which have two devices in all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    clean |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT, "JAX_NUM_CPU_DEVICES": str(2 // count)}
    processes = []
    for index in range(count):
        env = (
            clean
            if count == 1
            else clean
            | {
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(index),
            }
        )
        command = [sys.executable, "launch/train.py", *TINY, *words]
        processes.append(
            subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
        )
    try:
        for process in processes:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors[-3000:]
    finally:
        for process in processes:
            process.kill()


def numbers(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


@pytest.mark.slow
def test_two_processes_train_and_resume_as_one(tmp_path):
    cache = ("--cache-dir", str(tmp_path / "cache"))
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    train(1, *cache, "--updates", "3", "--run-dir", str(alone))
    train(2, *cache, "--updates", "3", "--run-dir", str(pair))
    expected, found = numbers(alone), numbers(pair)
    assert len(expected) == len(found) == 4
    assert expected[1]["policy/grad_norm"] > 1e-3
    for a, b in zip(expected, found, strict=True):
        assert b == pytest.approx(a, rel=1e-4, abs=1e-6)
    assert numbers(pair / "process-1") == found
    shutil.rmtree(pair / "checkpoints" / "3")
    train(2, *cache, "--updates", "3", "--run-dir", str(pair), "--resume")
    assert numbers(pair) == found
    weights = [jax.tree.leaves(load_policy(str(run)).model) for run in (alone, pair)]
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({}, "same --run-dir"), ({"run_dir": "r", "stage": "scope"}, "one stage a command")],
)
def test_what_several_processes_cannot_do_is_named(changes, says):
    with pytest.raises(ValueError, match=says):
        check_processes(TrainConfig(**changes))

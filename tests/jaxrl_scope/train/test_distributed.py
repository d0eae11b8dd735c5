"""Two processes on loopback are one trainer: the numbers of a single process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jaxrl_scope.train.distributed import initialize
from models import ModelConfig, init_params, save_hf

CONFIG = ModelConfig(
    vocab_size=32,
    num_layers=2,
    embed_dim=16,
    mlp_dim=32,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=8,
    eos_token_ids=(1,),
    remat="none",
)
WORKER = Path(__file__).parent / "multihost_worker.py"
VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


def start(home: Path, count: int) -> list[subprocess.Popen]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for index in range(count):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        environment |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
        if count > 1:
            environment |= dict(
                zip(VARIABLES, (f"127.0.0.1:{port}", str(count), str(index)), strict=True)
            )
        command = [sys.executable, WORKER, home / "model", home / f"of-{count}", str(4 // count)]
        processes.append(
            subprocess.Popen(
                [str(part) for part in command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def results(processes: list[subprocess.Popen]) -> list[dict]:
    try:
        outputs = [process.communicate(timeout=150) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(tmp_path):
    save_hf(tmp_path / "model", CONFIG, init_params(CONFIG, jax.random.key(0), std=0.2))
    (alone,) = results(start(tmp_path, 1))
    pair = results(start(tmp_path, 2))
    assert alone["first"]["policy/grad_norm"] > 0.01
    # On-policy the loss is minus the mean advantage at both steps; the gradient has moved.
    assert alone["first"]["policy/grad_norm"] != alone["second"]["policy/grad_norm"]
    for one in pair:
        assert one["update"] == 1
        assert one["bytes"] <= alone["bytes"] * 0.6  # each process holds its devices' part only
        for step in ("first", "second"):
            assert one[step] == pytest.approx(alone[step], rel=1e-5, abs=1e-6)
            assert one[step] == pair[0][step]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("127.0.0.1:1", "2", ""), "not set: JAX_PROCESS_ID"),
        (("127.0.0.1:1", "2", "2"), "JAX_PROCESS_ID < JAX_NUM_PROCESSES"),
        (("127.0.0.1:1", "two", "0"), "got 'two'"),
    ],
)
def test_an_incomplete_environment_is_refused(monkeypatch, values, says):
    for name, value in zip(VARIABLES, values, strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=says):
        initialize()


def test_without_the_environment_nothing_happens(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert initialize() is False

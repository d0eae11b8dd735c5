"""Training runs with rollouts on a real vLLM server (CPU build)."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jaxrl_scope.cli import parse
from jaxrl_scope.config import TrainConfig
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, SamplingParams
from jaxrl_scope.rollout.vllm.sampler import VllmSampler
from jaxrl_scope.train.sources import locate
from launch.train import main

pytestmark = pytest.mark.vllm

ROOT = str(Path(__file__).parents[2])
TINY = (
    *("--stage", "asr", "--rollout", "vllm", "--rollout.vllm.kv-gib", "1"),
    *("--world.head-dim", "32", "--world.train-per-length", "40", "--world.eval-per-length", "2"),
    *("--world.warm-start.updates", "40", "--world.warm-start.rows", "4"),
    *("--data.batch-problems", "4", "--rollout.group", "4", "--rollout.max-response-len", "64"),
    *("--eval.every", "0", "--eval.samples", "2", "--checkpoint.every", "1"),
    *("--optimizer.lr", "1e-2", "--optimizer.warmup-updates", "0"),
    *("--loss.entropy-coef", "0.1"),  # moves the weights where no reward is earned
    *("--log.no-tensorboard", "--log.no-plots"),
)
REQUESTS = [Request(np.arange(8, 12 + i, dtype=np.int32), key=i) for i in range(4)]
GREEDY = SamplingParams(num_rollouts=1, max_response_len=24, temperature=0.0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def rows(run: Path) -> list[dict]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def untied_copy(cache: Path, target: Path) -> Path:
    """The world's model with a head of its own, a little apart from its embedding."""
    config = parse([*TINY, "--cache-dir", str(cache)])
    assert isinstance(config, TrainConfig)
    shutil.copytree(locate(config).model, target)
    settings = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(settings | {"tie_word_embeddings": False}))
    weights = load_file(target / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    noise = np.random.default_rng(0).normal(size=embedding.shape).astype(embedding.dtype)
    save_file(weights | {"lm_head.weight": embedding + 0.05 * noise}, target / "model.safetensors")
    return target


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_asr_samples_from_the_weights_it_trains(tied, cache, tmp_path, monkeypatch):
    synced, load = [], VllmSampler.load

    def load_and_compare(self, model, version):
        load(self, model, version)
        ours = JaxSampler(model.cfg, model).generate(REQUESTS, GREEDY)
        theirs = self.generate(REQUESTS, GREEDY)
        np.testing.assert_array_equal(theirs.response_ids, ours.response_ids)
        np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=1e-3)
        synced.append((version, np.array(ours.logprobs)))

    monkeypatch.setattr(VllmSampler, "load", load_and_compare)
    run = tmp_path / "run"
    words = [*TINY, "--updates", "3", "--run-dir", str(run), "--cache-dir", str(cache)]
    if not tied:
        words += ["--model.path", str(untied_copy(cache, tmp_path / "untied"))]
    assert main(words) == 0
    assert [version for version, _ in synced] == [0, 1, 2, 3]
    assert all((a != b).any() for (_, a), (_, b) in itertools.pairwise(synced))
    history = rows(run)[1:]
    assert [row["update"] for row in history] == [1, 2, 3]
    assert [row["rollout/version"] for row in history] == [1, 2, 3]
    assert max(row["sampler/logprob_gap_mean"] for row in history) < 1e-4
    assert max(row["sync/probe_gap"] for row in history) < 1e-4


def servers_of(trainer: int) -> set[int]:
    """The guards of a trainer's servers and all below them, by process number."""
    import psutil  # vLLM brings it

    found = set()
    for child in psutil.Process(trainer).children():
        if "jaxrl_scope.rollout.vllm.guard" in child.cmdline():
            found |= {child.pid, *(below.pid for below in child.children(recursive=True))}
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def wait_until(condition, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_killed_trainer_takes_its_servers_along_and_resumes(cache, tmp_path):
    run = tmp_path / "run"
    words = [*TINY, "--updates", "5", "--run-dir", str(run), "--cache-dir", str(cache)]
    trainer = subprocess.Popen(
        [sys.executable, "launch/train.py", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(rows(run)) > 2 or trainer.poll() is not None, 300)
    assert trainer.poll() is None
    servers = servers_of(trainer.pid)
    assert len(servers) > 1
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    reached = rows(run)[-1]["update"]
    assert reached < 5
    wait_until(lambda: not alive(servers), 20)
    others = servers_of(os.getpid())  # of other tests in this process
    assert main([*words, "--resume"]) == 0
    history = rows(run)
    assert [row["update"] for row in history] == list(range(6))
    assert [row["rollout/version"] for row in history[1:]] == [1, 2, 3, 4, 5]
    assert max(row["sync/probe_gap"] for row in history[1:]) < 1e-4
    assert not servers_of(os.getpid()) - others

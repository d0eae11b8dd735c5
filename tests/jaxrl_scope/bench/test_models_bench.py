"""The benchmarks of models: the peers' work, and the JSON line that their driver reads."""

import dataclasses
import importlib
import json

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_scope.bench import measure, workload
from launch import bench

FIELDS = {
    *("peer", "model", "work", "tokens_per_s", "compile_s", "start_s", "step_s", "best_s", "n"),
    *("peak_rss_mb", "run_rss_mb", "dtype", "clock", "cores", "check", "recompiles", "versions"),
    *("device", "share_of_flops", "share_of_bandwidth", "limit_flop_s", "limit_byte_s"),
}


def few_limits(clock, dtype):
    return {"flop_s": 1e13, "byte_s": 1e12}


@pytest.fixture
def small(monkeypatch):
    """M1 compiled once per layer kind, and limits measured on small arrays."""
    monkeypatch.setitem(workload.MODELS, "M1", dataclasses.replace(workload.MODELS["M1"], unroll=1))
    monkeypatch.setattr(measure, "machine_limits", few_limits)


def run(capsys, *argv: str) -> dict:
    assert bench.main([*argv, "--model", "M1", "--seconds", "0"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(line) == FIELDS
    assert line["tokens_per_s"] == pytest.approx(8192 / line["step_s"], rel=1e-2)
    assert line["recompiles"] == 0
    return line


# What every peer of the benchmark printed for these weights and batches.
@pytest.mark.parametrize(
    ("name", "work", "check"),
    [
        ("logprob", "W3", -6.259162),
        pytest.param("train", "W2", 0.020202, marks=pytest.mark.slow),
    ],
)
def test_check_is_the_peers(name, work, check, small, capsys):
    line = run(capsys, name)
    assert line["work"] == work
    assert line["check"] == pytest.approx(check, abs=2e-6)


@pytest.mark.slow
def test_rollout_by_the_peers_name(small, capsys):
    line = run(capsys, "W1")
    assert line["work"] == "W1"
    # A model with random weights knows little more than that there are 512 tokens.
    assert -np.log(512) - 0.1 < line["check"] < -np.log(512) + 0.1


def test_least_work_of_a_small_model():
    cfg = dataclasses.replace(
        workload.MODELS["M1"], vocab_size=10, embed_dim=4, num_layers=1, mlp_dim=8,
        num_q_heads=2, num_kv_heads=1, head_dim=2,
    )  # fmt: skip
    body = 4 * 4 + 2 * 4 * 2 + 4 * 4 + 3 * 4 * 8  # q, k and v, o, mlp
    head = 4 * 10
    forward = 2 * body + 4 * 4 * 128 + 2 * head / 2
    assert workload.least_work(cfg, "logprob") == workload.Work(8192, forward, 0.0)
    assert workload.least_work(cfg, "train").flops == 3 * forward
    rollout = workload.least_work(cfg, "rollout")
    prefill = (2 * body + 4 * 4 * 64) / 8
    assert rollout.flops == 2 * (body + head) + 4 * 4 * 192 + prefill
    assert rollout.bytes == 4 * ((body + head) / 64 + 2 * 2 * 192)


def test_limits_are_measured():
    limits = measure.machine_limits(measure.Clock(), jnp.dtype("float32"), megabytes=1)
    assert 1e8 < limits["flop_s"] < 1e15
    assert 1e7 < limits["byte_s"] < 1e14


@pytest.mark.parametrize("name", [pytest.param("train", marks=pytest.mark.slow), "rollout"])
def test_full_size_jobs_run_on_a_tiny_shape(name, monkeypatch):
    """What a GPU is given, in bfloat16 with random weights, here small and on the CPU."""
    full = workload.FULL_SIZE["Qwen3-8B"]
    tiny = dataclasses.replace(
        full, vocab_size=64, embed_dim=16, num_layers=2, num_q_heads=2, num_kv_heads=1,
        head_dim=8, mlp_dim=32,
    )  # fmt: skip
    sizes = workload.Sizes(num_prompts=2, group=2, prompt_len=16, response_len=16, rows=2)
    monkeypatch.setattr(measure, "machine_limits", few_limits)
    module = importlib.import_module(f"jaxrl_scope.bench.{name}")
    line = module.run(measure.Job("Qwen3-8B", tiny, sizes), measure.Clock(), 0.0)
    assert set(line) == FIELDS
    assert line["dtype"] == "bfloat16"
    assert line["n"] >= 3
    assert np.isfinite(line["check"])


def test_full_size_models_have_their_published_sizes():
    billions = {name: cfg.num_params / 1e9 for name, cfg in workload.FULL_SIZE.items()}
    expected = {"Qwen3-0.6B": 0.596, "Qwen3-1.7B": 1.721, "Qwen3-4B": 4.022, "Qwen3-8B": 8.191}
    assert billions == pytest.approx(expected, abs=1e-3)


def test_a_gpu_that_is_not_there_is_an_error(capsys):
    assert bench.main(["train", "--device", "gpu"]) == 2
    assert "jax[cuda12]" in capsys.readouterr().err


def test_clock_of_another_kind_is_refused(monkeypatch):
    monkeypatch.setenv("PEERS_CLOCK", "sun")
    with pytest.raises(ValueError, match="wall or cpu"):
        measure.Clock()

"""The benchmarks of models: the peers' work, and the JSON line that their driver reads."""

import dataclasses
import json

import numpy as np
import pytest

from jaxrl_scope.bench import measure, workload
from launch import bench

FIELDS = {
    *("peer", "model", "work", "tokens_per_s", "compile_s", "start_s", "step_s", "best_s", "n"),
    *("peak_rss_mb", "run_rss_mb", "dtype", "clock", "cores", "check", "recompiles", "versions"),
    *("share_of_flops", "share_of_bandwidth", "limit_flop_s", "limit_byte_s"),
}


@pytest.fixture
def small(monkeypatch):
    """M1 compiled once per layer kind, and limits measured on small arrays."""
    monkeypatch.setitem(workload.MODELS, "M1", dataclasses.replace(workload.MODELS["M1"], unroll=1))
    limits = measure.machine_limits
    monkeypatch.setattr(measure, "machine_limits", lambda clock: limits(clock, 256, 1))


def run(capsys, *argv: str) -> dict:
    assert bench.main([*argv, "--model", "M1", "--seconds", "0"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(line) == FIELDS
    assert line["tokens_per_s"] == pytest.approx(8192 / line["step_s"], rel=1e-2)
    assert 0 < line["share_of_flops"] < 1.5
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


def test_clock_of_another_kind_is_refused(monkeypatch):
    monkeypatch.setenv("PEERS_CLOCK", "sun")
    with pytest.raises(ValueError, match="wall or cpu"):
        measure.Clock()

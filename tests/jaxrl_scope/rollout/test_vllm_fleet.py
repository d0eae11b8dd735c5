"""The trainer's side of vLLM rollouts against servers that fail on purpose; no vLLM here."""

import dataclasses
import threading
import time

import jax
import numpy as np
import pytest

from jaxrl_scope.rollout.types import Request, SamplingParams
from jaxrl_scope.rollout.vllm.client import Client
from jaxrl_scope.rollout.vllm.fleet import Fleet, NoServerError, SyncError
from jaxrl_scope.rollout.vllm.sampler import ProbeError, VllmSampler
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from jaxrl_scope.rollout.vllm.weights import MARKER
from models import ModelConfig, init_params

CONFIG = ModelConfig(
    vocab_size=40,
    num_layers=2,
    embed_dim=32,
    mlp_dim=48,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=8,
    tie_embeddings=True,
    eos_token_ids=(1, 5),
)
SETTINGS = VllmConfig(request_timeout_s=1.0, max_in_flight=2, start_timeout_s=2.0)
PARAMS = SamplingParams(num_rollouts=3, max_response_len=6, seed=7, update=1)
REQUESTS = [Request(np.array([6, 7, 8 + i], np.int32), key=i) for i in range(8)]


@pytest.fixture(scope="module")
def model():
    return init_params(CONFIG, jax.random.key(0), std=0.3)


@pytest.fixture
def make(tmp_path):
    made = []

    def make(servers, settings=SETTINGS) -> VllmSampler:
        fleet = Fleet(
            [Client(server.url, timeout_s=settings.request_timeout_s) for server in servers],
            None,
            max_in_flight=settings.max_in_flight,
            restarts=1,
            start_timeout_s=settings.start_timeout_s,
        )
        sampler = VllmSampler(fleet, settings, eos_token_ids=(1, 5), sync_dir=tmp_path / "weights")
        made.append(sampler)
        return sampler

    yield make
    for sampler in made:
        sampler.close()


def test_servers_divide_the_work_and_answer_like_one(make, fakes, model):
    both, one = make(fakes), make(fakes[:1])
    both.load(model, 0)
    ours = both.generate(REQUESTS, PARAMS)
    divided = [len(server.prompts) for server in fakes]
    theirs = one.generate(REQUESTS, PARAMS) if one.load(model, 0) is None else None
    assert sum(divided) == len(REQUESTS) and min(divided) >= 2
    for field in dataclasses.fields(ours):
        np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name))
    assert ours.valid.all() and ours.finished.all() and (ours.version == 0).all()
    assert len({tuple(row) for row in ours.response_ids[:, :, 0].tolist()}) > 1


@pytest.mark.parametrize("how", ["gone", "hang", "out of memory"])
def test_a_failing_server_loses_no_group(make, fakes, model, how):
    sampler = make(fakes)
    sampler.load(model, 0)
    fakes[0].fail["/inference/v1/generate"] = how
    rollouts = sampler.generate(REQUESTS, PARAMS)
    assert rollouts.valid.all()
    assert sampler.metrics()["rollout/retries"] >= 1


def test_a_lost_group_is_invalid_and_counted(make, fakes, model):
    sampler = make(fakes[:1])
    sampler.load(model, 0)
    fakes[0].fail["/inference/v1/generate"] = "NaN in the logits"
    rollouts = sampler.generate(REQUESTS[:1], PARAMS)
    assert not rollouts.valid.any()
    assert sampler.metrics()["rollout/lost_groups"] == 1


def test_without_a_server_the_run_stops(make, fakes, model):
    sampler = make(fakes[:1])
    sampler.load(model, 0)
    fakes[0].fail |= {"/inference/v1/generate": "gone", "/health": "gone"}
    with pytest.raises(NoServerError, match="--resume"):
        sampler.generate(REQUESTS[:1], PARAMS)


def test_told_to_stop_it_waits_for_no_server_to_come_back(make, fakes, model):
    sampler = make(fakes[:1], dataclasses.replace(SETTINGS, start_timeout_s=60.0))
    sampler.load(model, 0)
    fakes[0].fail |= {"/inference/v1/generate": "gone", "/health": "gone"}
    timer = threading.Timer(0.5, sampler.stop_waiting)
    timer.start()
    began = time.monotonic()
    with pytest.raises(NoServerError, match=r"told to stop[\s\S]*--resume"):
        sampler.generate(REQUESTS[:1], PARAMS)
    assert time.monotonic() - began < 10


def test_a_server_on_other_weights_gets_the_right_ones_before_its_next_request(make, fakes, model):
    sampler = make(fakes)
    sampler.load(model, 4)
    fakes[1].version = "default"  # restarted behind our back
    rollouts = sampler.generate(REQUESTS, PARAMS)
    assert (rollouts.version == 4).all()
    deadline = time.monotonic() + 5
    while fakes[1].version != "4" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fakes[1].version == "4"


def test_a_refused_version_leaves_all_servers_on_the_old_one(make, fakes, model):
    sampler = make(fakes)
    sampler.load(model, 0)
    fakes[1].fail["/update_weights"] = "hidden_size is 32, the server's model has 64"
    fakes_before = [server.version for server in fakes]
    with pytest.raises(SyncError, match="hidden_size") as caught:
        sampler.load(model, 1)
    assert "version 1" in str(caught.value)
    assert [server.version for server in fakes] == fakes_before
    fakes[1].fail.clear()
    sampler.load(model, 2)
    assert [server.version for server in fakes] == ["2", "2"]


def test_old_versions_go_when_all_servers_have_moved_on(make, fakes, model, tmp_path):
    sampler = make(fakes)
    for version in range(3):
        sampler.load(model, version)
    assert [folder.name for folder in (tmp_path / "weights").iterdir()] == ["v2"]
    assert (tmp_path / "weights" / "v2" / MARKER).is_file()


def test_the_order_of_a_sync(make, fakes, model):
    sampler = make(fakes[:1])
    fakes[0].calls.clear()
    sampler.load(model, 0)
    assert fakes[0].calls == [
        "/pause",
        "/start_weight_update",
        "/update_weights",
        "/finish_weight_update",
        "/reset_prefix_cache",
        "/resume",
    ]


def test_the_probe_stops_a_run_whose_sides_disagree(make, fakes, model):
    sampler = make(fakes[:1])
    sampler.set_probe(np.array([6, 7], np.int32))
    with pytest.raises(ProbeError, match=r"nats per token[\s\S]*vLLM:[\s\S]*trainer:"):
        sampler.load(model, 0)


@pytest.mark.parametrize("value", [-9999.0, float("nan")])
def test_nan_logprobs_are_dropped_and_counted(make, fakes, model, value):
    values = iter([value] + [-0.5] * 1000)
    fakes[0].logprob = lambda: next(values)
    sampler = make(fakes[:1])
    sampler.load(model, 0)
    rollouts = sampler.generate(REQUESTS[:2], PARAMS)
    assert (~rollouts.valid).sum() == 1
    assert sampler.metrics()["rollout/nan_rollouts"] == 1


def test_colocated_servers_sleep_through_an_update(make, fakes, model):
    settings = dataclasses.replace(SETTINGS, placement="colocated")
    sampler = make(fakes[:1], settings)
    sampler.load(model, 0)
    sampler.generate(REQUESTS[:1], PARAMS)
    fakes[0].calls.clear()
    sampler.rest()
    assert fakes[0].asleep
    sampler.load(model, 1)
    sampler.generate(REQUESTS[:1], PARAMS)
    assert fakes[0].calls[:3] == ["/sleep", "/wake_up", "/pause"]


def test_staleness_is_logged(make, fakes, model):
    sampler = make(fakes[:1])
    sampler.load(model, 1)
    sampler.generate(REQUESTS[:1], dataclasses.replace(PARAMS, update=3))
    assert sampler.metrics()["rollout/staleness_mean"] == 1.0


def test_a_greedy_group_is_asked_for_once(make, fakes, model):
    sampler = make(fakes[:1])
    sampler.load(model, 0)
    rollouts = sampler.generate(REQUESTS[:1], dataclasses.replace(PARAMS, temperature=0.0))
    assert len(fakes[0].prompts) == 1 and rollouts.valid.all()
    assert (rollouts.response_ids == rollouts.response_ids[:, :1]).all()

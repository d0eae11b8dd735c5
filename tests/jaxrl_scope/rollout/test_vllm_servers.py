"""Real vLLM servers (CPU build): what is synced is what is sampled from, and faults are survived.

One server per model (tied, untied), started once, and a second one where two are
needed; each runs `python -m vllm.entrypoints.openai.api_server` on loopback.
"""

import dataclasses
import os
import signal
import threading
import time

import jax
import numpy as np
import pytest

from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, SamplingParams
from jaxrl_scope.rollout.vllm.fleet import SyncError
from jaxrl_scope.rollout.vllm.publish import write_weights
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from jaxrl_scope.rollout.vllm.start import start_vllm
from models import ModelConfig, init_params, response_logprobs

pytestmark = pytest.mark.vllm

SETTINGS = VllmConfig(kv_gib=1, request_timeout_s=60.0, start_timeout_s=300.0)
PROMPT = np.arange(6, 16, dtype=np.int32)
REQUESTS = [Request(PROMPT[: 3 + i], key=i) for i in range(6)]
GREEDY = SamplingParams(num_rollouts=1, max_response_len=24, temperature=0.0)
SAMPLED = SamplingParams(num_rollouts=4, max_response_len=24, seed=3, update=1)


def config_of(tied: bool) -> ModelConfig:
    return ModelConfig(
        vocab_size=64,
        num_layers=2,
        embed_dim=64,
        mlp_dim=96,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=32,
        tie_embeddings=tied,
        eos_token_ids=(1, 5),
    )


def weights_of(tied: bool, version: int):
    return init_params(config_of(tied), jax.random.key(version), std=0.3)


def start(tied: bool, folder, settings=SETTINGS):
    model = weights_of(tied, 0)
    return start_vllm(model.cfg, model, settings, urls=(), max_len=64, probe=PROMPT, run_dir=folder)


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    sampler = start(True, tmp_path_factory.mktemp("tied"))
    yield sampler
    sampler.close()


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    sampler = start(False, tmp_path_factory.mktemp("untied"))
    yield sampler
    sampler.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    settings = dataclasses.replace(SETTINGS, servers=2, max_in_flight=2)
    sampler = start(True, tmp_path_factory.mktemp("two"), settings)
    yield sampler
    sampler.close()


def trainer_logprobs(model, rollouts, temperature):
    """[B, G, T] under the trainer's weights."""
    group, width = rollouts.response_ids.shape[1:]
    longest = max(len(request.prompt_ids) for request in REQUESTS)
    prompts = np.zeros((len(REQUESTS), longest), np.int32)
    for row, request in zip(prompts, REQUESTS, strict=True):
        row[longest - len(request.prompt_ids) :] = request.prompt_ids
    lengths = np.array([len(request.prompt_ids) for request in REQUESTS], np.int32)
    logprobs, _ = response_logprobs(
        model,
        np.repeat(prompts, group, axis=0),
        np.repeat(lengths, group),
        rollouts.response_ids.reshape(-1, width),
        rollouts.response_len.reshape(-1),
        temperature=temperature,
    )
    return np.asarray(logprobs).reshape(rollouts.logprobs.shape)


@pytest.mark.parametrize("kind", ["tied", "untied"])
def test_after_every_sync_both_samplers_agree(kind, request):
    sampler = request.getfixturevalue(kind)
    earlier = None
    for version in (1, 2):
        model = weights_of(kind == "tied", version)
        sampler.load(model, version)
        ours = JaxSampler(model.cfg, model).generate(REQUESTS, GREEDY)
        theirs = sampler.generate(REQUESTS, GREEDY)
        np.testing.assert_array_equal(theirs.response_ids, ours.response_ids)
        np.testing.assert_array_equal(theirs.finished, ours.finished)
        np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=1e-3)
        for temperature in (1.0, 0.7):
            params = dataclasses.replace(SAMPLED, temperature=temperature)
            rollouts = sampler.generate(REQUESTS, params)
            assert rollouts.valid.all() and (rollouts.version == version).all()
            expected = trainer_logprobs(model, rollouts, temperature)
            np.testing.assert_allclose(rollouts.logprobs, expected, atol=1e-3)
        assert earlier is None or (earlier != theirs.response_ids).any()
        earlier = theirs.response_ids


def test_a_rollout_is_a_function_of_seed_update_key_and_index(tied):
    first, again = tied.generate(REQUESTS, SAMPLED), tied.generate(REQUESTS, SAMPLED)
    np.testing.assert_array_equal(first.response_ids, again.response_ids)
    other = tied.generate(REQUESTS, dataclasses.replace(SAMPLED, update=2))
    assert (other.response_ids != first.response_ids).any()
    rows = first.response_ids.reshape(-1, first.response_ids.shape[2])
    assert len({tuple(row) for row in rows.tolist()}) > len(rows) // 2


def test_a_truncated_version_is_refused_and_the_old_one_kept(tied, tmp_path, monkeypatch):
    before = tied.generate(REQUESTS, GREEDY)
    version = int(before.version[0, 0])

    def truncated(folder, *args):
        write_weights(folder, *args)
        largest = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        os.truncate(largest, largest.stat().st_size // 2)

    monkeypatch.setattr("jaxrl_scope.rollout.vllm.sampler.write_weights", truncated)
    with pytest.raises(SyncError, match=f"stay on version {version}[\\s\\S]*damaged"):
        tied.load(weights_of(True, 90), 90)
    after = tied.generate(REQUESTS, GREEDY)
    np.testing.assert_array_equal(after.response_ids, before.response_ids)
    np.testing.assert_array_equal(after.logprobs, before.logprobs)


def test_weights_of_another_shape_are_refused_by_name(tied):
    wide = dataclasses.replace(config_of(True), mlp_dim=128)
    with pytest.raises(SyncError, match="intermediate_size is 128"):
        tied.load(init_params(wide, jax.random.key(0)), 91)


def test_two_servers_are_one_and_divide_the_work(tied, two, monkeypatch):
    model = weights_of(True, 5)
    tied.load(model, 5)
    two.load(model, 5)
    asked = []
    for server in two._fleet.servers:

        def generate(*args, server=server, real=server.client.generate):
            asked.append(server)
            return real(*args)

        monkeypatch.setattr(server.client, "generate", generate)
    one, both = tied.generate(REQUESTS, SAMPLED), two.generate(REQUESTS, SAMPLED)
    assert len(asked) == len(REQUESTS)
    assert min(asked.count(server) for server in two._fleet.servers) >= 2
    np.testing.assert_array_equal(both.response_ids, one.response_ids)
    np.testing.assert_allclose(both.logprobs, one.logprobs, atol=1e-4)


def server_pid(server) -> int:
    """Process of a server of ours: the only child of its guard (vLLM renames itself)."""
    import psutil  # vLLM brings it

    [child] = psutil.Process(server.process._guard.pid).children()
    return child.pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_killed_or_hung_in_the_middle_of_a_batch_loses_no_group(two, number):
    model = weights_of(True, 6)
    two.load(model, 6)
    two._config = dataclasses.replace(two._config, attempts=4)
    for server in two._fleet.servers:
        server.client._timeout_s = 8.0
    victim = server_pid(two._fleet.servers[0])
    batch = [Request(PROMPT[: 3 + i % 6], key=100 + i) for i in range(40)]
    threading.Timer(0.1, os.kill, (victim, number)).start()
    rollouts = two.generate(batch, dataclasses.replace(SAMPLED, max_response_len=48))
    assert rollouts.valid.all() and (rollouts.version == 6).all()
    deadline = time.monotonic() + 200
    while not all(server.ready for server in two._fleet.servers):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    two.load(weights_of(True, 7), 7)

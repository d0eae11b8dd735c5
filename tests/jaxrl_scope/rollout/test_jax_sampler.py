"""The in-process sampler: its log-probabilities, keys, ends, and indifference to the batch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams, request_key
from models import ModelConfig, forward_hidden, init_params, logits, response_logprobs

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
PARAMS = SamplingParams(num_rollouts=3, max_response_len=40, seed=7, update=2)


@pytest.fixture(scope="module")
def model():
    return init_params(CONFIG, jax.random.key(0), std=0.3)


@pytest.fixture(scope="module")
def sampler(model):
    return JaxSampler(CONFIG, model)


def make_requests(count: int, seed: int = 0) -> list[Request]:
    rng = np.random.default_rng(seed)
    return [
        Request(rng.integers(6, 40, rng.integers(1, 20)).astype(np.int32), request_key(f"p{i}"))
        for i in range(count)
    ]


def rows(requests: list[Request], rollouts: Rollouts) -> list[np.ndarray]:
    """Arguments of `response_logprobs`, group-major."""
    group = rollouts.response_len.shape[1]
    width = max(len(request.prompt_ids) for request in requests)
    prompt_ids = np.zeros((len(requests), width), np.int32)
    for row, request in zip(prompt_ids, requests, strict=True):
        row[width - len(request.prompt_ids) :] = request.prompt_ids
    prompt_len = np.array([len(request.prompt_ids) for request in requests], np.int32)
    shape = (len(requests) * group, -1)
    return [
        np.repeat(prompt_ids, group, axis=0),
        np.repeat(prompt_len, group),
        rollouts.response_ids.reshape(shape),
        rollouts.response_len.reshape(-1),
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_the_trainers(model, sampler, temperature):
    requests = make_requests(5)
    rollouts = sampler.generate(requests, dataclasses.replace(PARAMS, temperature=temperature))
    arguments = map(jnp.asarray, rows(requests, rollouts))
    expected, _ = response_logprobs(model, *arguments, temperature=temperature)
    found = rollouts.logprobs.reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.min() < -1.0


def test_rollouts_end_at_any_end_token_and_only_there(sampler):
    rollouts = sampler.generate(make_requests(16), PARAMS)
    ends = set()
    for ids, length, finished in zip(
        rollouts.response_ids.reshape(-1, 40),
        rollouts.response_len.reshape(-1),
        rollouts.finished.reshape(-1),
        strict=True,
    ):
        is_end = np.isin(ids[:length], CONFIG.eos_token_ids)
        assert not is_end[:-1].any()
        assert is_end[-1] == finished
        assert finished or length == 40
        assert not ids[length:].any()
        ends.add(int(ids[length - 1]))
    assert set(CONFIG.eos_token_ids) <= ends


def test_a_request_has_the_same_rollouts_in_any_company(sampler):
    requests = make_requests(7)
    whole = sampler.generate(requests, PARAMS)
    order = [4, 1, 6]
    some = sampler.generate([requests[i] for i in order], PARAMS)
    np.testing.assert_array_equal(some.response_ids, whole.response_ids[order])
    np.testing.assert_allclose(some.logprobs, whole.logprobs[order], atol=1e-5)
    few = sampler.generate(requests, dataclasses.replace(PARAMS, num_rollouts=2))
    np.testing.assert_array_equal(few.response_ids, whole.response_ids[:, :2])


def test_a_small_cache_splits_the_batch_and_changes_nothing(model, sampler):
    requests = make_requests(6)
    split = JaxSampler(CONFIG, model, cache_bytes=100_000)
    np.testing.assert_array_equal(
        split.generate(requests, PARAMS).response_ids,
        sampler.generate(requests, PARAMS).response_ids,
    )


@pytest.mark.parametrize("change", [{"seed": 8}, {"update": 3}])
def test_seed_and_update_change_the_rollouts(sampler, change):
    requests = make_requests(4)
    one = sampler.generate(requests, PARAMS)
    other = sampler.generate(requests, dataclasses.replace(PARAMS, **change))
    assert (one.response_ids != other.response_ids).any()


def test_rollouts_of_a_group_and_of_equal_prompts_differ(sampler):
    request = make_requests(1)[0]
    twin = Request(request.prompt_ids, request_key("p0", occurrence=1))
    rollouts = sampler.generate([request, twin], PARAMS)
    texts = {tuple(ids) for ids in rollouts.response_ids.reshape(6, -1).tolist()}
    assert len(texts) == 6


def test_greedy_takes_the_best_token_of_a_full_forward(model, sampler):
    request = make_requests(1)[0]
    params = dataclasses.replace(PARAMS, num_rollouts=1, temperature=0.0, max_response_len=12)
    rollouts = sampler.generate([request], params)
    ids = list(request.prompt_ids)
    for token in rollouts.response_ids[0, 0, : rollouts.response_len[0, 0]]:
        scores = logits(model, forward_hidden(model, jnp.array([ids]))[0, -1])
        assert int(jnp.argmax(scores)) == token
        ids.append(int(token))


def test_first_tokens_follow_the_distribution(model, sampler):
    """5,000 draws against the exact probabilities: chi-square far below its 10^-6 quantile."""
    request = make_requests(1)[0]
    params = SamplingParams(num_rollouts=5000, max_response_len=1)
    tokens = sampler.generate([request], params).response_ids[0, :, 0]
    scores = logits(model, forward_hidden(model, jnp.asarray(request.prompt_ids)[None])[0, -1])
    expected = np.asarray(jax.nn.softmax(scores)) * 5000
    counts = np.bincount(tokens, minlength=40)
    common = expected > 5
    chi_square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert chi_square < common.sum() + 6 * np.sqrt(2 * common.sum())


def test_new_weights_and_their_version_are_used(model):
    sampler = JaxSampler(CONFIG, model)
    before = sampler.generate(make_requests(2), PARAMS)
    sampler.load(jax.tree.map(lambda x: x * 1.5, model), 9)
    after = sampler.generate(make_requests(2), PARAMS)
    assert (before.version == 0).all()
    assert (after.version == 9).all()
    assert (before.response_ids != after.response_ids).any()


def test_bad_requests_are_named(sampler):
    with pytest.raises(ValueError, match="at least one request"):
        sampler.generate([], PARAMS)
    with pytest.raises(ValueError, match="tokenizer"):
        sampler.generate([Request(np.array([40], np.int32), 0)], PARAMS)
    with pytest.raises(ValueError, match="at least 1"):
        sampler.generate(make_requests(1), dataclasses.replace(PARAMS, num_rollouts=0))

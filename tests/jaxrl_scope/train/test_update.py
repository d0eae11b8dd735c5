"""The update: however a batch is cut, padded or spread over devices, it is the same update."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_scope.train.batching import bucket_length, make_microbatches
from jaxrl_scope.train.experience import Experience
from jaxrl_scope.train.losses import LossConfig
from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
from jaxrl_scope.train.update import TrainState, UpdateConfig, Updater, init_state
from models import ModelConfig, init_params, model_shardings
from models.partition import MESH_AXES, tree_shardings

CONFIG = ModelConfig(
    vocab_size=32,
    num_layers=2,
    embed_dim=16,
    mlp_dim=32,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=8,
    tie_embeddings=True,
    eos_token_ids=(1,),
    remat="none",  # compiles faster
)


def make_experience(seed=0, groups=4, group=3, prompt=5, width=11) -> Experience:
    rng = np.random.default_rng(seed)
    rows = groups * group
    prompt_len = np.repeat(rng.integers(1, prompt + 1, groups), group).astype(np.int32)
    response_len = rng.integers(1, width + 1, rows).astype(np.int32)
    prompt_ids = rng.integers(0, 32, (rows, prompt)).astype(np.int32)
    advantages = np.repeat(rng.normal(size=(rows, 1)), width, axis=1).astype(np.float32)
    return Experience(
        prompt_ids=prompt_ids,
        prompt_len=prompt_len,
        response_ids=rng.integers(0, 32, (rows, width)).astype(np.int32),
        response_len=response_len,
        rollout_logprobs=np.full((rows, width), -3.0, np.float32),
        advantages=advantages,
        mask=np.arange(width) < response_len[:, None],
        metrics={},
    )


def run(experience, loss=None, mesh=None, group=3, updates=1, model=CONFIG, **settings):
    optimizer = optax.sgd(1.0)
    config = UpdateConfig(**{"token_budget": 4096, "length_multiple": 8} | settings)
    updater = Updater(optimizer, loss or LossConfig(), config, mesh=mesh)
    params = init_params(model, jax.random.key(0), std=0.2)
    if mesh is not None:
        params = jax.device_put(params, model_shardings(params, mesh))
    state = init_state(params, optimizer, mesh)
    for i in range(updates):
        state, metrics = updater.update(state, experience, jax.random.key(i), group)
    return state, metrics


def distance(a: TrainState, b: TrainState) -> float:
    gaps = jax.tree.map(
        lambda x, y: float(np.abs(np.asarray(x) - np.asarray(y)).max()), a.params, b.params
    )
    return max(jax.tree.leaves(gaps))


@pytest.mark.parametrize(("kind", "budget"), [("grpo", 16), ("gspo", 48)])
def test_microbatches_do_not_change_the_update(kind, budget):
    experience, loss = make_experience(), LossConfig(kind=kind)
    whole, metrics = run(experience, loss)
    start = init_params(CONFIG, jax.random.key(0), std=0.2)
    assert distance(whole, TrainState(start, None, None)) > 1e-3
    cut, cut_metrics = run(experience, loss, token_budget=budget)
    assert distance(whole, cut) < 2e-6
    for name, value in metrics.items():
        assert cut_metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_what_stands_in_the_padding_does_not_matter():
    experience = make_experience()
    noise = np.random.default_rng(1).integers(0, 32, experience.response_ids.shape)
    real = experience.mask
    prompt = np.arange(5) >= 5 - experience.prompt_len[:, None]
    dirty = dataclasses.replace(
        experience,
        prompt_ids=np.where(prompt, experience.prompt_ids, 31).astype(np.int32),
        response_ids=np.where(real, experience.response_ids, noise).astype(np.int32),
        advantages=np.where(real, experience.advantages, np.nan).astype(np.float32),
        rollout_logprobs=np.where(real, experience.rollout_logprobs, np.nan).astype(np.float32),
    )
    assert distance(run(experience)[0], run(dirty)[0]) == 0.0


@pytest.mark.parametrize("shape", [(8, 1, 1), (2, 2, 2), (1, 8, 1), (1, 4, 2), (4, 1, 2)])
def test_a_mesh_of_eight_devices_gives_the_same_update(shape):
    assert jax.device_count() == 8
    experience = make_experience(groups=8, group=2)
    mesh = jax.make_mesh(shape, MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    one, metrics = run(experience, group=2)
    many, many_metrics = run(experience, group=2, mesh=mesh)
    assert distance(one, many) < 2e-6
    assert many_metrics["policy/loss"] == pytest.approx(metrics["policy/loss"], rel=1e-4)
    assert_placed_by_the_rules(many, mesh)


@pytest.mark.slow
def test_tensor_parallelism_alone_gives_the_same_update():
    """Every key/value head on a device of its own."""
    model = dataclasses.replace(CONFIG, num_q_heads=16, num_kv_heads=8)
    experience = make_experience(groups=2, group=2)
    mesh = jax.make_mesh((1, 1, 8), MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    one, metrics = run(experience, group=2, model=model)
    many, many_metrics = run(experience, group=2, model=model, mesh=mesh)
    assert distance(one, many) < 2e-6
    assert many_metrics["policy/loss"] == pytest.approx(metrics["policy/loss"], rel=1e-4)
    assert_placed_by_the_rules(many, mesh)


def assert_placed_by_the_rules(state: TrainState, mesh):
    """Every leaf, the optimizer's moments too, lies as the table of rules says."""
    wanted = jax.tree.leaves(tree_shardings(state, mesh))
    leaves = jax.tree.leaves(state)
    assert len(leaves) == len(wanted)
    for leaf, sharding in zip(leaves, wanted, strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)


def test_the_optimizer_is_born_sharded_and_stays_so():
    mesh = jax.make_mesh((2, 2, 2), MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    params = init_params(CONFIG, jax.random.key(0))
    params = jax.device_put(params, model_shardings(params, mesh))
    optimizer = make_optimizer(OptimizerConfig(), 10)
    state = init_state(params, optimizer, mesh)
    assert_placed_by_the_rules(state, mesh)
    specs = {tuple(x.sharding.spec) for x in jax.tree.leaves(state.opt_state) if x.ndim == 4}
    assert specs == {(None, "fsdp", "tensor", None), (None, "tensor", None, "fsdp")}
    updater = Updater(optimizer, LossConfig(), UpdateConfig(length_multiple=8), mesh=mesh)
    state, _ = updater.update(state, make_experience(), jax.random.key(0), 3)
    assert_placed_by_the_rules(state, mesh)


def test_on_policy_nothing_is_clipped_and_a_second_step_clips():
    experience = make_experience()
    _, once = run(experience)
    assert once["policy/clip_frac"] == 0.0
    assert once["policy/ratio_mean"] == 1.0
    _, twice = run(experience, epochs=3)
    assert twice["policy/clip_frac"] > 0.0
    assert twice["policy/steps"] == 3.0


def test_minibatches_use_every_group_once_and_keep_it_whole():
    updater = Updater(optax.sgd(1.0), LossConfig(), UpdateConfig(epochs=2, minibatches=3))
    dealt = updater._deal(12, 3, jax.random.key(0))
    assert len(dealt) == 6
    for epoch in (dealt[:3], dealt[3:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(12))
    for rows in dealt:
        groups, counts = np.unique(rows // 3, return_counts=True)
        assert groups.size and (counts == 3).all()


def test_a_batch_without_tokens_changes_nothing():
    experience = make_experience()
    empty = dataclasses.replace(experience, mask=np.zeros_like(experience.mask))
    state, metrics = run(empty)
    assert int(state.step) == 0
    assert metrics["policy/steps"] == 0.0


def test_microbatch_shapes_are_few():
    shapes = set()
    for seed in range(30):
        experience = make_experience(seed, groups=8, group=3, width=100)
        batches = make_microbatches(experience, np.arange(24), token_budget=256, length_multiple=16)
        assert sum(int(np.asarray(b.mask).sum()) for b in batches) == experience.mask.sum()
        shapes |= {b.response_ids.shape for b in batches}
    assert len(shapes) <= 12


@pytest.mark.parametrize(
    ("length", "expected"), [(1, 8), (8, 8), (9, 16), (17, 24), (25, 32), (33, 48), (49, 64)]
)
def test_bucket_lengths(length, expected):
    assert bucket_length(length, 8) == expected


def test_loss_falls_when_a_batch_is_repeated():
    """Raise good rows, lower bad ones: their log-probabilities must move that way."""
    experience = make_experience()
    experience = dataclasses.replace(experience, advantages=np.sign(experience.advantages))
    state, _ = run(experience, updates=3)
    from models import response_logprobs

    arguments = [
        jnp.asarray(x)
        for x in (
            experience.prompt_ids,
            experience.prompt_len,
            experience.response_ids,
            experience.response_len,
        )
    ]
    before = response_logprobs(init_params(CONFIG, jax.random.key(0), std=0.2), *arguments)[0]
    after = response_logprobs(state.params, *arguments)[0]
    assert float(jnp.sum((after - before) * experience.advantages)) > 0.1


def test_reference_is_needed_for_kl():
    with pytest.raises(ValueError, match="reference"):
        Updater(optax.sgd(1.0), LossConfig(kl_coef=0.1), UpdateConfig())

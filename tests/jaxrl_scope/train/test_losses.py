"""The policy losses against a slow oracle, and the properties that peers' code has broken."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrl_scope.train.losses import LossConfig, LossInputs, divide, policy_loss

GRPO, GSPO = LossConfig(kind="grpo"), LossConfig(kind="gspo")
AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "constant")


def make_inputs(seed: int, rows=6, width=5, spread=0.1, per_token=True, **changes) -> LossInputs:
    rng = np.random.default_rng(seed)
    policy = rng.normal(-1.0, 0.5, (rows, width)).astype(np.float32)
    lengths = rng.integers(1, width + 1, rows)
    advantages = rng.normal(size=(rows, width if per_token else 1)).astype(np.float32)
    fields = {
        "policy_logprobs": policy,
        "old_logprobs": policy + rng.normal(0, spread, policy.shape).astype(np.float32),
        "rollout_logprobs": policy + rng.normal(0, 0.01, policy.shape).astype(np.float32),
        "advantages": np.broadcast_to(advantages, policy.shape),
        "entropy": rng.uniform(0, 2, policy.shape).astype(np.float32),
        "mask": np.arange(width) < lengths[:, None],
    }
    return LossInputs(**{k: jnp.asarray(v) for k, v in (fields | changes).items()})


compute = jax.jit(policy_loss, static_argnames="config")


@functools.partial(jax.jit, static_argnames="config")
def _gradient(policy, inputs, config):
    def loss(policy):
        return divide(policy_loss(dataclasses.replace(inputs, policy_logprobs=policy), config).loss)

    return jax.grad(loss)(policy)


def loss_of(inputs: LossInputs, config: LossConfig) -> float:
    return float(divide(compute(inputs, config).loss))


def gradient_of(inputs: LossInputs, config: LossConfig) -> np.ndarray:
    return np.asarray(_gradient(inputs.policy_logprobs, inputs, config))


def oracle(inputs: LossInputs, config: LossConfig) -> float:
    """Loops over rollouts and tokens, in float64, as the formulas read."""
    policy, old, advantage, mask = (
        np.asarray(x)
        for x in (inputs.policy_logprobs, inputs.old_logprobs, inputs.advantages, inputs.mask)
    )
    low, high = config.clip
    rows = []
    for r in range(len(policy)):
        tokens = [t for t in range(policy.shape[1]) if mask[r, t]]
        if not tokens:
            continue
        ratios = {t: np.exp(np.float64(policy[r, t]) - old[r, t]) for t in tokens}
        if config.kind == "gspo":
            s = np.exp(np.mean([np.log(ratios[t]) for t in tokens]))
            ratios = dict.fromkeys(tokens, s)
        rows.append(
            [
                -min(
                    ratios[t] * advantage[r, t],
                    np.clip(ratios[t], 1 - low, 1 + high) * advantage[r, t],
                )
                for t in tokens
            ]
        )
    if config.mode == "token-mean":
        return float(np.mean([x for row in rows for x in row]))
    if config.mode == "seq-mean-token-mean":
        return float(np.mean([np.mean(row) for row in rows]))
    return float(sum(map(sum, rows)) / (len(rows) * config.divisor))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("kind", ["grpo", "gspo"])
def test_value_equals_the_oracle(kind, aggregation):
    config = LossConfig(kind=kind, aggregation=aggregation)
    for seed in range(5):
        inputs = make_inputs(seed, spread=0.3)
        np.testing.assert_allclose(loss_of(inputs, config), oracle(inputs, config), rtol=2e-5)


def test_golden_value():
    # Ratios e^.3 = 1.34986 -> clipped to 1.2 for A = 1; e^-.3 = .74082 -> clipped to .8 for A = -1.
    # Loss = -(1.2 - .8) / 2.
    inputs = LossInputs(
        policy_logprobs=jnp.array([[0.3, -0.3]]),
        old_logprobs=jnp.zeros((1, 2)),
        rollout_logprobs=jnp.zeros((1, 2)),
        advantages=jnp.array([[1.0, -1.0]]),
        entropy=jnp.zeros((1, 2)),
        mask=jnp.ones((1, 2), bool),
    )
    outputs = compute(inputs, GRPO)
    np.testing.assert_allclose(float(divide(outputs.loss)), -0.2, rtol=1e-6)
    assert float(divide(outputs.metrics["policy/clip_frac"])) == 1.0


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_on_policy_grpo_and_gspo_have_equal_gradients(aggregation):
    inputs = make_inputs(3)
    inputs = dataclasses.replace(inputs, old_logprobs=inputs.policy_logprobs)
    grpo = gradient_of(inputs, LossConfig(kind="grpo", aggregation=aggregation, divisor=4.0))
    gspo = gradient_of(inputs, LossConfig(kind="gspo", aggregation=aggregation, divisor=4.0))
    np.testing.assert_allclose(grpo, gspo, rtol=1e-5, atol=1e-7)
    assert np.abs(grpo).max() > 0.01


def test_off_policy_they_differ():
    inputs = make_inputs(3, spread=0.05)
    loose = {"clip_low": 0.9, "clip_high": 9.0, "aggregation": "seq-mean-token-mean"}
    grpo = gradient_of(inputs, LossConfig(kind="grpo", **loose))
    gspo = gradient_of(inputs, LossConfig(kind="gspo", **loose))
    assert np.abs(grpo - gspo).max() > 1e-3


def test_token_form_of_gspo_is_gspo_for_a_constant_advantage():
    """Value and gradient of -s A with s = exp(mean of log-ratios), differentiated directly."""
    inputs = make_inputs(1, per_token=False)
    config = LossConfig(kind="gspo", clip_low=0.9, clip_high=9.0)

    def plain(policy):
        count = inputs.mask.sum(axis=1)
        log_ratio = jnp.where(inputs.mask, policy - inputs.old_logprobs, 0.0)
        s = jnp.exp(log_ratio.sum(axis=1) / count)
        return -jnp.mean(s * inputs.advantages[:, 0])

    np.testing.assert_allclose(loss_of(inputs, config), plain(inputs.policy_logprobs), rtol=1e-5)
    expected = jax.grad(plain)(inputs.policy_logprobs)
    np.testing.assert_allclose(gradient_of(inputs, config), expected, rtol=1e-4, atol=1e-7)


def test_gspo_ignores_wild_token_ratios_whose_mean_is_zero():
    swing = jnp.array([[3.0, -3.0, 2.0, -2.0]])
    inputs = LossInputs(
        policy_logprobs=-1.0 + swing,
        old_logprobs=jnp.full((1, 4), -1.0),
        rollout_logprobs=jnp.full((1, 4), -1.0),
        advantages=jnp.ones((1, 4)),
        entropy=jnp.zeros((1, 4)),
        mask=jnp.ones((1, 4), bool),
    )
    grpo, gspo = compute(inputs, GRPO), compute(inputs, GSPO)
    assert float(divide(grpo.metrics["policy/clip_frac"])) == 0.5
    assert float(divide(gspo.metrics["policy/clip_frac"])) == 0.0
    np.testing.assert_allclose(loss_of(inputs, GSPO), -1.0, rtol=1e-6)


def test_gspo_has_its_own_clip_widths():
    assert GRPO.clip == (0.2, 0.2)
    assert GSPO.clip == (3e-4, 4e-4)
    assert LossConfig(kind="gspo", clip_high=0.1).clip == (3e-4, 0.1)


garbage = st.sampled_from([np.nan, np.inf, -np.inf, -1e30, 1e9])


@pytest.mark.parametrize("config", [GRPO, GSPO, LossConfig(tis_cap=2.0, entropy_coef=0.1)])
@given(value=garbage, seed=st.integers(0, 50))
def test_padding_may_hold_anything(config, value, seed):
    clean = make_inputs(seed)
    fields = ("policy_logprobs", "old_logprobs", "rollout_logprobs", "advantages", "entropy")
    dirty = dataclasses.replace(
        clean, **{f: jnp.where(clean.mask, getattr(clean, f), value) for f in fields}
    )
    assert loss_of(clean, config) == loss_of(dirty, config)
    np.testing.assert_array_equal(gradient_of(clean, config), gradient_of(dirty, config))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("kind", ["grpo", "gspo"])
def test_microbatches_and_padding_change_nothing(kind, aggregation):
    config = LossConfig(kind=kind, aggregation=aggregation)

    @jax.jit
    def in_parts(inputs, second):
        """Sum the losses of the rows where `second` is False and of those where it is True."""
        inputs = jax.tree.map(lambda x: jnp.pad(x, ((0, 2), (0, 3))), inputs)
        parts = [
            dataclasses.replace(inputs, mask=inputs.mask & (second == which)[:, None])
            for which in (False, True)
        ]
        return divide(jax.tree.map(jnp.add, *[policy_loss(part, config).loss for part in parts]))

    for seed in range(20):
        inputs = make_inputs(seed)
        second = np.random.default_rng(seed).random(8) < 0.5
        value = float(in_parts(inputs, second))
        np.testing.assert_allclose(value, loss_of(inputs, config), rtol=1e-5)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("config", [GRPO, GSPO])
def test_empty_batch_is_zero(config, aggregation):
    config = dataclasses.replace(config, aggregation=aggregation)
    inputs = make_inputs(0, mask=np.zeros((6, 5), bool))
    assert loss_of(inputs, config) == 0.0
    assert not gradient_of(inputs, config).any()


@pytest.mark.parametrize("config", [GRPO, GSPO], ids=["grpo", "gspo"])
def test_one_device_eight_devices_and_pmap_agree(config):
    assert jax.device_count() == 8
    inputs = make_inputs(7, rows=16)
    expected = loss_of(inputs, config)
    gradient = gradient_of(inputs, config)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = jax.device_put(inputs, NamedSharding(mesh, PartitionSpec("data")))
    value = jax.jit(lambda x: divide(policy_loss(x, config).loss))(split)
    np.testing.assert_allclose(float(value), expected, rtol=1e-6)

    per_device = jax.tree.map(lambda x: x.reshape(8, 2, *x.shape[1:]), inputs)

    def loss(policy, inputs):
        inputs = dataclasses.replace(inputs, policy_logprobs=policy)
        return divide(jax.lax.psum(policy_loss(inputs, config).loss, "device"))

    value = jax.pmap(loss, "device")(per_device.policy_logprobs, per_device)
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-6)

    def local_sum(policy, inputs):
        inputs = dataclasses.replace(inputs, policy_logprobs=policy)
        return policy_loss(inputs, config).loss

    def global_gradient(policy, inputs):
        gradient, count = jax.grad(local_sum, has_aux=True)(policy, inputs)
        return gradient / jax.lax.psum(count, "device")

    spread = jax.pmap(global_gradient, "device")(per_device.policy_logprobs, per_device)
    np.testing.assert_allclose(np.asarray(spread).reshape(16, -1), gradient, rtol=1e-5, atol=1e-8)


def test_truncated_importance_weight_and_nan_logprobs():
    inputs = make_inputs(0, rows=1, width=3, mask=np.ones((1, 3), bool))
    inputs = dataclasses.replace(
        inputs,
        old_logprobs=inputs.policy_logprobs,
        rollout_logprobs=inputs.policy_logprobs - jnp.array([[np.log(1.5), 5.0, np.nan]]),
        advantages=jnp.ones((1, 3)),
    )
    outputs = compute(inputs, LossConfig(tis_cap=2.0))
    # Weights 1.5, 2 (capped) and 1 (the sampler gave NaN): their mean is 1.5.
    np.testing.assert_allclose(float(divide(outputs.loss)), -1.5, rtol=1e-5)
    gap = outputs.metrics["sampler/logprob_gap_mean"]
    np.testing.assert_allclose(float(divide(gap)), (np.log(1.5) + 5) / 2, rtol=1e-5)
    assert float(gap[1]) == 2


def test_kl_term_is_k3_and_needs_a_reference():
    config = LossConfig(kl_coef=0.5)
    inputs = make_inputs(0)
    with pytest.raises(ValueError, match="ref_logprobs"):
        policy_loss(inputs, config)
    inputs = dataclasses.replace(inputs, ref_logprobs=inputs.policy_logprobs - 0.7)
    plain = loss_of(inputs, GRPO)
    expected = plain + 0.5 * (np.exp(-0.7) + 0.7 - 1)
    np.testing.assert_allclose(loss_of(inputs, config), expected, rtol=1e-5)


def test_extreme_ratios_stay_finite():
    inputs = make_inputs(0, old_logprobs=np.full((6, 5), -200.0, np.float32))
    inputs = dataclasses.replace(inputs, advantages=-jnp.abs(inputs.advantages))
    chex.assert_tree_all_finite(compute(inputs, GRPO))
    assert np.isfinite(gradient_of(inputs, GRPO)).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [("clip_low", 0.0), ("clip_high", -1.0), ("kl_coef", -0.1), ("divisor", 0.0), ("tis_cap", -1)],
)
def test_bad_settings_are_named(field, value):
    with pytest.raises(ValueError, match=field):
        LossConfig(**{field: value})


@given(hnp.arrays(np.float32, (6, 5), elements=st.floats(-3, 3, width=32, allow_subnormal=False)))
def test_permuting_rows_changes_nothing(advantages):
    inputs = make_inputs(2, advantages=advantages)
    order = np.array([3, 1, 5, 0, 2, 4])
    shuffled = jax.tree.map(lambda x: x[order], inputs)
    np.testing.assert_allclose(loss_of(inputs, GRPO), loss_of(shuffled, GRPO), rtol=1e-5, atol=1e-6)

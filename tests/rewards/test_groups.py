"""Group advantages against a loop written from SCOPE-RL Eq. (2), and the properties of a group."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewards import effective_gradient_ratio, group_advantages, group_moments, outcome_gate

ODD_SIZES = (3, 5, 7, 12)
B, G = 4, 7
reals = st.floats(-10, 10, width=32, allow_subnormal=False)
# Multiples of 1/64: shifts and differences of these are exact in float32.
sixty_fourths = st.integers(-640, 640).map(lambda n: n / 64)
rewards_b_g = hnp.arrays(np.float32, (B, G), elements=reals)
exact_b_g = hnp.arrays(np.float32, (B, G), elements=sixty_fourths)
masks_b_g = hnp.arrays(np.bool_, (B, G))
garbage = st.sampled_from([np.nan, np.inf, -np.inf, 1e9, -1.0])

advantages = jax.jit(group_advantages, static_argnames=("ddof", "normalize_std"))
_moments = jax.jit(group_moments, static_argnames="ddof")
_ratio = jax.jit(effective_gradient_ratio)
_gate = jax.jit(outcome_gate)


def oracle(rewards, keep, ddof=0, eps=0.0, normalize_std=True):
    out = np.zeros(rewards.shape)
    for b in range(rewards.shape[0]):
        kept = [float(r) for r, k in zip(rewards[b], keep[b], strict=True) if k]
        if len(kept) < 2 or max(kept) == min(kept):
            continue
        mean = math.fsum(kept) / len(kept)
        std = math.sqrt(math.fsum((r - mean) ** 2 for r in kept) / (len(kept) - ddof))
        for g in range(rewards.shape[1]):
            if keep[b, g]:
                out[b, g] = (rewards[b, g] - mean) / ((std + eps) if normalize_std else 1.0)
    return out


OPTIONS = ({}, {"ddof": 1, "eps": 1e-6}, {"normalize_std": False}, {"eps": 0.5})


@jax.jit
def all_options(rewards, keep):
    return [group_advantages(rewards, keep, **options) for options in OPTIONS]


@pytest.mark.parametrize("size", [*ODD_SIZES, 1, 2])
def test_matches_the_loop(size):
    rng = np.random.default_rng(size)
    for _ in range(10):
        rewards = rng.normal(size=(8, size)).astype(np.float32)
        keep = rng.random((8, size)) < 0.8
        for options, got in zip(OPTIONS, all_options(rewards, keep), strict=True):
            np.testing.assert_allclose(got, oracle(rewards, keep, **options), rtol=2e-5, atol=2e-6)


@given(rewards_b_g, masks_b_g)
def test_matches_the_loop_on_any_rewards(rewards, keep):
    np.testing.assert_allclose(
        advantages(rewards, keep), oracle(rewards, keep), rtol=1e-4, atol=1e-5
    )


def test_known_values():
    # 1 right of 8: p = 1/8, std = sqrt(7)/8, so A = 7/sqrt(7) and -1/sqrt(7).
    one_of_eight = advantages(np.eye(1, 8, dtype=np.float32))
    np.testing.assert_allclose(one_of_eight[0, :2], [math.sqrt(7), -1 / math.sqrt(7)], rtol=1e-6)
    # ddof 1 shrinks by sqrt(7/8).
    sample = advantages(np.eye(1, 8, dtype=np.float32), ddof=1)
    np.testing.assert_allclose(sample[0, 0], math.sqrt(7) * math.sqrt(7 / 8), rtol=1e-6)


@pytest.mark.parametrize("size", [*ODD_SIZES, 1, 2])
def test_equal_rewards_give_exactly_zero(size):
    values = np.array([0.1, 0.3, 0.7, 1 / 3, 0.2462, 1e-30, 1e30, -7.7], np.float32)
    rewards = np.repeat(values[:, None], size, axis=1)
    for got in all_options(rewards, np.ones((8, size), bool)):
        assert (np.asarray(got) == 0.0).all()


@pytest.mark.parametrize("size", ODD_SIZES)
def test_a_gap_of_one_rounding_step_is_a_full_size_difference(size):
    rewards = np.full((1, size), 0.1, np.float32)
    rewards[0, 0] = np.nextafter(np.float32(0.1), np.float32(1))
    # One above, the rest equal: p = 1/size as in a binary group.
    expected = math.sqrt(size - 1)
    np.testing.assert_allclose(advantages(rewards)[0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
def test_extreme_units_neither_underflow_nor_overflow(scale):
    rewards = np.array([[0.0, 1.0, 0.25, 0.5]], np.float32)
    np.testing.assert_allclose(
        advantages(rewards * np.float32(scale)), advantages(rewards), rtol=1e-5
    )


@given(rewards_b_g, masks_b_g)
def test_mean_is_zero_and_population_std_is_one_over_the_kept(rewards, keep):
    got = np.asarray(advantages(rewards, keep), np.float64)
    for row, kept in zip(got, keep, strict=True):
        if not (row == 0).all():
            assert abs(row[kept].mean()) < 1e-5
            assert abs(row[kept].std() - 1) < 1e-4
        assert (row[~kept] == 0).all()


@given(exact_b_g, st.integers(-8, 8), st.integers(-20, 20))
def test_shift_and_unit_of_the_reward_do_not_matter(rewards, shift, power):
    got = np.asarray(advantages(rewards))
    np.testing.assert_array_equal(got, advantages(rewards + np.float32(shift)))
    np.testing.assert_array_equal(got, advantages(rewards * np.float32(2.0**power)))


@given(rewards_b_g, masks_b_g, st.permutations(range(G)))
def test_permuting_a_group_permutes_its_advantages(rewards, keep, order):
    np.testing.assert_allclose(
        advantages(rewards[:, order], keep[:, order]),
        np.asarray(advantages(rewards, keep))[:, order],
        rtol=1e-4,
        atol=1e-5,
    )


@given(rewards_b_g, masks_b_g, hnp.arrays(np.float32, (G,), elements=reals))
def test_groups_do_not_see_each_other(rewards, keep, other):
    changed = rewards.copy()
    changed[1] = other
    before, after = advantages(rewards, keep), advantages(changed, keep)
    np.testing.assert_array_equal(np.delete(before, 1, 0), np.delete(after, 1, 0))


@given(rewards_b_g, masks_b_g, garbage)
def test_a_rollout_left_out_changes_nothing_whatever_its_reward(rewards, keep, bad):
    filled = np.where(keep, rewards, np.float32(bad))
    np.testing.assert_array_equal(advantages(filled, keep), advantages(rewards, keep))


@given(rewards_b_g, masks_b_g)
def test_leaving_out_is_the_same_as_never_having_sampled(rewards, keep):
    got = np.asarray(advantages(rewards, keep))
    for b in range(B):
        kept = keep[b]
        if kept.any():
            alone = oracle(rewards[b : b + 1, kept], np.ones((1, kept.sum()), bool))
            np.testing.assert_allclose(got[b, kept], alone[0], rtol=1e-4, atol=1e-5)


@given(rewards_b_g, masks_b_g, garbage)
def test_gradient_is_finite_and_zero_where_left_out(rewards, keep, bad):
    filled = np.where(keep, rewards, np.float32(bad))
    grad = np.asarray(_grad_of_cubes(filled, keep))
    assert np.isfinite(grad).all()
    assert (grad[~keep] == 0).all()


@jax.jit
def _grad_of_cubes(rewards, keep):
    return jax.grad(lambda r: jnp.sum(group_advantages(r, keep) ** 3))(rewards)


def test_gradient_is_that_of_the_formula():
    rewards = np.array([0.3, 0.9, 0.1, 0.4, 0.4], np.float32)

    def formula(r):
        centred = r - jnp.mean(r, keepdims=True)
        return centred / jnp.sqrt(jnp.mean(centred**2, keepdims=True))

    def jacobian(f):
        return jax.jit(jax.jacobian(f))(rewards)

    np.testing.assert_allclose(jacobian(group_advantages), jacobian(formula), atol=1e-4)


def test_a_kept_nan_is_not_hidden():
    rewards = np.array([[0.0, np.nan, 1.0, 0.5], [0.0, 1.0, 1.0, 0.5]], np.float32)
    keep = np.array([[1, 1, 1, 0]] * 2, bool)
    got = np.asarray(advantages(rewards, keep))
    assert np.isnan(got[0, :3]).all()
    assert np.isfinite(got[1]).all()
    assert (got[:, 3] == 0).all()  # one left out is 0 even there


@given(hnp.arrays(np.float32, (B, G), elements=reals), masks_b_g, st.sampled_from([0, 1]))
def test_moments_match_the_loop(rewards, keep, ddof):
    moments = jax.tree.map(np.asarray, _moments(rewards, keep, ddof=ddof))
    for b in range(B):
        kept = rewards[b, keep[b]].astype(np.float64)
        assert int(moments.count[b]) == kept.size
        np.testing.assert_allclose(moments.mean[b], kept.mean() if kept.size else 0, atol=1e-5)
        expected = kept.var(ddof=ddof) if kept.size > 1 else 0.0
        np.testing.assert_allclose(moments.variance[b], expected, rtol=1e-4, atol=1e-6)
        if kept.size and kept.max() == kept.min():
            assert float(moments.variance[b]) == 0.0


@pytest.mark.parametrize("size", [*ODD_SIZES, 8])
def test_variance_of_the_outcome_reward_is_p_times_one_minus_p(size):
    # SCOPE-RL, Eq. (20), for every number of correct rollouts.
    outcome = np.arange(size) < np.arange(size + 1)[:, None]
    p = np.arange(size + 1) / size
    np.testing.assert_allclose(_moments(outcome).variance, p * (1 - p), atol=1e-6)
    np.testing.assert_allclose(_ratio(outcome), (size - 1) / (size + 1), rtol=1e-6)


@given(rewards_b_g, masks_b_g)
def test_effective_gradient_ratio_counts_groups_with_an_advantage(rewards, keep):
    got = advantages(rewards, keep)
    expected = np.mean(np.any(np.asarray(got) != 0, axis=1))
    np.testing.assert_allclose(_ratio(rewards, keep), expected)


def test_effective_gradient_ratio_keeps_leading_axes():
    rewards = np.array([[[0, 1], [1, 1]], [[0, 0], [1, 1]]])
    np.testing.assert_array_equal(_ratio(rewards), [0.5, 0.0])


@given(masks_b_g, masks_b_g)
def test_outcome_gate_drops_exactly_the_groups_without_a_kept_correct_rollout(outcome, keep):
    gate = np.asarray(_gate(outcome, keep))
    for b in range(B):
        expected = keep[b] if (outcome[b] & keep[b]).any() else np.zeros(G, bool)
        np.testing.assert_array_equal(gate[b], expected)


def test_outcome_gate_silences_an_all_wrong_group_under_a_shaped_reward():
    shaped = np.array([[0.1, 0.0, 0.0], [0.1, 0.0, 1.0]], np.float32)
    outcome = np.array([[0, 0, 0], [0, 0, 1]])
    assert np.abs(advantages(shaped)[0]).max() > 1.0
    gated = np.asarray(advantages(shaped, _gate(outcome)))
    assert (gated[0] == 0).all()
    np.testing.assert_array_equal(gated[1], advantages(shaped)[1])

"""GiGPO and BEACON against loops over steps and groups."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards import beacon_advantages, discounted_returns, gigpo_advantages

B, G, S = 2, 5, 4

gigpo = jax.jit(gigpo_advantages, static_argnames="normalize_std")
beacon = jax.jit(beacon_advantages, static_argnames="normalize_std")
returns_of = jax.jit(discounted_returns)


@st.composite
def episodes(draw):
    """Episode rewards, step rewards, anchors (few states), milestones, true steps, keep."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        rng.integers(0, 2, (B, G)).astype(np.float32),
        (rng.random((B, G, S)) < 0.4).astype(np.float32),
        rng.integers(0, 4, (B, G, S)).astype(np.int32),
        rng.random((B, G, S)) < draw(st.sampled_from([0.2, 0.5])),
        rng.integers(1, S + 1, (B, G)).astype(np.int32),
        rng.random((B, G)) < 0.8,
    )


def normalised(values, normalize_std):
    values = np.asarray(values, np.float64)
    if len(values) < 2 or np.ptp(values) == 0:
        return np.zeros(len(values))
    centred = values - values.mean()
    return centred / values.std() if normalize_std else centred


def oracle(episode, step_value, group_id, num_steps, keep, omega, normalize_std):
    """A_episode + ω A_step for one problem, group by group."""
    total = np.zeros((G, S))
    kept = np.flatnonzero(keep)
    for i, a in zip(kept, normalised(episode[kept], normalize_std), strict=True):
        total[i, : num_steps[i]] = a
    cells = [(i, t) for i in kept for t in range(num_steps[i])]
    for name in {group_id[c] for c in cells}:
        members = [c for c in cells if group_id[c] == name]
        values = normalised([step_value[c] for c in members], normalize_std)
        for c, a in zip(members, values, strict=True):
            total[c] += omega * a
    return total


@pytest.mark.parametrize("normalize_std", [True, False])
@given(
    episode=episodes(), omega=st.sampled_from([0.0, 1.0, 2.5]), gamma=st.sampled_from([0.9, 1.0])
)
def test_gigpo_matches_the_loop(normalize_std, episode, omega, gamma):
    reward, step_reward, anchor, _, num, keep = episode
    got = gigpo(
        reward, step_reward, anchor, num, keep,
        omega=omega, gamma=gamma, normalize_std=normalize_std,
    )  # fmt: skip
    for b in range(B):
        value = np.zeros((G, S), np.float32)
        for i in range(G):
            for t in range(num[b, i]):
                later = range(t, num[b, i])
                value[i, t] = sum(gamma ** (k - t) * step_reward[b, i, k] for k in later)
        expected = oracle(reward[b], value, anchor[b], num[b], keep[b], omega, normalize_std)
        np.testing.assert_allclose(got.total[b], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("normalize_std", [True, False])
@given(episode=episodes(), omega=st.sampled_from([1.0, 10.0]), gamma=st.sampled_from([0.9, 0.5]))
def test_beacon_matches_the_loop(normalize_std, episode, omega, gamma):
    reward, _, _, milestone, num, keep = episode
    got = beacon(
        reward, milestone, num, keep, omega=omega, gamma=gamma, normalize_std=normalize_std
    )
    for b in range(B):
        value, segment = np.zeros((G, S), np.float32), np.zeros((G, S), int)
        for i in range(G):
            reached = [t for t in range(num[b, i]) if milestone[b, i, t]]
            for t in range(num[b, i]):
                segment[i, t] = sum(m < t for m in reached)
                ahead = [m for m in reached if m >= t]
                value[i, t] = gamma ** (ahead[0] - t) if ahead else 0.0
        expected = oracle(reward[b], value, segment, num[b], keep[b], omega, normalize_std)
        np.testing.assert_allclose(got.total[b], expected, rtol=1e-3, atol=1e-3)


@given(episodes(), st.sampled_from([np.nan, np.inf, 1e9]))
def test_padding_and_left_out_trajectories_are_never_read(episode, bad):
    reward, step_reward, anchor, milestone, num, keep = episode
    real = (np.arange(S) < num[..., None]) & keep[..., None]
    noisy_reward = np.where(keep, reward, bad).astype(np.float32)
    noisy_step = np.where(real, step_reward, bad).astype(np.float32)
    noisy_anchor = np.where(real, anchor, 10**9).astype(np.int32)
    noisy_milestone = np.where(real, milestone, bad).astype(np.float32)
    noisy_num = np.where(keep, num, -1).astype(np.int32)
    for kernel, clean, noisy in [
        (gigpo, (step_reward, anchor), (noisy_step, noisy_anchor)),
        (beacon, (milestone.astype(np.float32),), (noisy_milestone,)),
    ]:
        expected = kernel(reward, *clean, num, keep)
        got = kernel(noisy_reward, *noisy, noisy_num, keep)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        assert (np.asarray(got.total)[~real] == 0).all()


def test_scales_add_up():
    rng = np.random.default_rng(0)
    got = beacon(rng.random((B, G)), rng.random((B, G, S)) < 0.4, np.full((B, G), S), omega=2.0)
    np.testing.assert_allclose(got.total, got.episode + 2.0 * got.step, rtol=1e-6)


def test_a_state_seen_once_is_compared_with_nothing():
    anchor = np.arange(B * G * S).reshape(B, G, S)
    got = gigpo(np.zeros((B, G)), np.random.default_rng(0).random((B, G, S)), anchor,
                np.full((B, G), S))  # fmt: skip
    assert (np.asarray(got.total) == 0).all()


def test_returns_by_hand():
    rewards = np.array([[1.0, 2.0, 4.0, np.nan], [1.0, np.nan, np.nan, np.nan]])
    got = returns_of(rewards, np.array([3, 1]), gamma=0.5)
    np.testing.assert_allclose(got, [[3.0, 4.0, 4.0, 0.0], [1.0, 0.0, 0.0, 0.0]])


def test_gradient_ignores_padding():
    rewards = np.array([[1.0, np.nan], [0.0, np.inf], [0.5, 1e9]], np.float32)

    @jax.jit
    def slope(rewards):
        def total(r):
            zeros = np.zeros((3, 2), np.int32)
            out = gigpo_advantages(np.array([0, 1, 1]), r, zeros, np.ones(3, np.int32))
            return (out.total**3).sum()

        return jax.grad(total)(rewards)

    grad = np.asarray(slope(rewards))
    assert np.isfinite(grad).all() and (grad[:, 1] == 0).all() and (grad[:, 0] != 0).any()

"""Process quality against loops written from SCOPE-RL Eqs. (12) to (16), and its properties."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewards import (
    PENALTIES,
    STEP_LABELS,
    group_advantages,
    group_moments,
    holistic_reward,
    label_shares,
    length_factor,
    overlong_reward,
    penalty_factor,
    process_quality,
    qpr_reward,
)

B, N = 6, 9
labels_b_n = hnp.arrays(np.int32, (B, N), elements=st.integers(0, 4))
nums = hnp.arrays(np.int32, (B,), elements=st.integers(1, N))
corrects = hnp.arrays(np.bool_, (B,))
VARIANTS = (None, "positive", "penalty", "length")

quality = jax.jit(process_quality, static_argnames="without")
qpr = jax.jit(qpr_reward, static_argnames="without")
moments = jax.jit(group_moments)
advantages = jax.jit(group_advantages)


def oracle(labels, num, alpha=0.5, penalties=PENALTIES, without=None):
    steps = [STEP_LABELS[c] for c in labels[:num]]
    useful = steps.count("useful") / num
    penalty = 1.0
    names = ("mechanical", "redundant", "reversion", "error")
    for name, weight in zip(names, penalties, strict=True):
        penalty *= 1 - weight * steps.count(name) / num
    length = 1 / (1 + alpha * math.log(num + 1))
    factors = {"positive": useful, "penalty": penalty, "length": length}
    return math.prod(v for k, v in factors.items() if k != without)


def test_labels_and_penalties_are_those_of_the_paper():
    assert STEP_LABELS == ("useful", "mechanical", "redundant", "reversion", "error")
    assert PENALTIES == (0.05, 0.20, 0.25, 0.40)


@jax.jit
def all_variants(labels, num):
    return [process_quality(labels, num, without=without) for without in VARIANTS]


@given(labels=labels_b_n, num=nums)
def test_quality_and_its_variants_match_the_loop(labels, num):
    for without, got in zip(VARIANTS, all_variants(labels, num), strict=True):
        expected = [oracle(labels[b], num[b], without=without) for b in range(B)]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@given(labels_b_n, nums, st.floats(0, 3), st.permutations([0.0, 0.1, 0.5, 0.99]))
def test_quality_matches_the_loop_for_any_setting(labels, num, alpha, penalties):
    got = quality(labels, num, alpha=alpha, penalties=penalties)
    expected = [oracle(labels[b], num[b], alpha, penalties) for b in range(B)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@given(labels_b_n, nums, corrects)
def test_reward_is_gated_and_bounded(labels, num, correct):
    # SCOPE-RL, Eqs. (12) and (18): 0 <= Q <= S_u <= 1.
    reward, useful = np.asarray(qpr(correct, labels, num)), np.asarray(_shares(labels, num))[:, 0]
    np.testing.assert_array_equal(reward, np.where(correct, quality(labels, num), 0))
    assert (reward >= 0).all() and (reward <= useful + 1e-6).all()


_shares = jax.jit(label_shares)


@given(labels_b_n, nums)
def test_shares_match_the_loop_and_add_up(labels, num):
    got = np.asarray(_shares(labels, num))
    expected = [[np.mean(labels[b, : num[b]] == k) for k in range(5)] for b in range(B)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-6)


@given(labels_b_n, nums, corrects)
def test_variance_decomposition(labels, num, correct):
    # SCOPE-RL, Eq. (22), on the rollouts as one group; Eq. (23) is its case p_c = 1.
    reward = np.asarray(qpr(correct, labels, num), np.float64)
    p = correct.mean()
    right = reward[correct]
    mean, variance = (right.mean(), right.var()) if right.size else (0.0, 0.0)
    np.testing.assert_allclose(
        moments(reward.astype(np.float32)).variance,
        p * variance + p * (1 - p) * mean**2,
        rtol=1e-4,
        atol=1e-7,
    )


@given(labels_b_n, nums, corrects, st.sampled_from([-1, 5, 10**9]))
def test_padding_and_wrong_rollouts_are_never_read(labels, num, correct, bad):
    real = (np.arange(N) < num[:, None]) & correct[:, None]
    noisy = np.where(real, labels, bad).astype(np.int32)
    noisy_num = np.where(correct, num, bad).astype(np.int32)
    expected = qpr(correct, labels, num)
    np.testing.assert_array_equal(qpr(correct, noisy, noisy_num), expected)
    wide = np.concatenate([noisy, np.full((B, 4), bad, np.int32)], axis=1)
    np.testing.assert_array_equal(qpr(correct, wide, noisy_num), expected)


@given(labels_b_n, nums, st.permutations(range(N)))
def test_order_of_steps_does_not_matter(labels, num, order):
    full = np.full(B, N, np.int32)
    np.testing.assert_array_equal(quality(labels, full), quality(labels[:, order], full))


def test_useful_steps_raise_and_errors_lower_the_reward():
    base = np.zeros((5, 4), np.int32)
    base[:, 0] = np.arange(5)  # one step of each label, the rest useful
    got = np.asarray(quality(base, np.full(5, 4)))
    assert (np.diff(got) < 0).all()  # useful > mechanical > redundant > reversion > error


def test_shorter_is_better_only_at_equal_usefulness():
    few, many = np.zeros((1, 2), np.int32), np.zeros((1, 20), np.int32)
    assert quality(few, np.array([2]))[0] > quality(many, np.array([20]))[0]
    np.testing.assert_array_equal(quality(few, np.array([2]), without="length"), 1.0)
    useless = np.full((1, 2), 1, np.int32)
    np.testing.assert_array_equal(quality(useless, np.array([2])), 0.0)


@pytest.mark.parametrize("size", [3, 5, 7, 12])
def test_equal_qualities_give_exactly_zero_advantages(size):
    labels = np.tile(np.array([0, 1, 2, 3, 4, 0, 0], np.int32), (size, 1))
    rewards = qpr(np.ones(size, bool), labels, np.full(size, 7))
    assert (np.asarray(advantages(rewards)) == 0).all()


def test_a_judge_failure_leaves_the_rollout_out():
    labels = np.zeros((3, 4), np.int32)
    num, correct, keep = np.array([2, 0, 4]), np.ones(3, bool), np.array([True, False, True])
    rewards = np.asarray(qpr(correct, labels, num, keep))
    assert rewards[1] == 0.0 and rewards[0] > rewards[2] > 0
    # Two rollouts stay, so the advantages are those of a pair.
    np.testing.assert_allclose(advantages(rewards, keep), [1.0, 0.0, -1.0], rtol=1e-6)


def test_all_correct_groups_regain_a_gradient():
    labels = np.array([[0, 0, 0], [0, 0, 4]], np.int32)
    rewards = qpr(np.ones(2, bool), labels, np.full(2, 3))
    assert float(moments(rewards).variance) > 0


def test_factors_by_hand():
    shares = np.array([0.2, 0.2, 0.2, 0.2, 0.2])
    expected = 0.99 * 0.96 * 0.95 * 0.92
    np.testing.assert_allclose(penalty_factor(shares), expected, rtol=1e-6)
    np.testing.assert_allclose(length_factor(np.array([7])), 1 / (1 + 0.5 * math.log(8)), rtol=1e-6)
    np.testing.assert_array_equal(length_factor(np.array([7]), alpha=0.0), 1.0)


def test_holistic_reward_is_gated_and_never_reads_what_is_not_judged():
    score = np.array([0.25, np.nan, 0.75, np.inf], np.float32)
    correct, keep = np.array([1, 0, 1, 1]), np.array([1, 1, 1, 0])

    @jax.jit
    def reward_and_slope(score):
        reward, pullback = jax.vjp(lambda s: holistic_reward(correct, s, keep), score)
        return reward, *pullback(jax.numpy.ones(4))

    reward, slope = reward_and_slope(score)
    np.testing.assert_array_equal(reward, [0.25, 0, 0.75, 0])
    np.testing.assert_array_equal(slope, [1, 0, 1, 0])


def test_overlong_penalty_grows_linearly_over_the_buffer():
    lengths = np.array([0, 79, 80, 85, 100, 150])
    right = overlong_reward(np.ones(6), lengths, max_response_len=100, buffer=20)
    np.testing.assert_allclose(right, [1, 1, 1, 0.75, 0, 0], rtol=1e-6)
    wrong = overlong_reward(np.zeros(6), lengths, max_response_len=100, buffer=20)
    np.testing.assert_allclose(wrong, [0, 0, 0, -0.25, -1, -1], rtol=1e-6)


def test_a_traced_empty_annotation_of_a_correct_trace_is_zero_not_nan():
    assert qpr(np.ones(1, bool), np.zeros((1, 3), np.int32), np.array([0])).tolist() == [0.0]
    empty = np.zeros((B, N), np.int32), np.zeros(B, np.int32)
    np.testing.assert_array_equal(all_variants(*empty), np.zeros((4, B)))

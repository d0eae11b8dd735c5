"""Scaffold rewards against loops written from SCOPE-RL Eqs. (7) to (11), and their properties."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewards import (
    asr_reward,
    final_only_reward,
    group_moments,
    independent_reward,
    mixed_reward,
    prefix_length,
    prefix_products,
    route_mask,
)

B, M = 6, 5
subs = hnp.arrays(np.bool_, (B, M))
nums = hnp.arrays(np.int32, (B,), elements=st.integers(1, M))
mains = hnp.arrays(np.bool_, (B,))
betas = st.sampled_from([0.0, 0.25, 0.5, 1.0])

asr = jax.jit(asr_reward)
independent = jax.jit(independent_reward)
products = jax.jit(prefix_products)
length = jax.jit(prefix_length)
route = jax.jit(route_mask)
mixed = jax.jit(mixed_reward)


def product_oracle(correct, num):
    """Π_i for i = 1..m, by multiplying."""
    out, product = [], 1
    for i in range(num):
        product *= int(correct[i])
        out.append(product)
    return out


@given(subs, nums, mains, betas)
def test_asr_reward_is_the_product_form(correct, num, main, beta):
    expected = []
    for b in range(B):
        pi = product_oracle(correct[b], num[b])
        expected.append(beta * sum(pi) / num[b] + (1 - beta) * pi[-1] * int(main[b]))
    np.testing.assert_allclose(asr(correct, num, main, beta=beta), expected, rtol=1e-6)


@given(subs, nums, mains, betas)
def test_asr_reward_is_the_prefix_form(correct, num, main, beta):
    # SCOPE-RL, Eq. (21).
    got = asr(correct, num, main, beta=beta)
    first_wrong = np.where(correct, M, np.arange(M)).min(axis=1)
    prefix = np.minimum(first_wrong, num)
    expected = beta * prefix / num + (1 - beta) * ((prefix == num) & main)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@given(subs, nums)
def test_prefix_products_and_length_match_the_loop(correct, num):
    pi, prefix = np.asarray(products(correct, num)), np.asarray(length(correct, num))
    for b in range(B):
        expected = product_oracle(correct[b], num[b])
        np.testing.assert_array_equal(pi[b, : num[b]], expected)
        assert not pi[b, num[b] :].any()
        assert prefix[b] == sum(expected)
        assert (np.diff(pi[b].astype(int)) <= 0).all()  # monotone


@given(subs, nums, mains, betas)
def test_independent_reward_counts_every_right_sub_answer(correct, num, main, beta):
    shares = [sum(correct[b, : num[b]]) / num[b] for b in range(B)]
    expected = [beta * share + (1 - beta) * m for share, m in zip(shares, main, strict=True)]
    np.testing.assert_allclose(independent(correct, num, main, beta=beta), expected, rtol=1e-6)


@given(subs, nums, mains, betas)
def test_rewards_are_bounded_and_the_prefix_gate_only_takes_away(correct, num, main, beta):
    # SCOPE-RL, Eq. (17).
    strict = np.asarray(asr(correct, num, main, beta=beta))
    loose = np.asarray(independent(correct, num, main, beta=beta))
    assert (strict >= 0).all() and (strict <= 1).all()
    assert (loose >= 0).all() and (loose <= 1).all()
    assert (strict <= loose + 1e-6).all()


@given(subs, nums, mains, hnp.arrays(np.bool_, (B, M)))
def test_padding_content_and_width_do_not_matter(correct, num, main, noise):
    real = np.arange(M) < num[:, None]
    noisy = np.where(real, correct, noise)
    wide = np.concatenate([noisy, noise, noise[:, :1]], axis=1)
    for reward in (asr, independent):
        expected = reward(correct, num, main)
        np.testing.assert_array_equal(reward(noisy, num, main), expected)
        np.testing.assert_array_equal(reward(wide, num, main), expected)


@pytest.mark.parametrize("pad", [np.nan, np.inf, -1.0, 1e9])
def test_float_verdicts_with_any_padding(pad):
    verdicts = np.array([[1.0, 1.0, pad], [1.0, 0.0, pad]], np.float32)
    got = asr(verdicts, np.array([2, 2]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(got, [1.0, 0.25])


def test_a_failure_code_is_not_a_right_answer():
    verdicts = np.array([[2, 1], [-1, 1], [1, 1]], np.int8)
    assert asr(verdicts, np.full(3, 2), np.array([1, 1, 2])).tolist() == [0.0, 0.0, 0.5]
    assert final_only_reward(np.array([2, -1, 1, 0])).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_a_lucky_main_answer_after_a_broken_prefix_earns_nothing_more():
    broken = np.array([[1, 0, 1, 1, 1]])
    lucky, unlucky = (asr(broken, np.array([5]), np.array([m])) for m in (1, 0))
    assert float(lucky[0]) == float(unlucky[0]) == pytest.approx(0.1)


@given(subs, mains)
def test_disagreeing_prefixes_give_a_gradient_where_outcomes_do_not(correct, main):
    # SCOPE-RL, Appendix D.2: in one group, differing prefix lengths make σ² positive.
    num = np.full(B, M, np.int32)
    prefix = np.asarray(length(correct, num))
    variance = float(_moments(asr(correct, num, main)).variance)
    if len(set(prefix.tolist())) > 1:
        assert variance > 0
    elif prefix[0] < M:
        assert variance == 0


_moments = jax.jit(group_moments)


@given(hnp.arrays(np.bool_, (B, 8)), hnp.arrays(np.bool_, (B, 8)), st.sampled_from([0.25, 0.5]))
def test_routing_is_strict_and_on_kept_rollouts(outcome, keep, tau):
    got = np.asarray(route(outcome, keep, tau=tau))
    for b in range(B):
        kept = outcome[b, keep[b]]
        assert got[b] == (kept.size > 0 and kept.mean() < tau)


@pytest.mark.parametrize("size", [3, 5, 7, 8, 12])
def test_routing_is_exact_at_the_threshold(size):
    outcome = np.arange(size) < np.arange(size + 1)[:, None]
    for right in range(size + 1):
        at = np.asarray(route(outcome, tau=right / size))
        np.testing.assert_array_equal(at, np.arange(size + 1) < right)


@given(
    hnp.arrays(np.bool_, (B,)), hnp.arrays(np.float32, (B, 3), elements=st.floats(0, 1, width=32))
)
def test_mixed_reward_never_reads_the_other_branch(routed, reward):
    other = np.full_like(reward, np.nan)
    scaffold = np.where(routed[:, None], reward, other)
    outcome = np.where(routed[:, None], other, reward)
    np.testing.assert_array_equal(mixed(routed, scaffold, outcome), reward)


def test_a_traced_count_below_one_gives_zero_not_nan():
    got = asr(np.ones((2, 3), bool), np.array([0, -4]), np.ones(2, bool))
    assert got.tolist() == [0.0, 0.0]
    got = independent(np.ones((1, 3), bool), np.array([0]), np.ones(1, bool))
    assert got.tolist() == [0.5]

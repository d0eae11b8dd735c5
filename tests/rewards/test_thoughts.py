"""Thought credit against a token loop written from TP-GRPO, and its two propositions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewards import (
    group_advantages,
    merge_thoughts,
    thought_advantages,
    thought_reward_size,
    thought_rewards,
)

N, T = 8, 70  # three words of token bits, the last one partly used
R = 5  # rollouts per call

merge = jax.jit(merge_thoughts)
rewards_at_ends = jax.jit(thought_rewards)
token_advantages = jax.jit(thought_advantages, static_argnames="max_len")
reward_size = jax.jit(thought_reward_size, static_argnames="only")


def oracle_thoughts(good, num):
    """Lists of neighbouring steps of one class; the last step is good."""
    good = [bool(g) for g in good[:num]]
    if num:
        good[-1] = True
    steps = range(num)
    return [(cls, list(run)) for cls, run in itertools.groupby(steps, key=lambda i: good[i])]


def oracle_tokens(good, end, num, length, advantage, size, max_len):
    """Rewards on the last token of each thought, then the suffix sum, token by token."""
    rewards = np.zeros(max_len)
    thoughts = oracle_thoughts(good, num)
    for cls, run in thoughts[:-1]:
        rewards[end[run[-1]] - 1] += size if cls else -size
    if length:
        rewards[length - 1] += advantage
    out, later = np.zeros(max_len), 0.0
    for t in reversed(range(length)):
        later += rewards[t]
        out[t] = later
    return out


@st.composite
def traces(draw):
    """R traces of steps with token spans, some of them not judged."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    good = rng.random((R, N)) < draw(st.sampled_from([0.2, 0.5, 0.8]))
    end, num = np.zeros((R, N), np.int32), np.zeros(R, np.int32)
    length = rng.integers(0, T + 1, R).astype(np.int32)
    for r in range(R):
        num[r] = rng.integers(0, min(N, length[r]) + 1)
        end[r, : num[r]] = np.sort(rng.permutation(length[r])[: num[r]] + 1)
    advantage = rng.normal(size=R).astype(np.float32)
    size = rng.normal(size=R).astype(np.float32)
    return good, end, num, length, advantage, size


@given(traces())
def test_advantages_match_the_token_loop(trace):
    got = token_advantages(*trace, max_len=T)
    expected = [oracle_tokens(*(x[r] for x in trace), T) for r in range(R)]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@given(traces())
def test_thoughts_alternate_and_match_the_loop(trace):
    good, _, num, *_ = trace
    got = jax.tree.map(np.asarray, merge(good, num))
    for r in range(R):
        thoughts = oracle_thoughts(good[r], num[r])
        assert got.count[r] == len(thoughts)
        for j, (cls, run) in enumerate(thoughts):
            assert (got.index[r, run] == j).all() and (got.good[r, run] == cls).all()
            assert got.ends[r, run].tolist() == [False] * (len(run) - 1) + [True]
        assert (got.index[r, num[r] :] == -1).all()
        assert not got.ends[r, num[r] :].any() and not got.good[r, num[r] :].any()


@given(traces())
def test_step_rewards_sum_to_the_advantage_of_their_tokens(trace):
    good, end, num, _, advantage, size = trace
    at_ends = np.asarray(rewards_at_ends(good, num, advantage, size), np.float64)
    suffix = np.cumsum(at_ends[:, ::-1], axis=1)[:, ::-1]
    tokens = np.asarray(token_advantages(*trace, max_len=T))
    for r in range(R):
        for i in range(num[r]):
            np.testing.assert_allclose(tokens[r, end[r, i] - 1], suffix[r, i], atol=1e-5)
        assert (at_ends[r, num[r] :] == 0).all()


@given(hnp.arrays(np.float32, 2, elements=st.floats(-3, 3, width=32, allow_subnormal=False)))
def test_propositions_hold_exactly_for_every_alternating_sequence(numbers):
    # Row k alternates over k + 1 thoughts and ends in a good one; thoughts differ in length.
    advantage, size = numbers
    count = np.arange(1, N + 1)
    good = (count[:, None] - 1 - np.arange(N)) % 2 == 0
    end = np.tile(np.cumsum(count), (N, 1))
    length = end[0]
    thought = np.searchsorted(length, np.arange(T), side="right")
    on_good = np.where(thought < N, good[:, np.minimum(thought, N - 1)], False)
    real = np.arange(T) < length[:, None]
    for correct in (True, False):
        r = size if correct else advantage
        got = token_advantages(
            good, end, count, length, np.full(N, advantage), np.full(N, r), max_len=T
        )
        # Proposition 1: r̂_o and r̂_o - r_c. Proposition 2: r̂_o and 0.
        on_bad = advantage - r if correct else np.float32(0)
        expected = np.where(real, np.where(on_good, advantage, on_bad), np.float32(0))
        np.testing.assert_array_equal(got, expected)


@given(traces(), st.sampled_from([-1, 0, 10**9]), st.booleans())
def test_padding_content_and_width_do_not_matter(trace, bad, flag):
    good, end, num, *rest = trace
    real = np.arange(N) < num[:, None]
    noisy_good, noisy_end = np.where(real, good, flag), np.where(real, end, bad).astype(np.int32)
    expected = np.asarray(token_advantages(*trace, max_len=T))
    got = token_advantages(noisy_good, noisy_end, num, *rest, max_len=T)
    np.testing.assert_array_equal(got, expected)
    wide_good = np.concatenate([noisy_good, np.full((R, 3), flag)], axis=1)
    wide_end = np.concatenate([noisy_end, np.full((R, 3), bad, np.int32)], axis=1)
    got = np.asarray(token_advantages(wide_good, wide_end, num, *rest, max_len=T + 33))
    np.testing.assert_array_equal(got[:, :T], expected)
    assert (got[:, T:] == 0).all()


@pytest.mark.parametrize("max_len", [1, 32, 33])
def test_any_response_width(max_len):
    # A bad one-token thought first (where there is room), then the answer to the end.
    good, end = np.array([False, True]), np.array([1, max_len])
    num = 2 if max_len > 1 else 0
    got = token_advantages(good, end, num, max_len, 1.0, 0.25, max_len=max_len)
    expected = np.ones(max_len)
    expected[0] = 0.75 if num else 1.0
    np.testing.assert_array_equal(got, expected)


@given(
    hnp.arrays(np.bool_, (3, 7)), hnp.arrays(np.bool_, (3, 7)), st.sampled_from([0.25, 0.5, 1.0])
)
def test_size_is_alpha_times_accuracy_or_the_outcome_advantage(correct, keep, alpha):
    advantage = np.asarray(_advantages(correct, keep))
    noisy = np.where(keep, advantage, np.nan)
    got = {v: np.asarray(reward_size(correct, noisy, keep, alpha=alpha, only=v)) for v in ONLY}
    for b in range(3):
        kept = correct[b, keep[b]]
        accuracy = kept.mean() if kept.size else 0.0
        for g in range(7):
            right, left_out = correct[b, g], not keep[b, g]
            size = 0.0 if left_out else alpha * accuracy if right else advantage[b, g]
            for only, values in got.items():
                silent = (only == "correct" and not right) or (only == "incorrect" and right)
                assert values[b, g] == pytest.approx(0.0 if silent else size, abs=1e-6)


_advantages = jax.jit(group_advantages)
ONLY = (None, "correct", "incorrect")


def test_all_wrong_groups_are_plain_grpo_and_all_right_ones_get_alpha():
    zeros = np.zeros((1, 4), np.float32)
    assert (np.asarray(reward_size(zeros, zeros, alpha=0.5)) == 0).all()
    assert (np.asarray(reward_size(zeros + 1, zeros, alpha=0.5)) == 0.5).all()


def test_a_trace_that_was_not_judged_is_plain_grpo():
    zeros = np.zeros((R, N), np.int32)
    length = np.array([3, 0, 70, 1, 33])
    advantage = np.arange(R, dtype=np.float32)
    got = np.asarray(
        token_advantages(zeros, zeros, zeros[:, 0], length, advantage, advantage, max_len=T)
    )
    real = np.arange(T) < length[:, None]
    np.testing.assert_array_equal(got, np.where(real, advantage[:, None], 0.0))


def test_the_last_step_is_good_whatever_its_label():
    thoughts = merge(np.array([[1, 0, 0]], bool), np.array([3]))
    assert thoughts.good.tolist() == [[True, False, True]]
    assert thoughts.count.tolist() == [3]


def test_gradient_reaches_outcome_advantage_and_size():
    good, end = np.array([True, False, True]), np.array([2, 3, 5])

    @jax.jit
    def slopes(advantage, size):
        def total(a, s):
            return jnp.sum(thought_advantages(good, end, 3, 5, a, s, max_len=6))

        return jax.grad(total, argnums=(0, 1))(advantage, size)

    # Five tokens carry r̂_o, one of them (the bad thought) minus size.
    assert [float(g) for g in slopes(1.0, 0.5)] == [5.0, -1.0]

"""Evaluation figures against loops written from SCOPE-RL Eqs. (24) to (27) and the definitions."""

from fractions import Fraction
from math import comb

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewards import (
    agreement,
    first_error_position,
    majority_preferences,
    pass_at_k,
    step_quality,
)

P, N = 6, 5

quality = jax.jit(step_quality)
first_error = jax.jit(first_error_position)
estimate = jax.jit(pass_at_k, static_argnames="k")
agree = jax.jit(agreement, static_argnames="num_classes")
prefer = jax.jit(majority_preferences)


@st.composite
def evaluations(draw):
    """Ragged labels with garbage behind them, verdicts, truncation, token counts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.choice(5, (P, N), p=draw(st.sampled_from([[0.2] * 5, [1, 0, 0, 0, 0]])))
    num = rng.integers(0, N + 1, P).astype(np.int32)
    bad = draw(st.sampled_from([-1, 5, 10**9]))
    labels = np.where(np.arange(N) < num[:, None], labels, bad).astype(np.int32)
    correct, truncated = rng.random(P) < 0.5, rng.random(P) < 0.3
    return labels, num, correct, truncated, rng.integers(0, 9000, P).astype(np.int32)


@given(evaluations())
def test_step_quality_matches_the_loop(evaluation):
    labels, num, correct, truncated, tokens = evaluation
    steps, firsts, lengths = [], [], []
    for p in range(P):
        if truncated[p] or num[p] == 0:
            continue
        trace = labels[p, : num[p]].tolist()
        steps += trace
        lengths.append(len(trace))
        if 4 in trace:
            firsts.append((trace.index(4) + 1) / len(trace))
    got = jax.tree.map(np.asarray, quality(*evaluation))
    right = sum(c and not t for c, t in zip(correct, truncated, strict=True))
    np.testing.assert_allclose(got.accuracy, right / P, rtol=1e-6)
    shares = [steps.count(k) / max(len(steps), 1) for k in range(5)]
    np.testing.assert_allclose(got.shares, shares, rtol=1e-6)
    np.testing.assert_allclose(got.first_error, np.mean(firsts) if firsts else 0, rtol=1e-6)
    np.testing.assert_allclose(got.mean_steps, np.mean(lengths) if lengths else 0, rtol=1e-6)
    np.testing.assert_allclose(got.mean_tokens, tokens.mean(), rtol=1e-6)
    np.testing.assert_allclose(got.truncation_rate, truncated.mean(), rtol=1e-6)
    assert (got.num_traces, got.num_judged, got.num_with_error) == (P, len(lengths), len(firsts))


@given(evaluations())
def test_first_error_counts_steps_from_one(evaluation):
    labels, num, *_ = evaluation
    position, has_error = (np.asarray(x) for x in first_error(labels, num))
    for p in range(P):
        trace = labels[p, : num[p]].tolist()
        assert has_error[p] == (4 in trace)
        expected = (trace.index(4) + 1) / num[p] if 4 in trace else 0.0
        np.testing.assert_allclose(position[p], expected, rtol=1e-6)


def test_no_traces_at_all_give_zeros():
    empty = np.zeros(0, np.int32)
    got = quality(np.zeros((0, N), np.int32), empty, empty, empty, empty)
    assert all((np.asarray(x) == 0).all() for x in got)


@pytest.mark.parametrize("k", [1, 8, 128])
def test_pass_at_k_is_exact_for_a_thousand_samples(k):
    correct = np.array([0, 1, 2, 3, 10, 500, 872, 873, 999, 1000])
    got = np.asarray(estimate(np.full(10, 1000), correct, k=k))
    for c, value in zip(correct.tolist(), got, strict=True):
        exact = 1 - Fraction(comb(1000 - c, k), comb(1000, k))
        np.testing.assert_allclose(value, float(exact), rtol=2e-5)


@given(st.lists(st.tuples(st.integers(4, 60), st.integers(0, 60)), min_size=8, max_size=8))
def test_pass_at_k_matches_the_binomials(pairs):
    n = np.array([pair[0] for pair in pairs], np.int32)
    c = np.minimum(n, [pair[1] for pair in pairs]).astype(np.int32)
    exact = [1 - comb(int(a - b), 4) / comb(int(a), 4) for a, b in zip(n, c, strict=True)]
    np.testing.assert_allclose(estimate(n, c, k=4), exact, rtol=1e-4, atol=1e-6)


def test_pass_at_k_with_too_few_samples_is_nan_when_traced():
    got = np.asarray(estimate(np.array([3, 4]), np.array([1, 1]), k=4))
    assert np.isnan(got[0]) and got[1] == 1.0


@given(
    hnp.arrays(np.int32, 20, elements=st.integers(0, 2)),
    hnp.arrays(np.int32, 20, elements=st.integers(0, 2)),
    hnp.arrays(np.bool_, 20),
    st.sampled_from([-1, 3, 10**9]),
)
def test_agreement_matches_the_loop(predicted, reference, keep, bad):
    noisy = [np.where(keep, x, bad).astype(np.int32) for x in (predicted, reference)]
    got = jax.tree.map(np.asarray, agree(*noisy, keep, num_classes=3))
    pairs = [(int(p), int(r)) for p, r, k in zip(predicted, reference, keep, strict=True) if k]
    total = max(len(pairs), 1)
    observed = sum(p == r for p, r in pairs) / total
    shares = [[sum(pair[side] == k for pair in pairs) / total for k in range(3)] for side in (0, 1)]
    chance = float(np.dot(*shares))
    np.testing.assert_allclose(got.accuracy, observed, rtol=1e-6)
    kappa = 0.0 if not pairs or chance == 1 else (observed - chance) / (1 - chance)
    np.testing.assert_allclose(got.kappa, kappa, atol=1e-5)
    for k in range(3):
        hit = pairs.count((k, k))
        said, true = sum(p == k for p, _ in pairs), sum(r == k for _, r in pairs)
        np.testing.assert_allclose(got.precision[k], hit / max(said, 1), rtol=1e-6)
        np.testing.assert_allclose(got.recall[k], hit / max(true, 1), rtol=1e-6)
        np.testing.assert_allclose(got.f1[k], 2 * hit / max(said + true, 1), rtol=1e-6)
        for j in range(3):
            assert got.confusion[k, j] == pairs.count((j, k))


def test_agreement_by_hand():
    # 45 + 43 of 100 agree; shares useful .52 and .50, so p_e = .5 and kappa = (.88 - .5) / .5.
    predicted = np.repeat([1, 1, 0, 0], [45, 7, 5, 43])
    reference = np.repeat([1, 0, 1, 0], [45, 7, 5, 43])
    got = agree(predicted, reference, num_classes=2)
    np.testing.assert_allclose([got.accuracy, got.kappa], [0.88, 0.76], rtol=1e-5)


@given(hnp.arrays(np.int32, (5, 3), elements=st.integers(0, 2)), hnp.arrays(np.bool_, 5))
def test_majorities_match_the_loop(votes, keep):
    noisy = np.where(keep[:, None], votes, 10**9).astype(np.int32)
    got = prefer(noisy, keep)
    sides = [
        (v.tolist().count(0), v.tolist().count(1)) for v, k in zip(votes, keep, strict=True) if k
    ]
    first, second = sum(a >= 2 for a, _ in sides), sum(b >= 2 for _, b in sides)
    assert [int(x) for x in got] == [first, second, len(sides) - first - second]


def test_half_of_an_even_panel_is_no_majority():
    assert [int(x) for x in prefer(np.array([[0, 0, 1, 1], [0, 0, 0, 1]]))] == [1, 0, 1]


def test_a_tiny_pass_rate_keeps_its_digits():
    # One right of a million: pass@1 is 1e-6, which 1 - exp(log(1 - 1e-6)) rounds by over 1 %.
    np.testing.assert_allclose(estimate(np.int32(1_000_000), np.int32(1), k=1), 1e-6, rtol=1e-4)


def test_a_pair_left_out_counts_for_neither_side():
    votes, keep = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 2]]), np.array([False, False, True])
    counts = prefer(votes, keep)
    assert (int(counts.first), int(counts.second), int(counts.undecided)) == (0, 0, 1)

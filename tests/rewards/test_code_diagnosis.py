"""Diagnosis figures of GRAFT against loops over problems, trajectories and steps."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards import (
    advantage_quantiles,
    prefix_survival,
    residual_rates,
    step_ledger,
    step_spread,
    wilson_interval,
)

B, G, S = 4, 6, 5
LEVELS = (0.0, 0.1, 0.5, 0.9, 1.0)

ledger_of = jax.jit(step_ledger)
interval = jax.jit(wilson_interval)
quantiles_of = jax.jit(lambda a, mask: advantage_quantiles(a, mask, quantiles=LEVELS))


@jax.jit
def diagnose(ledger, bucket):
    return prefix_survival(ledger), step_spread(ledger), residual_rates(ledger, bucket)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    passed = rng.random((B, G, S)) < draw(st.sampled_from([0.5, 0.8]))
    alignable = rng.random((B, G, S)) < 0.8
    num_steps = rng.integers(1, S + 1, B).astype(np.int32)
    keep = rng.random((B, G)) < 0.9
    bucket = rng.integers(0, 3, (B, G, S)).astype(np.int32)
    return (passed, rng.random((B, G, S)) < 0.5, alignable, num_steps, keep), bucket


def prefixes(problem):
    """{t: [(b, i, prefix holds)]} over true steps of kept trajectories."""
    passed, _, _, num_steps, keep = problem
    return {
        t: [
            (b, i, bool(passed[b, i, :t].all()))
            for b in range(B)
            for i in range(G)
            if keep[b, i] and t < num_steps[b]
        ]
        for t in range(S)
    }


@given(problems())
def test_survival_spread_and_residuals_match_the_loop(drawn):
    problem, bucket = drawn
    passed, grafted, alignable, _, _ = problem
    ledger = ledger_of(*problem)
    noisy = np.where(np.asarray(ledger.residual) != 0, bucket, 10**9).astype(np.int32)
    survival, spread, residual = jax.tree.map(np.asarray, diagnose(ledger, noisy))
    for t, cells in prefixes(problem).items():
        assert survival.trials[t] == len(cells)
        share = np.mean([ok for _, _, ok in cells]) if cells else 0.0
        np.testing.assert_allclose(survival.share[t], share, rtol=1e-6)

        for name, chosen in [("across", cells), ("within", [c for c in cells if c[2]])]:
            groups = [[passed[b, i, t] for b, i, _ in chosen if b == p] for p in range(B)]
            stds = [np.std(g) for g in groups if len(g) >= 2]
            np.testing.assert_allclose(
                getattr(spread, name)[t], np.mean(stds) if stds else 0.0, atol=1e-6
            )
            assert getattr(spread, f"num_{name}")[t] == len(stds)

        known = [(b, i, ok) for b, i, ok in cells if alignable[b, i, t]]
        kinds = [
            bucket[b, i, t]
            for b, i, ok in known
            if int(passed[b, i, t]) != int(ok) * int(grafted[b, i, t])
        ]
        counts = [*(kinds.count(k) for k in range(3)), len(kinds)]
        assert (residual.trials[:, t] == len(known)).all()
        expected = np.divide(counts, max(len(known), 1))
        np.testing.assert_allclose(residual.share[:, t], expected, rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 1.0))
def test_quantiles_match_numpy(seed, density):
    rng = np.random.default_rng(seed)
    mask = rng.random((B, G, S)) < density
    advantages = np.where(mask, rng.normal(size=(B, G, S)), np.nan).astype(np.float32)
    got = np.asarray(quantiles_of(advantages, mask))
    for t in range(S):
        chosen = np.abs(advantages[..., t][mask[..., t]]).astype(np.float64)
        expected = np.quantile(chosen, LEVELS) if chosen.size else np.zeros(len(LEVELS))
        np.testing.assert_allclose(got[:, t], expected, rtol=1e-4, atol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=8, max_size=8))
def test_wilson_interval_solves_its_equation(pairs):
    # The bounds are the p0 with |share - p0| = z sqrt(p0 (1 - p0) / n).
    successes = np.array([min(pair) for pair in pairs], np.int32)
    trials = np.array([max(pair) for pair in pairs], np.int32)
    got = jax.tree.map(np.asarray, interval(successes, trials))
    for k, n in enumerate(trials):
        share, low, high = (float(x[k]) for x in (got.share, got.low, got.high))
        assert 0 <= low <= share <= high <= 1
        if n == 0:
            assert (share, low, high) == (0, 0, 1)
            continue
        for bound in (low, high):
            radius = 1.959964 * math.sqrt(bound * (1 - bound) / n)
            assert abs(share - bound) == pytest.approx(radius, abs=2e-4)


def test_wilson_interval_is_not_empty_at_the_ends():
    got = interval(np.array([0, 10]), np.array([10, 10]))
    # z² / (n + z²) = 3.8415 / 13.8415
    np.testing.assert_allclose(got.high, [0.27753, 1.0], atol=1e-4)
    np.testing.assert_allclose(got.low, [0.0, 1 - 0.27753], atol=1e-4)


def test_interval_width_follows_z():
    assert float(interval(np.array([5]), np.array([10]), z=0.0).high[0]) == 0.5

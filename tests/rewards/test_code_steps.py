"""GRAFT and SciWalker credit against loops written from the proposal, and their identities."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards import (
    graft_advantages,
    graft_rewards,
    group_degenerate_rate,
    sciwalker_advantages,
    step_ledger,
)

B, G, S = 3, 7, 5

ledger_of = jax.jit(step_ledger)
sciwalker = jax.jit(sciwalker_advantages, static_argnames="ddof")
graft = jax.jit(graft_advantages, static_argnames=("grouping", "min_group", "ddof"))
shaped = jax.jit(graft_rewards)


@st.composite
def problems(draw):
    """Verdicts of B problems: own prefix, reference prefix, alignable, true steps, keep."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    passed = rng.random((B, G, S)) < draw(st.sampled_from([0.3, 0.7, 0.95]))
    grafted = rng.random((B, G, S)) < 0.6
    alignable = rng.random((B, G, S)) < 0.8
    num_steps = rng.integers(1, S + 1, B).astype(np.int32)
    keep = rng.random((B, G)) < 0.85
    return passed, grafted, alignable, num_steps, keep


def cell_oracle(rewards, among, delta):
    """One step of one problem: standardise `rewards` over the trajectories in `among`."""
    chosen = [float(r) for r, a in zip(rewards, among, strict=True) if a]
    if len(chosen) < 2 or min(chosen) == max(chosen):
        return np.zeros(len(rewards))
    mean, std = np.mean(chosen), np.std(chosen)
    return np.where(among, (np.asarray(rewards, np.float64) - mean) / (std + delta), 0.0)


@given(problems())
def test_ledger_matches_the_loop(problem):
    passed, grafted, alignable, num_steps, keep = problem
    ledger = jax.tree.map(np.asarray, ledger_of(*problem))
    assert set(np.unique(ledger.residual)) <= {-1, 0, 1}
    for b in range(B):
        for i in range(G):
            if not keep[b, i]:
                assert ledger.first_failure[b, i] == 0 and not ledger.real[b, i].any()
                continue
            b_t, tau = True, num_steps[b] + 1
            for t in range(num_steps[b]):
                r, known = passed[b, i, t], alignable[b, i, t]
                assert ledger.real[b, i, t] and ledger.passed[b, i, t] == r
                assert ledger.prefix_ok[b, i, t] == b_t
                assert ledger.alignable[b, i, t] == known
                eps = int(r) - int(b_t) * int(grafted[b, i, t]) if known else 0
                assert ledger.residual[b, i, t] == eps
                if b_t and not r:
                    tau = t + 1
                b_t = b_t and r
            assert ledger.first_failure[b, i] == tau
            for field in (ledger.passed, ledger.prefix_ok, ledger.grafted, ledger.real):
                assert not field[b, i, num_steps[b] :].any()


@given(problems())
def test_first_failure_says_where_prefixes_hold(problem):
    ledger = jax.tree.map(np.asarray, ledger_of(*problem))
    holds = ledger.first_failure[..., None] >= np.arange(1, S + 1)
    np.testing.assert_array_equal(ledger.prefix_ok, holds & ledger.real)
    assert (ledger.prefix_ok[..., 0] == ledger.real[..., 0]).all()


@given(problems(), st.sampled_from([0.0, 1e-6, 0.1]))
def test_sciwalker_matches_the_loop(problem, delta):
    passed, _, _, num_steps, keep = problem
    got = jax.tree.map(np.asarray, sciwalker(passed, num_steps, keep, delta=delta))
    for b in range(B):
        for t in range(S):
            real = keep[b] & (t < num_steps[b])
            np.testing.assert_array_equal(got.mask[b, :, t], real)
            expected = cell_oracle(passed[b, :, t], real, delta)
            np.testing.assert_allclose(got.advantages[b, :, t], expected, rtol=1e-4, atol=1e-6)
    assert not got.degenerate.any()


@pytest.mark.parametrize("grouping", ["prefix", "all"])
@given(problem=problems(), lam=st.sampled_from([0.0, 0.3, 0.9]), min_group=st.sampled_from([2, 4]))
def test_graft_matches_the_loop(grouping, problem, lam, min_group):
    passed, grafted, alignable, num_steps, keep = problem
    options = {"lam": lam, "grouping": grouping, "min_group": min_group}
    got = jax.tree.map(np.asarray, graft(ledger_of(*problem), **options))
    for b in range(B):
        prefix = keep[b].copy()
        for t in range(num_steps[b]):
            among = prefix if grouping == "prefix" else keep[b]
            # NA drops the term: the reward is r, not r + 0 of a failed graft, nor r + λ.
            rewards = passed[b, :, t] + lam * (alignable[b, :, t] & grafted[b, :, t])
            values = np.float32(rewards)[among]
            usable = grouping == "all" or (len(values) >= min_group and np.ptp(values) > 0)
            expected = cell_oracle(np.float32(rewards), among, 1e-6) * usable
            np.testing.assert_allclose(got.advantages[b, :, t], expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(got.mask[b, :, t], among & usable)
            assert got.degenerate[b, t] == (not usable and keep[b].any())
            prefix &= passed[b, :, t]
        assert not got.mask[b, :, num_steps[b] :].any()
        assert not got.degenerate[b, num_steps[b] :].any()
        assert (got.advantages[b, :, num_steps[b] :] == 0).all()


@given(problems())
def test_graft_without_local_term_over_all_is_sciwalker_bit_for_bit(problem):
    passed, _, _, num_steps, keep = problem
    arm_a = graft(ledger_of(*problem), lam=0.0, grouping="all")
    for got, expected in zip(arm_a, sciwalker(passed, num_steps, keep), strict=True):
        np.testing.assert_array_equal(got, expected)


@given(problems())
def test_first_step_groups_are_the_same_with_either_grouping(problem):
    ledger = ledger_of(*problem)
    own, every = (graft(ledger, lam=0.3, grouping=g) for g in ("prefix", "all"))
    np.testing.assert_array_equal(own.advantages[..., 0], every.advantages[..., 0])


@given(problems(), st.permutations(range(G)))
def test_permuting_trajectories_permutes_their_advantages(problem, order):
    passed, grafted, alignable, num_steps, keep = problem
    moved = (passed[:, order], grafted[:, order], alignable[:, order], num_steps, keep[:, order])
    got, expected = (np.asarray(graft(ledger_of(*p), lam=0.3).advantages) for p in (moved, problem))
    np.testing.assert_allclose(got, expected[:, order], rtol=1e-4, atol=1e-5)


@given(problems(), st.sampled_from([np.nan, np.inf, -1.0, 1e9]))
def test_padding_left_out_and_unaligned_cells_are_never_read(problem, bad):
    passed, grafted, alignable, num_steps, keep = problem
    real = (np.arange(S) < num_steps[:, None, None]) & keep[..., None]
    noisy = (
        np.where(real, passed, bad).astype(np.float32),
        np.where(real & alignable, grafted, bad).astype(np.float32),
        np.where(real, alignable, bad).astype(np.float32),
        num_steps,
        keep,
    )
    wide = [np.concatenate([x, np.full((B, G, 2), bad, np.float32)], axis=2) for x in noisy[:3]]
    expected = jax.tree.map(np.asarray, graft(ledger_of(*problem), lam=0.3))
    for got in (
        graft(ledger_of(*noisy), lam=0.3),
        graft(ledger_of(*wide, num_steps, keep), lam=0.3),
    ):
        np.testing.assert_array_equal(got.advantages[..., :S], expected.advantages)
        np.testing.assert_array_equal(got.mask[..., :S], expected.mask)
        assert not np.asarray(got.mask[..., S:]).any()


@given(problems())
def test_problems_do_not_see_each_other(problem):
    changed = tuple(np.concatenate([x[:1], x[1:][::-1]]) for x in problem)
    before, after = (graft(ledger_of(*p), lam=0.3).advantages for p in (problem, changed))
    np.testing.assert_array_equal(before[0], after[0])


def test_local_term_is_dropped_where_the_graft_does_not_exist():
    passed = np.array([[[1], [0], [0], [1]]])
    grafted, alignable = np.ones((1, 4, 1)), np.array([[[1], [1], [0], [0]]])
    got = shaped(ledger_of(passed, grafted, alignable, np.array([1])), lam=0.25)
    assert got[0, :, 0].tolist() == [1.25, 0.25, 0.0, 1.0]


def test_degenerate_rate_counts_true_cells_only():
    degenerate = np.array([[1, 0, 1, 1], [1, 1, 0, 0]])
    assert float(group_degenerate_rate(degenerate, np.array([2, 4]))) == pytest.approx(3 / 6)


def test_degenerate_cells_leave_the_loss_instead_of_entering_it_with_zeros():
    passed = np.array([[[1, 1], [1, 1], [0, 1]]])  # step 2: the two with b = 1 agree
    grafted = np.zeros((1, 3, 2))
    got = graft(ledger_of(passed, grafted, grafted, np.array([2])))
    assert got.mask[0].tolist() == [[True, False], [True, False], [True, False]]
    assert got.degenerate[0].tolist() == [False, True]


def test_rewards_of_later_steps_do_not_flow_back():
    passed = np.array([[[1, 1], [1, 0], [0, 0]]])
    changed = passed.copy()
    changed[..., 1] = [[0, 1, 1]]
    first = [sciwalker(p, np.array([2])).advantages[..., 0] for p in (passed, changed)]
    np.testing.assert_array_equal(*first)


def test_sciwalker_gradient_ignores_padding():
    rewards = np.array([[0.0, np.nan], [1.0, np.inf], [0.5, 1e9]], np.float32)

    @jax.jit
    def slope(rewards):
        return jax.grad(lambda r: (sciwalker_advantages(r, 1).advantages ** 3).sum())(rewards)

    grad = np.asarray(slope(rewards))
    assert np.isfinite(grad).all() and (grad[:, 1] == 0).all() and (grad[:, 0] != 0).any()

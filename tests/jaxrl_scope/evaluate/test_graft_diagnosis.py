"""Every estimate of the diagnosis against simulated policies whose rates are known."""

import json

import numpy as np
import pytest

from jaxrl_scope.evaluate.graft_diagnosis import diagnose, projected_cost, to_json_values, verdicts
from jaxrl_scope.evaluate.graft_probe import compare_runs
from jaxrl_scope.evaluate.graft_simulation import SimulatedPolicy, simulate
from jaxrl_scope.evaluate.graft_tables import arms_table, diagnosis_table
from rewards import RESIDUAL_BUCKETS, prefix_survival

GROUP = 8
POLICIES = {
    "decaying": SimulatedPolicy(),
    "strong": SimulatedPolicy((0.98,) * 5, broken=0.5, coupled=0.01, unaligned=0.2),
    "coupled": SimulatedPolicy((0.6, 0.9, 0.9), broken=0.0, coupled=0.3, unaligned=0.0),
}


CASES = [
    "decaying",
    pytest.param("strong", marks=pytest.mark.slow),
    pytest.param("coupled", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=CASES)
def drawn(request):
    policy = POLICIES[request.param]
    ledger, bucket = simulate(policy, 1250, GROUP, seed=3)  # 10^4 trajectories
    return policy, ledger, diagnose(ledger, bucket)


def holds(rates, truth):
    """Whether the truth lies in intervals widened from 95 to 99.9 %: some 50 are looked at."""
    for rate, value in zip(rates, truth, strict=True):
        slack = 0.68 * max(rate.high - rate.share, rate.share - rate.low) + 1e-9
        assert rate.low - slack <= value <= rate.high + slack, (rate, value)


def test_rates_are_recovered(drawn):
    policy, ledger, figures = drawn
    holds([f.prefix_ok for f in figures], policy.survival())
    sound = policy.survival()
    overall = sound * policy.pass_rate() + (1 - sound) * policy.broken
    holds([f.passed for f in figures], overall)
    holds([f.local_training_signal for f in figures], policy.grafted_rate())
    holds([f.residual["any"] for f in figures], policy.residual_rate())
    holds([f.na for f in figures], [policy.unaligned] * len(figures))
    assert [f.prefix_ok.share for f in figures] == pytest.approx(
        prefix_survival(ledger).share.tolist(), abs=1e-6
    )


def test_residuals_are_split_by_kind(drawn):
    policy, _, figures = drawn
    sound = policy.survival()
    holds([f.residual["local error"] for f in figures], (1 - sound) * policy.broken)
    for figure in figures:
        parts = sum(figure.residual[kind].share for kind in RESIDUAL_BUCKETS)
        assert parts == pytest.approx(figure.residual["any"].share)


def test_spreads_are_recovered(drawn):
    policy, _, figures = drawn
    across, within = policy.spread(GROUP)
    for t, figure in enumerate(figures):
        # The std of a group's std is below 0.25, so this is four standard errors.
        assert abs(figure.std_across - across[t]) < 1.0 / figure.num_across**0.5
        assert abs(figure.std_within - within[t]) < 1.0 / figure.num_within**0.5


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    policy = SimulatedPolicy((0.8, 0.7, 0.6))
    covered = 0
    for seed in range(200):
        figures = diagnose(*simulate(policy, 40, GROUP, seed))
        rate = figures[2].prefix_ok
        covered += rate.low <= policy.survival()[2] <= rate.high
    assert 0.88 <= covered / 200 <= 0.99


def test_verdicts_follow_the_truth():
    decaying = verdicts(diagnose(*simulate(POLICIES["decaying"], 400, GROUP)))
    assert decaying["P1"].startswith("holds")
    assert "t2 holds" in decaying["P5"]
    strong = verdicts(diagnose(*simulate(POLICIES["strong"], 400, GROUP)))
    assert strong["P1"].startswith("fails")
    assert "t2 fails" in strong["P5"]
    short = verdicts(diagnose(*simulate(POLICIES["coupled"], 40, GROUP)))
    assert short["P1"].startswith("undecided")
    assert short["P3"].startswith("needs training")


def test_figures_are_json_even_without_trials():
    figures = diagnose(*simulate(SimulatedPolicy((0.0, 0.5)), 3, 2))
    text = json.dumps(to_json_values(figures), allow_nan=False)
    assert json.loads(text)[1]["prefix_ok"]["count"] == 6
    assert "0.000" in diagnosis_table(figures)


def test_cost_is_projected_from_what_was_measured():
    cost = projected_cost(100, 2.0, 2)
    assert cost["seconds_per_execution"] == pytest.approx(0.02)
    assert cost["projected_hours_one_arm"] == pytest.approx(177_000 * 0.02 / 2 / 3600)
    assert projected_cost(0, 0.0, 2)["projected_hours_four_arms"] == 0.0


def test_bad_rates_are_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        SimulatedPolicy((1.2,))


def test_runs_are_compared_by_step(tmp_path):
    for name, late in (("A-0", [1, 0]), ("A-1", [1, 1]), ("D-0", [1, 1])):
        rows = []
        for update in (1, 2):
            for rollout in range(4):
                r = [1, 0] if update == 1 else late
                tau = 3 if all(r) else 2
                rows.append(
                    {"update": update, "problem": "p", "rollout": rollout, "r": r, "tau": tau}
                )
        (tmp_path / name).mkdir()
        # Written twice, as after a resume: counted once.
        text = "".join(json.dumps(row) + "\n" for row in [*rows, *rows])
        (tmp_path / name / "ledger.jsonl").write_text(text)
    arms = compare_runs([tmp_path / name for name in ("A-0", "A-1", "D-0")], 1)
    assert [rate.share for rate in arms["A"]["first"]] == [1.0, 0.0]
    assert [rate.share for rate in arms["A"]["last"]] == [1.0, 0.5]
    assert [rate.share for rate in arms["A"]["end_to_end"]] == [0.0, 0.5]
    assert arms["A"]["last"][0].count == 8
    assert "D" in arms_table(arms, 1)
    with pytest.raises(ValueError, match=r"no ledger.jsonl"):
        compare_runs([tmp_path], 1)
    assert np.isfinite(arms["D"]["last"][1].low)

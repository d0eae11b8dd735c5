"""Claims against hand calculations, and every table against its own arms."""

import json
import math

import pytest

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.presets import PRESETS
from jaxrl_scope.reproduce.arms import Arm, Claim, Table
from jaxrl_scope.reproduce.claims import decide, mean_interval
from jaxrl_scope.reproduce.measures import measure, of_run
from jaxrl_scope.reproduce.render import to_json, to_markdown
from jaxrl_scope.reproduce.tables import TABLES

CLAIM = Claim("b over a", ("accuracy",), "b", "a")


def seeds(*values: float, name: str = "accuracy") -> dict[int, dict[str, float]]:
    return {seed: {name: value} for seed, value in enumerate(values)}


def test_mean_interval_by_hand():
    # sd of (1, 2, 3) is 1; t(.975, 2) = 4.302653; half-width t / sqrt(3).
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-5)
    assert mean - low == pytest.approx(high - mean)
    assert mean_interval([0.5]) == (0.5, -math.inf, math.inf)
    with pytest.raises(ValueError, match="no value"):
        mean_interval([])


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((0.1, 0.2, 0.3), (0.5, 0.6, 0.71), "agree"),
        ((0.5, 0.6, 0.71), (0.1, 0.2, 0.3), "disagree"),
        ((0.1, 0.6, 0.3), (0.5, 0.2, 0.4), "undecided"),
        ((0.1,), (0.9,), "undecided"),
    ],
)
def test_a_claim_is_decided_by_the_interval_of_paired_differences(a, b, verdict):
    assert decide(CLAIM, {"a": seeds(*a), "b": seeds(*b)}).verdict == verdict


def test_only_common_seeds_count():
    outcome = decide(CLAIM, {"a": seeds(0.1, 0.1, 0.9), "b": seeds(0.4, 0.4)})
    assert outcome.num_seeds == 2
    with pytest.raises(ValueError, match="accuracy"):
        decide(CLAIM, {"a": {}, "b": seeds(0.4)})


def test_margin_and_relative_difference():
    shorter = Claim("a fifth shorter", ("tokens",), "long", "short", 0.2, relative=True)
    long = seeds(100.0, 200.0, 50.0, name="tokens")
    enough = {"long": long, "short": seeds(70.0, 141.0, 34.0, name="tokens")}
    outcome = decide(shorter, enough)
    assert outcome.difference == pytest.approx((0.3 + 0.295 + 0.32) / 3)
    assert outcome.verdict == "agree"
    little = {"long": long, "short": seeds(90.0, 180.0, 45.1, name="tokens")}
    assert decide(shorter, little).verdict == "disagree"


def test_of_several_measures_the_least_favourable_counts():
    claim = Claim("everywhere", ("x", "y"), "b", "a")
    a = {0: {"x": 0.0, "y": 0.5}, 1: {"x": 0.0, "y": 0.5}}
    b = {0: {"x": 1.0, "y": 0.1}, 1: {"x": 1.1, "y": 0.11}}
    assert decide(claim, {"a": a, "b": b}).verdict == "disagree"


def test_a_claim_may_set_one_measure_beside_another():
    claim = Claim("sooner", ("at_60",), "b", "a", versus="at_100")
    a = {0: {"at_100": 0.5}, 1: {"at_100": 0.6}, 2: {"at_60": 0.6}}
    b = {0: {"at_60": 0.6}, 1: {"at_60": 0.71}, 2: {"at_60": 0.6}}
    outcome = decide(claim, {"a": a, "b": b})
    assert (outcome.num_seeds, outcome.verdict) == (2, "agree")
    assert outcome.difference == pytest.approx(0.105)


def test_measures_of_stage_tp_and_of_parts_of_a_run():
    rows = [{"update": u, "tp/bad_share/correct": u / 100} for u in range(1, 11)]
    for update in (2, 6, 8, 10):
        rows[update - 1]["eval/accuracy"] = update / 10
    out = of_run(rows)
    assert (out["at_60"], out["at_100"]) == (0.6, 1.0)
    assert out["taken_back_start"] == pytest.approx(0.03)
    assert out["taken_back"] == pytest.approx(0.08)
    assert "unused" not in out


def test_measures_of_a_run_and_its_evaluation(tmp_path):
    rows = [{"update": 0, "eval/accuracy": 0.1, "eval/accuracy_greedy": 0.0}]
    rows += [{"update": u, "eta_r": u / 10, "route/share": 0.5} for u in range(1, 11)]
    rows[-1] |= {"eval/accuracy": 0.6, "eval/accuracy/k2": 0.7, "eval/accuracy_greedy": 0.8}
    out = of_run(rows)
    assert out["greedy"] == 0.8
    assert out["accuracy/k2"] == 0.7
    assert out["eta_r"] == pytest.approx(0.55)
    assert out["eta_r/1-5"] == pytest.approx(0.3)
    assert out["eta_r/6-10"] == pytest.approx(0.8)
    overall = {
        "accuracy": 0.61,
        "mean_tokens": 20.5,
        "pass_at_k": {"1": {"value": 0.61}, "8": {"value": 0.9}},
        "quality": {
            "shares": {"useful": 0.7, "redundant": 0.1, "error": 0.2},
            "first_error": None,
        },
    }
    (tmp_path / "results.json").write_text(json.dumps({"results": {"overall": overall}}))
    assert measure(tmp_path, None) == {
        "accuracy": 0.61,
        "tokens": 20.5,
        "pass@1": 0.61,
        "pass@8": 0.9,
        "useful": 0.7,
        "redundant": 0.1,
        "error": 0.2,
    }


def test_measures_of_a_ledger(tmp_path):
    def row(update: int, rollout: int, passed: list[int], tau: int) -> str:
        entry = {"update": update, "problem": "p", "rollout": rollout, "r": passed, "tau": tau}
        return json.dumps(entry) + "\n"

    run = tmp_path / "graft-D-s0"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"update": 0}\n')
    # Half of the rollouts pass step 2 at first, all in the last five updates.
    rows = [row(u, 0, [1, 1], 3) + row(u, 1, [1, 0], 2) for u in range(1, 6)]
    rows += [row(u, g, [1, 1], 3) for u in range(6, 11) for g in range(2)]
    (run / "ledger.jsonl").write_text("".join(rows))
    assert measure(None, run) == {
        "pass/t1_start": 1.0,
        "pass/t2_start": 0.5,
        "pass/all_start": 0.5,
        "pass/t1": 1.0,
        "pass/t2": 1.0,
        "pass/all": 1.0,
    }


def test_an_arm_without_run_and_evaluation_is_refused():
    with pytest.raises(ValueError, match="neither a run nor an evaluation"):
        Table("t", (Arm("A", "a", evaluate=None),), ("accuracy",), ())


def test_markdown_and_json_show_every_shown_arm():
    table = Table(
        title="t",
        arms=(Arm("A", "a"), Arm("hidden", "h", shown=False), Arm("B", "b")),
        measures=("accuracy", "tokens"),
        claims=(CLAIM,),
        paper={"a": "55.80"},
    )
    measures = {"a": seeds(0.1, 0.2), "h": seeds(0.1, 0.2), "b": seeds(0.5, 0.61)}
    outcomes = [decide(CLAIM, measures)]
    text = to_markdown(table, measures, outcomes)
    assert "| A | 15.0 ± 63.5 | – | 55.80 |" in text
    assert "hidden" not in text
    assert "agrees" in text
    written = json.loads(json.dumps(to_json(table, measures, outcomes)))
    assert written["claims"][0]["verdict"] == "agree"
    assert written["measures"]["b"]["1"]["accuracy"] == 0.61


@pytest.mark.parametrize("name", TABLES)
def test_every_table_trains_its_arms_equally_long(name):
    from jaxrl_scope.cli import parse

    table = TABLES[name]()
    updates: dict[str, int] = {}
    for arm in table.arms:
        own = 0
        if arm.train:
            config = parse([*arm.train, "--preset", arm.preset])
            assert isinstance(config, TrainConfig)
            own = config.updates
        updates[arm.key] = own + updates.get(arm.start, 0)
        assert arm.preset in PRESETS
    trained = {updates[a.key] for a in table.arms if a.shown and updates[a.key] > 45} or {45}
    assert len(trained) == 1, updates


def test_a_table_with_an_unknown_arm_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        Table("t", (Arm("A", "a"),), ("accuracy",), (CLAIM,))
    with pytest.raises(ValueError, match="stands before"):
        Table("t", (Arm("A", "a", start="b"), Arm("B", "b")), ("accuracy",), ())

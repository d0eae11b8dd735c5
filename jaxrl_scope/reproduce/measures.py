"""What is measured of an arm: from its evaluation and from the log of its run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.evaluate.graft_probe import compare_runs
from jaxrl_scope.report.metrics import read_metrics

WINDOW = 5  # updates that a measure over a part of a run averages


def measure(evaluation: Path | None, run: Path | None) -> dict[str, float]:
    """All measures of one arm and seed.

    Args:
      evaluation: directory that launch/evaluate.py wrote; None if nothing was evaluated.
      run: directory of the run; None if the arm trained nothing.

    Returns:
      `accuracy`, `tokens`, `pass@K`, and with step quality `useful`, `redundant`, `error` (shares)
      and `first_error` (relative position, 1 where there is none); of a run also
      `greedy`, `accuracy/DIFFICULTY`, `eta_r` and `route` (means over its updates), `eta_r/I-J`
      (mean over updates I to J), `at_60` and `at_100` (the run's own evaluation after that share of
      its updates, in percent), and of stage tp `taken_back` and `unused` (shares of tokens in bad
      thoughts of right and of wrong rollouts, over the last updates) and the same at the `_start`,
      and of stage graft `pass/tN` (pass rate of step N on the own prefix) and `pass/all` (all steps
      of a rollout) over the last updates, and the same at the `_start`.
    """
    out = {} if evaluation is None else of_evaluation(evaluation)
    if run is not None:
        out |= of_run(read_metrics(run / "metrics.jsonl"))
        if (run / "ledger.jsonl").exists():
            out |= of_ledger(run)
    return {name: float(value) for name, value in out.items() if value is not None}


def of_evaluation(evaluation: Path) -> dict[str, Any]:
    """The measures that come from launch/evaluate.py; None where there is no value."""
    results = json.loads((evaluation / "results.json").read_text())["results"]["overall"]
    out = {"accuracy": results["accuracy"], "tokens": results["mean_tokens"]}
    out |= {f"pass@{k}": entry["value"] for k, entry in results["pass_at_k"].items()}
    if quality := results.get("quality"):
        out |= {name: quality["shares"][name] for name in ("useful", "redundant", "error")}
        out["first_error"] = quality["first_error"]
    return out


def of_ledger(run: Path) -> dict[str, float]:
    """Pass rates by step number from the ledger of a run of stage graft."""
    (rates,) = compare_runs([run], WINDOW).values()
    out = {}
    for when, place, suffix in (("first", 0, "_start"), ("last", 1, "")):
        for t, rate in enumerate(rates[when], start=1):
            out[f"pass/t{t}{suffix}"] = rate.share
        out[f"pass/all{suffix}"] = rates["end_to_end"][place].share
    return out


def of_run(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The measures that come from the rows of metrics.jsonl."""
    out = {}
    last = next((row for row in reversed(rows) if "eval/accuracy" in row), {})
    for name, value in last.items():
        if name == "eval/accuracy_greedy":
            out["greedy"] = value
        elif name.startswith("eval/accuracy/"):
            out[name.removeprefix("eval/")] = value
    evaluated = [row for row in rows if "eval/accuracy" in row]
    for percent in (60, 100):
        within = [row for row in evaluated if 100 * row["update"] <= percent * rows[-1]["update"]]
        if within:
            out[f"at_{percent}"] = within[-1]["eval/accuracy"]
    for name, metric in (
        ("taken_back", "tp/bad_share/correct"),
        ("unused", "tp/bad_share/incorrect"),
    ):
        values = _column(rows, metric)
        if values:
            out[name] = float(np.mean(values[-WINDOW:]))
            out[f"{name}_start"] = float(np.mean(values[:WINDOW]))
    for name, metric in (("eta_r", "eta_r"), ("route", "route/share")):
        values = _column(rows, metric)
        if values:
            out[name] = float(np.mean(values))
            if name == "eta_r":
                for i in range(0, len(values) - WINDOW + 1, WINDOW):
                    out[f"eta_r/{i + 1}-{i + WINDOW}"] = float(np.mean(values[i : i + WINDOW]))
    return out


def _column(rows: Sequence[Mapping[str, Any]], metric: str) -> list[float]:
    return [row[metric] for row in rows if row.get(metric) is not None]

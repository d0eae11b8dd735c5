"""A reproduced table for people: Markdown, JSON and a plot."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.report.metrics import read_metrics
from jaxrl_scope.reproduce.arms import Table, select
from jaxrl_scope.reproduce.claims import CONFIDENCE, Measures, Outcome, mean_interval

PERCENT = (
    *("accuracy", "greedy", "useful", "redundant", "error", "eta_r", "route", "pass@"),
    *("at_60", "at_100", "taken_back", "unused", "pass/"),
)
MARKS = {"agree": "agrees", "disagree": "DISAGREES", "undecided": "undecided"}


def to_markdown(table: Table, measures: Measures, outcomes: Sequence[Outcome]) -> str:
    """Write the arms with mean and half-width of the interval over seeds, then the claims."""
    has_paper = bool(table.paper)
    seeds = max(len(of_seed) for of_seed in measures.values())
    lines = [f"### {table.title}", ""]
    header = ["", *map(_heading, table.measures), *(["paper"] if has_paper else [])]
    lines += [_row(header), _row(["---"] * len(header))]
    for arm in select(table.arms):
        cells = [cell(measures[arm.key], name) for name in table.measures]
        lines.append(
            _row([arm.name, *cells, *([table.paper.get(arm.key, "")] if has_paper else [])])
        )
    lines += [
        "",
        f"Mean ± half-width of the {CONFIDENCE:.0%} interval over {seeds} seeds. {table.note}",
        "",
        _row(["claim", "paper", "difference", "here"]),
        _row(["---"] * 4),
    ]
    lines += [
        _row([o.claim.text, o.claim.source, difference(o), MARKS[o.verdict]]) for o in outcomes
    ]
    lines += [
        "",
        f"A claim agrees if the {CONFIDENCE:.0%} interval of the difference, paired by seed "
        "(Student's t), lies wholly above what it needs, disagrees if wholly below; of several "
        "measures the least favourable counts.",
    ]
    return "\n".join(lines) + "\n"


def cell(of_seed: Mapping[int, Mapping[str, float]], name: str) -> str:
    """One figure with its interval; a dash where the arm has no such measure."""
    values = [measures[name] for measures in of_seed.values() if name in measures]
    if not values:
        return "–"
    scale, digits = _scale(name)
    mean, low, _ = mean_interval([scale * value for value in values])
    half = f" ± {mean - low:.{digits}f}" if np.isfinite(low) else ""
    return f"{mean:.{digits}f}{half}"


def difference(outcome: Outcome) -> str:
    """The difference, its interval, and what it had to exceed."""
    claim = outcome.claim
    scale, digits = (100.0, 1) if claim.relative else _scale(claim.measures[0])
    unit = " %" if claim.relative else ""
    low, high = outcome.interval
    text = f"{scale * outcome.difference:+.{digits}f}{unit}"
    if np.isfinite(low):
        text += f" ({scale * low:+.{digits}f} to {scale * high:+.{digits}f})"
    return text + (f", needs > {scale * claim.margin:+.{digits}f}" if claim.margin else "")


def to_json(table: Table, measures: Measures, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything behind the table, as JSON values."""
    return {
        "title": table.title,
        "arms": {arm.key: {"name": arm.name, "train": list(arm.train)} for arm in table.arms},
        "measures": {
            key: {str(seed): dict(values) for seed, values in of_seed.items()}
            for key, of_seed in measures.items()
        },
        "claims": [
            {
                **dataclasses.asdict(outcome.claim),
                "difference": outcome.difference,
                "interval": [v if np.isfinite(v) else None for v in outcome.interval],
                "num_seeds": outcome.num_seeds,
                "verdict": outcome.verdict,
            }
            for outcome in outcomes
        ],
    }


def plot(table: Table, seeds: Sequence[int], runs: Path, path: Path) -> None:
    """Draw the table's curves, a line per arm: mean over seeds, with all seeds in its band."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(table.curves), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(1, len(table.curves)))
    for axis, metric in zip(axes, table.curves, strict=True):
        for arm in table.arms:
            if not arm.train:
                continue
            columns: dict[int, list[float]] = {}
            for seed in seeds:
                for row in read_metrics(runs / f"{arm.key}-s{seed}" / "metrics.jsonl"):
                    if row.get(metric) is not None:
                        columns.setdefault(row["update"], []).append(row[metric])
            updates = sorted(columns)
            if updates:
                (line,) = axis.plot(updates, [np.mean(columns[u]) for u in updates], label=arm.name)
                low, high = ([f(columns[u]) for u in updates] for f in (min, max))
                axis.fill_between(updates, low, high, alpha=0.15, color=line.get_color())
        axis.set_title(metric, fontsize=10)
        axis.set_xlabel("update")
        axis.grid(alpha=0.3)
        if axis.lines:
            axis.legend(fontsize=8)
    figure.suptitle(table.title)
    scratch = path.with_name(f".{path.name}")
    figure.savefig(scratch, format="png", dpi=110)
    scratch.replace(path)


def _scale(name: str) -> tuple[float, int]:
    if name.startswith(PERCENT):
        return 100.0, 1
    return (1.0, 1) if name == "tokens" else (1.0, 3)


def _heading(name: str) -> str:
    return f"{name}, %" if name.startswith(PERCENT) else name


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

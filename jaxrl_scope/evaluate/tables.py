"""Evaluation figures as tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from jaxrl_scope.evaluate.agreement import PairAgreement
from jaxrl_scope.evaluate.preference import Preference
from jaxrl_scope.evaluate.scaffold_probe import Bin
from rewards.process import STEP_LABELS

_DASH = "-"


def show(renderables: RenderableType) -> None:
    """Print to standard output."""
    Console().print(renderables)


def result_table(summary: Mapping[str, Any]) -> Table:
    """Accuracy and step quality: a figure a row, a column per source and one for all."""
    groups = dict(summary["by_source"])
    if len(groups) > 1:
        groups["all"] = summary["overall"]
    table = Table(
        title="accuracy, and step quality of judged, untruncated responses",
        caption=f"mean accuracy of the sources: {_percent(summary['average_accuracy'])} %",
    )
    table.add_column("")
    for source in groups:
        table.add_column(source, justify="right")
    columns = [_accuracy_rows(group) for group in groups.values()]
    # A source with fewer samples has fewer pass@k; the first column need not have them all.
    names = list(dict.fromkeys(name for column in columns for name in column))
    for name in names:
        table.add_row(name, *(column.get(name, _DASH) for column in columns))
    for title, field in (
        ("all responses", "quality"),
        ("correct responses", "quality_of_correct"),
    ):
        columns = [_quality_rows(group[field]) for group in groups.values()]
        table.add_section()
        table.add_row(title)
        for name in columns[0]:
            table.add_row(f"  {name}", *(column[name] for column in columns))
    return table


def _accuracy_rows(group: Mapping[str, Any]) -> dict[str, str]:
    low, high = group["accuracy_interval"]
    rows = {
        "problems": str(group["num_problems"]),
        "samples": str(group["num_samples"]),
        "undecided by the verifier": str(group["num_undecided"]),
        "truncated %": _percent(group["truncation_rate"]),
        "tokens": f"{group['mean_tokens']:,.1f}",
        "accuracy %": _percent(group["accuracy"]),
        "  95 % interval": f"{_percent(low)} to {_percent(high)}",
    }
    return rows | {f"pass@{k} %": _percent(p["value"]) for k, p in group["pass_at_k"].items()}


def _quality_rows(figures: Mapping[str, Any]) -> dict[str, str]:
    shares, first = figures.get("shares"), figures.get("first_error")
    return {
        "judged": str(figures["num_judged"]),
        "failed": str(sum(figures["judge_failures"].values())),
        "steps": f"{figures['mean_steps']:.1f}" if shares else _DASH,
        **{f"{label} %": _percent(shares[label]) if shares else _DASH for label in STEP_LABELS},
        "first error position": _DASH if first is None else f"{first:.3f}",
    }


def statistics_table(name: str, statistics: Mapping[str, Any]) -> Table:
    """Figures of one label file."""
    table = Table(title=name, show_header=False)
    for key, value in statistics.items():
        entries = value.items() if isinstance(value, Mapping) else [("", value)]
        for label, figure in entries:
            table.add_row(f"{key} {label}".strip(), _number(figure))
    return table


def agreement_tables(pairs: Mapping[str, PairAgreement]) -> Group:
    """Tables 10 and 11 of SCOPE-RL: accuracy and kappa, and figures per class."""
    overall, classes = Table(title="agreement"), Table(title="per class")
    for table, columns in (
        (overall, ("pair", "steps", "accuracy", "Cohen's kappa")),
        (classes, ("pair", "class", "precision", "recall", "F1")),
    ):
        for column in columns:
            table.add_column(column)
    for pair, figures in pairs.items():
        values = (figures.accuracy, figures.kappa)
        overall.add_row(pair, str(figures.num_steps), *map(_number, values))
        for name in figures.precision:
            row = (figures.precision[name], figures.recall[name], figures.f1[name])
            classes.add_row(pair, name, *map(_number, row))
    return Group(overall, classes)


def preference_table(counts: Mapping[str, Preference], first: str, second: str) -> Table:
    """Table 12 of SCOPE-RL: pairs won by either system, by dimension."""
    table = Table(title="pairwise preference by majority vote")
    table.add_column("dimension")
    for name in (first, second, "undecided", f"{first} %"):
        table.add_column(name, justify="right")
    for dimension, count in counts.items():
        total = count.first + count.second + count.undecided
        row: Iterable[int] = (count.first, count.second, count.undecided)
        table.add_row(dimension, *map(str, row), _percent(count.first / total))
    return table


def probe_table(bins: Sequence[Bin]) -> Table:
    """Figure 1a of SCOPE-RL in numbers."""
    table = Table(title="main-answer accuracy by length of the correct prefix")
    for name in ("prefix", "responses", "scaffold %", "95 % interval", "original %"):
        table.add_column(name, justify="right")
    for entry in bins:
        low, high = entry.scaffold_interval
        table.add_row(
            str(entry.prefix),
            str(entry.num_samples),
            f"{100 * entry.scaffold_accuracy:.1f}",
            f"{100 * low:.1f} to {100 * high:.1f}",
            f"{100 * entry.original_accuracy:.1f}",
        )
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _number(value: float | int | None) -> str:
    if value is None:
        return _DASH
    return f"{value:.3f}" if isinstance(value, float) else str(value)

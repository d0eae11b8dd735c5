"""Charts of one or several runs, as SVG for the page and as PNG files."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.report.panels import Panel, Rows, series

LABEL_COLOURS = {
    "steps/useful": "#2a9d5c",
    "steps/mechanical": "#8d99ae",
    "steps/redundant": "#e9b44c",
    "steps/reversion": "#9b6bcc",
    "steps/error": "#d1495b",
}
DASHES = ("-", "--", ":", "-.")


def draw(panel: Panel, runs: Mapping[str, Rows]):
    """Draw a panel; None if no run has any of its metrics."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = {name: series(rows, panel.metrics) for name, rows in runs.items()}
    found = {name: lines for name, lines in found.items() if lines}
    if not found:
        return None
    columns = len(found) if panel.kind == "stack" else 1
    figure = Figure(figsize=(5.2 * columns, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    if panel.kind == "stack":
        for axis, (name, lines) in zip(axes, found.items(), strict=True):
            _stack(axis, lines)
            axis.set_title(name if len(runs) > 1 else "", fontsize=9)
    else:
        _overlay(axes[0], found, many=len(runs) > 1)
        if panel.low is not None:
            axes[0].set_ylim(bottom=panel.low)
    for axis in axes:
        axis.set_xlabel("update", fontsize=9)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
    return figure


def _overlay(axis, found: Mapping[str, dict], many: bool) -> None:
    """A colour a run and a dash a metric; with one run, a colour a metric."""
    names = list(dict.fromkeys(metric for lines in found.values() for metric in lines))
    for i, (run, lines) in enumerate(found.items()):
        for metric, (updates, values) in lines.items():
            place = names.index(metric)
            axis.plot(
                updates,
                values,
                marker="o" if metric.startswith("eval/") else "",
                markersize=3,
                color=f"C{i if many else place}",
                linestyle=DASHES[place % len(DASHES)] if many else "-",
                label=f"{run}: {metric}" if many else metric,
            )
    axis.legend(fontsize=7)


def _stack(axis, lines: dict) -> None:
    """Draw the metrics on top of each other, over the updates that any of them has."""
    updates = sorted({update for points, _ in lines.values() for update in points})
    rows = []
    for points, values in lines.values():
        known = dict(zip(points, values, strict=True))
        rows.append([known.get(update, 0.0) for update in updates])
    colours = [LABEL_COLOURS[name] for name in lines if name in LABEL_COLOURS]
    axis.stackplot(
        updates, rows, labels=list(lines), alpha=0.85, colors=colours or None, linewidth=0
    )
    heights = np.sum(rows, axis=0)
    typical = 3 * float(np.median(heights))  # compilation makes the first updates a hundred times
    axis.set_ylim(0, typical if 0 < typical < heights.max() else None)
    axis.legend(fontsize=7)


def to_svg(figure) -> str:
    """The figure as an SVG element."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_png(figure, path: Path) -> None:
    """Write the figure as a PNG file."""
    write_atomic(path, lambda file: figure.savefig(file, format="png", dpi=110))

"""The main curves of a run as one PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PANELS = (
    ("accuracy on original prompts", ("eval/accuracy", "eval/accuracy_greedy")),
    ("reward and outcome", ("reward/mean", "outcome/mean")),
    ("groups with a gradient; groups routed", ("eta_r", "route/share")),
    ("response length, tokens", ("response_length/mean",)),
    ("entropy, nats", ("policy/entropy",)),
    ("gradient norm", ("policy/grad_norm",)),
)


def plot_curves(rows: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    """Draw every panel that has numbers, over the updates, and write a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3).ravel()
    for axis, (name, metrics) in zip(axes, PANELS, strict=True):
        for metric in metrics:
            points = [(r["update"], r[metric]) for r in rows if r.get(metric) is not None]
            if points:
                mark = "o-" if metric.startswith("eval/") else "-"
                axis.plot(*zip(*points, strict=True), mark, markersize=4, label=metric)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("update")
        axis.grid(alpha=0.3)
        if axis.lines:
            axis.legend(fontsize=8)
    figure.suptitle(title)
    scratch = path.with_name(f".{path.name}")
    figure.savefig(scratch, format="png", dpi=110)
    scratch.replace(path)

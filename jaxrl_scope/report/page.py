"""The run report as one HTML page that needs no network."""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from jaxrl_scope.data.world_labels import label_trace
from jaxrl_scope.report.metrics import read_metrics
from jaxrl_scope.report.panels import Rows
from jaxrl_scope.report.samples import VERDICTS, read_samples

MOST_SAMPLES = 24
LABELS = ("useful", "mechanical", "redundant", "reversion", "error")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run directory, read.

    Attributes:
      name: of the directory; unique among the runs of a report.
      path: the directory.
      config: its settings, as JSON values.
      rows: of metrics.jsonl.
      samples: of samples.jsonl, newest first.
    """

    name: str
    path: Path
    config: Mapping[str, Any]
    rows: Rows
    samples: Sequence[Mapping[str, Any]]


def read_run(path: Path) -> Run:
    """Read what a run has written so far; it may be going on.

    Raises:
      ValueError: the directory holds no run, or no numbers yet.
    """
    record = path / "config.json"
    if not record.exists():
        stages = [part for part in ("asr", "qpr") if (path / part / "config.json").exists()]
        hint = f"; it holds the runs {' and '.join(stages)}: name those" if stages else ""
        raise ValueError(f"{path} holds no run (no config.json){hint}")
    try:
        config = json.loads(record.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{record} is not valid JSON ({error}); restore it") from error
    rows = read_metrics(path / "metrics.jsonl")
    if not rows:
        raise ValueError(f"{path / 'metrics.jsonl'} holds no numbers yet")
    samples = list(reversed(read_samples(path)))[:MOST_SAMPLES]
    return Run(path.name, path, config, rows, [_labelled(config, s) for s in samples])


def _labelled(config: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Add step labels where none were recorded and the built-in world knows them exactly."""
    sample = {**sample, "verdict_name": VERDICTS.get(sample["verdict"], "?")}
    world = config.get("data", {}).get("problems") == "world"
    if sample["steps"] or sample["scaffolded"] or not world:
        return sample
    try:
        spans, labels = label_trace(
            sample["prompt"], sample["response"], modulus=config["world"]["modulus"]
        )
    except ValueError:
        return sample  # a prompt of another form than the world's own
    sample["steps"] = [
        (sample["response"][a:b], label.name.lower())
        for (a, b), label in zip(spans, labels, strict=True)
    ]
    return sample


def unique_names(runs: Sequence[Run]) -> list[Run]:
    """Tell runs of the same directory name apart by their parents."""
    names = [run.name for run in runs]
    return [
        dataclasses.replace(run, name=f"{run.path.resolve().parent.name}/{run.name}")
        if names.count(run.name) > 1
        else run
        for run in runs
    ]


def summary_rows(run: Run) -> dict[str, str]:
    """The few numbers that matter of a run, in words."""
    evaluated = [row for row in run.rows if row.get("eval/accuracy") is not None]
    last = run.rows[-1]
    planned = run.config.get("updates")
    out = {
        "stage": f"{run.config.get('stage')}, preset {run.config.get('preset')}, "
        f"seed {run.config.get('seed')}",
        "updates": f"{last['update']} of {planned}",
    }
    if evaluated:
        first, best = evaluated[0], evaluated[-1]
        out["accuracy"] = f"{first['eval/accuracy']:.3f} → {best['eval/accuracy']:.3f}"
        if best.get("eval/accuracy_greedy") is not None:
            out["greedy"] = f"{best['eval/accuracy_greedy']:.3f}"
        if best.get("eval/response_length") is not None:
            out["tokens"] = (
                f"{first.get('eval/response_length', 0):.1f} → {best['eval/response_length']:.1f}"
            )
    eta = [row["eta_r"] for row in run.rows if row.get("eta_r") is not None]
    if eta:
        out["η_R, mean"] = f"{sum(eta) / len(eta):.2f}"
    seconds = sorted(row["time/total_s"] for row in run.rows if "time/total_s" in row)
    if seconds:
        out["seconds per update, median"] = f"{seconds[len(seconds) // 2]:.2f}"
    return out


def render(runs: Sequence[Run], charts: Sequence[tuple[str, str, bool]]) -> str:
    """Write the page.

    Args:
      runs: what is reported.
      charts: title, SVG element, and whether it takes the whole row, of each chart.
    """
    return _template().render(
        title=" · ".join(run.name for run in runs),
        runs=runs,
        summaries={run.name: summary_rows(run) for run in runs},
        names=list(dict.fromkeys(name for run in runs for name in summary_rows(run))),
        charts=charts,
        labels=LABELS,
        configs={run.name: json.dumps(run.config, indent=1) for run in runs},
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((Path(__file__).parent / "page.html.jinja").read_text())

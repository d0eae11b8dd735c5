"""The panels of a run report: which metrics stand together, and how they are drawn."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Rows = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
      title: with the unit.
      metrics: names, or regular expressions that must match a whole name.
      kind: "lines" overlays the runs; "stack" draws shares on top of each other, a chart a run.
      low: lower end of the vertical axis; None fits it.
    """

    title: str
    metrics: tuple[str, ...]
    kind: Literal["lines", "stack"] = "lines"
    low: float | None = None


PANELS = (
    Panel("accuracy on original prompts", ("eval/accuracy", "eval/accuracy_greedy"), low=0),
    Panel("accuracy by difficulty, sampled", (r"eval/accuracy/[^/]+",), low=0),
    Panel("reward and outcome", ("reward/mean", "outcome/mean"), low=0),
    Panel("groups with a gradient (η_R)", ("eta_r",), low=0),
    Panel("groups routed to scaffolds", ("route/share", "route/wanted"), low=0),
    Panel("problems to route without a scaffold", ("route/scaffold_miss",), low=0),
    Panel("right sub-answers in a row, share of rollouts", (r"scaffold/prefix_len/\d+",), "stack"),
    Panel(
        "response length, tokens",
        ("response_length/mean", "response_length/correct", "eval/response_length"),
        low=0,
    ),
    Panel("truncated responses, share", ("response_length/clip_ratio",), low=0),
    Panel(
        "step labels of judged traces, share",
        ("steps/useful", "steps/mechanical", "steps/redundant", "steps/reversion", "steps/error"),
        "stack",
    ),
    Panel("clipped tokens, share", ("policy/clip_frac",), low=0),
    Panel("entropy, nats per token", ("policy/entropy",), low=0),
    Panel("gradient norm", ("policy/grad_norm",), low=0),
    Panel("sampler against trainer, |Δ log p|", (r"sampler/logprob_gap_\w+",), low=0),
    Panel(
        "failures per update",
        ("grade/failed", "judge/failed", r"sandbox/(failed|timeout|crash)", r"rollout/lost"),
        low=0,
    ),
    Panel(
        "seconds per update, by phase",
        (r"time/(?!total_s$)\w+_s",),
        "stack",
    ),
)


def series(rows: Rows, names: Iterable[str]) -> dict[str, tuple[list[int], list[float]]]:
    """Collect the metrics that match, in natural order: updates and values of each."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for pattern in names:
        matching = {name for row in rows for name in row if re.fullmatch(pattern, name)}
        for name in sorted(matching, key=_natural):
            points = [(row["update"], row[name]) for row in rows if row.get(name) is not None]
            if points:
                updates, values = zip(*points, strict=True)
                found[name] = (list(updates), list(values))
    return found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sort key in which `len/10` comes after `len/9`."""
    return [
        (part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in re.split(r"(\d+)", name)
    ]

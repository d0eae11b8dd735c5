"""What a run says at its end: accuracy before and after, where things are, what to try next."""

import shlex
from pathlib import Path
from typing import Any

ACCURACY, GREEDY = "eval/accuracy", "eval/accuracy_greedy"


def accuracy_table(history: list[dict[str, Any]]) -> str:
    """Accuracy on original prompts at the first and the last evaluation, by difficulty."""
    rows = [row for row in history if row.get(ACCURACY) is not None]
    if not rows:
        return "no validation problems: nothing was evaluated"
    first, last = rows[0], rows[-1]
    prefix = f"{ACCURACY}/"
    keys = [ACCURACY, *sorted(name for name in last if name.startswith(prefix))]
    lines = [
        "accuracy on original prompts      sampled            greedy",
        f"{'':24}   before   after    before   after",
    ]
    for key in keys:
        name = "all" if key == ACCURACY else key.removeprefix(prefix)
        greedy = key.replace(ACCURACY, GREEDY)
        cells = [first.get(key), last.get(key), first.get(greedy), last.get(greedy)]
        shown = ["    -" if value is None else f"{value:5.3f}" for value in cells]
        lines.append(f"{name:>24}    {shown[0]}   {shown[1]}     {shown[2]}   {shown[3]}")
    return "\n".join(lines)


def eta_line(history: list[dict[str, Any]]) -> str:
    """Effective gradient ratio at the start and at the end."""
    values = [row["eta_r"] for row in history if row.get("eta_r") is not None]
    if not values:
        return "no update was made"
    first, last = values[:5], values[-10:]
    return (
        "groups with a gradient (eta_r): "
        f"{sum(first) / len(first):.2f} over the first {len(first)} updates, "
        f"{sum(last) / len(last):.2f} over the last {len(last)}"
    )


def time_line(history: list[dict[str, Any]]) -> str:
    """Median seconds per update, split by phase; compilation only in the first updates."""
    rows = [row for row in history if "time/total_s" in row]
    if not rows:
        return ""

    def median(name: str) -> float:
        values = sorted(row.get(f"time/{name}_s", 0.0) for row in rows)
        return values[len(values) // 2]

    parts = ", ".join(f"{name} {median(name):.2f}" for name in ("rollout", "grade", "update"))
    return (
        f"seconds per update (median): {median('total'):.2f} = {parts}; "
        f"the first took {rows[0]['time/total_s']:.1f}, compilation included"
    )


def next_command(stage: str, preset: str, run_dir: Path) -> str:
    """Suggest what to run next."""
    again = f"python launch/train.py --preset {preset} --stage"
    return {
        "outcome": f"{again} asr    # the same problems with scaffolds",
        "asr": f"{again} outcome    # the baseline to compare with",
        "tp": f"{again} outcome    # the same problems without process rewards",
        "mix": f"{again} scope    # the two rewards one after the other",
        "qpr": f"python launch/evaluate.py --preset world --model {run_dir}    # step quality",
        "graft": f"python launch/probe.py graft --model {run_dir}    # by step, with intervals",
    }[stage]


def resume_command(argv: list[str], run_dir: Path) -> str:
    """Build the command that goes on with an interrupted run."""
    rest = [word for word in argv if word != "--resume"]
    if "--run-dir" not in rest and not any(word.startswith("--run-dir=") for word in rest):
        rest += ["--run-dir", str(run_dir)]
    return shlex.join(["python", "launch/train.py", *rest, "--resume"])

"""The plot of the scaffold probe (SCOPE-RL, Figure 1a)."""

from collections.abc import Sequence
from pathlib import Path

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.evaluate.scaffold_probe import Bin


def plot_probe(bins: Sequence[Bin], path: str | Path) -> None:
    """Draw main-answer accuracy by correct-prefix length under both prompts, as a PNG."""
    from matplotlib.figure import Figure

    x = [entry.prefix for entry in bins]
    scaffold = [100 * entry.scaffold_accuracy for entry in bins]
    below = [100 * (e.scaffold_accuracy - e.scaffold_interval[0]) for e in bins]
    above = [100 * (e.scaffold_interval[1] - e.scaffold_accuracy) for e in bins]
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(
        x, scaffold, yerr=[below, above], marker="o", capsize=3, label="scaffold prompt (95 %)"
    )
    axes.plot(x, [100 * e.original_accuracy for e in bins], "s--", label="original prompt")
    axes.set_xticks(x, [f"{entry.prefix}\nn={entry.num_samples:,}" for entry in bins])
    axes.set_xlabel("length of the correct prefix of sub-answers")
    axes.set_ylabel("main-answer accuracy, %")
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend()
    write_atomic(Path(path), lambda file: figure.savefig(file, format="png", dpi=150))

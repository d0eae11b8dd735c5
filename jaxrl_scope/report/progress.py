"""What a person sees while a run goes on."""

import sys
import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jaxrl_scope.config import TrainConfig

SHOWN = (
    ("reward", "reward/mean"),
    ("outcome", "outcome/mean"),
    ("eta_r", "eta_r"),
    ("routed", "route/share"),
    ("tokens", "response_length/mean"),
    ("entropy", "policy/entropy"),
)


class Reporter:
    """A progress bar with ETA on a terminal, plain lines elsewhere."""

    def __init__(self, config: TrainConfig):
        """Decide by whether standard output is a terminal."""
        self._config = config
        self._started = time.monotonic()
        self._first: int | None = None
        self._bar = None
        if sys.stdout.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[numbers]}"),
                console=Console(),
            )
            self._task = self._bar.add_task(config.stage, total=config.updates, numbers="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, update: int, metrics: Mapping[str, float]) -> None:
        """Show the few numbers that matter of one update."""
        numbers = "  ".join(f"{name} {metrics[m]:.3f}" for name, m in SHOWN if m in metrics)
        accuracy = metrics.get("eval/accuracy")
        if self._bar:
            self._bar.update(self._task, completed=update, numbers=numbers)
        if accuracy is not None:
            greedy = metrics.get("eval/accuracy_greedy")
            line = f"update {update:>4}  evaluation: accuracy {accuracy:.3f}"
            self._print(line + (f", greedy {greedy:.3f}" if greedy is not None else ""))
        if not self._bar and update and update % self._config.log.every == 0:
            self._print(f"update {update:>4}/{self._config.updates}  {numbers}{self._eta(update)}")
        self._first = update if self._first is None else self._first

    def _eta(self, update: int) -> str:
        done = update - (self._first or 0)
        if done <= 0:
            return ""
        left = (time.monotonic() - self._started) / done * (self._config.updates - update)
        return f"  ETA {int(left // 60)}:{int(left % 60):02d}"

    def _print(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, highlight=False)
        else:
            print(line, flush=True)

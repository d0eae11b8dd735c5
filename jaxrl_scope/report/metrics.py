"""Where numbers go: metrics.jsonl always, TensorBoard event files beside it."""

import importlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl_scope.data.rows import write_atomic


class MetricsWriter:
    """One JSON object per update in RUN/metrics.jsonl, and the same names in TensorBoard."""

    def __init__(
        self, run_dir: Path, *, tensorboard: bool, after_update: int, wandb_project: str = ""
    ):
        """Open for appending; rows of updates after `after_update` (a killed run's) are dropped.

        Raises:
          ValueError: a W&B project is asked for and the package is not there.
        """
        self._path = run_dir / "metrics.jsonl"
        keep = [row for row in read_metrics(self._path) if row["update"] <= after_update]
        write_text(self._path, "".join(map(_line, keep)))
        self._file = self._path.open("a")
        self._wandb = _open_wandb(wandb_project, run_dir) if wandb_project else None
        self._board = None
        if tensorboard:
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=after_update + 1)

    def write(self, update: int, metrics: Mapping[str, float]) -> None:
        """Append the numbers of one update; NaN and infinity become null."""
        self._file.write(_line({"update": update, **metrics}))
        self._file.flush()
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(name, value, update)
        if self._wandb is not None:
            self._wandb.log(dict(metrics), step=update)

    def close(self) -> None:
        """Write out what is buffered."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _open_wandb(project: str, run_dir: Path) -> Any:
    """Open a W&B run named and numbered by its directory, so that a resumed one goes on."""
    try:
        wandb = importlib.import_module("wandb")
    except ImportError as error:
        raise ValueError(
            "log.wandb needs the package: python -m pip install 'jaxrl-scope[wandb]'"
        ) from error
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", run_dir.name)
    config = json.loads((run_dir / "config.json").read_text())
    return wandb.init(
        project=project, name=name, id=name, dir=str(run_dir), resume="allow", config=config
    )


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl; no file gives no rows, a line cut short by a kill is left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def write_text(path: Path, text: str) -> None:
    """Replace a file at once: written beside it, synced, renamed."""
    write_atomic(path, lambda file: file.write(text.encode()))


def _line(row: Mapping[str, Any]) -> str:
    clean = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
    return json.dumps(clean) + "\n"

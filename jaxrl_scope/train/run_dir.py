"""The directory of a run: which one, whose it is, and whether it can be written."""

import json
import re
from pathlib import Path

from jaxrl_scope.config import TrainConfig, differences, to_dict
from jaxrl_scope.report.metrics import write_text


def choose_run_dir(config: TrainConfig) -> Path:
    """Return the directory a config asks for; without one, the next free name under `runs`.

    With `resume` and no directory, the latest of that name.
    """
    if config.run_dir:
        return Path(config.run_dir)
    root = Path("runs")
    base = f"{config.stage}-{config.preset}-s{config.seed}"
    pattern = re.compile(re.escape(base) + r"(?:-(\d+))?")
    matches = [pattern.fullmatch(p.name) for p in root.iterdir()] if root.is_dir() else []
    taken = [int(match[1] or 1) for match in matches if match]
    if config.resume:
        if not taken:
            raise ValueError(f"no run {base} under {root.resolve()} to resume; give --run-dir")
        number = max(taken)
    else:
        number = max(taken, default=0) + 1
    return root / (base if number == 1 else f"{base}-{number}")


def claim(run_dir: Path, config: TrainConfig) -> None:
    """Take a directory for a run: create it, or check that it holds this very run.

    Raises:
      ValueError: it holds a run and `resume` is not set, or one of other settings.
      OSError: it cannot be written.
    """
    record = run_dir / "config.json"
    if record.exists():
        if not config.resume:
            raise ValueError(
                f"{run_dir} already holds a run. Go on with it with --resume, or choose another "
                "--run-dir."
            )
        try:
            old = json.loads(record.read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{record} is not valid JSON ({error}); restore it") from error
        different = differences(old, to_dict(config))
        if different:
            raise ValueError(
                f"{run_dir} holds a run with other settings:\n  "
                + "\n  ".join(different)
                + "\nResume with the settings it was started with, or choose another --run-dir."
            )
        return
    if config.resume:
        raise ValueError(f"{run_dir} holds no run to resume (no config.json); leave --resume out")
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(record, json.dumps(to_dict(config), indent=2) + "\n")

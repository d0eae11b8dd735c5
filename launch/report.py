"""Report runs as one HTML page and PNG files: `python launch/report.py runs/asr-world-s0`.

Several runs are overlaid. The page needs no network and no server; a run that is going on can be
reported too.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import tyro

from jaxrl_scope.report.charts import draw, save_png, to_svg
from jaxrl_scope.report.metrics import write_text
from jaxrl_scope.report.page import read_run, render, unique_names
from jaxrl_scope.report.panels import PANELS


@dataclasses.dataclass(frozen=True)
class ReportConfig:
    """What to report.

    Attributes:
      runs: run directories of launch/train.py.
      out: directory of report.html and the PNG files; "" takes RUN/report of the first run.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: str = ""

    def __post_init__(self):
        if not self.runs:
            raise ValueError("name at least one run directory, such as runs/asr-world-s0")


def report(config: ReportConfig) -> Path:
    """Write the page and the pictures; returns the page."""
    runs = unique_names([read_run(path) for path in config.runs])
    out = Path(config.out) if config.out else config.runs[0] / "report"
    out.mkdir(parents=True, exist_ok=True)
    charts = []
    for number, panel in enumerate(PANELS, start=1):
        figure = draw(panel, {run.name: run.rows for run in runs})
        if figure is not None:
            wide = panel.kind == "stack" and len(runs) > 1
            charts.append((panel.title, to_svg(figure), wide))
            save_png(figure, out / f"{number:02d}.png")
    page = out / "report.html"
    write_text(page, render(runs, charts))
    return page


def main(argv: list[str]) -> int:
    """Run; returns the exit code, 2 for bad input."""
    try:
        config = tyro.cli(
            ReportConfig, args=argv, prog="python launch/report.py", description=__doc__
        )
        print(f"report: {report(config)}")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

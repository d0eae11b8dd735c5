"""Reproduce a table of the papers on the built-in world: `python launch/reproduce.py main`.

    python launch/reproduce.py main                      # 3 seeds, about half an hour on two cores
    python launch/reproduce.py asr --budget full         # 5 seeds
    python launch/reproduce.py qpr --seeds 2 --jobs 1

Every arm is trained with the same number of updates and evaluated from its last checkpoint. Runs
are kept under --out and shared between the tables; the same command goes on where it was stopped.
"""

import dataclasses
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

from jaxrl_scope.huge_pages import restart_with_huge_pages

if __name__ == "__main__":
    restart_with_huge_pages()
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import tyro

from jaxrl_scope.evaluate.run import write_json
from jaxrl_scope.presets import PRESETS
from jaxrl_scope.report.metrics import write_text
from jaxrl_scope.reproduce.arms import SEEDS, Arm, Budget
from jaxrl_scope.reproduce.claims import decide
from jaxrl_scope.reproduce.render import plot, to_json, to_markdown
from jaxrl_scope.reproduce.schedule import RunFailedError, Workshop, make_all
from jaxrl_scope.reproduce.tables import TABLES
from jaxrl_scope.train.sources import locate


@dataclasses.dataclass(frozen=True)
class ReproduceConfig:
    """What to reproduce.

    Attributes:
      table: name of the table.
      budget: "quick" takes 3 seeds, "full" 5.
      seeds: number of seeds; 0 takes the budget's.
      arms: keys of some of its arms (they name the directories under OUT/runs); all by default.
      jobs: runs at a time; 0 takes one per core.
      out: directory of runs, evaluations and tables.
      cache_dir: where the built-in world is kept; "" takes ~/.cache/jaxrl-scope.
    """

    table: Annotated[str, tyro.conf.Positional]
    budget: Budget = "quick"
    seeds: int = 0
    arms: tuple[str, ...] = ()
    jobs: int = 0
    out: Path = Path("reproductions")
    cache_dir: str = ""

    def __post_init__(self):
        if self.table not in TABLES:
            raise ValueError(f"unknown table {self.table!r}; known: {', '.join(TABLES)}")
        if self.seeds < 0 or self.jobs < 0:
            raise ValueError(f"seeds and jobs must not be negative: {self.seeds}, {self.jobs}")


def reproduce(config: ReproduceConfig) -> str:
    """Make the runs of a table, write TABLE.md, TABLE.json and TABLE.png, return the Markdown."""
    table = TABLES[config.table]()
    if config.arms:
        table = table.only(config.arms)
    seeds = range(config.seeds or SEEDS[config.budget])
    jobs = config.jobs or len(os.sched_getaffinity(0))
    shop = Workshop(config.out, config.cache_dir, jobs)
    for preset in sorted({arm.preset for arm in table.arms}):
        print(f"preset {preset}: building its world, if it is not in the cache", flush=True)
        locate(dataclasses.replace(PRESETS[preset]("asr"), cache_dir=config.cache_dir))
    total, done, began = len(table.arms) * len(seeds), 0, time.monotonic()

    def show(arm: Arm, seed: int, values: dict[str, float], seconds: float) -> None:
        nonlocal done
        done += 1
        left = (time.monotonic() - began) / done * (total - done)
        name = table.measures[0]
        print(
            f"[{done}/{total}] {arm.name}, seed {seed}: {name} {values.get(name, math.nan):.3f} "
            f"({seconds:.0f} s; about {left / 60:.0f} min left)",
            flush=True,
        )

    measures = make_all(table.arms, seeds, shop, show)
    outcomes = [decide(claim, measures) for claim in table.claims]
    text = to_markdown(table, measures, outcomes)
    write_text(config.out / f"{config.table}.md", text)
    write_json(config.out / f"{config.table}.json", to_json(table, measures, outcomes))
    plot(table, seeds, config.out / "runs", config.out / f"{config.table}.png")
    return text


def main(argv: list[str]) -> int:
    """Run; returns the exit code: 2 for bad input, 1 if it was stopped or a run failed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        config = tyro.cli(
            ReproduceConfig, args=argv, prog="python launch/reproduce.py", description=__doc__
        )
        print(f"\n{reproduce(config)}")
        print(f"written: {config.out / config.table}.md, .json, .png")
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 1
    except RunFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

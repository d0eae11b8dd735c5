"""Sample rollouts of a run: RUN/samples.jsonl for programs, samples.txt for people."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.report.metrics import read_metrics, write_text
from jaxrl_scope.train.experience import Sample

VERDICTS = {1: "correct", 0: "incorrect", -1: "not graded"}


class SampleWriter:
    """A few rollouts in words, a JSON object each, with the update that they are of."""

    def __init__(self, run_dir: Path, *, after_update: int):
        """Open for appending; samples of later updates (a killed run's) are dropped."""
        self._path = run_dir / "samples.jsonl"
        keep = [row for row in read_samples(run_dir) if row["update"] <= after_update]
        write_text(self._path, "".join(json.dumps(row) + "\n" for row in keep))
        self._file = self._path.open("a")

    def write(self, update: int, samples: Sequence[Sample]) -> None:
        """Append the samples of one update."""
        for sample in samples:
            self._file.write(json.dumps({"update": update, **dataclasses.asdict(sample)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Write out what is buffered."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def read_samples(run_dir: Path) -> list[dict[str, Any]]:
    """The samples of a run, oldest first; none if it has no file."""
    return read_metrics(run_dir / "samples.jsonl")


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write rollouts as text."""
    blocks = [
        f"problem {s.problem_id}  {'scaffold' if s.scaffolded else 'original'} prompt  "
        f"{VERDICTS[s.verdict]}  reward {s.reward:.3f}\n"
        f"  prompt:   {s.prompt}\n  response: {s.response}\n"
        for s in samples
    ]
    write_text(path, "\n".join(blocks))

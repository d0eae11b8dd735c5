"""Batches of a pipeline's phase on disk: rollouts first, then the experience made of them."""

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.rollout.types import Rollouts
from jaxrl_scope.stages.base import Groups, decode
from jaxrl_scope.stages.phased import Rolled
from jaxrl_scope.train.experience import Experience, Sample

_ROLLED, _EXPERIENCE = "rollouts", "experience"


class PhaseFiles:
    """One npz file per update and kind in a directory, each written at once or not at all."""

    def __init__(self, directory: Path):
        """Create the directory when the first file is written."""
        self.directory = directory

    def has(self, update: int) -> bool:
        """Whether the batch of an update has been rolled out."""
        return self._path(update, _ROLLED).exists() or self.has_experience(update)

    def has_experience(self, update: int) -> bool:
        """Whether the batch of an update has been rewarded."""
        return self._path(update, _EXPERIENCE).exists()

    def save_rolled(self, update: int, rolled: Rolled) -> None:
        """Write rollouts and verdicts."""
        prompts = rolled.groups.prompt_ids
        arrays = _arrays(rolled.groups.rollouts) | {
            "verdicts": rolled.verdicts,
            "prompt_ids": np.concatenate(prompts),
            "prompt_len": np.array([len(ids) for ids in prompts], np.int32),
        }
        self._write(self._path(update, _ROLLED), arrays)

    def load_rolled(self, update: int, tokenizer: Any) -> Rolled | None:
        """Read what `save_rolled` wrote; None if it is not there or is damaged."""
        arrays = _read(self._path(update, _ROLLED))
        if arrays is None:
            return None
        verdicts = arrays.pop("verdicts")
        cuts = np.cumsum(arrays.pop("prompt_len"))[:-1]
        prompt_ids = np.split(arrays.pop("prompt_ids"), cuts)
        rollouts = Rollouts(**arrays)
        return Rolled(Groups(prompt_ids, rollouts, decode(tokenizer, rollouts)), verdicts)

    def save_experience(self, update: int, experience: Experience) -> None:
        """Write an experience, its metrics and samples included."""
        words = {
            "metrics": dict(experience.metrics),
            "samples": [dataclasses.asdict(sample) for sample in experience.samples],
        }
        arrays = _arrays(experience) | {"words": np.array(json.dumps(words))}
        self._write(self._path(update, _EXPERIENCE), arrays)

    def load_experience(self, update: int) -> Experience | None:
        """Read what `save_experience` wrote; None if it is not there or is damaged."""
        arrays = _read(self._path(update, _EXPERIENCE))
        if arrays is None:
            return None
        words = json.loads(str(arrays.pop("words")))
        samples = tuple(
            Sample(**sample | {"steps": tuple(map(tuple, sample["steps"]))})
            for sample in words["samples"]
        )
        return Experience(**arrays, metrics=words["metrics"], samples=samples)

    def drop_until(self, update: int) -> None:
        """Delete the files of updates up to and with `update`, and what a kill left unfinished."""
        for path in self.directory.glob(".*.npz.*"):
            path.unlink()
        for path in self.directory.glob("*.npz"):
            if int(path.name.split("-")[0]) <= update:
                path.unlink()

    def _path(self, update: int, kind: str) -> Path:
        return self.directory / f"{update:06d}-{kind}.npz"

    def _write(self, path: Path, arrays: dict[str, Any]) -> None:
        write_atomic(path, lambda file: np.savez(file, **arrays))


def _arrays(value: Any) -> dict[str, np.ndarray]:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: x for name, x in fields.items() if isinstance(x, np.ndarray)}


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """Arrays of a file; one that cannot be read is deleted, so that it is made again."""
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, zipfile.BadZipFile):
        path.unlink()
        return None

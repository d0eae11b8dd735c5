"""Rollouts kept on disk, and a sampler that answers from them instead of generating.

With recorded rollouts a change of the verifier, of a reward or of the loss can be tried on exactly
what the policy said, without the policy.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.rollout.types import Request, Rollouts, Sampler, SamplingParams

FIELDS = tuple(field.name for field in dataclasses.fields(Rollouts))


class RecordingSampler:
    """Hands on what another sampler generates, and keeps it: a file per call."""

    def __init__(self, sampler: Sampler, folder: Path):
        """Keep files in `folder`, which is created if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self._sampler, self._folder = sampler, folder
        self._calls: dict[int, int] = {}

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        """Sample, and write `UPDATE-CALL.npz`; an update made again after a resume overwrites."""
        rollouts = self._sampler.generate(requests, params)
        call = self._calls.get(params.update, 0)
        self._calls[params.update] = call + 1
        arrays: dict[str, Any] = {name: getattr(rollouts, name) for name in FIELDS}
        arrays["keys"] = np.array([request.key for request in requests], np.int64)
        arrays["temperature"] = np.float64(params.temperature)
        path = self._folder / f"{params.update:06d}-{call:03d}.npz"
        write_atomic(path, lambda file: np.savez_compressed(file, **arrays))
        return rollouts

    def load(self, params: object, version: int) -> None:
        """Hand the weights on."""
        self._sampler.load(params, version)

    def metrics(self) -> dict[str, float]:
        """Those of the other sampler."""
        return self._sampler.metrics()

    def rest(self) -> None:
        """Let the other sampler rest."""
        self._sampler.rest()

    def stop_waiting(self) -> None:
        """Let the other sampler stop waiting."""
        self._sampler.stop_waiting()

    def close(self) -> None:
        """Close the other sampler."""
        self._sampler.close()


class ReplaySampler:
    """Answers requests with the rollouts that a `RecordingSampler` kept."""

    def __init__(self, folder: Path):
        """Open a folder of recorded rollouts.

        Raises:
          ValueError: there are none.
        """
        if not any(folder.glob("*.npz")):
            raise ValueError(
                f"no recorded rollouts in {folder}: expected UPDATE-CALL.npz files, which a run "
                "with --rollout.save writes to RUN/rollouts"
            )
        self._folder = folder
        self._update = -1
        self._rows: dict[tuple[int, float], Rollouts] = {}

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        """Return what was recorded for the same update, prompts and temperature.

        Raises:
          ValueError: a request was not recorded, or with another number of rollouts.
        """
        if params.update != self._update:
            self._rows = self._read(params.update)
            self._update = params.update
        found = []
        for request in requests:
            row = self._rows.get((request.key, params.temperature))
            count = 0 if row is None else row.response_len.shape[1]
            if row is None or count != params.num_rollouts:
                raise ValueError(
                    f"{self._folder} has {count} rollouts of a prompt of update {params.update} "
                    f"at temperature {params.temperature:g}, the run asks for "
                    f"{params.num_rollouts}. Replay with the data, seed, group size and stage "
                    "that the rollouts were recorded with."
                )
            found.append(row)
        return stack(found)

    def _read(self, update: int) -> dict[tuple[int, float], Rollouts]:
        rows = {}
        for path in sorted(self._folder.glob(f"{update:06d}-*.npz")):
            with np.load(path) as file:
                arrays = {name: file[name] for name in FIELDS}
                for i, key in enumerate(file["keys"].tolist()):
                    row = Rollouts(**{name: array[i : i + 1] for name, array in arrays.items()})
                    rows[key, float(file["temperature"])] = row
        return rows

    def load(self, params: object, version: int) -> None:
        """Weights play no part."""

    def metrics(self) -> dict[str, float]:
        """Nothing: no rollout is new."""
        return {}

    def rest(self) -> None:
        """Nothing is held."""

    def stop_waiting(self) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """Nothing to release."""


def stack(rows: Sequence[Rollouts]) -> Rollouts:
    """Join groups [1, G, T] of different widths T into one [B, G, T]."""
    width = max(row.response_ids.shape[-1] for row in rows)

    def widen(array: np.ndarray) -> np.ndarray:
        if array.ndim < 3:
            return array
        return np.pad(array, [(0, 0), (0, 0), (0, width - array.shape[-1])])

    return Rollouts(
        **{name: np.concatenate([widen(getattr(row, name)) for row in rows]) for name in FIELDS}
    )

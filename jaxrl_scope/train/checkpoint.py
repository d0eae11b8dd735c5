"""Checkpoints: one atomic orbax step holds everything that a resumed run needs."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from jaxrl_scope.train.update import TrainState

BEST_METRIC = "eval/accuracy"


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """When checkpoints are written and which are kept.

    Attributes:
      every: updates between checkpoints; one is also written at every evaluation and at the end.
      keep: latest checkpoints kept, besides the best one by validation accuracy.
    """

    every: int = 10
    keep: int = 2

    def __post_init__(self):
        if self.every < 1 or self.keep < 1:
            raise ValueError(
                f"checkpoint.every and checkpoint.keep must be at least 1, got {self.every} and "
                f"{self.keep}"
            )


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a run knows besides its tensors.

    Attributes:
      update: updates done; with the seed it is also the cursor of the data and of the random
        stream, since both are functions of (seed, update).
      seed: the run's seed.
      best_update: update of the best evaluation so far, -1 for none.
      best_accuracy: its accuracy on the validation problems.
    """

    update: int = 0
    seed: int = 0
    best_update: int = -1
    best_accuracy: float = -1.0


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read or written."""


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, directory: Path, config: CheckpointConfig):
        """Open `directory`, which is created if it is missing."""
        self._directory = directory
        self._manager = ocp.CheckpointManager(
            directory,
            options=ocp.CheckpointManagerOptions(
                # Written before the next update starts: a run killed at any moment has lost at
                # most the updates since the last checkpoint.
                enable_async_checkpointing=False,
                preservation_policy=policies.AnyPreservationPolicy(
                    [
                        policies.LatestN(n=config.keep),
                        policies.BestN(
                            get_metric_fn=lambda metrics: metrics[BEST_METRIC],
                            n=1,
                            keep_checkpoints_without_metrics=False,
                        ),
                    ]
                ),
            ),
        )

    def save(self, state: TrainState, progress: Progress, accuracy: float | None = None) -> None:
        """Write one checkpoint, named by its update.

        Args:
          state: the tensors.
          progress: the rest.
          accuracy: on the validation problems, if they were evaluated at this update.

        Raises:
          CheckpointError: it could not be written; earlier checkpoints are as they were.
        """
        if progress.update in self._manager.all_steps():
            return
        try:
            self._manager.save(
                progress.update,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(flatten(state)),
                    progress=ocp.args.JsonSave(dataclasses.asdict(progress)),
                ),
                metrics=None if accuracy is None else {BEST_METRIC: accuracy},
            )
        except (OSError, ValueError) as error:
            self._discard(progress.update)
            raise CheckpointError(
                f"the checkpoint of update {progress.update} could not be written to "
                f"{self._directory}: {error}. Earlier checkpoints are intact "
                f"({sorted(self._manager.all_steps())}); make room and go on with --resume."
            ) from error

    def restore(self, like: TrainState, update: int | None = None) -> tuple[TrainState, Progress]:
        """Read a checkpoint, the latest readable one by default.

        A checkpoint that cannot be read is passed over for the one before it, with a warning.

        Args:
          like: state of the same shapes and shardings; its values are not read.
          update: which checkpoint; None for the latest.

        Raises:
          CheckpointError: none can be read.
        """
        steps = sorted(self._manager.all_steps(), reverse=True) if update is None else [update]
        problems = []
        for step in steps:
            try:
                return self._read(like, step)
            except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
                problems.append(f"update {step}: {str(error).splitlines()[0][:200]}")
                if len(steps) > 1:
                    print(f"warning: passing over an unreadable checkpoint, {problems[-1]}")
        raise CheckpointError(
            f"no readable checkpoint in {self._directory} "
            f"({'; '.join(problems) if problems else 'there is none'})"
        )

    def _read(self, like: TrainState, step: int) -> tuple[TrainState, Progress]:
        restored = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(
                    jax.tree.map(ocp.utils.to_shape_dtype_struct, flatten(like))
                ),
                progress=ocp.args.JsonRestore(),
            ),
        )
        return unflatten(like, restored["state"]), Progress(**restored["progress"])

    def drop_after(self, update: int) -> None:
        """Delete checkpoints of later updates: unreadable ones that a resume passed over."""
        for step in self._manager.all_steps():
            if step > update:
                self._discard(step)
        self._manager.reload()

    def _discard(self, step: int) -> None:
        shutil.rmtree(self._directory / str(step), ignore_errors=True)

    def latest(self) -> int | None:
        """Update of the latest checkpoint; None if there is none."""
        return self._manager.latest_step()

    def close(self) -> None:
        """Wait for pending writes."""
        self._manager.close()


def flatten(state: TrainState) -> dict[str, Any]:
    """Name every leaf by its path: a plain dict that any orbax reader can open."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def unflatten(like: TrainState, leaves: dict[str, Any]) -> TrainState:
    """Undo `flatten`, given a state of the same structure."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    return structure.unflatten([leaves[jax.tree_util.keystr(path)] for path, _ in paths])

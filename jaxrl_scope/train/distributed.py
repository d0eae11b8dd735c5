"""Several processes as one: `jax.distributed`, told by the environment."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import jax
from jax.experimental import multihost_utils

from jaxrl_scope.config import TrainConfig

ADDRESS, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


def initialize() -> bool:
    """Join the other processes of a run, if the environment names them; call before using devices.

    JAX_COORDINATOR_ADDRESS (host:port of process 0), JAX_NUM_PROCESSES and JAX_PROCESS_ID are set
    by whoever starts the processes, the same program with the same arguments in each.

    Returns:
      Whether there are several processes.

    Raises:
      ValueError: only some of the three are set, or they are no such numbers.
    """
    values = {name: os.environ.get(name, "") for name in (ADDRESS, COUNT, INDEX)}
    if not any(values.values()):
        return False
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise ValueError(
            f"{', '.join(values)} go together; not set: {', '.join(missing)}. Set all three to "
            "run in several processes, or none."
        )
    numbers = values[COUNT], values[INDEX]
    if not all(n.isdigit() for n in numbers) or not int(values[INDEX]) < int(values[COUNT]):
        raise ValueError(
            f"expected {COUNT} >= 1 and 0 <= {INDEX} < {COUNT}, got {numbers[0]!r} and "
            f"{numbers[1]!r}"
        )
    jax.distributed.initialize(values[ADDRESS], int(values[COUNT]), int(values[INDEX]))
    return int(values[COUNT]) > 1


def check_processes(config: TrainConfig) -> None:
    """Check that a run can be made by several processes.

    Raises:
      ValueError: no run directory that all agree on, rollouts on servers (each process would start
        its own), two stages in one command, or a mesh that does not take every device.
    """
    if not config.run_dir:
        raise ValueError(
            "several processes need the same --run-dir, on a file system that all of them share"
        )
    if config.rollout.engine != "jax":
        raise ValueError("several processes roll out with --rollout jax only")
    if config.stage == "scope":
        raise ValueError(
            "several processes make one stage a command: --stage asr, then --stage qpr with "
            "--model.path"
        )
    if config.mesh.num_devices != jax.device_count():
        raise ValueError(
            f"the mesh takes {config.mesh.num_devices} devices, the {jax.process_count()} "
            f"processes have {jax.device_count()}; all must be in it"
        )


@contextlib.contextmanager
def first_process_first(name: str) -> Iterator[None]:
    """The first process does the block while the others wait; then they do it too."""
    if jax.process_count() > 1 and jax.process_index() > 0:
        multihost_utils.sync_global_devices(name)
    yield
    if jax.process_count() > 1 and jax.process_index() == 0:
        multihost_utils.sync_global_devices(name)


def process_dir(run_dir: Path) -> Path:
    """Where this process writes its own files: the first one into the run directory itself."""
    index = jax.process_index()
    return run_dir / f"process-{index}" if index else run_dir

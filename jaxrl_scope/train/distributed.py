"""Several processes as one: `jax.distributed`, told by the environment."""

import os

import jax

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

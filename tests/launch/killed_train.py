"""Runs launch/train.py and kills it in a phase: `killed_train.py PHASE CALL DELAY -- ARGUMENTS`.

The process gets SIGKILL, DELAY seconds after the phase's function is called for the CALLth time.
"""

import os
import signal
import sys
import threading

import orbax.checkpoint as ocp

from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.train.update import Updater
from launch import train

PHASES = {
    "rollout": (JaxSampler, "generate"),
    "grading": (VerifierPool, "verify_batch"),
    "update": (Updater, "update"),
    "checkpoint": (ocp.CheckpointManager, "save"),
    "hand-over": (train, "prepare"),
}


def kill_in(phase: str, call: int, delay: float) -> None:
    """Wrap the function of a phase."""
    owner, name = PHASES[phase]
    function, calls = getattr(owner, name), 0

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return function(*args, **kwargs)

    setattr(owner, name, counted)


if __name__ == "__main__":
    kill_in(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    sys.exit(train.main(sys.argv[5:]))

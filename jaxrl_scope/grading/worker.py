"""The program of a verifier worker: reads questions from stdin, writes outcomes to stdout.

One JSON object a line each way. Started by `workers.WorkerGroup` as a fresh interpreter, so that
nothing of the trainer (JAX, its threads, its main module) is in it. Everything that could run away
here is bounded from outside: memory and CPU time by the kernel, wall time by the parent's SIGKILL.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import sys
from typing import IO

from jaxrl_scope.grading.equivalence.answers import equivalent
from jaxrl_scope.grading.equivalence.limits import LimitExceededError

_PR_SET_PDEATHSIG = 1
_MAX_ANSWERS = 20_000  # caches of the maths libraries grow; a fresh worker is cheap


def main() -> None:
    """Serve until stdin closes, the parent dies, or memory has grown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--memory-limit-mb", type=float, required=True)
    parser.add_argument("--cpu-limit-s", type=float, required=True)
    args = parser.parse_args()
    _die_with_parent(args.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    # What a library prints must not reach the pipe of answers.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import mpmath  # noqa: F401 - loaded before the first clock runs

    memory = int(args.memory_limit_mb * 2**20)
    ceiling = _pages(0) + memory
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    _send(pipe, {"ready": True})
    for count, line in enumerate(sys.stdin, start=1):
        _extend_cpu_limit(args.cpu_limit_s)
        reply = _answer(json.loads(line), pipe, args.cpu_limit_s)
        reply["last"] = (
            reply.get("failed") == "memory" or count >= _MAX_ANSWERS or _pages(1) > memory // 2
        )
        _send(pipe, reply)
        if reply["last"]:
            return


def _answer(question: dict[str, str | None], pipe: IO[str], cpu_limit_s: float) -> dict:
    gold, answer, task = question["gold"], question["answer"], question["task"]
    assert gold is not None
    assert answer is not None
    if question.get("symbolic"):
        import latex2sympy2_extended  # noqa: F401
        import sympy  # noqa: F401

        _send(pipe, {"started": True})  # imports are not the answer's time
        _extend_cpu_limit(cpu_limit_s)
    try:
        return {"correct": equivalent(gold, answer, task=task, allow_numeric=True)}
    except (LimitExceededError, RecursionError):
        return {"failed": "limit"}
    except MemoryError:
        return {"failed": "memory"}


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        sys.exit(1)


def _extend_cpu_limit(seconds: float) -> None:
    """Let the kernel end this process if nobody else does: a backstop for a parent that is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _pages(column: int) -> int:
    """Return bytes of address space (0) or resident memory (1) of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[column]) * resource.getpagesize()


def _send(pipe: IO[str], message: dict) -> None:
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


if __name__ == "__main__":
    main()

"""Many runs at once: slots, a thread for each, and a memory of verdicts."""

import collections
import dataclasses
import hashlib
import json
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from jaxrl_scope.grading.sandbox.slot import Slot
from jaxrl_scope.grading.sandbox.types import Limits, Run, RunResult, SandboxError, Status
from jaxrl_scope.grading.sandbox.wire import encode

PRELOAD = ("numpy", "numpy.linalg", "numpy.random")
PRELOAD_SCIENCE = (
    *PRELOAD,
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
)
_MAX_REMEMBERED = 200_000


class SandboxPool:
    """Runs programs against tests, each run in processes and namespaces of its own.

    Slots start when first needed. Equal runs are made once: with the same program, tests and seed
    the verdict is the same, and a policy writes the same code often. Runs that ended by a limit are
    not remembered. Safe to call from any thread. Use as a context manager, or call `close`.

    Args:
      num_workers: runs at a time; each takes two small fork servers.
      limits: of each run.
      preload: modules that the fork servers import once, so that runs need not.
      allow_unisolated: run even where the kernel gives no namespaces.

    Attributes:
      counts: runs asked for, by status, and "remembered".
      executed_s: seconds spent in runs that were made, summed over the slots.
      executed: their number.
    """

    def __init__(
        self,
        num_workers: int = 2,
        limits: Limits | None = None,
        *,
        preload: Sequence[str] = PRELOAD,
        allow_unisolated: bool = False,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        self.counts: collections.Counter[str] = collections.Counter()
        self.executed = 0
        self.executed_s = 0.0
        self._limits = limits or Limits()
        self._preload = tuple(preload)
        self._allow_unisolated = allow_unisolated
        self._remembered: collections.OrderedDict[bytes, RunResult] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._slots: list[Slot] = []
        self._free: list[Slot] = []
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="sandbox")
        self._finalizer = weakref.finalize(self, _close_all, self._threads, self._slots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. Harmless when repeated."""
        self._finalizer()

    @property
    def isolation(self) -> str:
        """What protects the host, in words; starts the first slot.

        Raises:
          SandboxError: nothing does, and that was not allowed.
        """
        slot = self._take()
        self._give_back(slot)
        if slot.isolation == "none":
            return "none: resource limits only, code runs with your rights"
        return "namespaces (user, mount, network, IPC, process), seccomp, read-only root"

    def run(self, run: Run) -> RunResult:
        """Run one program; see `run_batch`."""
        return self.run_batch([run])[0]

    def run_batch(self, runs: Sequence[Run]) -> list[RunResult]:
        """Run programs against their tests; results in order.

        Raises:
          SandboxError: no isolation, or the servers cannot be started.
        """
        keys = [run_key(run) for run in runs]
        distinct = dict(zip(keys, runs, strict=True))
        with self._lock:
            known = {key: self._remembered[key] for key in distinct if key in self._remembered}
        missing = [key for key in distinct if key not in known]
        results = self._threads.map(self._execute, [distinct[key] for key in missing])
        made = dict(zip(missing, results, strict=True))
        with self._lock:
            for key, result in made.items():
                self.executed_s += result.seconds
                if result.status in (Status.PASS, Status.FAIL):
                    self._remembered[key] = result
            self.executed += len(made)
            while len(self._remembered) > _MAX_REMEMBERED:
                self._remembered.popitem(last=False)
            everything = known | made
            self.counts.update(everything[key].status.value for key in keys)
            self.counts["remembered"] += len(runs) - len(made)
        return [everything[key] for key in keys]

    def _execute(self, run: Run) -> RunResult:
        slot = self._take()  # raises where there is no isolation: that is no verdict
        try:
            result = slot.run(run)
        except SandboxError as error:
            slot.close()
            with self._lock:
                self._slots.remove(slot)
            return RunResult(Status.NA, str(error))
        self._give_back(slot)
        return result

    def _take(self) -> Slot:
        with self._lock:
            if self._free:
                return self._free.pop()
        slot = Slot(self._limits, self._preload, allow_unisolated=self._allow_unisolated)
        with self._lock:
            self._slots.append(slot)
        return slot

    def _give_back(self, slot: Slot) -> None:
        with self._lock:
            self._free.append(slot)


def run_key(run: Run) -> bytes:
    """Name a run by its content."""
    fields = dataclasses.asdict(run) | {"targets": [encode(target) for target in run.targets]}
    return hashlib.sha256(json.dumps(fields).encode()).digest()


def _close_all(threads: ThreadPoolExecutor, slots: list[Slot]) -> None:
    threads.shutdown(wait=True, cancel_futures=True)
    for slot in slots:
        slot.close()
    slots.clear()

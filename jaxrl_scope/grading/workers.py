"""Worker processes that can be killed, and the one thread that owns them.

Any thread submits questions and waits on futures; only the dispatcher thread starts, feeds, times
and kills workers, so there is nothing to lock around a process. Workers are started by
`subprocess` as fresh interpreters: forking a process whose JAX threads hold locks can deadlock, and
`multiprocessing` would import the caller's main module again.
"""

import collections
import contextlib
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from jaxrl_scope.grading.verdicts import Verdict

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_STARTUP_LIMIT_S = 120.0  # an import on a loaded machine
_MAX_FAILED_STARTS = 3


class Question(NamedTuple):
    """What is compared; equal questions have equal outcomes."""

    gold: str
    answer: str
    task: str | None = None


class Outcome(NamedTuple):
    """A verdict, and for FAILED the reason: limit, timeout, memory, crash or gold."""

    verdict: Verdict
    reason: str = ""


class _Job(NamedTuple):
    question: Question
    symbolic: bool
    future: Future[Outcome]


class _Worker:
    """One process and the job it is on. Used by the dispatcher thread only."""

    def __init__(self, wall_limit_s: float, memory_limit_mb: float) -> None:
        path = os.pathsep.join([_PACKAGE_ROOT, *filter(None, sys.path)])
        command = [sys.executable, "-m", "jaxrl_scope.grading.worker"]
        command += ["--parent", str(os.getpid()), "--memory-limit-mb", str(memory_limit_mb)]
        command += ["--cpu-limit-s", str(wall_limit_s)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ
            | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.wall_limit_s = wall_limit_s
        self.deadline = time.monotonic() + _STARTUP_LIMIT_S
        self.is_ready = False
        self.job: _Job | None = None
        self.received = b""

    def send(self, job: _Job) -> None:
        """Give an idle worker a job and start its clock."""
        self.job = job
        message = {**job.question._asdict(), "symbolic": job.symbolic}
        # Below the 64 KiB that a pipe holds, so this never blocks: answers are bounded.
        with contextlib.suppress(BrokenPipeError):  # its death is seen on stdout
            self.stdin.write(json.dumps(message).encode() + b"\n")
        limit = _STARTUP_LIMIT_S if job.symbolic else self.wall_limit_s
        self.deadline = time.monotonic() + limit

    def receive(self) -> list[dict] | None:
        """Return the complete messages that have come in; None if the process is gone."""
        chunk = os.read(self.stdout.fileno(), 65536)
        if not chunk:
            return None
        *lines, self.received = (self.received + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """Kill the process and wait for it, so that no zombie stays."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()


class WorkerGroup:
    """Up to `num_workers` processes, started when first needed.

    Args:
      num_workers: processes at most.
      wall_limit_s: seconds one question may take before its worker is killed.
      memory_limit_mb: MiB that a worker may allocate beyond what it holds when idle.
    """

    def __init__(self, num_workers: int, wall_limit_s: float, memory_limit_mb: float) -> None:
        self._num_workers = num_workers
        self._wall_limit_s = wall_limit_s
        self._memory_limit_mb = memory_limit_mb
        self._lock = threading.Lock()
        self._pid = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, question: Question, *, symbolic: bool = False) -> Future[Outcome]:
        """Queue a question.

        Args:
          question: what to compare.
          symbolic: it needs sympy, whose import is not counted as the answer's time.

        Raises:
          ValueError: the group is closed.
        """
        future: Future[Outcome] = Future()
        if self._pid not in (0, os.getpid()):
            self._lock = threading.Lock()  # a fork: the dispatcher stayed with the parent
            self._thread = None
        with self._lock:
            if self._closed:
                raise ValueError("the verifier pool is closed; create a new one")
            if self._thread is None:
                self._start()
            self._inbox.put(_Job(question, symbolic, future))
        self._wake()
        return future

    def close(self) -> None:
        """Kill all workers; questions still open come back as failed. Harmless when repeated."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            self._wake()
            thread.join()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._inbox: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="verifier", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake anyway
            os.write(self._wake_write, b"x")

    # The dispatcher thread.

    def _run(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._workers: list[_Worker] = []
        self._pending: collections.deque[_Job] = collections.deque()
        self._failed_starts = 0
        try:
            while not self._closed:
                self._assign()
                for key, _ in self._selector.select(self._time_to_deadline()):
                    if key.data is None:
                        os.read(self._wake_read, 65536)
                    else:
                        self._hear(key.data)
                self._end_overdue()
        finally:
            self._shut_down()

    def _assign(self) -> None:
        """Give queued jobs to idle workers; start workers while jobs outnumber them."""
        while not self._inbox.empty():
            self._pending.append(self._inbox.get())
        for worker in self._workers:
            if self._pending and worker.is_ready and worker.job is None:
                worker.send(self._pending.popleft())
        starting = sum(not worker.is_ready for worker in self._workers)
        while len(self._workers) < self._num_workers and len(self._pending) > starting:
            worker = _Worker(self._wall_limit_s, self._memory_limit_mb)
            self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
            self._workers.append(worker)
            starting += 1

    def _time_to_deadline(self) -> float | None:
        deadlines = [
            worker.deadline for worker in self._workers if worker.job or not worker.is_ready
        ]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _hear(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        messages = worker.receive()
        if messages is None:
            self._drop(worker, "crash")
            return
        for message in messages:
            if "ready" in message:
                worker.is_ready = True
                self._failed_starts = 0
            elif "started" in message:
                worker.deadline = time.monotonic() + self._wall_limit_s
            else:
                self._finish(worker, _outcome(message))
                if message["last"]:
                    self._drop(worker, "crash")

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if (worker.job or not worker.is_ready) and worker.deadline <= now:
                self._drop(worker, "timeout")

    def _finish(self, worker: _Worker, outcome: Outcome) -> None:
        job, worker.job = worker.job, None
        if job is not None:
            job.future.set_result(outcome)

    def _drop(self, worker: _Worker, reason: str) -> None:
        """End a worker, and the job it was on."""
        self._workers.remove(worker)
        self._selector.unregister(worker.stdout)
        worker.end()
        self._finish(worker, Outcome(Verdict.FAILED, reason))
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self._fail_all(
                    RuntimeError(
                        f"verifier workers do not start: {self._failed_starts} attempts ended with "
                        f"exit status {worker.process.returncode}; see stderr for the reason"
                    )
                )

    def _fail_all(self, error: Exception) -> None:
        self._failed_starts = 0
        while self._pending:
            self._pending.popleft().future.set_exception(error)

    def _shut_down(self) -> None:
        for worker in list(self._workers):
            self._drop(worker, "closed")
        while not self._inbox.empty():
            self._pending.append(self._inbox.get())
        while self._pending:
            self._pending.popleft().future.set_result(Outcome(Verdict.FAILED, "closed"))
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _outcome(message: dict) -> Outcome:
    if "failed" in message:
        return Outcome(Verdict.FAILED, message["failed"])
    return Outcome(Verdict.CORRECT if message["correct"] else Verdict.INCORRECT)

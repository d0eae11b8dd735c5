"""The servers of a run: who is ready, who takes the next request, and one version on all of them.

A server that stops answering is started again (or, if it is not ours, waited for) and given the
current weights before it gets a request. Weights change on all servers or on none.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jaxrl_scope.rollout.vllm.client import (
    Client,
    RolloutError,
    ServerGoneError,
    ServerRefusedError,
)
from jaxrl_scope.rollout.vllm.server import ServerProcess, ServerStartError

_HEALTH_S = 5.0


class SyncError(RolloutError):
    """Weights could not be put on the servers; the message says which version they are on."""


class NoServerError(RolloutError):
    """No server is left to roll out on."""


@dataclasses.dataclass
class Server:
    """One server.

    Attributes:
      client: speaks to it.
      process: None for one that is not ours.
      ready: whether it takes requests: it is up and on the current version.
      reviving: whether a thread of ours is bringing it back; a sync leaves it to that.
      gone: given up for good.
      in_flight: requests it works on.
      restarts: times it was started again.
    """

    client: Client
    process: ServerProcess | None = None
    ready: bool = False
    reviving: bool = False
    gone: bool = False
    in_flight: int = 0
    restarts: int = 0


class Fleet:
    """Servers that hold the same weights. Thread-safe."""

    def __init__(
        self,
        clients: list[Client],
        start: Callable[[int], ServerProcess] | None,
        *,
        max_in_flight: int,
        restarts: int,
        start_timeout_s: float,
    ):
        """Start the servers and wait until all answer.

        Args:
          clients: one per server.
          start: starts server i; None if they are not ours.
          max_in_flight: requests per server.
          restarts: of each server, before it is given up.
          start_timeout_s: seconds a server may take to answer.

        Raises:
          ServerStartError: one does not; all that were started are stopped.
        """
        self._start, self._max_in_flight = start, max_in_flight
        self._restarts, self._start_timeout_s = restarts, start_timeout_s
        self._change = threading.Condition()
        self._sync_lock = threading.Lock()  # no version changes while a server is being revived
        self._current: tuple[Path, int] | None = None
        self._closed = False
        self._impatient = False
        self.num_restarts = 0
        self.servers = [
            Server(client, start(i) if start else None) for i, client in enumerate(clients)
        ]
        try:
            self._on_all(self.servers, self._wait_up)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def lease(self) -> Iterator[Server]:
        """Take the least busy server for one request; waits while all are full or being revived.

        Raises:
          NoServerError: none is left, or none is up and `stop_waiting` was called.
        """
        with self._change:
            while not (able := [s for s in self.servers if self._able(s)]):
                if all(server.gone for server in self.servers) or self._closed:
                    raise NoServerError(
                        "every vLLM server is gone; see their logs under RUN/vllm. The last "
                        "checkpoint is intact: go on with --resume"
                    )
                if self._impatient and not any(server.ready for server in self.servers):
                    raise NoServerError(
                        "told to stop while no vLLM server was up; the last checkpoint is intact: "
                        "go on with --resume"
                    )
                self._change.wait(1.0)
            server = min(able, key=lambda s: s.in_flight)
            server.in_flight += 1
        try:
            yield server
        finally:
            with self._change:
                server.in_flight -= 1
                self._change.notify_all()

    def stop_waiting(self) -> None:
        """From now on, wait for busy servers only; safe to call from a signal handler."""
        self._impatient = True  # seen within a second; the lock may be held by this very thread

    def _able(self, server: Server) -> bool:
        return server.ready and server.in_flight < self._max_in_flight

    def suspect(self, server: Server) -> None:
        """Look after a server that failed a request: revive it in the background if it is ill."""
        with self._change:
            if not server.ready or server.reviving or self._closed:
                return  # seen to already
            server.ready, server.reviving = False, True
        threading.Thread(target=self._revive, args=(server,), daemon=True).start()

    def _revive(self, server: Server) -> None:
        try:
            self._restart_if_ill(server)
            with self._sync_lock:
                if self._current is not None:
                    self._load([server], *self._current)
                with self._change:
                    server.ready, server.reviving = True, False
                    self._change.notify_all()
        except (ServerGoneError, ServerRefusedError, ServerStartError) as error:
            print(f"warning: a vLLM server is given up: {error}", flush=True)
            with self._change:
                server.gone, server.reviving = True, False
                self._change.notify_all()
            if server.process is not None:
                server.process.stop()

    def _restart_if_ill(self, server: Server) -> None:
        if server.client.healthy(_HEALTH_S):
            return
        if self._start is not None:
            assert server.process is not None
            server.process.stop()
            if server.restarts >= self._restarts or self._closed:
                raise ServerStartError(f"it failed after {server.restarts} restarts")
            server.restarts += 1
            self.num_restarts += 1
            print(f"warning: vLLM server {server.client.url} is started again", flush=True)
            server.process = self._start(self.servers.index(server))
        self._wait_up(server)

    def sync(self, folder: Path, version: int) -> None:
        """Put a version of the weights on every server; all take it or none.

        A server that does not answer is revived with the new version in the background. If one
        refuses the weights, those that took them go back to the version before.

        Raises:
          SyncError: refused.
        """
        with self._sync_lock:
            with self._change:
                servers = [s for s in self.servers if not (s.gone or s.reviving)]
            outcome = self._try_load(servers, folder, version)
            refusals = [e for e in outcome.values() if isinstance(e, ServerRefusedError)]
            if refusals:
                self._roll_back(servers, version, refusals[0])
            self._current = (folder, version)
            lost = [server for server in servers if outcome[id(server)] is not None]
            with self._change:
                for server in servers:
                    server.ready = True
        for server in lost:
            self.suspect(server)

    def _try_load(self, servers, folder, version) -> dict[int, Exception | None]:
        """Update all and, if none refuses, commit all; returns what became of each server."""
        outcome: dict[int, Exception | None] = {id(server): None for server in servers}

        def each(step: Callable[[Server], None]) -> None:
            def attempt(server: Server) -> None:
                try:
                    step(server)
                except (ServerGoneError, ServerRefusedError) as error:
                    outcome[id(server)] = error

            self._on_all([s for s in servers if outcome[id(s)] is None], attempt)

        each(lambda server: server.client.pause())
        each(lambda server: server.client.update(str(folder), version))
        if not any(isinstance(error, ServerRefusedError) for error in outcome.values()):
            each(lambda server: server.client.finish(version))
        if not any(isinstance(error, ServerRefusedError) for error in outcome.values()):
            each(lambda server: server.client.resume())
        return outcome

    def _roll_back(self, servers, version: int, reason: Exception) -> None:
        if self._current is None:
            raise SyncError(f"version {version} was refused: {reason}") from reason
        old = self._current
        try:
            self._load([s for s in servers if s.client.healthy(_HEALTH_S)], *old)
        except (ServerGoneError, ServerRefusedError) as error:
            raise SyncError(
                f"version {version} was refused ({reason}), and version {old[1]} could not be "
                f"put back: {error}. No rollout was made with either; the run stops"
            ) from error
        raise SyncError(
            f"version {version} was refused; all servers stay on version {old[1]}: {reason}"
        ) from reason

    def _load(self, servers: list[Server], folder: Path, version: int) -> None:
        for server in servers:
            server.client.pause()
            server.client.update(str(folder), version)
            server.client.finish(version)
            server.client.resume()

    def _wait_up(self, server: Server) -> None:
        if server.process is not None:
            server.process.wait_healthy(server.client, self._start_timeout_s)
            return
        deadline = time.monotonic() + self._start_timeout_s
        while not server.client.healthy(_HEALTH_S):
            if time.monotonic() > deadline or self._closed:
                raise ServerStartError(
                    f"no vLLM server answers at {server.client.url} (rollout.urls) within "
                    f"{self._start_timeout_s:.0f} s; start it, or take the URL out"
                )
            time.sleep(0.2)

    def each_ready(self, step: Callable[[Server], None]) -> None:
        """Do `step` on all servers that are ready, at the same time."""
        self._on_all([server for server in self.servers if server.ready], step)

    @staticmethod
    def _on_all(servers: list[Server], step: Callable[[Server], None]) -> None:
        if servers:
            with ThreadPoolExecutor(len(servers)) as pool:
                list(pool.map(step, servers))

    def close(self) -> None:
        """Stop the servers that are ours."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for server in self.servers:
            if server.process is not None:
                server.process.stop()

"""One place where runs happen, one at a time: a fork server for programs and one for tests."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.grading.sandbox.namespaces import SCRATCH
from jaxrl_scope.grading.sandbox.types import Kind, Limits, Run, RunResult, SandboxError, Status
from jaxrl_scope.grading.sandbox.wire import ClosedError, WireError, encode, receive, send

_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 10.0
_SERVER = ("-m", "jaxrl_scope.grading.sandbox.server")
_ROOT = Path(__file__).resolve().parents[3]  # the folder that holds jaxrl_scope


class ForkServer:
    """A server process and the socket that commands it."""

    def __init__(self, preload: Sequence[str], *, allow_unisolated: bool):
        """Start it, and learn how it is isolated.

        Raises:
          SandboxError: it does not start, or has no isolation and `allow_unisolated` is False.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = tempfile.mkdtemp(prefix="sandbox-root-")
        arguments = ["--control", str(theirs.fileno()), "--root", root, "--preload", *preload]
        arguments += ["--unisolated-ok"] if allow_unisolated else []
        self._process = subprocess.Popen(
            [sys.executable, *_SERVER, *arguments],
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._control.settimeout(_START_LIMIT_S)
        try:
            hello = self._reply()
        finally:
            os.rmdir(root)  # what the server mounted on it is seen by the server alone
        self.isolation: str = hello["isolation"]
        if self.isolation == "none" and not allow_unisolated:
            self.close()
            raise SandboxError(
                f"this machine gives no isolation ({hello['why']}): untrusted code would run with "
                "your rights. Allow user namespaces here, or accept the risk with "
                "allow_unisolated=True."
            )

    def start(self, role: str, limits: Limits, channels: Sequence[socket.socket]) -> None:
        """Fork a run that owns `channels`, which are closed here."""
        request = {"role": role, "limits": dataclasses.asdict(limits)}
        fds = [channel.fileno() for channel in channels]
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], fds)
        except OSError as error:
            raise SandboxError(f"the sandbox's server is gone: {error}") from None
        for channel in channels:
            channel.close()

    def stop(self) -> int:
        """End the run, with all it has started; returns its exit code, -n for signal n."""
        self._control.settimeout(_STOP_LIMIT_S)
        try:
            self._control.send(b"stop")
        except OSError as error:
            raise SandboxError(f"the sandbox's server is gone: {error}") from None
        return self._reply()["code"]

    def close(self) -> None:
        """End the server."""
        self._control.close()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _reply(self) -> dict[str, Any]:
        try:
            message = self._control.recv(4096)
        except OSError as error:
            message, reason = b"", str(error)
        else:
            reason = "it ended"
        if not message:
            self._process.kill()
            raise SandboxError(f"the sandbox's server does not answer: {reason}")
        return json.loads(message)


def _environment() -> dict[str, str]:
    """What a run may know of the environment: nothing of the user's."""
    path = os.pathsep.join([str(_ROOT), *filter(os.path.isabs, sys.path)])
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    fixed = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    return fixed | {"TMPDIR": SCRATCH, "HOME": SCRATCH} | threads


class Slot:
    """A solver server and a judge server."""

    def __init__(self, limits: Limits, preload: Sequence[str], *, allow_unisolated: bool):
        """Start both."""
        self._limits = limits
        self._solver = ForkServer(preload, allow_unisolated=allow_unisolated)
        self._judge = ForkServer(preload, allow_unisolated=allow_unisolated)
        self.isolation = self._solver.isolation

    def close(self) -> None:
        """End both."""
        self._solver.close()
        self._judge.close()

    def run(self, run: Run) -> RunResult:
        """Run one program against its tests."""
        start = time.monotonic()
        reply, code = self._judge_program(run, start + self._limits.wall_s)
        seconds = time.monotonic() - start
        if reply["status"] == Status.CRASH:
            reply = _name_crash(code)
        status, kind = Status(reply["status"]), Kind(reply.get("kind", ""))
        return RunResult(status, reply.get("reason", ""), kind, seconds)

    def _judge_program(self, run: Run, deadline: float) -> tuple[dict, int]:
        source, source_there = socket.socketpair()
        verdict, verdict_there = socket.socketpair()
        calls_judge, calls_solver = socket.socketpair()
        with source, verdict:
            self._solver.start("solver", self._limits, [source_there, calls_solver])
            self._judge.start("judge", self._limits, [verdict_there, calls_judge])
            try:
                _send_until(deadline, source, {"program": run.program, "seed": run.seed})
                _send_until(deadline, verdict, _tests(run))
                verdict.settimeout(max(0.001, deadline - time.monotonic()))
                reply = receive(verdict)
            except TimeoutError:
                reason = f"no verdict within {self._limits.wall_s:g} s"
                reply = {"status": "timeout", "reason": reason, "kind": "resource"}
            except (ClosedError, WireError) as error:
                reply = {"status": "na", "reason": f"the judge's process died: {error}"}
            finally:
                self._judge.stop()
                code = self._solver.stop()
        return reply, code


def _send_until(deadline: float, channel: socket.socket, message: dict) -> None:
    channel.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        send(channel, message)
    except ClosedError:
        return  # the process is dead already; the judge will tell


def _tests(run: Run) -> dict:
    return {
        "tests": list(run.tests),
        "targets": [encode(target) for target in run.targets],
        "names": list(run.names),
        "setup": run.setup,
        "seed": run.seed,
    }


def _name_crash(code: int) -> dict:
    """Tell the CPU limit, which the kernel enforces by a signal, from other deaths."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        reason = "killed: CPU or memory limit"
        return {"status": "timeout", "reason": reason, "kind": "resource"}
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return {"status": "crash", "reason": f"the program's process died: {how}", "kind": "resource"}

"""The program of a fork server: a loaded interpreter that forks one process per run.

It lives in namespaces of its own and never reads a program or a test: those go by file descriptors
from the parent straight to the forked child, so that nothing of one run is left in the memory that
the next child inherits. Two such servers make a slot: one forks solvers, the other judges.
"""

import argparse
import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
from pathlib import Path

from jaxrl_scope.grading.sandbox import children, namespaces

_PACKAGE = Path(__file__).resolve().parents[2]
_OPEN_FILES = 128
_SERVER_PROCESSES = 1  # the server itself counts towards the limit too


def main() -> None:
    """Serve requests on the given socket until its other end closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--preload", nargs="*", default=[])
    parser.add_argument("--unisolated-ok", action="store_true")
    args = parser.parse_args()
    namespaces.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    control = socket.socket(fileno=args.control)
    for name in args.preload:
        importlib.import_module(name)
    pages = int(Path("/proc/self/statm").read_text().split()[0])  # while there is a /proc
    own_memory = pages * resource.getpagesize()
    isolation, why = "namespaces", ""
    try:
        namespaces.enter(args.root, _PACKAGE)
        _try_isolation()
    except OSError as error:
        isolation, why = "none", str(error)
    control.send(json.dumps({"isolation": isolation, "why": why}).encode())
    if isolation == "none" and not args.unisolated_ok:
        return
    gc.collect()
    gc.freeze()  # or every collection in a child would copy the pages
    while True:
        message, fds, _, _ = socket.recv_fds(control, 4096, 4)
        if not message:
            return
        request = json.loads(message)
        request |= {"isolated": isolation == "namespaces", "own_memory": own_memory}
        control.send(json.dumps(_serve(control, request, fds)).encode())


def _try_isolation() -> None:
    """Fail now, not at the first run, where a run could not be isolated."""
    pid = namespaces.fork_isolated()
    if pid == 0:
        try:
            namespaces.finish_run(1)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, f"namespaces of a run: {os.strerror(code)}")


def _serve(control: socket.socket, request: dict, fds: list[int]) -> dict:
    """Fork one run and wait until the parent says stop; returns how it ended."""
    pid = namespaces.fork_isolated() if request["isolated"] else os.fork()
    if pid == 0:
        try:
            _become_run(request, fds)
        finally:
            os._exit(children.BROKEN)
    for fd in fds:
        os.close(fd)
    control.recv(16)  # "stop", or the end of the parent
    # A process namespace ends with its first process; without one, the process group has to do.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL) if request["isolated"] else os.killpg(pid, signal.SIGKILL)
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def _become_run(request: dict, fds: list[int]) -> None:
    namespaces.die_with_parent()
    os.setsid()
    kept = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, 100)
    os.closerange(100 + len(kept), 1 << 20)
    limits = request["limits"]
    if request["isolated"]:
        namespaces.finish_run(limits["file_mb"])
    _set_limits(limits, request["own_memory"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    channels = [socket.socket(fileno=fd) for fd in kept]
    {"solver": children.solve, "judge": children.judge}[request["role"]](*channels)


def _set_limits(limits: dict, own_memory: int) -> None:
    def bound(what: int, value: int) -> None:
        resource.setrlimit(what, (value, value))

    bound(resource.RLIMIT_AS, own_memory + limits["memory_mb"] * 2**20)
    bound(resource.RLIMIT_CPU, limits["cpu_s"])
    bound(resource.RLIMIT_FSIZE, limits["file_mb"] * 2**20)
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_NOFILE, _OPEN_FILES)
    bound(resource.RLIMIT_NPROC, limits["processes"] + _SERVER_PROCESSES)


if __name__ == "__main__":
    main()

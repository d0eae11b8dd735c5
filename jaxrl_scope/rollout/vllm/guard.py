"""Runs one server and ends it with all its children when the trainer is gone: however it went.

The trainer holds the other end of stdin. The kernel closes it whenever the trainer dies, by kill -9
too, and then the server's whole process group is ended. `python -m ...guard COMMAND...`
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time

_GRACE_S = 5.0
_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """Run `command` until it ends or stdin closes; returns its exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the trainer decides, through stdin
        signal.signal(number, signal.SIG_IGN)
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_end_with_guard
    )
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        while server.poll() is None:
            if selector.select(_POLL_S) and not os.read(sys.stdin.fileno(), 1):
                break
    _end_group(server)
    return server.wait()


def _end_with_guard() -> None:
    """In the server: signals are as usual again, and the guard's own death ends it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_group(server: subprocess.Popen) -> None:
    """End the server and what it started, engine and workers; they share its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

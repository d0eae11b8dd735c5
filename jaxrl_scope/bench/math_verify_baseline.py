"""math-verify in a process of its own, so that an answer that hangs it can be ended.

One JSON object a line each way: {"gold", "response"} in, {"correct", "seconds"} out. It runs in the
main thread, where its own `signal.alarm` time-out (5 s) works.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_STARTUP_LIMIT_S = 120.0


class Reply(NamedTuple):
    """What math-verify said; `is_correct` is None where it had to be killed."""

    is_correct: bool | None
    seconds: float


class MathVerify:
    """math-verify, boxed answers first, one call at a time.

    Args:
      limit_s: seconds after which a call is killed.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def grade(self, gold: str, response: str) -> Reply:
        """Parse both sides and compare them."""
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        start = time.perf_counter()
        message = json.dumps({"gold": gold, "response": response}).encode() + b"\n"
        self._process.stdin.write(message)
        self._process.stdin.flush()
        reply = self._read(self._limit_s)
        if reply is None:
            self.close()
            return Reply(None, time.perf_counter() - start)
        return Reply(reply["correct"], reply["seconds"])

    def close(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([_PACKAGE_ROOT, *filter(None, sys.path)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jaxrl_scope.bench.math_verify_baseline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )
        if self._read(_STARTUP_LIMIT_S) is None:
            self.close()
            raise RuntimeError("math-verify does not start; is the package installed?")
        return self._process

    def _read(self, limit_s: float) -> dict | None:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


def main() -> None:
    """Serve until stdin closes."""
    from math_verify import (
        ExprExtractionConfig,
        LatexExtractionConfig,
        parse,
        verify,
    )

    targets = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    print(json.dumps({"ready": verify(parse("$1$"), parse("$1$"))}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        start = time.perf_counter()
        try:
            gold = parse(rf"\boxed{{{question['gold']}}}", targets)
            is_correct = bool(verify(gold, parse(question["response"], targets)))
        except Exception:  # its timeouts and parse errors alike: the answer is not accepted
            is_correct = False
        print(
            json.dumps({"correct": is_correct, "seconds": time.perf_counter() - start}), flush=True
        )


if __name__ == "__main__":
    main()

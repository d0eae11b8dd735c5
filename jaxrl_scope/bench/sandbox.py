"""Benchmark of the code sandbox: short runs per second, and what a GRAFT arm would take."""

import argparse
import time
from collections.abc import Sequence

from jaxrl_scope.grading.sandbox import Limits, Run, SandboxPool

# GRAFT proposal: 150 updates x 32 problems x 8 trajectories x 4.62 steps, one grafted run each.
EXECUTIONS_PER_ARM = 177_000


def short_runs(count: int) -> list[Run]:
    """Return `count` different programs of three small functions, with three tests each."""
    tests = tuple(f"assert np.allclose(f(np.arange({n}.0)), target)" for n in (3, 4, 5))
    targets = tuple(float(sum((i + 1) ** 2 for i in range(n))) for n in (3, 4, 5))
    body = "def g(x):\n    return x + 1\ndef h(x):\n    return x * x\ndef f(x):\n    return h(g(x))"
    return [
        Run(f"# {i}\n{body}.sum()", tests, targets, ("f",), "import numpy as np")
        for i in range(count)
    ]


def measure(count: int, workers: int) -> tuple[float, str]:
    """Run `count` short programs; returns runs per second and the isolation in words."""
    with SandboxPool(workers, Limits(wall_s=60.0)) as pool:
        isolation = pool.isolation
        pool.run_batch(short_runs(2 * workers))  # start every slot
        runs = short_runs(2 * workers + count)[2 * workers :]
        start = time.perf_counter()
        results = pool.run_batch(runs)
        seconds = time.perf_counter() - start
    failed = [result for result in results if not result.passed]
    if failed:
        raise ValueError(f"{len(failed)} of {count} correct programs failed; first: {failed[0]}")
    return count / seconds, isolation


def main(argv: Sequence[str]) -> None:
    """Print runs per second and the projection for one GRAFT arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args(argv)
    rate, isolation = measure(args.runs, args.workers)
    hours = EXECUTIONS_PER_ARM / rate / 3600
    print(f"isolation: {isolation}")
    print(f"{rate:.0f} short executions/s with {args.workers} workers ({args.runs} runs, 3 tests)")
    print(
        f"{EXECUTIONS_PER_ARM:,} executions (one arm): {hours:.2f} h; four arms: {4 * hours:.2f} h"
    )

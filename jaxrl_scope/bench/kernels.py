"""Speed of the reward kernels against per-sample Python loops and against a plain copy.

Each workload is timed three ways in turn, round after round, so that whatever else the machine
does falls on all of them alike; medians are reported, compilation apart. The loops are the way
reward managers of PyTorch trainers work: sample by sample, on NumPy scalars. They run on a slice
of the samples and are scaled up, and their results must agree with the kernel's.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from rewards import (
    asr_reward,
    graft_advantages,
    group_advantages,
    step_ledger,
    thought_advantages,
    thought_reward_size,
)

_G = 8  # rollouts per problem


@dataclasses.dataclass(frozen=True)
class Workload:
    """A kernel on a batch, and the loop that does the same for the first `loop_rows` rows.

    Attributes:
      name: what is computed, with its size.
      kernel: jitted function of the arguments.
      args: arrays whose leading axis is rows (problems).
      loop: the same in Python, from the arguments cut to some rows; returns the kernel's first
        output for those rows.
      loop_rows: rows on which the loop is timed.
    """

    name: str
    kernel: Callable[..., jax.Array]
    args: tuple[np.ndarray, ...]
    loop: Callable[..., np.ndarray]
    loop_rows: int

    @property
    def num_rows(self) -> int:
        """Rows of the whole batch."""
        return len(self.args[0])


def asr_workload(num_rollouts: int, num_sub: int, loop_rows: int) -> Workload:
    """R_ASR and group advantages of `num_rollouts` rollouts with M = `num_sub`."""
    rng = np.random.default_rng(0)
    shape = (num_rollouts // _G, _G)
    args = (
        rng.random((*shape, num_sub)) < 0.8,
        rng.integers(1, num_sub + 1, shape).astype(np.int32),
        rng.random(shape) < 0.5,
    )
    kernel = jax.jit(lambda *args: group_advantages(asr_reward(*args)))
    name = f"R_ASR + advantages, {num_rollouts:,} rollouts x M = {num_sub}"
    return Workload(name, kernel, args, asr_loop, min(loop_rows, shape[0]))


def thought_workload(num_rollouts: int, max_len: int, num_steps: int, loop_rows: int) -> Workload:
    """Per-token thought advantages of `num_rollouts` rollouts of `max_len` tokens."""
    rng = np.random.default_rng(0)
    shape = (num_rollouts // _G, _G)
    end = np.stack([rng.permutation(max_len)[:num_steps] + 1 for _ in range(num_rollouts)])
    correct = rng.random(shape) < 0.5
    args = (
        rng.random((*shape, num_steps)) < 0.5,
        np.sort(end, axis=1).reshape(*shape, num_steps).astype(np.int32),
        np.full(shape, num_steps, np.int32),
        np.full(shape, max_len, np.int32),
        correct,
    )

    def kernel(good, end, num_steps, response_len, correct):
        advantage = group_advantages(correct)
        size = thought_reward_size(correct, advantage)
        return thought_advantages(
            good, end, num_steps, response_len, advantage, size, max_len=max_len
        )

    name = f"thought advantages, {num_rollouts:,} rollouts x {max_len:,} tokens"
    return Workload(name, jax.jit(kernel), args, thought_loop, min(loop_rows, shape[0]))


def graft_workload(num_rollouts: int, num_steps: int, loop_rows: int) -> Workload:
    """GRAFT ledger and advantages of `num_rollouts` trajectories of S = `num_steps` steps."""
    rng = np.random.default_rng(0)
    shape = (num_rollouts // _G, _G, num_steps)
    args = (
        rng.random(shape) < 0.7,
        rng.random(shape) < 0.7,
        rng.random(shape) < 0.9,
        rng.integers(1, num_steps + 1, shape[0]).astype(np.int32),
    )
    kernel = jax.jit(lambda *args: graft_advantages(step_ledger(*args), lam=0.3).advantages)
    name = f"GRAFT, {num_rollouts:,} trajectories x S = {num_steps}"
    return Workload(name, kernel, args, graft_loop, min(loop_rows, shape[0]))


def asr_loop(sub_correct: np.ndarray, num_sub: np.ndarray, main: np.ndarray) -> np.ndarray:
    """R_ASR rollout by rollout, then each group's mean and std."""
    advantages = np.zeros(num_sub.shape, np.float32)
    for b in range(num_sub.shape[0]):
        rewards = []
        for g in range(num_sub.shape[1]):
            product, total = 1, 0
            for i in range(num_sub[b, g]):
                product *= int(sub_correct[b, g, i])
                total += product
            rewards.append(0.5 * total / num_sub[b, g] + 0.5 * product * int(main[b, g]))
        advantages[b] = _normalised(np.array(rewards))
    return advantages


def thought_loop(
    good: np.ndarray,
    end: np.ndarray,
    num_steps: np.ndarray,
    response_len: np.ndarray,
    correct: np.ndarray,
) -> np.ndarray:
    """Rewards on the last token of each thought, then the suffix sum token by token."""
    max_len = int(response_len.max())
    advantages = np.zeros((*correct.shape, max_len), np.float32)
    for b in range(correct.shape[0]):
        outcome = _normalised(correct[b].astype(np.float64))
        for g in range(correct.shape[1]):
            size = correct[b].mean() if correct[b, g] else outcome[g]
            rewards = np.zeros(max_len)
            last = num_steps[b, g] - 1
            for i in range(last):
                following = good[b, g, i + 1] or i + 1 == last
                if good[b, g, i] != following:
                    rewards[end[b, g, i] - 1] = size if good[b, g, i] else -size
            rewards[response_len[b, g] - 1] = outcome[g]
            later = 0.0
            for t in reversed(range(response_len[b, g])):
                later += rewards[t]
                advantages[b, g, t] = later
    return advantages


def graft_loop(
    passed: np.ndarray, grafted: np.ndarray, alignable: np.ndarray, num_steps: np.ndarray
) -> np.ndarray:
    """Cell by cell: who reached the step, their rewards, their mean and std."""
    advantages = np.zeros(passed.shape, np.float32)
    for b in range(passed.shape[0]):
        reached = list(range(passed.shape[1]))
        for t in range(num_steps[b]):
            rewards = []
            for i in reached:
                reward = float(passed[b, i, t])
                if alignable[b, i, t]:
                    reward += 0.3 * float(grafted[b, i, t])
                rewards.append(reward)
            if len(rewards) >= 2:
                advantages[b, reached, t] = _normalised(np.array(rewards))
            reached = [i for i in reached if passed[b, i, t]]
    return advantages


def _normalised(rewards: np.ndarray) -> np.ndarray:
    std = rewards.std()
    return (rewards - rewards.mean()) / std if std > 1e-9 else np.zeros_like(rewards)


def measure(workload: Workload, rounds: int) -> dict[str, float | str | int]:
    """Times one workload; raises RuntimeError if kernel and loop disagree."""
    args = [jax.device_put(x) for x in workload.args]
    few = [x[: workload.loop_rows] for x in workload.args]
    copy = jax.jit(lambda *args: [jax.numpy.copy(x) for x in args])
    compile_s, result = _timed(lambda: workload.kernel(*args))
    output = jax.numpy.zeros_like(result)
    for arrays in (args, [output]):
        jax.block_until_ready(copy(*arrays))  # compiles

    times: dict[str, list[float]] = {"kernel": [], "copy": [], "copy_output": [], "loop": []}
    expected = np.zeros(0)
    for _ in range(rounds):
        for _ in range(5):  # short ones several times for each run of the loop
            times["kernel"].append(_timed(lambda: workload.kernel(*args))[0])
            times["copy"].append(_timed(lambda: copy(*args))[0])
            times["copy_output"].append(_timed(lambda: copy(output))[0])
        seconds, expected = _timed(lambda: workload.loop(*few))
        times["loop"].append(seconds * workload.num_rows / workload.loop_rows)
    if not np.allclose(result[: workload.loop_rows], expected, rtol=1e-3, atol=1e-4):
        raise RuntimeError(f"{workload.name}: the kernel does not agree with the loop")

    seconds = {name: statistics.median(values) for name, values in times.items()}
    return {
        "workload": workload.name,
        "compile_s": round(compile_s, 3),
        **{f"{name}_ms": round(1e3 * value, 3) for name, value in seconds.items()},
        "speedup_over_loop": round(seconds["loop"] / seconds["kernel"], 1),
        "times_copy_of_input": round(seconds["kernel"] / seconds["copy"], 2),
        "times_copy_of_output": round(seconds["kernel"] / seconds["copy_output"], 2),
    }


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - started, result


def _table(rows: list[dict]) -> str:
    heads = [
        "workload",
        "compile s",
        "kernel ms",
        "loop ms",
        "loop/kernel",
        "/copy in",
        "/copy out",
    ]
    keys = ["workload", "compile_s", "kernel_ms", "loop_ms", "speedup_over_loop"]
    keys += ["times_copy_of_input", "times_copy_of_output"]
    lines = [heads] + [[str(row[key]) for key in keys] for row in rows]
    width = max(len(line[0]) for line in lines)
    return "\n".join(
        line[0].ljust(width) + "".join(cell.rjust(13) for cell in line[1:]) for line in lines
    )


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="bench.py kernels", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of timing, at least 1")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the full number of rollouts, in (0, 1]"
    )
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error(f"--rounds must be >= 1; got {options.rounds}")
    if not 0.0 < options.scale <= 1.0:
        parser.error(f"--scale must lie in (0, 1]; got {options.scale}")
    jax.config.update("jax_enable_compilation_cache", False)  # compile times are to be true

    def size(full: int) -> int:
        return max(_G, int(full * options.scale) // _G * _G)

    workloads = [
        asr_workload(size(2**17), 16, loop_rows=1024),
        thought_workload(size(4096), 8192, num_steps=64, loop_rows=8),
        graft_workload(size(2**15), 8, loop_rows=512),
    ]
    rows = [measure(workload, options.rounds) for workload in workloads]
    print(_table(rows))
    device = jax.devices()[0]
    machine = {"platform": device.platform, "device": device.device_kind, "jax": jax.__version__}
    print(json.dumps({"bench": "kernels", **machine, "rounds": options.rounds, "results": rows}))
    return 0

"""The clock, the JSON line and the machine's own limits."""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrl_scope.bench import workload
from jaxrl_scope.bench.workload import PEER_NAMES, Sizes, WorkName, least_work
from models.config import ModelConfig
from models.qwen3 import Qwen3, init_params

_PACKAGES = ("jax", "flax")
_COMPILED = "/jax/core/compile/backend_compile_duration"


class Clock:
    """Wall time over all cores or, on a shared machine, CPU time of this process on one core.

    `PEERS_CLOCK=cpu` chooses the second, as it does for every peer.

    Attributes:
      kind: "wall" or "cpu".
      cores: that the process may use.
      now: returns seconds.
    """

    def __init__(self) -> None:
        self.kind = os.environ.get("PEERS_CLOCK", "wall")
        if self.kind not in ("wall", "cpu"):
            raise ValueError(f"PEERS_CLOCK must be wall or cpu, not {self.kind!r}.")
        if self.kind == "cpu":
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        self.cores = len(os.sched_getaffinity(0))
        self.now = time.process_time if self.kind == "cpu" else time.perf_counter


def parser(name: WorkName, description: str | None) -> argparse.ArgumentParser:
    """The options that the benchmarks of models share."""
    out = argparse.ArgumentParser(prog=f"bench.py {name}", description=description)
    out.add_argument("--model", choices=workload.MODELS, default="M1")
    out.add_argument("--seconds", type=float, default=5.0, help="time the work for about this long")
    out.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="gpu: also Qwen3-0.6B to 8B, bfloat16, random weights, 8,192 tokens or 256 rows",
    )
    return out


@dataclasses.dataclass(frozen=True)
class Job:
    """One line of output: a model, by name, and how much work it is given."""

    model: str
    cfg: ModelConfig
    sizes: Sizes

    def build(self) -> Qwen3:
        """Weights; those of the peers where they are compared."""
        if self.model in workload.MODELS:
            return workload.build(self.cfg)
        return jax.jit(init_params, static_argnums=0)(self.cfg, jax.random.key(0))


def jobs(options: argparse.Namespace) -> list[Job]:
    """What the options ask for.

    Raises:
      ValueError: a GPU is asked for and JAX has none.
    """
    out = [Job(options.model, workload.MODELS[options.model], workload.PEER_SIZES)]
    if options.device == "gpu":
        if jax.default_backend() != "gpu":
            raise ValueError(
                f"--device gpu: JAX runs on {jax.default_backend()!r} here; install jax[cuda12] "
                "and unset JAX_PLATFORMS, or leave the option out."
            )
        out += [Job(name, cfg, workload.FULL_SIZES) for name, cfg in workload.FULL_SIZE.items()]
    return out


def measure(
    name: WorkName,
    job: Job,
    call: Callable[[], float],
    *,
    clock: Clock,
    seconds: float,
    start_s: float,
) -> dict:
    """Time `call`, whose result is a float that is read inside the timed span.

    Args:
      name: the work that `call` does.
      job: the model and the sizes.
      call: does the work once and returns the number that must agree among engines.
      clock: reads the time.
      seconds: about how long to go on; at least three timings are taken.
      start_s: what imports and loading took.

    Returns:
      The fields of the peer benchmark's JSON line. `tokens_per_s` is from the median call; calls
      that compiled again are left out, two at most. `check` is the first call's.
    """
    compiled = 0

    def count(event: str, duration_secs: float, **kwargs: str | int) -> None:
        nonlocal compiled
        compiled += event == _COMPILED

    jax.monitoring.register_event_duration_secs_listener(count)

    def once() -> tuple[float, float]:
        began = clock.now()
        check = float(call())
        return clock.now() - began, check

    peak_rss_mb(reset=True)
    first, check = once()
    warm_peak = peak_rss_mb(reset=True)
    late, times, recompiles = [], [], 0
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        seen = compiled
        took = once()[0]
        recompiles += compiled > seen
        (late if compiled > seen and recompiles < 3 else times).append(took)
    jax.monitoring.unregister_event_duration_listener(count)
    run_peak, median = peak_rss_mb(), statistics.median(times)
    work = least_work(job.cfg, name, job.sizes)
    limits = machine_limits(clock, job.cfg.compute_dtype)
    rate = work.tokens / median
    return {
        "peer": "jaxrl-scope",
        "model": job.model,
        "work": PEER_NAMES[name],
        "tokens_per_s": round(rate, 1),
        "compile_s": round(sum(max(0.0, t - median) for t in (first, *late)), 2),
        "start_s": round(start_s, 2),
        "step_s": round(median, 4),
        "best_s": round(min(times), 4),
        "n": len(times),
        "peak_rss_mb": round(max(warm_peak, run_peak)),
        "run_rss_mb": round(run_peak),
        "dtype": job.cfg.dtype,
        "device": jax.devices()[0].device_kind,
        "clock": clock.kind,
        "cores": clock.cores,
        "check": round(check, 6),
        "recompiles": recompiles,
        "share_of_flops": round(rate * work.flops / limits["flop_s"], 3),
        "share_of_bandwidth": round(rate * work.bytes / limits["byte_s"], 3),
        **{f"limit_{key}": float(f"{value:.4g}") for key, value in limits.items()},
        "versions": {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def machine_limits(clock: Clock, dtype: jnp.dtype, megabytes: int = 256) -> dict[str, float]:
    """This machine at its best: `flop_s` of a square product, `byte_s` of a float32 triad."""
    size = 2048 if jax.default_backend() == "cpu" else 8192
    a = jnp.ones((size, size), dtype)
    product = jax.jit(jnp.dot)
    flop_s = 2 * size**3 / _median_time(lambda: product(a, a), clock)
    x = jnp.ones(megabytes * 2**18, jnp.float32)
    y = jnp.ones_like(x)
    triad = jax.jit(lambda x, y: x + 3 * y, donate_argnums=0)

    def stream():
        nonlocal x
        x = triad(x, y)
        return x

    byte_s = 3 * x.nbytes / _median_time(stream, clock)
    return {"flop_s": flop_s, "byte_s": byte_s}


def _median_time(run: Callable[[], jax.Array], clock: Clock, rounds: int = 7) -> float:
    jax.block_until_ready(run())
    times = []
    for _ in range(rounds):
        began = clock.now()
        jax.block_until_ready(run())
        times.append(clock.now() - began)
    return statistics.median(times)


def peak_rss_mb(reset: bool = False) -> float:
    """Peak resident size in MB since the process started or since the last reset."""
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    if reset:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    return peak


def run_all(
    name: WorkName,
    description: str | None,
    run: Callable[[Job, Clock, float], dict],
    argv: list[str],
) -> int:
    """Parse the options, run each job and print its JSON line; returns the exit status."""
    options = parser(name, description).parse_args(argv)
    clock = Clock()  # before JAX starts its threads
    try:
        work = jobs(options)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for job in work:
        print(json.dumps(run(job, clock, options.seconds)), flush=True)
    return 0

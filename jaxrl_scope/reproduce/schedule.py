"""Making the runs of a table: each training and evaluation a process of its own, side by side."""

import dataclasses
import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from jaxrl_scope.presets import PRESETS
from jaxrl_scope.report.metrics import read_metrics
from jaxrl_scope.reproduce.arms import Arm
from jaxrl_scope.reproduce.measures import measure
from jaxrl_scope.train.sources import locate

ROOT = Path(__file__).parents[2]


class RunFailedError(RuntimeError):
    """A training or an evaluation ended with an error; the message holds the end of its log."""


@dataclasses.dataclass(frozen=True)
class Workshop:
    """Where runs are made.

    Attributes:
      out: directory of all runs and evaluations, shared by the tables.
      cache_dir: as of launch/train.py.
      jobs: processes at a time, each on a share of the cores.
      extra: arguments that every training gets.
      processes: what is running.
    """

    out: Path
    cache_dir: str
    jobs: int
    extra: tuple[str, ...] = ()
    processes: set[subprocess.Popen] = dataclasses.field(default_factory=set)

    def stop(self) -> None:
        """Ask what is running to save and end."""
        for process in list(self.processes):
            process.terminate()


def make_all(
    arms: Sequence[Arm],
    seeds: Sequence[int],
    shop: Workshop,
    on_done: Callable[[Arm, int, dict[str, float], float], None],
) -> dict[str, dict[int, dict[str, float]]]:
    """Train and evaluate every arm for every seed; what is there already is kept.

    Args:
      arms: an arm stands after the one that it starts from.
      seeds: of the runs.
      shop: where and how.
      on_done: called with the arm, the seed, its measures and the seconds it took.

    Returns:
      Measures by arm key and seed.

    Raises:
      RunFailedError: a process failed; the others are asked to save and end.
    """
    by_key = {arm.key: arm for arm in arms}
    cores: queue.Queue[set[int]] = queue.Queue()
    for share in _shares(shop.jobs):
        cores.put(share)
    futures: dict[tuple[str, int], Future] = {}

    def make(arm: Arm, seed: int) -> dict[str, float]:
        # Work is handed out in the order of the arms, so that the awaited one has a worker.
        if arm.start:
            futures[arm.start, seed].result()
        share, began = cores.get(), time.monotonic()
        try:
            values = _make(arm, by_key, seed, shop, share)
        finally:
            cores.put(share)
        on_done(arm, seed, values, time.monotonic() - began)
        return values

    with ThreadPoolExecutor(shop.jobs) as pool:
        try:
            for seed in seeds:
                for arm in arms:
                    futures[arm.key, seed] = pool.submit(make, arm, seed)
            for future in as_completed(futures.values()):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            shop.stop()
            raise
    return {arm.key: {seed: futures[arm.key, seed].result() for seed in seeds} for arm in arms}


def _shares(jobs: int) -> list[set[int]]:
    """Deal the usable cores out; alone on a core, XLA starts one thread and waits for no other."""
    usable = sorted(os.sched_getaffinity(0))
    return [set(usable[i::jobs]) or {usable[i % len(usable)]} for i in range(jobs)]


def _make(
    arm: Arm, by_key: dict[str, Arm], seed: int, shop: Workshop, cores: set[int]
) -> dict[str, float]:
    runs, name = shop.out / "runs", f"{arm.key}-s{seed}"
    run = runs / name if arm.train else None
    if run is not None and not is_finished(run):
        words = [*arm.train, "--preset", arm.preset, "--seed", str(seed), "--run-dir", str(run)]
        if arm.start:
            words += ["--model.path", str(runs / f"{arm.start}-s{seed}")]
        if (run / "config.json").exists():
            words.append("--resume")
        _call("train", [*words, *shop.extra], run.parent / f"{name}.log", shop, cores)
        if not is_finished(run):
            raise RunFailedError(f"{run} was stopped before its last update; run again to go on")
    if arm.evaluate is None:
        return measure(None, run)
    evaluation = shop.out / "evaluations" / name
    if not (evaluation / "results.json").exists():
        words = ["--preset", "world", "--out", str(evaluation), "--seed", str(seed)]
        longest = PRESETS[arm.preset]("asr").rollout.max_response_len
        words += ["--max-response-len", str(longest)]
        words += _policy(arm, by_key, seed, shop)
        log = evaluation.parent / f"{name}.log"
        _call("evaluate", [*words, *arm.evaluate], log, shop, cores)
    return measure(evaluation, run)


def _policy(arm: Arm, by_key: dict[str, Arm], seed: int, shop: Workshop) -> list[str]:
    """Arguments that name what is evaluated: the last checkpoint, so that none is picked."""
    while not arm.train and arm.start:
        arm = by_key[arm.start]
    if arm.train:
        run = shop.out / "runs" / f"{arm.key}-s{seed}"
        return ["--model", str(run), "--checkpoint", "latest"]
    return _warm_start(arm.preset, shop.cache_dir)


def _warm_start(preset: str, cache_dir: str) -> list[str]:
    sources = locate(dataclasses.replace(PRESETS[preset]("asr"), cache_dir=cache_dir))
    return ["--model", str(sources.model), "--problems", sources.validation]


def is_finished(run: Path) -> bool:
    """Whether a run has made its last update and the evaluation after it."""
    record = run / "config.json"
    rows = read_metrics(run / "metrics.jsonl")
    if not record.exists() or not rows:
        return False
    return rows[-1]["update"] == json.loads(record.read_text())["updates"]


def _call(program: str, words: Sequence[str], log: Path, shop: Workshop, cores: set[int]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [*words, "--cache-dir", shop.cache_dir] if shop.cache_dir else list(words)
    command = [sys.executable, str(ROOT / "launch" / f"{program}.py"), *words]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with log.open("a") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=os.environ | {"PYTHONPATH": path}
        )
        os.sched_setaffinity(process.pid, cores)
        shop.processes.add(process)
        code = process.wait()
        shop.processes.remove(process)
    if code:
        end = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise RunFailedError(f"{' '.join(command)}\nended with status {code}; {log} ends:\n{end}")

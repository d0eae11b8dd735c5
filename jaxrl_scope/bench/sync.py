"""Time of a weight sync to a real vLLM server, beside plain safetensors on the same bytes."""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from jaxrl_scope.bench import workload
from jaxrl_scope.rollout.vllm.publish import write_weights
from jaxrl_scope.rollout.vllm.sampler import VllmSampler
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from jaxrl_scope.rollout.vllm.start import start_vllm
from jaxrl_scope.rollout.vllm.weights import read_groups
from models import Qwen3

MAX_LEN = 256  # of the server's sequences, tokens; none is timed


def to_tensors(model: Qwen3, folder: Path) -> dict[str, np.ndarray]:
    """The tensors of a sync by Hugging Face name; `folder` must not exist."""
    manifest = write_weights(folder, model, 0)
    groups = read_groups(folder, manifest)
    return {name: np.array(value) for group in groups for name, value in group.items()}


def measure(
    sampler: VllmSampler, model: Qwen3, folder: Path, rounds: int
) -> tuple[dict[str, list[float]], int]:
    """Sync, and write and read plainly, in turn.

    Args:
      sampler: its servers take the syncs.
      model: the policy.
      folder: for the plain files; on the file system of the syncs.
      rounds: of each.

    Returns:
      Seconds of every round, by part: "write" and "servers" of a sync, its "probe" after that, and
      "safetensors", which writes and reads; and the bytes of a version.
    """
    tensors = to_tensors(model, folder / "layout")
    path = folder / "plain.safetensors"
    seconds: dict[str, list[float]] = {}
    for version in range(1, rounds + 1):
        sampler.metrics()
        sampler.load(model, version)
        metrics = sampler.metrics()
        for part in ("write", "servers", "probe"):
            seconds.setdefault(part, []).append(metrics[f"sync/{part}_s"])
        began = time.perf_counter()
        save_file(tensors, path)
        load_file(path)
        seconds.setdefault("safetensors", []).append(time.perf_counter() - began)
        path.unlink()
    return seconds, sum(x.nbytes for x in tensors.values())


def main(argv: Sequence[str]) -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=workload.MODELS, default="M3")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    cfg = dataclasses.replace(workload.MODELS[args.model], param_dtype=args.dtype, dtype=args.dtype)
    model = workload.build(cfg)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sampler = start_vllm(
            cfg,
            model,
            VllmConfig(kv_gib=1),
            urls=(),
            max_len=MAX_LEN,
            probe=np.arange(6, 16, dtype=np.int32),
            run_dir=folder / "run",
        )
        try:
            seconds, size = measure(sampler, model, folder, args.rounds)
        finally:
            sampler.close()
    median = {part: statistics.median(values) for part, values in seconds.items()}
    sync = statistics.median(np.add(seconds["write"], seconds["servers"]).tolist())
    plain = median["safetensors"]
    print(
        f"{args.model}, {args.dtype}, {size / 1e9:.2f} GB, medians of {args.rounds}: sync "
        f"{sync:.2f} s (written {median['write']:.2f}, on the server {median['servers']:.2f}); "
        f"safetensors written and read {plain:.2f} s; ratio {sync / plain:.2f}; the probe after "
        f"it {median['probe']:.2f} s"
    )

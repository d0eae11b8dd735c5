"""Time of a weight sync to a real vLLM server, beside plain safetensors on the same bytes."""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
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
) -> tuple[list[float], list[float], int]:
    """Sync, and write and read plainly, in turn.

    Args:
      sampler: its servers take the syncs.
      model: the policy.
      folder: for the plain files; on the file system of the syncs.
      rounds: of each.

    Returns:
      Seconds of the syncs, seconds of the plain rounds, and bytes of a version.
    """
    tensors = to_tensors(model, folder / "layout")
    path = folder / "plain.safetensors"

    def plain() -> None:
        save_file(tensors, path)
        load_file(path)
        path.unlink()

    syncs, plains = [], []
    for version in range(1, rounds + 1):
        syncs.append(_seconds(lambda version=version: sampler.load(model, version)))
        plains.append(_seconds(plain))
    return syncs, plains, sum(x.nbytes for x in tensors.values())


def _seconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


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
            syncs, plains, size = measure(sampler, model, folder, args.rounds)
        finally:
            sampler.close()
    sync, plain = statistics.median(syncs), statistics.median(plains)
    print(
        f"{args.model}, {args.dtype}, {size / 1e9:.2f} GB: sync {sync:.2f} s (written, read by the "
        f"server, probed), safetensors written and read {plain:.2f} s; ratio {sync / plain:.2f} "
        f"(medians of {args.rounds})"
    )

"""What a run takes per device: `python launch/plan.py --preset qwen3-8b-dapo --devices 8`.

Compiles the train step, the log-probability pass and the decoding loop for the run's mesh on fake
devices; no weights are allocated and none are needed. `--devices N` sets mesh.fsdp so that the mesh
has N devices. Takes every setting of launch/train.py. Exit status: 0 if it fits 80 GB, 1 if not, 2
for bad input.

The programs are compiled by XLA's CPU compiler, which widens bfloat16 temporaries to float32: what
is printed for activations is an upper bound for a GPU.
"""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax

from jaxrl_scope.cli import parse
from jaxrl_scope.config import BUILT_IN, TrainConfig
from jaxrl_scope.plan.report import DEVICES_GB, GB, describe, make_plan, verdicts
from models import ModelConfig, read_config
from models.published import PUBLISHED


def with_devices(config: TrainConfig, devices: int) -> TrainConfig:
    """The config on a mesh of so many devices, mesh.fsdp taking what the others leave."""
    if not devices:
        return config
    others = config.mesh.data * config.mesh.tensor
    if devices % others:
        raise ValueError(
            f"--devices {devices} must be a multiple of mesh.data x mesh.tensor ({others})"
        )
    mesh = dataclasses.replace(config.mesh, fsdp=devices // others)
    return dataclasses.replace(config, mesh=mesh)


def model_config(config: TrainConfig) -> ModelConfig:
    """The model's shape: of its directory, or of the published model of that name."""
    path = Path(config.model.path)
    if (path / "config.json").is_file():
        model = read_config(path)
    elif path.name in PUBLISHED:
        model = PUBLISHED[path.name]
    else:
        hint = "give one with --model.path" if config.model.path == BUILT_IN else "none is there"
        raise ValueError(
            f"no config.json in {path} ({hint}); without one the name must be that of a published "
            f"model: {', '.join(PUBLISHED)}"
        )
    return config.model.apply(model)


def fake_devices(count: int) -> None:
    """Let JAX see at least `count` CPU devices."""
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # JAX has started already: it must have been with enough
        if jax.device_count() < count:
            raise ValueError(f"JAX was started with fewer than {count} devices") from None


def main(argv: list[str]) -> int:
    """Plan; returns the exit status."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--devices", type=int, default=0)
    known, rest = first.parse_known_args(argv)
    try:
        config = with_devices(parse(rest), known.devices)
        model = model_config(config)
        fake_devices(config.mesh.num_devices)
        plan = make_plan(config, model)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    mesh = config.mesh
    print(
        f"{config.preset}, stage {config.stage}: {Path(config.model.path).name}, "
        f"{model.num_params / 1e9:.2f}B weights in {model.param_dtype}, computed in {model.dtype}, "
        f"remat {model.remat}; {config.data.max_prompt_len} + {config.rollout.max_response_len} "
        f"tokens; mesh data {mesh.data} x fsdp {mesh.fsdp} x tensor {mesh.tensor}\n"
    )
    print(describe(plan) + "\n")
    print("\n".join(verdicts(plan, config)))
    return 0 if plan.peak <= DEVICES_GB[0] * GB else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

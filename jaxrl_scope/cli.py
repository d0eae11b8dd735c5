"""The command line of `launch/train.py`: parsing, the dry run, and errors as one paragraph."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import tyro

from jaxrl_scope.config import BUILT_IN, StageName, TrainConfig, override, read_file
from jaxrl_scope.presets import PRESETS
from jaxrl_scope.rollout.vllm.placement import describe_processes

# Short names of settings that are nested; every field also has its dotted name.
ALIASES = {
    "--loss": "--loss.kind",
    "--lr": "--optimizer.lr",
    "--rollout": "--rollout.engine",
    "--save-rollouts": "--log.save-rollouts",
    "--replay-rollouts": "--rollout.replay",
    "--check-propositions": "--tp.check-propositions",
}


def parse(argv: Sequence[str]) -> TrainConfig:
    """Build the config: preset of the stage, then the settings file, then the command line.

    Raises:
      ValueError: an unknown preset or setting, or values that do not fit together.
      SystemExit: tyro's own answer to `--help` and to options that it cannot read.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--stage", default=TrainConfig.stage)
    first.add_argument("--preset", default=TrainConfig.preset)
    first.add_argument("--config", default="")
    known, rest = first.parse_known_args(list(argv))
    values = read_file(Path(known.config)) if known.config else {}
    stage = values.get("stage", known.stage) if "--stage" not in argv else known.stage
    preset = values.get("preset", known.preset) if "--preset" not in argv else known.preset
    for kind, name, names in (("stage", stage, get_args(StageName)), ("preset", preset, PRESETS)):
        if name not in names:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
    base = override(PRESETS[preset](stage), values | {"stage": stage, "preset": preset})
    rest = [_expand(word) for word in rest]
    return tyro.cli(
        TrainConfig,
        default=base,
        args=["--stage", stage, "--preset", preset, *rest],
        prog="python launch/train.py",
        description="Train a stage. --config FILE reads settings from JSON or TOML; "
        f"--preset takes one of: {', '.join(PRESETS)}; {', '.join(ALIASES)} are short for "
        f"{', '.join(ALIASES.values())}.",
    )


def _expand(word: str) -> str:
    name, equals, value = word.partition("=")
    return ALIASES.get(name, name) + equals + value


def describe(config: TrainConfig) -> str:
    """Say what a run would do: batch arithmetic, devices, files. Touches no device."""
    data, rollout, update = config.data, config.rollout, config.update
    rows = data.batch_problems * rollout.group
    tokens = data.max_prompt_len + rollout.max_response_len
    fit = max(1, update.token_budget // tokens)
    shards = config.mesh.data * config.mesh.fsdp
    files = {
        "model": config.model.path,
        "problems": data.problems,
        "scaffolds": data.scaffolds,
        "validation": data.validation,
    }
    lines = [
        f"stage {config.stage}, preset {config.preset}, seed {config.seed}",
        f"batch: {data.batch_problems} problems x {rollout.group} rollouts = {rows} rows "
        f"of at most {data.max_prompt_len} + {rollout.max_response_len} tokens",
        f"updates: {config.updates} batches x {update.steps} optimizer steps = {config.num_steps} "
        f"steps, {config.updates * rows} rollouts in all (and as many again at most, on scaffolds)",
        f"microbatch: {fit * shards} rows of full length "
        f"({fit} per device x {shards} row shards; {update.token_budget} tokens per device)",
        f"optimizer: peak lr {config.optimizer.lr:g}, {config.optimizer.warmup_updates} warm-up "
        f"steps, then {config.optimizer.schedule}; loss {config.loss.kind}, "
        f"clip {config.loss.clip}, {config.loss.mode}",
        f"devices: {config.mesh.num_devices} (data {config.mesh.data} x fsdp {config.mesh.fsdp} "
        f"x tensor {config.mesh.tensor})",
    ]
    if rollout.engine == "vllm":
        lines += describe_processes(
            rollout.vllm,
            urls=rollout.urls,
            num_devices=config.mesh.num_devices,
            dtype=config.model.dtype or "DTYPE",
            max_len=tokens,
        )
    lines.append("files:")
    for kind, path in files.items():
        lines.append(f"  {kind:<10} {_presence(path)}")
    return "\n".join(lines)


def _presence(path: str) -> str:
    if path == BUILT_IN:
        return "built-in world (made at first use)"
    if not path:
        return "none"
    return f"{path}  ({'found' if Path(path).exists() else 'NOT FOUND'})"


def full_config(config: TrainConfig) -> str:
    """Every setting, one a line, by the dotted name that the command line takes."""
    lines: list[str] = []

    def walk(value, name: str) -> None:
        for field in dataclasses.fields(value):
            item, dotted = getattr(value, field.name), f"{name}{field.name}"
            if dataclasses.is_dataclass(item):
                walk(item, f"{dotted}.")
            else:
                lines.append(f"  --{dotted.replace('_', '-')} {item!r}")

    walk(config, "")
    return "\n".join(lines)

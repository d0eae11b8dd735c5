"""Train a stage: `python launch/train.py --stage asr`.

With no other argument it trains on the built-in world, on a laptop's CPU, in about five minutes.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path

from jaxrl_scope.huge_pages import restart_with_huge_pages

if __name__ == "__main__":
    restart_with_huge_pages()
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import jax

from jaxrl_scope.cli import describe, full_config, parse
from jaxrl_scope.config import TrainConfig
from jaxrl_scope.grading.judge import JudgeFailureError
from jaxrl_scope.grading.sandbox import SandboxError
from jaxrl_scope.report.metrics import read_metrics
from jaxrl_scope.report.plots import plot_curves
from jaxrl_scope.report.samples import write_samples
from jaxrl_scope.report.summary import (
    accuracy_table,
    eta_line,
    next_command,
    resume_command,
    time_line,
)
from jaxrl_scope.rollout.vllm.client import RolloutError
from jaxrl_scope.rollout.vllm.placement import trainer_env
from jaxrl_scope.stages.graft import PassRateGuardError
from jaxrl_scope.stages.propositions import PropositionError
from jaxrl_scope.train.checkpoint import CheckpointError
from jaxrl_scope.train.distributed import (
    check_processes,
    first_process_first,
    initialize,
    process_dir,
)
from jaxrl_scope.train.loop import Result, Trainer, TrainingError
from jaxrl_scope.train.pipeline import PipelineError
from jaxrl_scope.train.run_dir import choose_run_dir, claim
from jaxrl_scope.train.scope import split
from jaxrl_scope.train.setup import load_inputs
from jaxrl_scope.train.sources import cache_directory, locate, make_mesh


def prepare(config: TrainConfig) -> Trainer:
    """Build everything that a run needs; raises ValueError or OSError on bad input.

    With several processes all read the same batch, the first writes into the run directory and the
    others into RUN/process-N, and all share the checkpoints.
    """
    run_dir = choose_run_dir(config)
    mesh = make_mesh(config)
    started = time.monotonic()

    def show(update: int, loss: float) -> None:
        if update == 1:
            print("warm start of the built-in model (once, then cached)", flush=True)
        if update % 50 == 0:
            print(
                f"  {update}/{config.world.warm_start.updates}  loss {loss:.3f} nats/token  "
                f"{time.monotonic() - started:.0f} s",
                flush=True,
            )

    with first_process_first("sources"):  # which may build the world
        sources = locate(config, show)
    inputs = load_inputs(config, sources, mesh)
    own = process_dir(run_dir)
    claim(own, config)
    print("\n".join(inputs.notes))
    return Trainer(config, inputs, own, mesh, run_dir / "checkpoints")


def report(config: TrainConfig, result: Result, argv: list[str]) -> None:
    """Write the plot and the sample rollouts, and print what came out."""
    run_dir = result.run_dir
    history = read_metrics(run_dir / "metrics.jsonl")
    if config.log.plots:
        plot_curves(history, run_dir / "curves.png", run_dir.name)
    if result.experience is not None:
        write_samples(run_dir / "samples.txt", result.experience.samples)
    print(f"\n{accuracy_table(history)}\n\n{eta_line(history)}\n{time_line(history)}\n")
    print(f"numbers      {run_dir / 'metrics.jsonl'}")
    if config.log.tensorboard:
        print(f"TensorBoard  tensorboard --logdir {run_dir / 'tensorboard'}")
    if config.log.plots:
        print(f"curves       {run_dir / 'curves.png'}")
    print(f"rollouts     {run_dir / 'samples.txt'}")
    print(f"checkpoints  {run_dir / 'checkpoints'} (latest and best)")
    if result.interrupted:
        print(
            f"\nstopped after update {result.update}; go on with\n  {resume_command(argv, run_dir)}"
        )
    else:
        print(f"\nnext: {next_command(config.stage, config.preset, run_dir)}")


def train(config: TrainConfig, argv: list[str]) -> Result:
    """Run one stage from where it stands to its end, and report."""
    result = prepare(config).run()
    if jax.process_index() == 0:
        report(config, result, argv)
    return result


def train_scope(config: TrainConfig, argv: list[str]) -> None:
    """Run stage 1, then stage 2 from its best checkpoint; resumes in whichever was stopped."""
    run_dir = choose_run_dir(config)
    for stage in split(config, run_dir):
        begun = (Path(stage.run_dir) / "config.json").exists()
        if begun and not config.resume:
            raise ValueError(
                f"{run_dir} already holds a run. Go on with it with --resume, or choose another "
                "--run-dir."
            )
        print(f"stage {stage.stage}: {stage.run_dir}")
        argv_here = [*argv, "--run-dir", str(run_dir)] if not config.run_dir else argv
        if train(dataclasses.replace(stage, resume=begun), argv_here).interrupted:
            return


def main(argv: list[str]) -> int:
    """Run; returns the exit code: 2 for bad input, 1 for a run that could not go on."""
    try:
        config = parse(argv)
        if config.dry_run:
            print(f"{describe(config)}\nsettings:\n{full_config(config)}")
            return 0
        if config.rollout.engine == "vllm":
            for name, value in trainer_env(config.rollout.vllm, config.mesh.num_devices).items():
                os.environ.setdefault(name, value)
        if initialize():
            check_processes(config)
        jax.config.update("jax_compilation_cache_dir", str(cache_directory(config) / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        if config.stage == "scope":
            train_scope(config, argv)
        else:
            train(config, argv)
    except (
        CheckpointError,
        JudgeFailureError,
        PipelineError,
        PropositionError,
        PassRateGuardError,
        SandboxError,
        RolloutError,
        TrainingError,
    ) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

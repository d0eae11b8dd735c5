"""Speed of a train step: GRPO loss (old log-probabilities given, no KL), backward pass, AdamW."""

import dataclasses
import time

import jax
import numpy as np
import optax

from jaxrl_scope.bench import measure, workload
from jaxrl_scope.train.batching import Microbatch, make_microbatches
from jaxrl_scope.train.losses import LossConfig
from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
from jaxrl_scope.train.update import UpdateConfig, Updater, init_state

_OPTIMIZER = OptimizerConfig(warmup_updates=0, weight_decay=0.01, max_grad_norm=0.0)


def update_config() -> UpdateConfig:
    """Microbatches that fit the device.

    On CPU they should be large enough to keep the cores busy and no larger: their activations are
    what the step's memory consists of.
    """
    on_cpu = jax.default_backend() == "cpu"
    return UpdateConfig(token_budget=1024 if on_cpu else 8192, length_multiple=128)


def make_updater() -> tuple[Updater, optax.GradientTransformation]:
    """The trainer's updater, and its optimizer."""
    optimizer = make_optimizer(_OPTIMIZER, num_steps=1)
    return Updater(optimizer, LossConfig(), update_config()), optimizer


def microbatches(job: measure.Job) -> list[Microbatch]:
    """The batch, cut as in training, with the old log-probabilities given."""
    experience, config = workload.train_batch(job.cfg, job.sizes), update_config()
    batches = make_microbatches(
        experience,
        np.arange(experience.num_rows),
        token_budget=config.token_budget,
        length_multiple=config.length_multiple,
    )
    return [dataclasses.replace(b, old_logprobs=b.rollout_logprobs) for b in batches]


def run(job: measure.Job, clock: measure.Clock, seconds: float) -> dict:
    """Time train steps; returns the fields of the JSON line."""
    began = time.perf_counter()
    updater, optimizer = make_updater()
    state = init_state(job.build(), optimizer)
    batches = microbatches(job)

    def call() -> float:
        nonlocal state
        state, metrics = updater.step(state, batches)
        return float(metrics["policy/loss"])

    start_s = time.perf_counter() - began
    return measure.measure("train", job, call, clock=clock, seconds=seconds, start_s=start_s)


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    return measure.run_all("train", __doc__, run, argv)

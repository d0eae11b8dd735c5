"""Speed of a train step: GRPO loss (old log-probabilities given, no KL), backward pass, AdamW."""

import dataclasses
import time

import numpy as np
import optax

from jaxrl_scope.bench import measure, workload
from jaxrl_scope.train.batching import Microbatch, make_microbatches
from jaxrl_scope.train.losses import LossConfig
from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
from jaxrl_scope.train.update import UpdateConfig, Updater, init_state
from models.config import ModelConfig

# On CPU a microbatch should be large enough to keep the cores busy and no larger: its activations
# are what the step's memory consists of.
UPDATE = UpdateConfig(token_budget=1024, length_multiple=128)
_OPTIMIZER = OptimizerConfig(warmup_updates=0, weight_decay=0.01, max_grad_norm=0.0)


def make_updater() -> tuple[Updater, optax.GradientTransformation]:
    """The trainer's updater, and its optimizer."""
    optimizer = make_optimizer(_OPTIMIZER, num_steps=1)
    return Updater(optimizer, LossConfig(), UPDATE), optimizer


def microbatches(cfg: ModelConfig) -> list[Microbatch]:
    """The batch, cut as in training, with the old log-probabilities given."""
    experience = workload.train_batch(cfg)
    batches = make_microbatches(
        experience,
        np.arange(experience.num_rows),
        token_budget=UPDATE.token_budget,
        length_multiple=UPDATE.length_multiple,
    )
    return [dataclasses.replace(b, old_logprobs=b.rollout_logprobs) for b in batches]


def main(argv: list[str]) -> int:
    """Run the benchmark; see the module's docstring."""
    began = time.perf_counter()
    options = measure.parser("train", __doc__).parse_args(argv)
    clock = measure.Clock()
    cfg = workload.MODELS[options.model]
    updater, optimizer = make_updater()
    state = init_state(workload.build(cfg), optimizer)
    batches = microbatches(cfg)

    def call() -> float:
        nonlocal state
        state, metrics = updater.step(state, batches)
        return float(metrics["policy/loss"])

    measure.report(
        measure.measure(
            "train",
            options.model,
            call,
            clock=clock,
            seconds=options.seconds,
            start_s=time.perf_counter() - began,
        )
    )
    return 0

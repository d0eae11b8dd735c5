"""AdamW with the schedules of the reference runs."""

import dataclasses
from typing import Literal

import optax


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Settings of the optimizer (defaults: SCOPE-RL, stage 1).

    Attributes:
      lr: peak learning rate.
      schedule: what follows the warm-up: "constant", or "cosine" down to 0 at the last update.
      warmup_updates: length of the linear warm-up from 0, in optimizer steps.
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
      weight_decay: decoupled weight decay.
      max_grad_norm: gradients are scaled down to this global norm; 0 turns clipping off.
    """

    lr: float = 1e-6
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_updates: int = 60
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    def __post_init__(self):
        if self.lr < 0 or self.warmup_updates < 0 or self.max_grad_norm < 0:
            raise ValueError(
                "optimizer.lr, optimizer.warmup_updates and optimizer.max_grad_norm must not be "
                f"negative, got {self.lr}, {self.warmup_updates} and {self.max_grad_norm}"
            )


def learning_rate(config: OptimizerConfig, num_steps: int) -> optax.Schedule:
    """Return the learning rate as a function of the optimizer step, for `num_steps` steps."""
    warmup = config.warmup_updates
    if config.schedule == "cosine":
        after = optax.cosine_decay_schedule(config.lr, max(num_steps - warmup, 1))
    else:
        after = optax.constant_schedule(config.lr)
    if warmup == 0:
        return after
    # The first step already moves: it uses lr / warmup, not 0.
    ramp = optax.linear_schedule(config.lr / warmup, config.lr, max(warmup - 1, 1))
    return optax.join_schedules([ramp, after], [warmup])


def make_optimizer(config: OptimizerConfig, num_steps: int) -> optax.GradientTransformation:
    """Build the optimizer for a run of `num_steps` optimizer steps."""
    parts = []
    if config.max_grad_norm > 0:
        parts.append(optax.clip_by_global_norm(config.max_grad_norm))
    parts.append(
        optax.adamw(
            learning_rate(config, num_steps),
            b1=config.b1,
            b2=config.b2,
            eps=config.eps,
            weight_decay=config.weight_decay,
        )
    )
    return optax.chain(*parts)

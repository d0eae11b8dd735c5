"""The policy update. It never changes: a stage only changes what stands in the advantages."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxrl_scope.train.batching import (
    Microbatch,
    cut_rows,
    make_microbatches,
    num_row_shards,
)
from jaxrl_scope.train.experience import Experience
from jaxrl_scope.train.losses import LossConfig, LossInputs, LossOutputs, divide, policy_loss
from models import ModelConfig, Qwen3, abstract_params, response_logprobs
from models.partition import constrain, place_abstract, to_host, tree_shardings


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that an update changes, as one pytree.

    Attributes:
      params: the policy.
      opt_state: of the optimizer.
      step: [] int32, optimizer steps taken.
    """

    params: Qwen3
    opt_state: Any
    step: jax.Array


@dataclasses.dataclass(frozen=True)
class UpdateConfig:
    """How a batch of experience becomes optimizer steps.

    Attributes:
      epochs: passes over the batch.
      minibatches: optimizer steps per pass; groups are dealt out whole. With one epoch of one
        minibatch the update is on-policy: every ratio is exactly 1.
      token_budget: most padded tokens that go through the model at once, per shard of rows.
      length_multiple: widths are multiples of this; larger means fewer compilations.
      chunk_tokens: tokens whose logits exist at a time.
    """

    epochs: int = 1
    minibatches: int = 1
    token_budget: int = 16384
    length_multiple: int = 128
    chunk_tokens: int = 1024

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(
                    f"update.{field.name} must be at least 1, got {getattr(self, field.name)}"
                )

    @property
    def steps(self) -> int:
        """Optimizer steps per batch."""
        return self.epochs * self.minibatches


def init_state(
    params: Qwen3, optimizer: optax.GradientTransformation, mesh: Mesh | None = None
) -> TrainState:
    """Start training from `params`; the optimizer's moments are born sharded like the weights.

    Args:
      params: on `mesh`, as the sharding rules say, if there is one.
      optimizer: as `make_optimizer` builds it.
      mesh: devices; None for the default one.
    """

    def start(params):
        return optimizer.init(params), jnp.zeros((), jnp.int32)

    places = None if mesh is None else tree_shardings(jax.eval_shape(start, params), mesh)
    return TrainState(params, *jax.jit(start, out_shardings=places)(params))


def abstract_state(
    cfg: ModelConfig, optimizer: optax.GradientTransformation, mesh: Mesh | None = None
) -> TrainState:
    """What `init_state` returns, as shapes and shardings; allocates nothing."""
    params: Any = abstract_params(cfg)
    step: Any = jax.ShapeDtypeStruct((), jnp.int32)
    state = TrainState(params, jax.eval_shape(optimizer.init, params), step)
    return state if mesh is None else place_abstract(state, tree_shardings(state, mesh))


def loss_and_metrics(
    params: Qwen3,
    batch: Microbatch,
    loss_config: LossConfig,
    temperature: float,
    chunk_tokens: int,
    mesh: Mesh | None = None,
) -> LossOutputs:
    """Run the model on a microbatch and compute (sum, count) of the loss and of each metric."""
    policy, entropy = response_logprobs(
        params,
        batch.prompt_ids,
        batch.prompt_len,
        batch.response_ids,
        batch.response_len,
        temperature=temperature,
        chunk_tokens=chunk_tokens,
        mesh=mesh,
    )
    # On-policy the old log-probabilities are the policy's own, and need no pass of their own.
    old = jax.lax.stop_gradient(policy) if batch.old_logprobs is None else batch.old_logprobs
    inputs = LossInputs(
        policy_logprobs=policy,
        old_logprobs=old,
        rollout_logprobs=batch.rollout_logprobs,
        advantages=batch.advantages,
        entropy=entropy,
        mask=batch.mask,
        ref_logprobs=batch.ref_logprobs,
    )
    return policy_loss(inputs, loss_config)


class Updater:
    """Applies updates; holds the compiled functions of one run."""

    def __init__(
        self,
        optimizer: optax.GradientTransformation,
        loss_config: LossConfig,
        config: UpdateConfig,
        *,
        temperature: float = 1.0,
        mesh: Mesh | None = None,
        reference: Qwen3 | None = None,
    ):
        """Compile nothing yet.

        Args:
          optimizer: as `make_optimizer` builds it.
          loss_config: the policy loss.
          config: how batches are cut.
          temperature: of the rollouts; the trainer's distribution is tempered alike.
          mesh: devices; None for the default one.
          reference: frozen policy of the KL term; needed only if `loss_config.kl_coef` > 0.
        """
        needs_reference = loss_config.kl_coef > 0
        self._config, self._mesh = config, mesh
        self._reference = reference if needs_reference else None
        if needs_reference and reference is None:
            raise ValueError("loss.kl_coef > 0 needs a reference model")
        model_args = (temperature, config.chunk_tokens)
        gradient = functools.partial(_gradient, loss_config, *model_args, mesh)
        self._accumulate = jax.jit(
            functools.partial(_accumulate, gradient), donate_argnames="total"
        )
        self._first = jax.jit(gradient)
        self._apply = jax.jit(functools.partial(_apply, optimizer, mesh), donate_argnames="state")
        self._logprobs = jax.jit(functools.partial(_logprobs, *model_args, mesh))

    def update(
        self, state: TrainState, experience: Experience, key: jax.Array, group_size: int
    ) -> tuple[TrainState, dict[str, float]]:
        """Take the optimizer steps that one batch gives.

        Args:
          state: consumed; its buffers are reused.
          experience: R rows, group-major.
          key: shuffles groups into minibatches.
          group_size: G; the rows of a group stay together.

        Returns:
          The new state, and metrics averaged over the steps.
        """
        steps = [
            self._prepare(state.params, experience, rows)
            for rows in self._deal(experience.num_rows, group_size, key)
        ]
        history = []
        for microbatches in steps:
            if not microbatches:
                continue  # no token in the loss: nothing to learn, and no step to take
            state, metrics = self.step(state, microbatches)
            history.append(jax.device_get(metrics))
        if not history:
            return state, {"policy/loss": 0.0, "policy/grad_norm": 0.0, "policy/steps": 0.0}
        mean = {name: float(np.mean([m[name] for m in history])) for name in history[0]}
        return state, mean | {"policy/steps": float(len(history))}

    def step(
        self, state: TrainState, microbatches: Sequence[Microbatch]
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        """Take one optimizer step over at least one microbatch; `state` is consumed."""
        total = self._first(state.params, microbatches[0])
        for batch in microbatches[1:]:
            total = self._accumulate(state.params, batch, total=total)
        return self._apply(state, total)

    def lower(self, state: TrainState, batch: Microbatch) -> dict[str, jax.stages.Lowered]:
        """A step's programs for abstract arguments: "gradient", "apply" and "logprobs"."""
        total = jax.eval_shape(self._first, state.params, batch)
        if self._mesh is not None:
            total = place_abstract(total, tree_shardings(total, self._mesh))
        return {
            "gradient": self._accumulate.lower(state.params, batch, total=total),
            "apply": self._apply.lower(state, total),
            "logprobs": self._logprobs.lower(state.params, batch),
        }

    def logprobs(self, params: Qwen3, batch: Microbatch) -> jax.Array:
        """[R, T] float32 log-probabilities of the responses under `params`; 0 at padding."""
        return self._logprobs(params, batch)

    def score(self, params: Qwen3, experience: Experience) -> np.ndarray:
        """[R, T] float32 log-probabilities of the responses that enter the loss; 0 elsewhere."""
        config, out = self._config, np.zeros(experience.response_ids.shape, np.float32)
        every = np.arange(experience.num_rows)
        shape = (config.token_budget, config.length_multiple)
        cuts = cut_rows(experience, every, *shape, num_row_shards(self._mesh))
        batches = make_microbatches(
            experience,
            every,
            token_budget=config.token_budget,
            length_multiple=config.length_multiple,
            mesh=self._mesh,
        )
        for (rows, *_), batch in zip(cuts, batches, strict=True):
            width = min(batch.response_ids.shape[1], experience.response_ids.shape[1])
            out[rows, :width] = to_host(self.logprobs(params, batch))[: len(rows), :width]
        return out

    def _deal(self, num_rows: int, group_size: int, key: jax.Array) -> list[np.ndarray]:
        """Row numbers of each step's minibatch."""
        rows = np.arange(num_rows).reshape(-1, group_size)  # [R] -> [B, G]
        if self._config.minibatches > len(rows):
            raise ValueError(
                f"update.minibatches ({self._config.minibatches}) exceeds the {len(rows)} groups "
                "of a batch; a group is never split"
            )
        if self._config.steps == 1:
            return [rows.reshape(-1)]
        dealt = []
        for epoch in range(self._config.epochs):
            order = jax.random.permutation(jax.random.fold_in(key, epoch), len(rows))
            parts = np.array_split(rows[np.asarray(order)], self._config.minibatches)
            dealt += [part.reshape(-1) for part in parts]
        return dealt

    def _prepare(self, params: Qwen3, experience: Experience, rows: np.ndarray) -> list[Microbatch]:
        """Cut a minibatch and add the log-probabilities that the loss compares with."""
        config = self._config
        batches = make_microbatches(
            experience,
            rows,
            token_budget=config.token_budget,
            length_multiple=config.length_multiple,
            mesh=self._mesh,
        )
        if config.steps > 1 and experience.old_logprobs is None:
            batches = [
                dataclasses.replace(b, old_logprobs=self.logprobs(params, b)) for b in batches
            ]
        if self._reference is not None:
            reference = self._reference
            batches = [
                dataclasses.replace(b, ref_logprobs=self.logprobs(reference, b)) for b in batches
            ]
        return batches


def _logprobs(temperature: float, chunk_tokens: int, mesh, params: Qwen3, batch: Microbatch):
    return response_logprobs(
        params,
        batch.prompt_ids,
        batch.prompt_len,
        batch.response_ids,
        batch.response_len,
        temperature=temperature,
        chunk_tokens=chunk_tokens,
        mesh=mesh,
    )[0]


def _gradient(loss_config, temperature, chunk_tokens, mesh, params: Qwen3, batch: Microbatch):
    """Return (gradient of the loss sum, LossOutputs) of one microbatch."""

    def loss_sum(params):
        outputs = loss_and_metrics(params, batch, loss_config, temperature, chunk_tokens, mesh)
        return outputs.loss[0], outputs

    return constrain(jax.grad(loss_sum, has_aux=True)(params), mesh)


def _accumulate(gradient, params, batch, *, total):
    return jax.tree.map(jnp.add, total, gradient(params, batch))


def _apply(optimizer, mesh, state: TrainState, total) -> tuple[TrainState, dict[str, jax.Array]]:
    """Divide the sums by the global count and take one optimizer step."""
    gradient, outputs = total
    count = outputs.loss[1]
    scale = jnp.where(count > 0, 1.0 / jnp.where(count > 0, count, 1.0), 0.0)
    gradient = jax.tree.map(lambda g: g * scale.astype(g.dtype), gradient)
    params: Any = state.params  # optax's types know arrays and containers, not modules
    updates, opt_state = optimizer.update(gradient, state.opt_state, params)
    params = optax.apply_updates(params, updates)
    metrics = {name: divide(pair) for name, pair in outputs.metrics.items()}
    metrics["policy/loss"] = divide(outputs.loss)
    metrics["policy/grad_norm"] = optax.tree.norm(gradient)
    metrics["policy/tokens"] = outputs.metrics["policy/entropy"][1]
    return constrain(TrainState(params, opt_state, state.step + 1), mesh), metrics

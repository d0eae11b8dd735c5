"""Supervised warm start: imitation of demonstrations, several packed in a row."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
from models import Qwen3, forward_hidden, token_logprobs

Demonstration = tuple[np.ndarray, np.ndarray]  # prompt ids, response ids with end-of-text


@dataclasses.dataclass(frozen=True)
class WarmStartConfig:
    """Settings of the warm start.

    Attributes:
      updates: optimizer steps.
      rows: packed rows per step.
      width: tokens per row; a longer demonstration is left out.
      optimizer: AdamW settings.
    """

    updates: int = 450
    rows: int = 32
    width: int = 128
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(
            lr=5e-3, schedule="cosine", warmup_updates=20, b2=0.98
        )
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PackedBatch:
    """Demonstrations end to end in rows; all fields [rows, width], of numpy or of JAX.

    Attributes:
      ids: int32 tokens, 0 at padding.
      positions: int32 position within its own demonstration.
      segments: int32 number of the demonstration within the row, -1 at padding.
      is_response: bool, tokens that are imitated.
    """

    ids: Any
    positions: Any
    segments: Any
    is_response: Any


def pack(demonstrations: Iterable[Demonstration], rows: int, width: int) -> Iterator[PackedBatch]:
    """Fill batches of rows with demonstrations, each in the first row that has room for it."""
    batch, used = _empty(rows, width), np.zeros((rows, 2), np.int64)  # tokens, demonstrations
    for prompt, response in demonstrations:
        length = len(prompt) + len(response)
        if length > width:
            continue
        room = np.flatnonzero(used[:, 0] + length <= width)
        if not room.size:
            yield batch
            batch, used = _empty(rows, width), np.zeros((rows, 2), np.int64)
            room = np.zeros(1, int)
        row = room[0]
        here = slice(used[row, 0], used[row, 0] + length)
        batch.ids[row, here] = np.concatenate([prompt, response])
        batch.positions[row, here] = np.arange(length)
        batch.segments[row, here] = used[row, 1]
        batch.is_response[row, here] = np.arange(length) >= len(prompt)
        used[row] += (length, 1)


def _empty(rows: int, width: int) -> PackedBatch:
    shape = (rows, width)
    return PackedBatch(
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int32),
        np.full(shape, -1, np.int32),
        np.zeros(shape, bool),
    )


def warm_start(
    model: Qwen3,
    demonstrations: Iterable[Demonstration],
    config: WarmStartConfig,
    on_update: Callable[[int, float], None] = lambda update, loss: None,
) -> Qwen3:
    """Train `model` to imitate demonstrations, drawn without end, for `config.updates` steps.

    Args:
      model: where to start; consumed.
      demonstrations: at least as many as the steps need.
      config: sizes and optimizer.
      on_update: called with the number of steps done and the loss, in nats per response token.

    Returns:
      The trained model.

    Raises:
      ValueError: the demonstrations ran out.
    """
    optimizer = make_optimizer(config.optimizer, config.updates)
    step = jax.jit(
        lambda model, opt_state, batch: _step(optimizer, model, opt_state, batch),
        donate_argnums=(0, 1),
    )
    opt_state = jax.jit(optimizer.init)(model)
    batches = pack(demonstrations, config.rows, config.width)
    for update in range(config.updates):
        batch = next(batches, None)
        if batch is None:
            raise ValueError(
                f"the demonstrations ran out after {update} of {config.updates} updates"
            )
        model, opt_state, loss = step(model, opt_state, batch)
        on_update(update + 1, float(loss))
    return model


def _step(optimizer: optax.GradientTransformation, model: Any, opt_state: Any, batch):
    loss, gradient = jax.value_and_grad(imitation_loss)(model, batch)
    updates, opt_state = optimizer.update(gradient, opt_state, model)
    return optax.apply_updates(model, updates), opt_state, loss


def imitation_loss(model: Qwen3, batch: PackedBatch) -> jax.Array:
    """Mean negative log-probability of the response tokens of a packed batch, in nats."""
    hidden = forward_hidden(model, batch.ids, batch.positions, segments=batch.segments)
    logprobs, _ = token_logprobs(model, hidden[:, :-1], batch.ids[:, 1:], chunk_tokens=1 << 14)
    mask = batch.is_response[:, 1:]
    return -jnp.sum(jnp.where(mask, logprobs, 0.0)) / jnp.maximum(jnp.sum(mask), 1)

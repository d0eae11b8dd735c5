"""A run's programs, compiled for its mesh from shapes alone: no weight is ever allocated."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.plan.hlo import Cost, program_cost
from jaxrl_scope.rollout import jax_sampler
from jaxrl_scope.rollout.types import SamplingParams
from jaxrl_scope.train.batching import Microbatch, full_shape
from jaxrl_scope.train.optimizer import make_optimizer
from jaxrl_scope.train.update import TrainState, Updater, abstract_state
from models import ModelConfig, Qwen3
from models.decode import KeyValues, decode_weights
from models.partition import MESH_AXES, decode_sharding, spec


@dataclasses.dataclass(frozen=True)
class Program:
    """One compiled program, per device.

    Attributes:
      arguments, outputs, aliased, temporaries: bytes of its buffers; `aliased` are outputs that
        reuse arguments.
      cost: arithmetic and traffic of one run.
    """

    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    cost: Cost

    @property
    def extra(self) -> int:
        """Bytes that a run takes besides its arguments."""
        return self.outputs - self.aliased + self.temporaries


def compile_program(lowered: jax.stages.Lowered) -> Program:
    """Compile, and read what XLA says of the result."""
    compiled = lowered.compile()
    memory, text = compiled.memory_analysis(), compiled.as_text()
    if memory is None or text is None:
        raise RuntimeError(f"{jax.default_backend()} says nothing of the memory of a program")
    return Program(
        arguments=memory.argument_size_in_bytes,
        outputs=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        cost=program_cost(text),
    )


def bytes_per_device(tree) -> int:
    """Bytes of one device's part of a tree of placed shapes."""
    return sum(
        x.dtype.itemsize * _size(x.sharding.shard_shape(x.shape) if x.sharding else x.shape)
        for x in jax.tree.leaves(tree)
    )


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def train_programs(
    config: TrainConfig, model: ModelConfig, mesh: jax.sharding.Mesh
) -> tuple[TrainState, Microbatch, dict[str, jax.stages.Lowered]]:
    """The train state, a microbatch of the longest rows, and the programs of a step on them."""
    optimizer = make_optimizer(config.optimizer, config.num_steps)
    state = abstract_state(model, optimizer, mesh)
    rows, prompt, width = full_shape(
        config.data.max_prompt_len,
        config.rollout.max_response_len,
        token_budget=config.update.token_budget,
        length_multiple=config.update.length_multiple,
        mesh=mesh,
    )
    row = _placer(mesh)
    batch = Microbatch(
        prompt_ids=row((rows, prompt), jnp.int32),
        prompt_len=row((rows,), jnp.int32),
        response_ids=row((rows, width), jnp.int32),
        response_len=row((rows,), jnp.int32),
        rollout_logprobs=row((rows, width), jnp.float32),
        advantages=row((rows, width), jnp.float32),
        mask=row((rows, width), jnp.bool_),
    )
    updater = Updater(
        optimizer, config.loss, config.update, temperature=config.rollout.temperature, mesh=mesh
    )
    return state, batch, updater.lower(state, batch)


def _placer(mesh: jax.sharding.Mesh) -> Callable[..., Any]:
    """Shapes with their places; typed as what they stand for, arrays."""

    def place(shape, dtype, *axes):
        axes = axes or ("rows", *[None] * (len(shape) - 1))
        sharding = jax.sharding.NamedSharding(mesh, spec(axes))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    return place


@dataclasses.dataclass(frozen=True)
class Decoding:
    """What decoding holds, per device, and its program.

    Attributes:
      problems: sampled at a time, over all devices.
      rows: sampled at a time, over all devices.
      weights: bytes of the weights as decoding reads them.
      cache: bytes of keys and values at full length.
      growth: bytes of the cache before its last growth, which is live beside the grown one.
      lowered: the program that samples up to the full length.
    """

    problems: int
    rows: int
    weights: int
    cache: int
    growth: int
    lowered: jax.stages.Lowered


def decode_program(
    config: TrainConfig, model: ModelConfig, mesh: jax.sharding.Mesh, params: Qwen3
) -> Decoding:
    """The sampler's loop at its longest, on as many problems as the cache's bound admits."""
    place = _placer(mesh)
    group, length = config.rollout.group, config.rollout.max_response_len
    sampling = SamplingParams(num_rollouts=group, max_response_len=length)
    bound = int(config.rollout.cache_gib * 2**30)
    problems = jax_sampler.fitting_problems(
        model, mesh, bound, config.data.max_prompt_len, sampling
    )
    problems = min(problems, config.data.batch_problems)
    rows = problems * group
    rest, layers = jax.eval_shape(decode_weights, params)
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rest, layers = (
        jax.tree.map(
            lambda w: _placed(w, decode_sharding(w.axes[-w.ndim :], mesh)),
            tree,
            is_leaf=lambda x: hasattr(x, "axes"),
        )
        for tree in (rest, layers)
    )

    def cache(count: int, width: int) -> list[KeyValues]:
        shape = (count, model.num_kv_heads, width, model.head_dim)
        one = place(shape, model.compute_dtype, "rows", "kv_heads", None, None)
        return [KeyValues(one, one)] * model.num_layers

    windows = jax_sampler.cache_windows(length)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), rows))
    state = jax_sampler.State(
        tokens=place((rows,), jnp.int32),
        done=place((rows,), jnp.bool_),
        ids=place((windows[-1], rows), jnp.int32, None, "rows"),
        logprobs=place((windows[-1], rows), jnp.float32, None, "rows"),
        length=place((rows,), jnp.int32),
        cache=cache(rows, windows[-1]),
    )
    scalar = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
    prompts = cache(problems, config.data.max_prompt_len)
    lowered = jax_sampler.continue_rollouts.lower(
        rest,
        layers,
        prompts,
        place((problems,), jnp.int32),
        state,
        jax.ShapeDtypeStruct(keys.shape, keys.dtype, sharding=whole),
        jax.ShapeDtypeStruct((), jnp.float32, sharding=whole),
        scalar,
        scalar,
        greedy=False,
    )
    before = cache(rows, windows[-2]) if len(windows) > 1 else []
    return Decoding(
        problems=problems,
        rows=rows,
        weights=bytes_per_device((rest, layers)),
        cache=bytes_per_device((state.cache, prompts)),
        growth=bytes_per_device(before),
        lowered=lowered,
    )


def _placed(weight, sharding):
    value = jax.ShapeDtypeStruct(weight.shape, weight.dtype, sharding=sharding)
    return weight.replace(value)


def fake_mesh(config: TrainConfig) -> jax.sharding.Mesh:
    """The run's mesh, also where it has one device: every program then says where things lie."""
    shape = (config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
    devices = jax.devices()[: config.mesh.num_devices]
    types = (jax.sharding.AxisType.Auto,) * 3
    return jax.make_mesh(shape, MESH_AXES, axis_types=types, devices=devices)

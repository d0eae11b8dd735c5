"""What the compiled programs of a mesh hold and send: nothing large is whole on a device.

A wrong constraint changes no value; it shows only in the shapes of the compiled program.
"""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from jaxrl_scope.plan.hlo import program_cost
from jaxrl_scope.rollout import jax_sampler
from jaxrl_scope.rollout.types import Request, SamplingParams
from jaxrl_scope.train.batching import Microbatch
from jaxrl_scope.train.losses import LossConfig
from jaxrl_scope.train.optimizer import OptimizerConfig, make_optimizer
from jaxrl_scope.train.update import UpdateConfig, Updater, abstract_state
from models import ModelConfig, init_params
from models.partition import MESH_AXES, model_shardings, spec

SHAPE = re.compile(r"\b(?:pred|bf16|f16|f32|f64|[su]\d+)\[([\d,]*)\]")
COLLECTIVE = re.compile(
    r" = (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)


def make_mesh(shape):
    types = (jax.sharding.AxisType.Auto,) * 3
    devices = jax.devices()[: math.prod(shape)]
    return jax.make_mesh(shape, MESH_AXES, axis_types=types, devices=devices)


def shapes_in(text: str) -> list[tuple[int, ...]]:
    return [tuple(int(n) for n in dims.split(",") if n) for dims in SHAPE.findall(text)]


def collectives_in(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """(kind, shape) of everything that a program's collectives send, tuples taken apart."""
    return [
        (kind, shape) for results, kind in COLLECTIVE.findall(text) for shape in shapes_in(results)
    ]


# Sizes are such that every large thing, whole or gathered over fsdp alone, is larger than the one
# table that may be gathered: all layers of a weight, the logits and the activations of all rows.
WIDE = ModelConfig(
    vocab_size=8192, num_layers=8, embed_dim=64, mlp_dim=1280, num_q_heads=4, num_kv_heads=2,
    head_dim=16,
)  # fmt: skip
ROWS, PROMPT, LENGTH = 16, 16, 48


def lower_step(mesh, chunk_tokens=32):
    """The lowered programs of a step of `WIDE`."""

    def row(shape, dtype):
        places = NamedSharding(mesh, spec(("rows", *[None] * (len(shape) - 1))))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=places)

    batch = Microbatch(
        prompt_ids=row((ROWS, PROMPT), jnp.int32),
        prompt_len=row((ROWS,), jnp.int32),
        response_ids=row((ROWS, LENGTH), jnp.int32),
        response_len=row((ROWS,), jnp.int32),
        rollout_logprobs=row((ROWS, LENGTH), jnp.float32),
        advantages=row((ROWS, LENGTH), jnp.float32),
        mask=row((ROWS, LENGTH), jnp.bool_),
    )
    optimizer = make_optimizer(OptimizerConfig(), 10)
    state = abstract_state(WIDE, optimizer, mesh)
    updater = Updater(optimizer, LossConfig(), UpdateConfig(chunk_tokens=chunk_tokens), mesh=mesh)
    return updater.lower(state, batch)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 8, 1), (1, 4, 2), (2, 2, 2)])
def test_a_train_step_holds_nothing_large_whole(shape):
    mesh = make_mesh(shape)
    _, fsdp, tensor = shape
    compiled = {name: program.compile() for name, program in lower_step(mesh).items()}
    weights = 4 * WIDE.num_params / (fsdp * tensor)
    norms = 4 * WIDE.num_layers * (2 * WIDE.embed_dim + 2 * WIDE.head_dim)
    held = {"gradient": 2 * weights, "apply": 4 * weights, "logprobs": weights}
    for name, program in compiled.items():
        arguments = program.memory_analysis().argument_size_in_bytes
        assert held[name] <= arguments < 1.05 * held[name] + 4 * norms + 20_000, name

    table = WIDE.vocab_size * WIDE.embed_dim // tensor
    layers = WIDE.num_layers * WIDE.embed_dim * WIDE.mlp_dim // tensor
    activations = ROWS * (PROMPT + LENGTH) * WIDE.mlp_dim // tensor
    row_shards = shape[0] * fsdp
    scores = ROWS * LENGTH * WIDE.vocab_size // (row_shards * tensor)
    assert table < min(layers, activations, scores)
    for name in ("gradient", "logprobs"):
        largest = max(shapes_in(compiled[name].as_text()), key=math.prod)
        assert math.prod(largest) <= table, (name, largest)
    # The optimizer works on each device's part; only sums of squares and metrics are shared.
    assert all(math.prod(s) == 1 for _, s in collectives_in(compiled["apply"].as_text()))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 8, 1), (1, 4, 2), (2, 2, 2)])
def test_the_head_is_sent_once_however_many_chunks_there_are(shape):
    mesh = make_mesh(shape)
    many, one = (
        program_cost(lower_step(mesh, chunk_tokens)["gradient"].compile().as_text())
        for chunk_tokens in (32, ROWS * LENGTH)
    )
    assert many.flops > 1.04 * one.flops  # several chunks: the logits are made again
    sent, expected = (sum(cost.collective_bytes.values()) for cost in (many, one))
    assert sent <= 1.02 * expected


DEEP = ModelConfig(
    vocab_size=5000, num_layers=2, embed_dim=64, mlp_dim=160, num_q_heads=8, num_kv_heads=4,
    head_dim=16, eos_token_ids=(1,),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 2, 4)])
def test_decoding_sends_two_sums_a_layer_and_no_weight_or_cache(shape, monkeypatch):
    mesh = make_mesh(shape)
    model = init_params(DEEP, jax.random.key(0))
    model = jax.device_put(model, model_shardings(model, mesh))
    sampler = jax_sampler.JaxSampler(DEEP, model, mesh=mesh)
    texts, real = [], jax_sampler.continue_rollouts
    lies = NamedSharding(mesh, spec(("rows", "kv_heads", None, None)))

    def assert_split(caches):
        for cache in jax.tree.leaves(caches):
            assert cache.sharding.is_equivalent_to(lies, 4)

    def watched(*args, **kwargs):
        prompts, state = args[2], args[4]
        texts.append(real.lower(*args, **kwargs).compile().as_text())
        assert_split((prompts, state.cache))
        state = real(*args, **kwargs)
        assert_split(state.cache)
        return state

    monkeypatch.setattr(jax_sampler, "continue_rollouts", watched)
    requests = [Request(np.arange(3, 9 + i, dtype=np.int32), key=i) for i in range(4)]
    sampler.generate(requests, SamplingParams(num_rollouts=2, max_response_len=40))
    assert len(texts) == 2  # the cache has grown once

    rows = 8 // shape[1]
    small = rows * 3 * math.isqrt(DEEP.vocab_size)  # the two-level draw looks at blocks
    assert small < min(DEEP.embed_dim * 64, rows * DEEP.vocab_size) // shape[2]
    for text in texts:
        sent = collectives_in(text)
        sums = [s for kind, s in sent if kind == "all-reduce" and s == (rows, 1, DEEP.embed_dim)]
        # Two a layer, and the embedding of the token.
        assert len(sums) == 2 * DEEP.num_layers + 1
        for kind, result in sent:
            assert math.prod(result) <= small, (kind, result)

"""Arithmetic and traffic as counted in compiled programs, against counts by hand."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from jaxrl_scope.plan.hlo import program_cost
from models.partition import MESH_AXES


def compiled_text(function, *shapes, shardings=None) -> str:
    shardings = shardings or [None] * len(shapes)
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
        for shape, sharding in zip(shapes, shardings, strict=True)
    ]
    return jax.jit(function).lower(*arguments).compile().as_text()


def test_a_loop_counts_as_often_as_it_runs():
    def function(x, w):
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=7)[0]

    cost = program_cost(compiled_text(function, (128, 256), (256, 256)))
    assert cost.flops == 7 * 2 * 128 * 256 * 256
    assert not cost.collective_bytes


def test_work_is_per_device_and_traffic_is_counted_in_loops():
    mesh = jax.make_mesh((1, 8, 1), MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    rows, weights = (NamedSharding(mesh, PartitionSpec("fsdp")) for _ in range(2))

    def function(x, w):
        def body(x, _):
            return jax.lax.with_sharding_constraint(jnp.tanh(x @ w), rows), None

        return jax.lax.scan(body, x, None, length=3)[0]

    text = compiled_text(function, (512, 256), (256, 256), shardings=[rows, weights])
    cost = program_cost(text)
    assert cost.flops == 3 * 2 * (512 // 8) * 256 * 256
    # The weights are gathered, in each iteration or once before them.
    assert cost.collective_bytes.keys() == {"all-gather"}
    assert cost.collective_bytes["all-gather"] in (4 * 256 * 256, 3 * 4 * 256 * 256)


def test_bytes_of_a_sum_over_devices():
    mesh = jax.make_mesh((8, 1, 1), MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    split = NamedSharding(mesh, PartitionSpec(None, "data"))
    text = compiled_text(lambda x: x.sum(axis=1), (96, 64), shardings=[split])
    assert program_cost(text).collective_bytes == pytest.approx({"all-reduce": 4 * 96})

"""Sharding by one table: axis names of weights and activations -> axes of the mesh."""

import math
from typing import Any, TypeVar

import jax
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tree = TypeVar("Tree")
Module = TypeVar("Module", bound=nnx.Module)

MESH_AXES = ("data", "fsdp", "tensor")
ROW_AXES = ("data", "fsdp")

RULES: dict[str, str | tuple[str, ...] | None] = {
    "layers": None,
    "embed": "fsdp",
    "vocab": "tensor",
    "q_heads": "tensor",
    "kv_heads": "tensor",
    "head_dim": None,
    "mlp": "tensor",
    "norm": None,
    "rows": ROW_AXES,
}


def spec(axes: tuple[str | None, ...]) -> PartitionSpec:
    """The PartitionSpec of an array with these axis names; None names an axis that is not sharded.

    Raises:
      ValueError: an unknown name, or two axes that would be split over one mesh axis.
    """
    unknown = [a for a in axes if a is not None and a not in RULES]
    if unknown:
        raise ValueError(f"unknown axis names {unknown}; known: {', '.join(RULES)}.")
    parts = [None if a is None else RULES[a] for a in axes]
    used = [m for p in parts if p for m in ((p,) if isinstance(p, str) else p)]
    if len(used) != len(set(used)):
        raise ValueError(f"axes {axes} map to {parts}: a mesh axis can split only one of them.")
    return PartitionSpec(*parts)


def model_shardings(model: Module, mesh: Mesh) -> Module:
    """The model's tree with a NamedSharding for every weight."""
    return jax.tree.map(
        lambda p: p.replace(NamedSharding(mesh, spec(p.axes))),
        model,
        is_leaf=lambda x: isinstance(x, nnx.Variable),
    )


def tree_shardings(tree: Tree, mesh: Mesh) -> Tree:
    """Shardings of a tree in which models stand: a train state, an optimizer's state, gradients.

    Whatever has the structure of a model (its moments, its gradient) lies as the model does;
    everything else, counters and such, lies whole on every device.
    """

    def place(node):
        if isinstance(node, nnx.Module):
            return model_shardings(node, mesh)
        return NamedSharding(mesh, PartitionSpec())

    return jax.tree.map(place, tree, is_leaf=lambda node: isinstance(node, nnx.Module))


def place_abstract(tree: Tree, shardings: Tree) -> Tree:
    """A tree of shapes (`jax.ShapeDtypeStruct`) with its shardings."""
    return jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings
    )


def constrain(tree: Tree, mesh: Mesh | None) -> Tree:
    """Inside `jit`: keep `tree` where `tree_shardings` puts it; unchanged without a mesh."""
    return (
        tree if mesh is None else jax.lax.with_sharding_constraint(tree, tree_shardings(tree, mesh))
    )


def decode_sharding(axes: tuple[str | None, ...], mesh: Mesh) -> NamedSharding:
    """Where decoding reads a weight from: split over `tensor` alone, whole along the other axes.

    A decoding step uses every weight for a few rows only, so that gathering weights step by step
    would cost more than everything else in it.
    """
    return NamedSharding(mesh, PartitionSpec(*(p if p == "tensor" else None for p in spec(axes))))


def num_row_shards(mesh: Mesh | None) -> int:
    """How many parts the rows of a batch are split into."""
    return 1 if mesh is None else math.prod(mesh.shape[axis] for axis in ROW_AXES)


def shard_rows(x: np.ndarray, mesh: Mesh | None) -> jax.Array:
    """A host array on the devices, its leading axis split over rows' mesh axes.

    With several processes each holds the whole of `x` and places the part of its own devices.
    """
    if mesh is None:
        return jax.device_put(x)
    axes = ("rows", *[None] * (x.ndim - 1))
    return jax.make_array_from_callback(x.shape, NamedSharding(mesh, spec(axes)), lambda i: x[i])


def to_host(tree: Any) -> Any:
    """The arrays of a tree as NumPy arrays, whole on every process that takes part in them."""
    if all(x.is_fully_addressable or x.is_fully_replicated for x in jax.tree.leaves(tree)):
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def constrain_axes(x: jax.Array, axes: tuple[str | None, ...], mesh: Mesh | None) -> jax.Array:
    """Inside `jit`: split `x` as the rules split axes of these names; unchanged without a mesh."""
    if mesh is None:
        return x
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec(axes)))

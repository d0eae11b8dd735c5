"""Sharding by one table: axis names of weights and activations -> axes of the mesh."""

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from models.qwen3 import Qwen3

MESH_AXES = ("data", "fsdp", "tensor")

RULES: dict[str, str | tuple[str, ...] | None] = {
    "layers": None,
    "embed": "fsdp",
    "vocab": "tensor",
    "q_heads": "tensor",
    "kv_heads": "tensor",
    "head_dim": None,
    "mlp": "tensor",
    "norm": None,
    "rows": ("data", "fsdp"),
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


def model_shardings(model: Qwen3, mesh: Mesh) -> Qwen3:
    """The model's tree with a NamedSharding for every weight."""
    return jax.tree.map(
        lambda p: p.replace(NamedSharding(mesh, spec(p.axes))),
        model,
        is_leaf=lambda x: isinstance(x, nnx.Variable),
    )

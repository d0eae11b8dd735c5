"""The trainer's side of a sync: the policy as an orbax checkpoint in Hugging Face's layout."""

import contextlib
import dataclasses
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.rollout.vllm.weights import MARKER, TENSORS, Manifest
from models import Qwen3
from models.hf import Entry, hf_table

_MODEL_FIELDS = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "tie_word_embeddings"),
)


def write_weights(folder: Path, model: Qwen3, version: int, dtype: str = "") -> Manifest:
    """Write `model` as version `version` into the new folder `folder`.

    Args:
      folder: absolute; must not exist. The servers read it under the same path.
      model: the policy.
      version: number of these weights.
      dtype: to write in; "" keeps that of the weights.

    Raises:
      OSError: it cannot be written; no marker was.
    """
    tensors = _to_hf_arrays(model, dtype or str(model.embed[...].dtype))
    folder.mkdir(parents=True)
    # Weights do not compress, and one file per tensor is the quickest to write and to read.
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_compression=False)
    with _quiet_orbax(), ocp.Checkpointer(handler) as writer:
        writer.save(folder / TENSORS, args=ocp.args.PyTreeSave(tensors))
    config = model.cfg.to_hf()
    manifest = Manifest(
        version,
        {name: config[name] for name in _MODEL_FIELDS if name in config},
        {name: (x.shape, str(x.dtype)) for name, x in tensors.items()},
        {
            str(path.relative_to(folder)): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    )
    text = json.dumps(dataclasses.asdict(manifest))
    write_atomic(folder / MARKER, lambda file: file.write(text.encode()))
    return manifest


@contextlib.contextmanager
def _quiet_orbax() -> Iterator[None]:
    """Keep back the warning that there is nothing to merge, which follows every such save."""
    logger = logging.getLogger("absl")

    def is_news(record: logging.LogRecord) -> bool:
        return "Skipping merge of OCDBT" not in record.getMessage()

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


def _to_hf_arrays(model: Qwen3, dtype: str) -> dict[str, jax.Array]:
    """HF name -> array in HF's layout, transposed on the devices; shards stay where they are."""
    named: dict[str, jax.Array] = {}
    for entry, weight in hf_table(model):
        value = weight[...]
        if not entry.per_layer:
            named[entry.theirs] = value.astype(dtype)
            continue
        for i, layer in enumerate(_split_layers(value, entry=entry, dtype=dtype)):
            named[entry.theirs.format(i)] = layer
    return named


def _layout(value: jax.Array, entry: Entry) -> jax.Array:
    if entry.inputs:
        return value.reshape(math.prod(value.shape[: entry.inputs]), -1).T
    return value.reshape(-1) if entry.ours.endswith("_bias") else value


def _split(value: jax.Array, entry: Entry, dtype: str) -> list[jax.Array]:
    return [_layout(layer, entry).astype(dtype) for layer in value]


_split_layers = jax.jit(_split, static_argnames=("entry", "dtype"))

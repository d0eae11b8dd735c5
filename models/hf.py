"""Hugging Face names and files: one table, read in both directions.

Import streams: each device's part of each weight is read from the memory-mapped safetensors file,
so that no full copy of the model is made on the host. Export writes one tensor after another.
"""

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import safe_open
from safetensors.numpy import save_file

from models.config import ModelConfig
from models.partition import model_shardings
from models.qwen3 import Qwen3, abstract_params

SHARD_BYTES = 4 * 2**30


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row of the name table.

    Attributes:
      ours: attribute of `Layer` where `per_layer`, of `Qwen3` otherwise.
      theirs: HF name, `{}` standing for the layer.
      inputs: leading axes of our weight (the L axis apart) that are inputs of a projection. HF
        stores a projection as [outputs, inputs], ours is [*inputs, *outputs]; 0 for a weight that
        is no projection, which both store alike but for joined axes.
    """

    ours: str
    theirs: str
    inputs: int = 0

    @property
    def per_layer(self) -> bool:
        """Whether the weight exists once per layer."""
        return "{}" in self.theirs


_LAYER = "model.layers.{}."
TABLE = (
    Entry("embed", "model.embed_tokens.weight"),
    Entry("attn_norm", _LAYER + "input_layernorm.weight"),
    Entry("q_proj", _LAYER + "self_attn.q_proj.weight", inputs=1),
    Entry("k_proj", _LAYER + "self_attn.k_proj.weight", inputs=1),
    Entry("v_proj", _LAYER + "self_attn.v_proj.weight", inputs=1),
    Entry("o_proj", _LAYER + "self_attn.o_proj.weight", inputs=2),
    Entry("q_bias", _LAYER + "self_attn.q_proj.bias"),
    Entry("k_bias", _LAYER + "self_attn.k_proj.bias"),
    Entry("v_bias", _LAYER + "self_attn.v_proj.bias"),
    Entry("o_bias", _LAYER + "self_attn.o_proj.bias"),
    Entry("q_norm", _LAYER + "self_attn.q_norm.weight"),
    Entry("k_norm", _LAYER + "self_attn.k_norm.weight"),
    Entry("mlp_norm", _LAYER + "post_attention_layernorm.weight"),
    Entry("gate_proj", _LAYER + "mlp.gate_proj.weight", inputs=1),
    Entry("up_proj", _LAYER + "mlp.up_proj.weight", inputs=1),
    Entry("down_proj", _LAYER + "mlp.down_proj.weight", inputs=1),
    Entry("final_norm", "model.norm.weight"),
    Entry("head", "lm_head.weight"),
)


def hf_table(model: Qwen3) -> Iterator[tuple[Entry, nnx.Param]]:
    """The rows of the table that `model` has weights for, in the order of a HF checkpoint."""
    for entry in TABLE:
        weight = getattr(model.layers if entry.per_layer else model, entry.ours, None)
        if weight is not None:
            yield entry, weight


def hf_shapes(model: Qwen3) -> dict[str, tuple[int, ...]]:
    """HF name -> shape of every tensor of `model`, which may be abstract."""
    shapes = {}
    for entry, weight in hf_table(model):
        shape = weight.shape[1:] if entry.per_layer else weight.shape
        for i in range(weight.shape[0] if entry.per_layer else 1):
            shapes[entry.theirs.format(i)] = _their_shape(entry, shape)
    return shapes


def to_hf_tensors(model: Qwen3) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (HF name, array); one weight (one layer of it) is on the host at a time.

    Works on a model sharded over the devices of this process; gather first across processes.
    """
    for entry, weight in hf_table(model):
        if not entry.per_layer:
            yield entry.theirs, to_theirs(entry, np.asarray(jax.device_get(weight[...])))
            continue
        for i in range(weight.shape[0]):
            value = np.asarray(jax.device_get(weight[i]))
            yield entry.theirs.format(i), to_theirs(entry, value)


def to_theirs(entry: Entry, value: np.ndarray) -> np.ndarray:
    """One layer's weight from our layout to HF's; a contiguous copy."""
    if entry.inputs:
        split = math.prod(value.shape[: entry.inputs])
        value = value.reshape(split, -1).T
    elif entry.per_layer and entry.ours.endswith("_bias"):
        value = value.reshape(-1)
    return np.ascontiguousarray(value)


def _their_shape(entry: Entry, shape: tuple[int, ...]) -> tuple[int, ...]:
    if entry.inputs:
        return math.prod(shape[entry.inputs :]), math.prod(shape[: entry.inputs])
    return (math.prod(shape),) if entry.ours.endswith("_bias") else shape


def load_hf(
    path: str | os.PathLike,
    *,
    dtype: str | None = None,
    param_dtype: str | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> tuple[ModelConfig, Qwen3]:
    """Load a Hugging Face model directory.

    Args:
      path: directory with `config.json` and safetensors, in one file or sharded with an index.
      dtype: dtype of weights and activations; that of the config by default.
      param_dtype: dtype of the weights where it is another, as for training in bfloat16 on float32
        weights.
      mesh: places every weight by the sharding rules (`models.partition`) as it is read; the
        default device by default.

    Returns:
      (config, model). `eos_token_ids` joins `config.json` and `generation_config.json`.

    Raises:
      FileNotFoundError: the directory, its config or a shard is missing.
      UnsupportedConfigError: the config asks for something that is not computed.
      ValueError: tensors missing, unknown or of another shape; all of them in one message.
    """
    path = Path(path)
    cfg = read_config(path)
    if dtype is not None:
        cfg = dataclasses.replace(cfg, dtype=dtype, param_dtype=dtype)
    if param_dtype is not None:
        cfg = dataclasses.replace(cfg, param_dtype=param_dtype)
    model = abstract_params(cfg)
    with _Tensors(path) as tensors:
        tensors.check(hf_shapes(model), tied=cfg.tie_embeddings)
        shardings = model_shardings(model, mesh) if mesh is not None else None
        for entry, weight in hf_table(model):
            owner = model.layers if entry.per_layer else model
            sharding = None
            if shardings is not None:
                where = shardings.layers if entry.per_layer else shardings
                sharding = getattr(where, entry.ours).get_value()
            array = _read_weight(tensors, entry, weight, sharding)
            setattr(owner, entry.ours, weight.replace(array))
    return cfg, model


def read_config(path: str | os.PathLike) -> ModelConfig:
    """The `ModelConfig` of a Hugging Face directory."""
    path = Path(path)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path} holds no config.json; a Hugging Face model directory is expected "
            "(config.json, *.safetensors, tokenizer files)."
        )
    cfg = ModelConfig.from_hf(_read_json(path / "config.json"))
    generation = path / "generation_config.json"
    if generation.is_file():
        settings = _read_json(generation)
        extra = settings.get("eos_token_id")
        extra = extra if isinstance(extra, list) else [] if extra is None else [extra]
        eos = tuple(dict.fromkeys((*cfg.eos_token_ids, *extra)))
        pad = cfg.pad_token_id if cfg.pad_token_id is not None else settings.get("pad_token_id")
        cfg = dataclasses.replace(cfg, eos_token_ids=eos, pad_token_id=pad)
    return cfg


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}.") from error


class _Tensors:
    """The tensors of a directory, memory-mapped, read a slice at a time."""

    def __init__(self, path: Path):
        self._path = path
        index = path / "model.safetensors.index.json"
        if index.is_file():
            names = sorted(set(_read_json(index)["weight_map"].values()))
        else:
            names = sorted(file.name for file in path.glob("*.safetensors"))
        if not names:
            raise FileNotFoundError(f"{path} holds no *.safetensors file.")
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            raise FileNotFoundError(f"{path} lacks {', '.join(missing)}, which its index names.")
        self._files = [safe_open(path / name, "np") for name in names]
        self._where: dict[str, Any] = {}
        for file in self._files:
            for name in file.keys():  # noqa: SIM118 - a safetensors handle is no mapping
                self._where[name] = file

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._files.clear()
        self._where.clear()

    def slice(self, name: str):
        """A lazy handle that reads what is indexed."""
        return self._where[name].get_slice(name)

    def check(self, expected: Mapping[str, tuple[int, ...]], *, tied: bool) -> None:
        """Report every missing, unknown or mis-shaped tensor at once."""
        # Tied checkpoints may carry the head as a second copy, and old ones their rotary tables.
        ignored = {name for name in self._where if name.endswith("rotary_emb.inv_freq")}
        if tied:
            ignored.add("lm_head.weight")
        found = {name: tuple(self.slice(name).get_shape()) for name in self._where}
        problems = [
            f"missing {name} {shape}" for name, shape in expected.items() if name not in found
        ]
        problems += [f"unknown {n}" for n in found if n not in expected and n not in ignored]
        problems += [
            f"{name} is {found[name]}, expected {shape}"
            for name, shape in expected.items()
            if name in found and found[name] != shape
        ]
        if problems:
            shown = "; ".join(problems[:8]) + (
                f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
            )
            raise ValueError(f"the tensors of {self._path} do not fit its config.json: {shown}.")


def _read_weight(tensors: _Tensors, entry: Entry, weight: nnx.Param, sharding) -> jax.Array:
    """Our weight, each device's shard read on its own."""
    shape, dtype = weight.shape, weight.dtype

    def read(index: tuple[slice, ...] | None) -> np.ndarray:
        index = index or tuple(slice(None) for _ in shape)
        starts = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        size = [stop - start for start, stop, _ in starts]
        out = np.empty(size, dtype)
        if not entry.per_layer:
            out[...] = _read_slice(tensors, entry, entry.theirs, index, shape)
            return out
        for row, i in enumerate(range(starts[0][0], starts[0][1])):
            out[row] = _read_slice(tensors, entry, entry.theirs.format(i), index[1:], shape[1:])
        return out

    if sharding is None:
        return jnp.asarray(read(None))
    return jax.make_array_from_callback(shape, sharding, read)


def _read_slice(tensors, entry: Entry, name: str, index, shape) -> np.ndarray:
    """The part `index` of one layer's weight, in our layout."""
    handle = tensors.slice(name)
    if not entry.inputs:
        return handle[:].reshape(shape)[index] if entry.ours.endswith("_bias") else handle[index]
    rows = _joined(index[entry.inputs :], shape[entry.inputs :])
    cols = _joined(index[: entry.inputs], shape[: entry.inputs])
    part = handle[rows, cols].T
    size = [len(range(*s.indices(n))) for s, n in zip(index, shape, strict=True)]
    return part.reshape(size)


def _joined(index, shape) -> slice:
    """The range that a slice of the leading axis covers once all axes are joined into one."""
    start, stop, _ = index[0].indices(shape[0])
    inner = math.prod(shape[1:])
    for part, n in zip(index[1:], shape[1:], strict=True):
        assert part.indices(n) == (0, n, 1), "only the first of joined axes may be sharded"
    return slice(start * inner, stop * inner)


def save_hf(path: str | os.PathLike, cfg: ModelConfig, model: Qwen3) -> None:
    """Write a directory that transformers and vLLM load: two configs and safetensors.

    Files of more than `SHARD_BYTES` are split, with an index. Everything is written into a new
    folder beside `path`, which is then moved into place file by file, the config last: a reader
    never sees a config without its weights.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    config = cfg.to_hf()
    generation = {"eos_token_id": config["eos_token_id"], "pad_token_id": config["pad_token_id"]}
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=path) as staging_name:
        staging = Path(staging_name)
        names = _write_shards(staging, model)
        (staging / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        (staging / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for name in (*names, "generation_config.json", "config.json"):
            with open(staging / name, "rb") as file:
                os.fsync(file.fileno())
            os.replace(staging / name, path / name)


def _write_shards(folder: Path, model: Qwen3) -> list[str]:
    """Write the tensors of `model` into `folder`; returns the files' names."""
    sizes = {name: math.prod(shape) for name, shape in hf_shapes(model).items()}
    itemsize = model.embed[...].dtype.itemsize
    shards: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if filled and filled + size * itemsize > SHARD_BYTES:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size * itemsize
    tensors = to_hf_tensors(model)
    files, weight_map = [], {}
    for i, names in enumerate(shards, 1):
        file = (
            "model.safetensors"
            if len(shards) == 1
            else f"model-{i:05}-of-{len(shards):05}.safetensors"
        )
        part = dict(next(tensors) for _ in names)
        assert list(part) == names, "the table's two orders differ"
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
        files.append(file)
    if len(shards) > 1:
        total = sum(sizes.values()) * itemsize
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
        files.append("model.safetensors.index.json")
    return files

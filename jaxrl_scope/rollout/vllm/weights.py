"""A version of the weights on disk: one orbax checkpoint a folder, its marker written last.

The checkpoint holds the tensors under Hugging Face's names and in its layout (`publish.py` writes
it), so that vLLM's workers, which import this file, need orbax and none of our models. A folder
without a marker does not exist to readers.
"""

import dataclasses
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

MARKER = "complete.json"
TENSORS = "tensors"


class BadWeightsError(ValueError):
    """A folder of weights is unfinished, damaged, or of another model."""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What the marker of a folder says.

    Attributes:
      version: of the weights.
      model: the sizes that a reader's own model must have, by their Hugging Face names.
      tensors: (shape, dtype name) by Hugging Face name, in the order of a checkpoint.
      files: size in bytes of every file, by path in the folder.
    """

    version: int
    model: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], str]]
    files: dict[str, int]


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's marker and check that every file it names is there in full.

    Raises:
      BadWeightsError: no marker, or a file is missing or of another size; it names them.
    """
    try:
        values = json.loads((folder / MARKER).read_text())
        tensors = {n: (tuple(shape), dtype) for n, (shape, dtype) in values["tensors"].items()}
        manifest = Manifest(values["version"], values["model"], tensors, values["files"])
    except FileNotFoundError:
        raise BadWeightsError(
            f"{folder} holds no {MARKER}: it is not a finished version of weights, or this host "
            "does not see the trainer's directory (rollout.vllm.sync_dir must be on a file system "
            "that trainer and servers share under the same path)"
        ) from None
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadWeightsError(f"{folder / MARKER} cannot be read: {error!r}") from error
    problems = []
    for name, size in manifest.files.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            has = "missing" if found is None else f"{found} bytes"
            problems.append(f"{name} is {has}, expected {size} bytes")
    if problems:
        shown = "; ".join(problems[:4])
        raise BadWeightsError(f"version {manifest.version} in {folder} is damaged: {shown}")
    return manifest


def check_model(manifest: Manifest, config: Any) -> None:
    """Check that weights are of the model that a server runs.

    Args:
      manifest: of the weights.
      config: the server's Hugging Face config object.

    Raises:
      BadWeightsError: sizes differ; all of them are named.
    """
    wrong = [
        f"{name} is {value!r}, the server's model has {getattr(config, name)!r}"
        for name, value in manifest.model.items()
        if hasattr(config, name) and getattr(config, name) != value
    ]
    if wrong:
        raise BadWeightsError(
            f"version {manifest.version} is of another model: {'; '.join(wrong)}. Start the server "
            "with the model that is trained"
        )


def read_groups(folder: Path, manifest: Manifest) -> Iterator[dict[str, np.ndarray]]:
    """Yield the tensors a layer at a time (what stands outside the layers as groups of its own).

    The next group is read while the caller works on one, so that two are in memory and no more.
    Tensor-parallel workers of a host read the same files: all but the first get them from the page
    cache.
    """
    groups: dict[str, list[str]] = {}
    for name in manifest.tensors:
        groups.setdefault(_group(name), []).append(name)
    with (
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader,
        ThreadPoolExecutor(1, thread_name_prefix="weights") as thread,
    ):
        ahead = None
        for names in groups.values():
            this, ahead = ahead, thread.submit(_restore, reader, folder / TENSORS, names)
            if this is not None:
                yield this.result()
        if ahead is not None:
            yield ahead.result()


def _restore(reader: ocp.Checkpointer, path: Path, names: list[str]) -> dict[str, np.ndarray]:
    return reader.restore(
        path,
        args=ocp.args.PyTreeRestore(
            item=dict.fromkeys(names, 0),
            restore_args={name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names},
            partial_restore=True,
        ),
    )


def _group(name: str) -> str:
    """The layer's number, or the name itself outside the layers."""
    return next((part for part in name.split(".") if part.isdigit()), name)

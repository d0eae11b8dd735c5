"""The policy to evaluate: a Hugging Face directory, a run of ours, or the built-in model."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import jax
import orbax.checkpoint as ocp
from jax.sharding import Mesh

from jaxrl_scope.config import BUILT_IN, SourceConfig, TrainConfig, override
from jaxrl_scope.train.sources import check_tokenizer, load_tokenizer, locate
from models import ModelConfig, Qwen3, abstract_params, load_hf, model_shardings, read_config

Dtype = Literal["", "float32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Policy:
    """Weights with what is needed to speak to them.

    Attributes:
      config: shape of the model.
      model: the weights.
      tokenizer: the model's own.
      origin: where the weights come from, in words.
      run: settings of the run they were trained in; None for a Hugging Face directory.
    """

    config: ModelConfig
    model: Qwen3
    tokenizer: Any
    origin: str
    run: TrainConfig | None = None


def load_policy(
    path: str,
    *,
    checkpoint: str = "best",
    dtype: Dtype = "",
    param_dtype: Dtype = "",
    cache_dir: str = "",
    mesh: Mesh | None = None,
) -> Policy:
    """Load the weights to evaluate.

    Args:
      path: Hugging Face directory, run directory of launch/train.py, or "world".
      checkpoint: which checkpoint of a run: "best" by validation accuracy, "latest", or an update.
      dtype: of weights and activations; "" takes the directory's own.
      param_dtype: of the weights, where it is another than `dtype`.
      cache_dir: where the built-in world is kept; "" for the default.
      mesh: devices to spread the weights over; None for one.

    Raises:
      ValueError: nothing usable at `path`, or no such checkpoint; it says what was looked for.
    """
    run_dir = Path(path)
    if path == BUILT_IN or not (run_dir / "checkpoints").is_dir():
        home = _directory(path, TrainConfig(cache_dir=cache_dir))
        tokenizer = load_tokenizer(home)
        config, model = load_hf(
            home, dtype=dtype or None, param_dtype=param_dtype or None, mesh=mesh
        )
        check_tokenizer(tokenizer, config, home)
        return Policy(config, model, tokenizer, path)
    run = read_run_config(run_dir)
    run = dataclasses.replace(run, cache_dir=cache_dir or run.cache_dir)
    home = model_home(run)
    tokenizer, config = load_tokenizer(home), read_config(home)
    check_tokenizer(tokenizer, config, home)
    if dtype or param_dtype:
        config = SourceConfig(dtype=dtype, param_dtype=param_dtype).apply(config)
    else:
        config = run.model.apply(config)
    update = choose_checkpoint(run_dir, checkpoint)
    model = restore_params(run_dir, update, config, mesh)
    return Policy(config, model, tokenizer, f"{path}, update {update}", run)


def _directory(path: str, run: TrainConfig) -> Path:
    """The Hugging Face directory that `path` names; the world is built only if it is asked for."""
    return locate(run).model if path == BUILT_IN else Path(path)


def model_home(run: TrainConfig) -> Path:
    """The Hugging Face directory that a run's weights and tokenizer go back to.

    A run may start from another run's checkpoint (stage 2 from stage 1), and that one again.

    Raises:
      ValueError: a run on the way has no readable config.
    """
    home = locate(run).model
    while (home / "checkpoints").is_dir():
        earlier = read_run_config(home)
        home = locate(dataclasses.replace(earlier, cache_dir=run.cache_dir)).model
    return home


def read_run_config(run_dir: Path) -> TrainConfig:
    """Settings of the run in a directory.

    Raises:
      ValueError: no config.json, or one of another version.
    """
    path = run_dir / "config.json"
    try:
        return override(TrainConfig(), json.loads(path.read_text()))
    except FileNotFoundError:
        raise ValueError(f"{run_dir} holds checkpoints but no config.json of the run") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


def choose_checkpoint(run_dir: Path, checkpoint: str) -> int:
    """The update of the checkpoint that "best", "latest" or a number names.

    Raises:
      ValueError: there is no such checkpoint; the message lists those there are.
    """
    folder = run_dir / "checkpoints"
    updates = sorted(int(step.name) for step in folder.iterdir() if step.name.isdigit())
    if not updates:
        raise ValueError(f"no checkpoint in {folder}")
    wanted = str(updates[-1]) if checkpoint == "latest" else checkpoint
    if checkpoint == "best":
        wanted = str(_best_update(folder, updates[-1]))
    if not wanted.isdigit() or int(wanted) not in updates:
        raise ValueError(
            f"no checkpoint {checkpoint!r} in {folder}; known: best, latest, "
            f"{', '.join(map(str, updates))}"
        )
    return int(wanted)


def _best_update(folder: Path, latest: int) -> int:
    """Best update so far as the latest checkpoint recorded it; itself if none was evaluated."""
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
        progress = reader.restore((folder / str(latest) / "progress").resolve())
    best = int(progress["best_update"])
    return best if best >= 0 else latest


def restore_params(
    run_dir: Path, update: int, config: ModelConfig, mesh: Mesh | None = None
) -> Qwen3:
    """Read the parameters of a checkpoint, and nothing else of it.

    Args:
      run_dir: the run.
      update: which checkpoint.
      config: shape and dtype of the model.
      mesh: devices to spread the weights over; None for the default one.

    Raises:
      ValueError: the checkpoint is unreadable or of another model.
    """
    model = abstract_params(config)
    leaves, structure = jax.tree_util.tree_flatten_with_path(model)
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    places = jax.tree.leaves(model_shardings(model, mesh)) if mesh else [one] * len(leaves)
    # Checkpoints name the leaves of a `TrainState` by their paths; the policy is its `params`.
    wanted = {
        f".params{jax.tree_util.keystr(path)}": jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=place
        )
        for (path, leaf), place in zip(leaves, places, strict=True)
    }
    folder = (run_dir / "checkpoints" / str(update) / "state").resolve()
    arguments = ocp.args.PyTreeRestore(
        item=wanted,
        restore_args=ocp.checkpoint_utils.construct_restore_args(wanted),
        partial_restore=True,
    )
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
            restored = reader.restore(folder, args=arguments)
        return structure.unflatten([restored[name] for name in wanted])
    except (OSError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"the parameters in {folder} cannot be read: {first}") from error

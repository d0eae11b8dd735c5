"""Where a run's inputs lie: the built-in world in its place, devices, and the tokenizer."""

import dataclasses
from pathlib import Path

import jax
from jax.sharding import Mesh

from jaxrl_scope.config import BUILT_IN, BUILT_IN_CODE, TrainConfig
from jaxrl_scope.data.code_world_build import prepare_code_world
from jaxrl_scope.data.world_build import prepare_world
from models import ModelConfig
from models.partition import MESH_AXES


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where the inputs of a run lie, after the built-in world has been put in its place."""

    model: Path
    problems: str
    scaffolds: str
    validation: str


def cache_directory(config: TrainConfig) -> Path:
    """Where things that can be made again are kept between runs."""
    return Path(config.cache_dir or "~/.cache/jaxrl-scope").expanduser()


def uses_world(config: TrainConfig, name: str = BUILT_IN) -> bool:
    """Whether any input is the built-in world's of that name."""
    data = config.data
    return name in (config.model.path, data.problems, data.scaffolds, data.validation)


def locate(config: TrainConfig, on_warm_start=lambda update, loss: None) -> Sources:
    """Build the world if it is asked for, and name the inputs' places."""
    home = cache_directory(config) / "worlds"
    worlds = {}
    if uses_world(config):
        worlds[BUILT_IN] = prepare_world(config.world, home, on_warm_start)
    if uses_world(config, BUILT_IN_CODE):
        worlds[BUILT_IN_CODE] = prepare_code_world(config.code_world, home, on_warm_start)

    def place(value: str, of_world: str) -> str:
        return str(getattr(worlds[value], of_world)) if value in worlds else value

    return Sources(
        model=Path(place(config.model.path, "model")),
        problems=place(config.data.problems, "train"),
        scaffolds=place(config.data.scaffolds, "scaffolds"),
        validation=place(config.data.validation, "validation"),
    )


def make_mesh(config: TrainConfig) -> Mesh | None:
    """Lay the devices out; None for a single one.

    Raises:
      ValueError: fewer devices than the mesh takes.
    """
    wanted, found = config.mesh.num_devices, jax.device_count()
    if wanted > found:
        raise ValueError(
            f"mesh.data x mesh.fsdp x mesh.tensor = {wanted} devices, but JAX sees {found} "
            f"({jax.default_backend()}). Make the mesh smaller, or start where there are more."
        )
    if wanted == 1:
        return None
    shape = (config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
    return jax.make_mesh(
        shape,
        MESH_AXES,
        axis_types=(jax.sharding.AxisType.Auto,) * 3,
        devices=jax.devices()[:wanted],
    )


def load_tokenizer(path: Path):
    """Load the tokenizer of a Hugging Face directory, without the network.

    Raises:
      ValueError: the directory or its tokenizer is missing or unreadable.
    """
    if not path.is_dir():
        raise ValueError(
            f"no model directory at {path}: expected a Hugging Face directory with config.json, "
            "*.safetensors and tokenizer files. Give one with --model.path, or use --model.path "
            f"{BUILT_IN} for the built-in model."
        )
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"the tokenizer in {path} cannot be loaded: {first}") from error


def check_tokenizer(tokenizer, config: ModelConfig, path: Path) -> None:
    """Refuse a tokenizer that cannot be this model's.

    Raises:
      ValueError: ids beyond the embedding table, or no end-of-text token that the model knows.
    """
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer in {path} has {len(tokenizer)} tokens, the model's vocabulary only "
            f"{config.vocab_size}: it belongs to another model"
        )
    if tokenizer.eos_token_id not in config.eos_token_ids:
        raise ValueError(
            f"the tokenizer in {path} ends texts with token {tokenizer.eos_token_id} "
            f"({tokenizer.eos_token!r}), which is not among the model's eos_token_ids "
            f"{config.eos_token_ids}: no response would ever be finished. Correct eos_token_id in "
            "config.json or generation_config.json, or use the model's own tokenizer."
        )

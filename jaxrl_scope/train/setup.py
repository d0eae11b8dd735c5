"""From a config to everything a run needs: files, model, data, tools."""

import dataclasses
from pathlib import Path

import jax
from jax.sharding import Mesh

from jaxrl_scope.config import BUILT_IN, DataConfig, TrainConfig
from jaxrl_scope.data.filters import drop_long_prompts, subset
from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.data.world_build import prepare_world
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import SamplingParams
from jaxrl_scope.stages.base import Tools
from models import ModelConfig, Qwen3, load_hf
from models.partition import MESH_AXES


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where the inputs of a run lie, after the built-in world has been put in its place."""

    model: Path
    problems: str
    scaffolds: str
    validation: str


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a run reads.

    Attributes:
      model_config: shape of the policy.
      model: the weights to start from.
      tokenizer: the model's own.
      prompts: turns problems and scaffolds into ids.
      problems: to train on.
      scaffolds: by problem id.
      validation: problems to evaluate on; may be empty.
      notes: what was loaded and left out, per file, in words.
    """

    model_config: ModelConfig
    model: Qwen3
    tokenizer: object
    prompts: PromptBuilder
    problems: list[Problem]
    scaffolds: dict[str, Scaffold]
    validation: list[Problem]
    notes: tuple[str, ...]


def cache_directory(config: TrainConfig) -> Path:
    """Where things that can be made again are kept between runs."""
    return Path(config.cache_dir or "~/.cache/jaxrl-scope").expanduser()


def uses_world(config: TrainConfig) -> bool:
    """Whether any input is the built-in world's."""
    data = config.data
    return BUILT_IN in (config.model.path, data.problems, data.scaffolds, data.validation)


def locate(config: TrainConfig, on_warm_start=lambda update, loss: None) -> Sources:
    """Build the world if it is asked for, and name the inputs' places."""
    world = None
    if uses_world(config):
        world = prepare_world(config.world, cache_directory(config) / "worlds", on_warm_start)

    def place(value: str, of_world: str) -> str:
        return str(getattr(world, of_world)) if value == BUILT_IN else value

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


def load_inputs(config: TrainConfig, sources: Sources, mesh: Mesh | None) -> Inputs:
    """Load model, tokenizer, problems and scaffolds, and check that they fit together."""
    tokenizer = load_tokenizer(sources.model)
    model_config, model = load_hf(sources.model, dtype=config.model.dtype or None, mesh=mesh)
    if config.model.remat:
        model_config = dataclasses.replace(model_config, remat=config.model.remat)
        model.cfg = model_config
    check_tokenizer(tokenizer, model_config, sources.model)
    prompts = PromptBuilder(
        tokenizer, thinking={"default": None, "on": True, "off": False}[config.data.thinking]
    )
    problems, note = _load(config.data, sources.problems, config.data.limit, config.seed, prompts)
    notes = [note]
    validation: list[Problem] = []
    if sources.validation:
        validation, note = _load(config.data, sources.validation, 0, config.seed, prompts)
        notes.append(note)
    scaffolds: dict[str, Scaffold] = {}
    if sources.scaffolds:
        scaffolds, report = load_scaffolds(
            sources.scaffolds, problems=[*problems, *validation], strict=config.data.strict
        )
        scaffolds = {
            name: scaffold
            for name, scaffold in scaffolds.items()
            if len(prompts.scaffold(scaffold)) <= config.data.max_prompt_len
        }
        missing = sum(problem.id not in scaffolds for problem in problems)
        notes.append(f"{report.summary()}; {missing} training problems have none")
    return Inputs(
        model_config, model, tokenizer, prompts, problems, scaffolds, validation, tuple(notes)
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


def _load(
    data: DataConfig, path: str, limit: int, seed: int, prompts: PromptBuilder
) -> tuple[list[Problem], str]:
    """Load the problems whose prompt fits, a subset of them if asked, and the report in words."""
    problems, report = load_problems(path, columns=data.columns or None, strict=data.strict)
    problems = drop_long_prompts(problems, prompts.original, data.max_prompt_len, report)
    if not problems:
        raise ValueError(
            f"every problem of {path} is longer than data.max_prompt_len ({data.max_prompt_len} "
            "tokens); raise it"
        )
    if limit:
        problems = subset(problems, limit, seed=seed, report=report)
    return problems, report.summary()


def make_tools(config: TrainConfig, inputs: Inputs, mesh: Mesh | None) -> Tools:
    """Make the sampler and the verifier; `Tools.close` stops them."""
    return Tools(
        sampler=JaxSampler(
            inputs.model_config,
            inputs.model,
            mesh=mesh,
            cache_bytes=int(config.rollout.cache_gib * 2**30),
        ),
        prompts=inputs.prompts,
        tokenizer=inputs.tokenizer,
        verifier=VerifierPool(
            num_workers=config.grading.workers,
            wall_limit_s=config.grading.wall_limit_s,
            memory_limit_mb=config.grading.memory_limit_mb,
        ),
        scaffolds=inputs.scaffolds,
        sampling=SamplingParams(
            num_rollouts=config.rollout.group,
            max_response_len=config.rollout.max_response_len,
            temperature=config.rollout.temperature,
            seed=config.seed,
        ),
        ddof=config.advantage.ddof,
    )

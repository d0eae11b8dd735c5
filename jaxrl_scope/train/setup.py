"""From a config to everything a run needs: policy, data, tools."""

import dataclasses
from pathlib import Path

from jax.sharding import Mesh

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.data.filters import drop_long_prompts, drop_unverifiable, subset
from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.code_verifier import CodeVerifier
from jaxrl_scope.grading.sandbox import PRELOAD_SCIENCE, Limits, SandboxPool
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.recording import RecordingSampler, ReplaySampler
from jaxrl_scope.rollout.types import Sampler, SamplingParams
from jaxrl_scope.rollout.vllm.start import start_vllm
from jaxrl_scope.stages.base import Tools
from jaxrl_scope.stages.graft import SandboxConfig
from jaxrl_scope.train.sources import Sources, cache_directory
from models import ModelConfig, Qwen3


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


def load_inputs(config: TrainConfig, sources: Sources, mesh: Mesh | None) -> Inputs:
    """Load model, tokenizer, problems and scaffolds, and check that they fit together."""
    policy = load_policy(
        str(sources.model),
        dtype=config.model.dtype,
        param_dtype=config.model.param_dtype,
        cache_dir=config.cache_dir,
        mesh=mesh,
    )
    model_config, model, tokenizer = policy.config, policy.model, policy.tokenizer
    model_config = dataclasses.replace(
        model_config,
        remat=config.model.remat or model_config.remat,
        attention=config.model.attention,
    )
    model.cfg = model_config
    prompts = PromptBuilder(
        tokenizer, thinking={"default": None, "on": True, "off": False}[config.data.thinking]
    )
    problems, note = _load(config, sources.problems, config.data.limit, prompts)
    notes = [f"policy: {policy.origin}", note]
    validation: list[Problem] = []
    if sources.validation:
        validation, note = _load(config, sources.validation, 0, prompts)
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


def _load(
    config: TrainConfig, path: str, limit: int, prompts: PromptBuilder
) -> tuple[list[Problem], str]:
    """Load the problems that can be used, a subset of them if asked, and the report in words."""
    data = config.data
    problems, report = load_problems(path, columns=data.columns or None, strict=data.strict)
    problems = drop_long_prompts(problems, prompts.original, data.max_prompt_len, report)
    # A generated program has passed its tests when it was generated; running thousands again at
    # every start would take a minute.
    if not (config.is_code and path.startswith(str(cache_directory(config)))):
        with make_verifier(config) as verifier:
            problems = drop_unverifiable(problems, verifier.verify_batch, report)
    if not problems:
        raise ValueError(
            f"no problem of {path} can be used (data.max_prompt_len is {data.max_prompt_len} "
            f"tokens).\n{report.summary()}"
        )
    if limit:
        problems = subset(problems, limit, seed=config.seed, report=report)
    return problems, report.summary()


def make_verifier(config: TrainConfig) -> VerifierPool | CodeVerifier:
    """Make the verifier of answers, or of code; its processes start when they are first needed."""
    if config.is_code:
        return CodeVerifier(make_sandbox(config.sandbox))
    return VerifierPool(
        num_workers=config.grading.workers,
        wall_limit_s=config.grading.wall_limit_s,
        memory_limit_mb=config.grading.memory_limit_mb,
    )


def make_sampler(config: TrainConfig, inputs: Inputs, mesh: Mesh | None, run_dir: Path) -> Sampler:
    """Make what generates the rollouts, or repeats recorded ones."""
    rollout = config.rollout
    if rollout.replay:
        return ReplaySampler(Path(rollout.replay))
    sampler: Sampler
    if rollout.engine == "vllm":
        sampler = start_vllm(
            inputs.model_config,
            inputs.model,
            rollout.vllm,
            urls=rollout.urls,
            max_len=config.data.max_prompt_len + rollout.max_response_len,
            probe=inputs.prompts.original(inputs.problems[0]),
            run_dir=run_dir,
        )
    else:
        sampler = JaxSampler(
            inputs.model_config,
            inputs.model,
            mesh=mesh,
            cache_bytes=int(rollout.cache_gib * 2**30),
        )
    if config.log.save_rollouts:
        sampler = RecordingSampler(sampler, run_dir / "rollouts")
    return sampler


def make_sandbox(config: SandboxConfig) -> SandboxPool:
    """Make the sandbox, and say what isolates it."""
    pool = SandboxPool(
        config.workers,
        Limits(wall_s=config.wall_s, cpu_s=config.cpu_s, memory_mb=config.memory_mb),
        preload=PRELOAD_SCIENCE,
        allow_unisolated=config.allow_unisolated,
    )
    print(f"sandbox: {pool.isolation}", flush=True)
    return pool


def make_tools(config: TrainConfig, inputs: Inputs, mesh: Mesh | None, run_dir: Path) -> Tools:
    """Make the sampler and the verifier; `Tools.close` stops them."""
    return Tools(
        sampler=make_sampler(config, inputs, mesh, run_dir),
        prompts=inputs.prompts,
        tokenizer=inputs.tokenizer,
        verifier=make_verifier(config),
        scaffolds=inputs.scaffolds,
        sampling=SamplingParams(
            num_rollouts=config.rollout.group,
            max_response_len=config.rollout.max_response_len,
            temperature=config.rollout.temperature,
            seed=config.seed,
        ),
        ddof=config.advantage.ddof,
    )

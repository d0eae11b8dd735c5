"""The scaffold probe from settings to results."""

import dataclasses
from pathlib import Path
from typing import Literal

from jaxrl_scope.config import BUILT_IN, TrainConfig
from jaxrl_scope.data.filters import subset
from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.rows import write_rows
from jaxrl_scope.data.scaffold_file import load_scaffolds
from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.evaluate.probe_plot import plot_probe
from jaxrl_scope.evaluate.run import write_json
from jaxrl_scope.evaluate.scaffold_probe import (
    Bin,
    bin_by_prefix,
    choose_problems,
    probe_scaffolds,
)
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import SamplingParams
from jaxrl_scope.train.sources import locate


@dataclasses.dataclass(frozen=True)
class ScaffoldProbeConfig:
    """Settings of the scaffold probe.

    Attributes:
      model: Hugging Face directory, run directory of launch/train.py, or "world".
      checkpoint: of a run directory: "best", "latest" or an update.
      dtype: of weights and activations; "" takes the directory's own.
      problems: problem file, or "world" for the training problems of the built-in world.
      scaffolds: scaffold file, or "world".
      columns: name of a column preset of the loader; "" tells the layout by each row.
      num_sub: sub-questions per scaffold; one chain length, so that bins compare (Appendix C: 4).
      limit: problems, drawn by the seed; 0 for all (Appendix C: 755).
      samples: responses per problem and prompt.
      temperature: of sampling.
      max_response_len: cap on response tokens; 0 takes 112 for the built-in world, else 8,192.
      thinking: switch of chat templates that have one; "default" leaves the template's own.
      seed: of sampling and of the subset.
      cache_gib: bound on the sampler's key/value cache, GiB.
      cache_dir: where the built-in world is kept; "" takes ~/.cache/jaxrl-scope.
      out: directory of the results.
    """

    model: str = BUILT_IN
    checkpoint: str = "best"
    dtype: Literal["", "float32", "bfloat16"] = ""
    problems: str = BUILT_IN
    scaffolds: str = BUILT_IN
    columns: str = ""
    num_sub: int = 4
    limit: int = 755
    samples: int = 1
    temperature: float = 1.0
    max_response_len: int = 0
    thinking: Literal["default", "on", "off"] = "default"
    seed: int = 0
    cache_gib: float = 4.0
    cache_dir: str = ""
    out: Path = Path("probes/scaffold")


def run_scaffold_probe(config: ScaffoldProbeConfig) -> list[Bin]:
    """Sample, grade and bin; writes `samples.jsonl`, `bins.json` and `scaffold.png`.

    Raises:
      ValueError: bad input, or no problem with a scaffold of that length.
    """
    policy = load_policy(
        config.model, checkpoint=config.checkpoint, dtype=config.dtype, cache_dir=config.cache_dir
    )
    sources = policy.run or TrainConfig(cache_dir=config.cache_dir)
    pairs = _choose(config, *_load(config, sources))
    print(f"{len(pairs)} problems with {config.num_sub} sub-questions, {policy.origin}", flush=True)
    thinking = {"default": None, "on": True, "off": False}[config.thinking]
    with VerifierPool() as verifier:
        samples = probe_scaffolds(
            pairs,
            JaxSampler(policy.config, policy.model, cache_bytes=int(config.cache_gib * 2**30)),
            PromptBuilder(policy.tokenizer, thinking=thinking),
            policy.tokenizer,
            verifier,
            SamplingParams(
                num_rollouts=config.samples,
                max_response_len=_response_cap(config),
                temperature=config.temperature,
                seed=config.seed,
            ),
        )
    bins = bin_by_prefix(samples)
    write_rows(config.out / "samples.jsonl", map(dataclasses.asdict, samples))
    write_json(config.out / "bins.json", [dataclasses.asdict(entry) for entry in bins])
    plot_probe(bins, config.out / "scaffold.png")
    return bins


def _choose(
    config: ScaffoldProbeConfig, problems: list[Problem], scaffolds: dict[str, Scaffold]
) -> list[tuple[Problem, Scaffold]]:
    pairs = choose_problems(problems, scaffolds, config.num_sub)
    if not config.limit or len(pairs) <= config.limit:
        return pairs
    kept = {p.id for p in subset([p for p, _ in pairs], config.limit, seed=config.seed)}
    return [(problem, scaffold) for problem, scaffold in pairs if problem.id in kept]


def _load(
    config: ScaffoldProbeConfig, sources: TrainConfig
) -> tuple[list[Problem], dict[str, Scaffold]]:
    world = locate(sources) if BUILT_IN in (config.problems, config.scaffolds) else None
    problem_path = world.problems if world and config.problems == BUILT_IN else config.problems
    scaffold_path = world.scaffolds if world and config.scaffolds == BUILT_IN else config.scaffolds
    problems, report = load_problems(problem_path, columns=config.columns or None)
    print(report.summary())
    scaffolds, _ = load_scaffolds(scaffold_path, problems=problems)
    return problems, scaffolds


def _response_cap(config: ScaffoldProbeConfig) -> int:
    if config.max_response_len:
        return config.max_response_len
    return 112 if config.problems == BUILT_IN else 8192

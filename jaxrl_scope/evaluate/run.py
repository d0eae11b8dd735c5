"""One evaluation from settings to results: sample, verify, judge, summarise."""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrl_scope.config import BUILT_IN, DataConfig, TrainConfig
from jaxrl_scope.data.filters import drop_long_prompts, subset
from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.rows import write_atomic
from jaxrl_scope.data.world_labels import label_trace
from jaxrl_scope.evaluate.config import CONCISE, PLACEMENT, SCORING, EvaluateConfig
from jaxrl_scope.evaluate.generate import generate_samples
from jaxrl_scope.evaluate.metrics import Summary, summarise
from jaxrl_scope.evaluate.policy import Policy, load_policy
from jaxrl_scope.evaluate.records import SampleRecord, read_records, write_records
from jaxrl_scope.evaluate.score import grade_samples, judge_samples
from jaxrl_scope.grading import VerifierPool
from jaxrl_scope.grading.judge import Judge
from jaxrl_scope.grading.judge_config import build_judge, warn_if_same_judge
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import SamplingParams
from jaxrl_scope.train.sources import locate, make_mesh

SAMPLES, SCORED, RESULTS, SETTINGS = (
    "samples.jsonl",
    "scored.jsonl",
    "results.json",
    "settings.json",
)


def output_directory(config: EvaluateConfig) -> Path:
    """Where an evaluation is written."""
    if config.out:
        return Path(config.out)
    name = f"{Path(config.model).name}-{Path(config.problems).stem}"
    return Path("evaluations") / name


def run_evaluation(config: EvaluateConfig) -> Summary:
    """Generate what is missing, score everything, and write the results.

    Writes to the output directory: `settings.json`; `samples.jsonl`, as sampled; `scored.jsonl`,
    with verdicts and step labels; `results.json`.

    Raises:
      ValueError: bad input, or a directory that holds another evaluation.
    """
    folder = output_directory(config)
    judge = open_judge(config, folder)
    try:
        records = _generate(config, folder)
        return _score(config, records, judge, folder)
    finally:
        if judge is not None:
            judge.close()


def rescore(config: EvaluateConfig, source: Path) -> Summary:
    """Score existing samples again, by other judges or verifier settings; nothing is generated.

    Args:
      config: the scoring settings and `out` are used.
      source: directory of an evaluation, or a file of samples.

    Raises:
      ValueError: no samples there, or `out` is not set.
    """
    if not config.out:
        raise ValueError("give --out, the directory for the new scores")
    folder = Path(config.out)
    path = source / SAMPLES if source.is_dir() else source
    records = [record.unscored() for record in read_records(path)]
    judge = open_judge(config, folder)
    try:
        return _score(config, records, judge, folder)
    finally:
        if judge is not None:
            judge.close()


def open_judge(config: EvaluateConfig, folder: Path) -> Judge | None:
    """The evaluation judge; its replies are kept beside the results unless told otherwise."""
    if not config.step_quality:
        return None
    if config.judge.kind == "rules":
        return build_judge(config.judge, functools.partial(label_trace, modulus=config.modulus))
    cache = config.judge.cache_dir or str(folder / "judge-replies")
    return build_judge(dataclasses.replace(config.judge, cache_dir=cache))


def check_judge(config: EvaluateConfig, training: TrainConfig) -> None:
    """Warn where the policy was trained by the very judge that now measures it.

    Raises:
      ValueError: the rules are those of another world than the policy's.
    """
    if training.stage in ("qpr", "mix", "scope"):
        warn_if_same_judge(training.qpr.judge, config.judge)
    modulus = training.world.modulus
    if config.judge.kind == "rules" and modulus != config.modulus:
        raise ValueError(f"the policy's world counts modulo {modulus}: use --modulus {modulus}")


def load_evaluation_problems(
    config: EvaluateConfig, policy: Policy, prompts: PromptBuilder
) -> list[Problem]:
    """The problems that the settings choose, with what was left out printed.

    "world" stands for the validation problems of the world that the policy was trained in.

    Raises:
      ValueError: none is left, or `concise` is asked of problems that bring their own prompt.
    """
    path = config.problems
    if path == BUILT_IN:
        path = locate(policy.run or TrainConfig(cache_dir=config.cache_dir)).validation
        if not path:
            raise ValueError(f"{policy.origin} was trained without validation problems; give some")
    problems, report = load_problems(path, columns=config.columns or None, seed=config.seed)
    if config.difficulties:
        known = sorted({problem.difficulty for problem in problems})
        problems = [p for p in problems if p.difficulty in config.difficulties]
        if not problems:
            raise ValueError(
                f"no problem of {path} has a difficulty in {config.difficulties}; it has {known}"
            )
    problems = drop_long_prompts(problems, prompts.original, config.max_prompt_len, report)
    if not problems:
        raise ValueError(f"no problem of {path} is left.\n{report.summary()}")
    if config.limit:
        problems = subset(problems, config.limit, seed=config.seed, report=report)
    if config.concise and any(problem.messages is not None for problem in problems):
        raise ValueError(
            f"{path} brings its own chat messages, which are sent as they are: the concise system "
            "prompt would be left out. Use a file with plain problems."
        )
    print(report.summary())
    return problems


def make_prompts(policy: Policy, config: EvaluateConfig) -> PromptBuilder:
    """The prompt builder of an evaluation."""
    return PromptBuilder(
        policy.tokenizer,
        thinking={"default": None, "on": True, "off": False}[config.thinking],
        system=CONCISE if config.concise else None,
    )


def make_sampler(policy: Policy, config: EvaluateConfig) -> JaxSampler:
    """The in-process sampler of an evaluation."""
    return JaxSampler(
        policy.config,
        policy.model,
        mesh=evaluation_mesh(config),
        cache_bytes=int(config.cache_gib * 2**30),
    )


def evaluation_mesh(config: EvaluateConfig):
    """The devices of an evaluation; None for one."""
    shards = config.mesh.data * config.mesh.fsdp
    return make_mesh(TrainConfig(mesh=config.mesh, data=DataConfig(batch_problems=shards)))


def open_policy(config: EvaluateConfig) -> Policy:
    """The policy that the settings name."""
    return load_policy(
        config.model,
        checkpoint=config.checkpoint,
        dtype=config.dtype,
        cache_dir=config.cache_dir,
        mesh=evaluation_mesh(config),
    )


def _generate(config: EvaluateConfig, folder: Path) -> list[SampleRecord]:
    policy = open_policy(config)
    if policy.run is not None and config.step_quality:
        check_judge(config, policy.run)
    prompts = make_prompts(policy, config)
    problems = load_evaluation_problems(config, policy, prompts)
    claim(folder, config, policy.origin)
    sampling = SamplingParams(
        num_rollouts=config.samples,
        max_response_len=config.max_response_len,
        temperature=config.temperature,
        seed=config.seed,
    )
    sampler = make_sampler(policy, config)
    try:
        return generate_samples(
            problems,
            sampler,
            prompts,
            policy.tokenizer,
            sampling,
            folder / SAMPLES,
            batch_problems=config.batch_problems,
            on_batch=lambda done, total: print(f"sampled {done}/{total} problems", flush=True),
        )
    finally:
        sampler.close()


def claim(folder: Path, config: EvaluateConfig, origin: str) -> None:
    """Take a directory for an evaluation, or check that it holds samples of the same one.

    Raises:
      ValueError: it holds samples of other settings or of other weights.
    """
    kept = generation_settings(config) | {"weights": origin}
    record = folder / SETTINGS
    if record.exists():
        old = json.loads(record.read_text())
        different = [
            f"{name}: {old.get(name)!r} there, {kept.get(name)!r} here"
            for name in sorted({*old, *kept})
            if old.get(name) != kept.get(name)
        ]
        if different:
            raise ValueError(
                f"{folder} holds samples of another evaluation:\n  "
                + "\n  ".join(different)
                + "\nGive another --out, or delete it."
            )
    write_json(record, kept)


def generation_settings(config: EvaluateConfig) -> dict[str, Any]:
    """The settings that decide which samples are generated, as JSON values."""
    values = json.loads(json.dumps(dataclasses.asdict(config)))
    return {name: value for name, value in values.items() if name not in SCORING + PLACEMENT}


def _score(
    config: EvaluateConfig, records: Sequence[SampleRecord], judge: Judge | None, folder: Path
) -> Summary:
    grading = config.grading
    with VerifierPool(
        num_workers=grading.workers,
        wall_limit_s=grading.wall_limit_s,
        memory_limit_mb=grading.memory_limit_mb,
    ) as verifier:
        scored = grade_samples(records, verifier, lenient=config.lenient)
    if judge is not None:
        scored = judge_samples(scored, judge, only_correct=config.only_correct)
    write_records(folder / SCORED, scored)
    summary = summarise(scored)
    results = {
        "settings": json.loads(json.dumps(dataclasses.asdict(config))),
        "results": summary,
        "judge": None if judge is None else dict(judge.metrics()),
    }
    write_json(folder / RESULTS, results)
    return summary


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))

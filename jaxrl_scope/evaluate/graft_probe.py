"""The zero-update diagnosis from settings to files, and the table of trained arms."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxrl_scope.config import BUILT_IN_CODE, DataConfig, SourceConfig, TrainConfig
from jaxrl_scope.data.filters import subset
from jaxrl_scope.data.loaders import load_problems
from jaxrl_scope.data.prompts import PromptBuilder
from jaxrl_scope.data.rows import write_atomic, write_rows
from jaxrl_scope.evaluate.graft_diagnosis import (
    QUANTILES,
    Rate,
    StepFigures,
    diagnose,
    projected_cost,
    rate,
    to_json_values,
    verdicts,
)
from jaxrl_scope.evaluate.graft_simulation import SimulatedPolicy, simulate
from jaxrl_scope.evaluate.policy import load_policy
from jaxrl_scope.evaluate.run import write_json
from jaxrl_scope.grading.code_verifier import CodeVerifier
from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import SamplingParams
from jaxrl_scope.stages.base import Tools, roll_out
from jaxrl_scope.stages.graft import SandboxConfig, grade_steps, ledger_rows
from jaxrl_scope.train.setup import make_sandbox
from jaxrl_scope.train.sources import locate
from rewards import Ledger


@dataclasses.dataclass(frozen=True)
class GraftProbeConfig:
    """Settings of the diagnosis.

    Attributes:
      model: Hugging Face directory, run directory of launch/train.py, or "code-world".
      checkpoint: of a run directory: "best", "latest" or an update.
      problems: problem file of task "code", or "code-world" for its training problems.
      limit: problems, drawn by the seed; 0 for all.
      samples: trajectories per problem.
      max_response_len: cap on response tokens.
      simulate: trajectories of a simulated policy with known rates, instead of a model; 0 for none.
      runs: directories of trained runs to compare by step from their ledgers, instead of a model.
      last: updates at the end of each of those runs that count.
      seed: of sampling and of the subset.
      sandbox: where code runs.
      cache_dir: where the built-in world is kept; "" takes ~/.cache/jaxrl-scope.
      out: directory of the results.
    """

    model: str = BUILT_IN_CODE
    checkpoint: str = "best"
    problems: str = BUILT_IN_CODE
    limit: int = 60
    samples: int = 8
    max_response_len: int = 144
    simulate: int = 0
    runs: tuple[Path, ...] = ()
    last: int = 5
    seed: int = 0
    sandbox: SandboxConfig = SandboxConfig(wall_s=10.0, cpu_s=10, memory_mb=512)
    cache_dir: str = ""
    out: Path = Path("probes/graft")


def run_graft_probe(config: GraftProbeConfig) -> list[StepFigures]:
    """Sample, run, diagnose; writes `diagnosis.json`, `graft.png` and, for a model, `ledger.jsonl`.

    Raises:
      ValueError: bad input.
    """
    cost: dict[str, float] = {}
    if config.simulate:
        policy = SimulatedPolicy()
        count = max(1, config.simulate // config.samples)
        ledger, bucket = simulate(policy, count, config.samples, config.seed)
    else:
        ledger, bucket, cost = _sample(config)
    figures = diagnose(ledger, bucket)
    report = {"steps": to_json_values(figures), "verdicts": verdicts(figures), "cost": cost}
    write_json(config.out / "diagnosis.json", report)
    plot_diagnosis(figures, config.out / "graft.png")
    return figures


def _sample(config: GraftProbeConfig) -> tuple[Ledger, np.ndarray, dict[str, float]]:
    # The sources of a code run tell where the built-in world lies, if it is asked for.
    sources = locate(
        TrainConfig(
            stage="graft",
            cache_dir=config.cache_dir,
            model=SourceConfig(path=config.model),
            data=DataConfig(problems=config.problems, scaffolds="", validation=""),
        )
    )
    policy = load_policy(
        str(sources.model), checkpoint=config.checkpoint, cache_dir=config.cache_dir
    )
    problems, report = load_problems(sources.problems)
    print(report.summary())
    if config.limit and config.limit < len(problems):
        problems = subset(problems, config.limit, seed=config.seed)
    pool = make_sandbox(config.sandbox)
    with CodeVerifier(pool) as verifier:
        tools = Tools(
            sampler=JaxSampler(policy.config, policy.model),
            prompts=PromptBuilder(policy.tokenizer),
            tokenizer=policy.tokenizer,
            verifier=verifier,
            scaffolds={},
            sampling=SamplingParams(
                num_rollouts=config.samples,
                max_response_len=config.max_response_len,
                seed=config.seed,
            ),
        )
        prompts = [tools.prompts.original(problem) for problem in problems]
        groups = roll_out(tools, prompts, [problem.id for problem in problems], "original")
        graded = grade_steps(problems, groups, tools)
    write_rows(config.out / "ledger.jsonl", ledger_rows(graded, 0))
    cost = projected_cost(pool.executed, pool.executed_s, config.sandbox.workers)
    return graded.ledger, graded.bucket, cost


def compare_runs(runs: Sequence[Path], last: int) -> dict[str, dict[str, list[Rate]]]:
    """Step pass rates by t from the ledgers of trained runs.

    Runs whose names differ in what follows the last "-" only (the seed) are one arm; the interval
    treats the rollouts of a problem in a run as alike.

    Returns:
      For each arm, "first" and "last": rates of r per t over that many updates of each of its runs,
      and "end_to_end", a list of two rates, at the start and at the end.

    Raises:
      ValueError: a run without a ledger.
    """
    arms: dict[str, list[Path]] = {}
    for run in runs:
        arms.setdefault(run.name.rsplit("-", 1)[0], []).append(run)
    out = {}
    for arm, members in sorted(arms.items()):
        ledgers = [(run.name, _read_ledger(run)) for run in members]
        first, late = (_rows_between(ledgers, last, which) for which in ("first", "last"))
        out[arm] = {
            "first": _rates_by_step(first),
            "last": _rates_by_step(late),
            "end_to_end": [_end_to_end(first), _end_to_end(late)],
        }
    return out


def _read_ledger(run: Path) -> dict[tuple, dict]:
    path = run / "ledger.jsonl"
    if not path.is_file():
        raise ValueError(f"{run} has no ledger.jsonl: it is no run of --stage graft")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    # A resumed run may have written an update twice; the later one counts.
    return {(row["update"], row["problem"], row["rollout"]): row for row in rows}


def _rows_between(
    ledgers: list[tuple[str, dict[tuple, dict]]], count: int, which: str
) -> dict[str, list[dict]]:
    """Rows of the first or last `count` updates of each run, by run, update and problem."""
    out: dict[str, list[dict]] = {}
    for name, rows in ledgers:
        updates = sorted({update for update, *_ in rows})
        chosen = set(updates[:count] if which == "first" else updates[-count:])
        for (update, problem, _), row in rows.items():
            if update in chosen:
                out.setdefault(f"{name}/{update}/{problem}", []).append(row)
    return out


def _rates_by_step(groups: dict[str, list[dict]]) -> list[Rate]:
    longest = max((len(row["r"]) for rows in groups.values() for row in rows), default=0)
    widest = max((len(rows) for rows in groups.values()), default=0)
    hit = np.zeros((longest, len(groups), widest), bool)
    counted = np.zeros_like(hit)
    for b, rows in enumerate(groups.values()):
        for g, row in enumerate(rows):
            counted[: len(row["r"]), b, g] = True
            hit[: len(row["r"]), b, g] = row["r"]
    return [rate(hit[t], counted[t]) for t in range(longest)]


def _end_to_end(groups: dict[str, list[dict]]) -> Rate:
    widest = max((len(rows) for rows in groups.values()), default=0)
    hit = np.zeros((len(groups), widest), bool)
    counted = np.zeros_like(hit)
    for b, rows in enumerate(groups.values()):
        counted[b, : len(rows)] = True
        hit[b, : len(rows)] = [row["tau"] > len(row["r"]) for row in rows]
    return rate(hit, counted)


def plot_diagnosis(figures: Sequence[StepFigures], path: Path) -> None:
    """Draw the three curves by step number, as a PNG."""
    from matplotlib.figure import Figure

    x = [entry.step for entry in figures]
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    share = np.array([entry.prefix_ok.share for entry in figures])
    below = share - [entry.prefix_ok.low for entry in figures]
    above = np.array([entry.prefix_ok.high for entry in figures]) - share
    left.errorbar(x, share, yerr=[below, above], marker="o", capsize=3)
    left.set_ylabel("prefix still holds, share (95 %)")
    middle.plot(x, [entry.std_across for entry in figures], "o-", label="across prefixes")
    middle.plot(x, [entry.std_within for entry in figures], "s--", label="within b = 1")
    middle.set_ylabel("std of step rewards in a group")
    middle.legend()
    for i, level in enumerate(QUANTILES):
        right.plot(x, [e.advantage[i] for e in figures], "o-", label=f"{100 * level:.0f} %")
    right.set_ylabel("|A| of arm A, quantiles")
    right.legend()
    for axes in (left, middle, right):
        axes.set_xticks(x, [f"{e.step}\nn={e.prefix_ok.count:,}" for e in figures])
        axes.set_xlabel("step t")
        axes.grid(alpha=0.3)
    write_atomic(path, lambda file: figure.savefig(file, format="png", dpi=150))

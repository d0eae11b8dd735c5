"""Stage `graft`: step credit for multi-step code, on own and on reference prefixes.

One ledger of step verdicts, and a choice of what is made of it: the four arms of GRAFT (A is
SciWalker), GiGPO, BEACON.
"""

import collections
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jaxrl_scope.data.append_log import AppendLog
from jaxrl_scope.data.code_demos import split_steps
from jaxrl_scope.data.code_problems import CodeProblem, from_json
from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.code_verifier import CodeVerifier
from jaxrl_scope.grading.grafting import Grafter
from jaxrl_scope.grading.offsets import decode_with_ends
from jaxrl_scope.stages.base import Groups, Tools, build_experience, masked_mean, roll_out
from jaxrl_scope.train.experience import Experience
from rewards import (
    RESIDUAL_BUCKETS,
    Ledger,
    beacon_advantages,
    gigpo_advantages,
    graft_advantages,
    group_degenerate_rate,
    step_ledger,
)

Credit = Literal["A", "B", "C", "D", "gigpo", "beacon"]


class PassRateGuardError(RuntimeError):
    """Step pass rates rise while the end-to-end pass rate falls."""


@dataclasses.dataclass(frozen=True)
class SandboxConfig:
    """Where untrusted code runs.

    Attributes:
      workers: runs at a time.
      wall_s: seconds one run may take.
      cpu_s: CPU seconds one process of it may take.
      memory_mb: MiB one process may take.
      allow_unisolated: run untrusted code even where the kernel gives no namespaces.
    """

    workers: int = 2
    wall_s: float = 120.0
    cpu_s: int = 120
    memory_mb: int = 1024
    allow_unisolated: bool = False


@dataclasses.dataclass(frozen=True)
class GraftConfig:
    """Settings of the stage.

    Attributes:
      credit: arm A (SciWalker: all G compared, r), B (r + λ r̃), C (only trajectories whose prefix
        holds are compared), D (B and C); or a comparator, "gigpo" or "beacon".
      lam: λ of arms B and D, in [0, 1).
      min_group: arms C and D: a step with fewer comparable trajectories leaves the loss.
      delta: added to σ, in units of the reward.
      gamma: discount of the comparators.
      omega: their weight of the step advantage.
      normalize_std: the comparators divide by the std at both scales.
      guard: what happens when step pass rates rise while the end-to-end pass rate falls: "warn",
        "stop" the run, or "off".
      guard_window: updates on each side of that comparison.
      guard_margin: rise and fall, in pass rate, that count.
    """

    credit: Credit = "D"
    lam: float = 0.5
    min_group: int = 2
    delta: float = 1e-6
    gamma: float = 0.95
    omega: float = 1.0
    normalize_std: bool = True
    guard: Literal["warn", "stop", "off"] = "warn"
    guard_window: int = 10
    guard_margin: float = 0.03

    def __post_init__(self):
        if not 0.0 <= self.lam < 1.0:
            raise ValueError(f"graft.lam must lie in [0, 1), got {self.lam}")
        for name, least in (("min_group", 2), ("guard_window", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"graft.{name} must be >= {least}, got {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class Graded:
    """A batch of code rollouts with their verdicts.

    Attributes:
      problems: B problems.
      ledger: of [B, G, S] arrays.
      num_steps: [B] int32.
      keep: [B, G] bool, False where a run could not be decided or the rollout was lost.
      bucket: [B, G, S] int32, kind of the residual.
      prefix_id: [B, G, S] int32, equal for trajectories of a problem with the same earlier code.
      end_to_end: [B, G] bool, every step passes.
      step_of_token: [B, G, T] int32, from 0; S where the token belongs to no step.
    """

    problems: list[CodeProblem]
    ledger: Ledger
    num_steps: np.ndarray
    keep: np.ndarray
    bucket: np.ndarray
    prefix_id: np.ndarray
    end_to_end: np.ndarray
    step_of_token: np.ndarray


def grade_steps(problems: Sequence[Problem], groups: Groups, tools: Tools) -> Graded:
    """Cut responses into steps, run them, and put the verdicts into a ledger.

    Raises:
      ValueError: the run's verifier is not the sandbox (its problems are no code problems).
    """
    if not isinstance(tools.verifier, CodeVerifier):
        raise ValueError("stage graft needs code problems: data.problems of task 'code'")
    code_problems = [from_json(problem.answer) for problem in problems]
    num_rollouts = groups.rollouts.finished.shape[1]
    longest = max(len(problem.steps) for problem in code_problems)
    sources, tokens = _cut(code_problems, groups, tools, longest)
    with tools.timed("grade"):
        repeated = [problem for problem in code_problems for _ in range(num_rollouts)]
        verdicts = Grafter(tools.verifier.pool).grade(repeated, sources)
    decided = np.array([v.decided for v in verdicts]).reshape(-1, num_rollouts)
    keep = decided & groups.rollouts.valid

    def cells(name: str, dtype: Any) -> np.ndarray:
        out = np.zeros((len(verdicts), longest), dtype)
        for row, verdict in zip(out, verdicts, strict=True):
            row[: len(verdict.passed)] = getattr(verdict, name)
        return out.reshape(len(code_problems), num_rollouts, longest)

    num_steps = np.array([len(problem.steps) for problem in code_problems], np.int32)
    ledger = step_ledger(
        cells("passed", bool), cells("grafted", bool), cells("alignable", bool), num_steps, keep
    )
    return Graded(
        problems=code_problems,
        ledger=ledger,
        num_steps=num_steps,
        keep=keep,
        bucket=cells("bucket", np.int32),
        prefix_id=_prefix_ids(sources, num_rollouts, longest),
        end_to_end=np.asarray(ledger.first_failure) > num_steps[:, None],
        step_of_token=tokens,
    )


def _cut(
    problems: Sequence[CodeProblem], groups: Groups, tools: Tools, longest: int
) -> tuple[list[list[str | None]], np.ndarray]:
    """Step sources of every rollout, and the step that each token belongs to."""
    rollouts = groups.rollouts
    tokens = np.full(rollouts.response_ids.shape, longest, np.int32)
    sources = []
    for b, problem in enumerate(problems):
        for g in range(rollouts.response_len.shape[1]):
            length = int(rollouts.response_len[b, g])
            ids = rollouts.response_ids[b, g, :length].tolist()
            text, ends = decode_with_ends(tools.tokenizer, ids)
            own, spans = split_steps(text, len(problem.steps))
            sources.append(own)
            last = np.maximum(ends - 1, 0)  # a token belongs to the step that holds its last letter
            for t, (start, end) in enumerate(spans):
                tokens[b, g, :length][(last >= start) & (last < end)] = t
    return sources, tokens


def _prefix_ids(
    sources: Sequence[Sequence[str | None]], num_rollouts: int, longest: int
) -> np.ndarray:
    """[B, G, S] int32: number the prefixes of each problem; the anchor states of GiGPO."""
    out = np.zeros((len(sources), longest), np.int32)
    for start in range(0, len(sources), num_rollouts):
        known: dict[tuple, int] = {}
        for row in range(start, start + num_rollouts):
            for t in range(longest):
                out[row, t] = known.setdefault((t, *sources[row][:t]), len(known))
    return out.reshape(-1, num_rollouts, longest)


def credit(graded: Graded, config: GraftConfig) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Advantages and mask of each step, both [B, G, S], and the cells that left the loss [B, S]."""
    ledger, keep = graded.ledger, graded.keep
    none_left = np.zeros((len(graded.problems), ledger.passed.shape[-1]), bool)
    if config.credit in ("gigpo", "beacon"):
        steps = np.broadcast_to(graded.num_steps[:, None], keep.shape)
        episode = graded.end_to_end.astype(np.float32)
        settings: dict[str, Any] = {
            "omega": config.omega,
            "gamma": config.gamma,
            "normalize_std": config.normalize_std,
        }
        if config.credit == "gigpo":
            passed = np.asarray(ledger.passed, np.float32)
            out = gigpo_advantages(episode, passed, graded.prefix_id, steps, keep, **settings)
        else:
            milestone = ledger.prefix_ok & ledger.passed
            out = beacon_advantages(episode, milestone, steps, keep, **settings)
        return np.asarray(out.total), np.asarray(ledger.real), none_left
    out = graft_advantages(
        ledger,
        lam=config.lam if config.credit in ("B", "D") else 0.0,
        grouping="prefix" if config.credit in ("C", "D") else "all",
        min_group=config.min_group,
        delta=config.delta,
    )
    return np.asarray(out.advantages), np.asarray(out.mask), np.asarray(out.degenerate)


class GraftStage:
    """Rolls out, runs every step twice, keeps the ledger, and gives each step its credit."""

    def __init__(self, config: GraftConfig, ledger_path: Path | None = None):
        """Take the settings; `ledger_path` is where ledger rows are appended, None for nowhere."""
        self.config = config
        self._log = AppendLog(ledger_path) if ledger_path else None
        self._guard = PassRateGuard(config)

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out, grade and credit one batch."""
        prompts = [tools.prompts.original(problem) for problem in problems]
        groups = roll_out(tools, prompts, [problem.id for problem in problems], "original")
        graded = grade_steps(problems, groups, tools)
        if self._log:
            self._log.append(ledger_rows(graded, tools.sampling.update))
        advantages, mask, degenerate = credit(graded, self.config)
        metrics = ledger_metrics(graded)
        rate = group_degenerate_rate(degenerate, graded.num_steps)
        metrics["graft/group_degenerate_rate"] = float(rate)
        warning = self._guard.look(metrics["graft/step_pass"], metrics["graft/end_to_end"])
        metrics["graft/guard"] = float(warning)
        verdicts = np.where(graded.keep, graded.end_to_end, Verdict.FAILED).astype(np.int8)
        experience = build_experience(
            tools,
            problems,
            groups,
            _mean_over_steps(graded),
            verdicts,
            scaffolded=np.zeros(len(problems), bool),
            advantages=_to_tokens(advantages, graded.step_of_token, 0.0),
            metrics=metrics,
        )
        in_step = _to_tokens(mask, graded.step_of_token, False).reshape(experience.mask.shape)
        return dataclasses.replace(experience, mask=experience.mask & in_step)

    def close(self) -> None:
        """Nothing to release: the sandbox is the verifier's."""


class PassRateGuard:
    """Watches for the short cut that λ > 0 opens: steps that pass without what came before."""

    def __init__(self, config: GraftConfig):
        """Take the settings."""
        self._config = config
        self._history: collections.deque[tuple[float, float]] = collections.deque(
            maxlen=2 * config.guard_window
        )

    def look(self, step_pass: float, end_to_end: float) -> bool:
        """Add one update; returns whether step rates rose while the end-to-end rate fell.

        Raises:
          PassRateGuardError: they did, and the run is to be stopped.
        """
        config = self._config
        self._history.append((step_pass, end_to_end))
        if config.guard == "off" or len(self._history) < 2 * config.guard_window:
            return False
        before, after = np.split(np.array(self._history), 2)
        rise, fall = (after - before).mean(axis=0) * (1, -1)
        if min(rise, fall) < config.guard_margin:
            return False
        message = (
            f"the step pass rate rose by {rise:.3f} while the end-to-end pass rate fell by "
            f"{fall:.3f} over {2 * config.guard_window} updates: steps learn to pass without their "
            "prefix. Lower graft.lam."
        )
        if config.guard == "stop":
            raise PassRateGuardError(message)
        print(f"warning: {message}", flush=True)
        return True


def ledger_rows(graded: Graded, update: int) -> list[dict[str, Any]]:
    """One JSON row per rollout: b, r, r̃ (null where NA), ε (null where NA), its bucket, τ."""
    ledger = {name: np.asarray(x) for name, x in graded.ledger._asdict().items()}
    rows = []
    for b, problem in enumerate(graded.problems):
        n = int(graded.num_steps[b])
        for g in np.flatnonzero(graded.keep[b]):
            known = ledger["alignable"][b, g, :n]
            residual = ledger["residual"][b, g, :n].tolist()
            rows.append(
                {
                    "update": update,
                    "problem": problem.id,
                    "rollout": int(g),
                    "b": ledger["prefix_ok"][b, g, :n].astype(int).tolist(),
                    "r": ledger["passed"][b, g, :n].astype(int).tolist(),
                    "grafted": [
                        int(x) if k else None
                        for x, k in zip(ledger["grafted"][b, g, :n], known, strict=True)
                    ],
                    "epsilon": [e if k else None for e, k in zip(residual, known, strict=True)],
                    "bucket": [
                        RESIDUAL_BUCKETS[kind] if e else None
                        for e, kind in zip(residual, graded.bucket[b, g, :n], strict=True)
                    ],
                    "tau": int(ledger["first_failure"][b, g]),
                }
            )
    return rows


def ledger_metrics(graded: Graded) -> dict[str, float]:
    """What is logged; r̃ goes under `train_signal/`, since it is no evaluation of the policy."""
    ledger = {name: np.asarray(x) for name, x in graded.ledger._asdict().items()}
    real, known = ledger["real"], ledger["alignable"]
    out = {
        "graft/end_to_end": masked_mean(graded.end_to_end, graded.keep),
        "graft/step_pass": masked_mean(ledger["passed"], real),
        "graft/na_rate": masked_mean(~known, real),
        "graft/residual_rate": masked_mean(ledger["residual"] != 0, known),
        "train_signal/grafted": masked_mean(ledger["grafted"], known),
    }
    for t in range(real.shape[-1]):
        out[f"graft/step_pass/t{t + 1}"] = masked_mean(ledger["passed"][..., t], real[..., t])
        out[f"graft/prefix_ok/t{t + 1}"] = masked_mean(ledger["prefix_ok"][..., t], real[..., t])
    return out


def _mean_over_steps(graded: Graded) -> np.ndarray:
    """[B, G] float32: share of steps that pass, the rollout's reward in the common metrics."""
    passed = np.asarray(graded.ledger.passed).sum(axis=-1)
    return (passed / graded.num_steps[:, None]).astype(np.float32)


def _to_tokens(cells: np.ndarray, step_of_token: np.ndarray, outside: Any) -> np.ndarray:
    """Spread [B, G, S] over tokens [B, G, T]; tokens of no step get `outside`."""
    padded = np.concatenate([cells, np.full((*cells.shape[:-1], 1), outside, cells.dtype)], axis=-1)
    return np.take_along_axis(padded, step_of_token, axis=-1)

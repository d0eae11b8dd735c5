"""Stage `asr`: hard problems are rolled out again on answer-hidden scaffolds (SCOPE-RL stage 1)."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.grading import Verdict
from jaxrl_scope.stages.base import (
    Groups,
    Tools,
    build_experience,
    grade_outcome,
    masked_mean,
    roll_out,
    settle,
)
from jaxrl_scope.train.experience import Experience
from rewards import (
    asr_reward,
    final_only_reward,
    independent_reward,
    mixed_reward,
    prefix_length,
    route_mask,
)


@dataclasses.dataclass(frozen=True)
class AsrConfig:
    """Settings of stage 1 and its published variants.

    Attributes:
      tau: a problem is routed to its scaffold if its mean outcome reward is below this (Eq. 8).
      beta: weight of the prefix term in the scaffold reward (Eq. 10).
      routing: "policy" routes by the current rollouts; "all" scaffolds every problem (All-Decomp);
        "none" scaffolds none; "offline" routes by difficulty label (Offline-Route).
      hard_labels: difficulty labels that "offline" routes.
      resample: "scaffold" answers routed problems on the scaffold; "original" only rolls them out
        again on the original prompt (No-Decomp).
      reward: "prefix" is the paper's; "independent" leaves the prefix product out; "final" rewards
        the main answer alone.
    """

    tau: float = 0.5
    beta: float = 0.5
    routing: Literal["policy", "all", "none", "offline"] = "policy"
    hard_labels: tuple[str, ...] = ()
    resample: Literal["scaffold", "original"] = "scaffold"
    reward: Literal["prefix", "independent", "final"] = "prefix"

    def __post_init__(self):
        for name in ("tau", "beta"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"asr.{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.routing == "offline" and not self.hard_labels:
            raise ValueError(
                "asr.routing 'offline' needs asr.hard_labels: the difficulty labels of the "
                "problems to route, such as k4 k5"
            )


class AsrStage:
    """Original rollouts first; groups that do badly are replaced by as many scaffold rollouts."""

    def __init__(self, config: AsrConfig):
        """Take the settings."""
        self.config = config

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out, route, roll out again, grade and reward one batch."""
        config = self.config
        usable = np.array([problem.id in tools.scaffolds for problem in problems])
        if config.resample == "original":
            usable[:] = True
        if config.routing == "all" and usable.all():
            # No original rollout would survive, so none is made.
            everything = np.ones(len(problems), bool)
            scored, metrics = self._roll_out_again(problems, tools)
            metrics |= {"route/wanted": 1.0, "route/scaffold_miss": 0.0}
            return self._finish(problems, tools, scored, everything, metrics)

        groups = roll_out(
            tools,
            [tools.prompts.original(problem) for problem in problems],
            [problem.id for problem in problems],
            "original",
        )
        verdicts = grade_outcome(tools, problems, groups)
        wanted = self._route(problems, verdicts)
        routed = wanted & usable
        metrics = {
            "outcome/mean": masked_mean(verdicts == Verdict.CORRECT, verdicts != Verdict.FAILED),
            "route/wanted": float(wanted.mean()),
            "route/scaffold_miss": float((wanted & ~usable).sum()),
        }
        rewards, verdicts, more = self.score_original(problems, tools, groups, verdicts, routed)
        scored, metrics = (groups, rewards, verdicts), metrics | more
        chosen = np.flatnonzero(routed)
        if chosen.size:
            again, more = self._roll_out_again([problems[int(b)] for b in chosen], tools)
            scored, metrics = _replace(scored, again, chosen), metrics | more
        return self._finish(problems, tools, scored, routed, metrics)

    def score_original(
        self,
        problems: Sequence[Problem],
        tools: Tools,
        groups: Groups,
        verdicts: np.ndarray,
        routed: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Reward the original rollouts: r_out, which the groups that are not `routed` keep.

        Returns:
          rewards [B, G] float32, verdicts [B, G] int8, metrics.
        """
        return (verdicts == Verdict.CORRECT).astype(np.float32), verdicts, {}

    def close(self) -> None:
        """Nothing to release."""

    def _route(self, problems: Sequence[Problem], verdicts: np.ndarray) -> np.ndarray:
        """[B] bool: which problems the routing rule sends to their scaffolds."""
        config = self.config
        if config.routing == "policy":
            correct, keep = verdicts == Verdict.CORRECT, verdicts != Verdict.FAILED
            return np.asarray(route_mask(correct, keep, tau=config.tau))
        if config.routing == "offline":
            return np.array([problem.difficulty in config.hard_labels for problem in problems])
        return np.full(len(problems), config.routing == "all")

    def _finish(
        self,
        problems: Sequence[Problem],
        tools: Tools,
        scored: "Scored",
        routed: np.ndarray,
        metrics: dict[str, float],
    ) -> Experience:
        """Build the experience of rewarded groups (R_1, Eq. 11)."""
        groups, rewards, verdicts = scored
        return build_experience(
            tools,
            problems,
            groups,
            rewards,
            verdicts,
            scaffolded=routed & (self.config.resample == "scaffold"),
            metrics=metrics | {"route/share": float(routed.mean())},
        )

    def _roll_out_again(
        self, problems: Sequence[Problem], tools: Tools
    ) -> tuple["Scored", dict[str, float]]:
        """Roll routed problems out a second time, and reward them; also returns metrics."""
        names = [problem.id for problem in problems]
        if self.config.resample == "original":
            prompts = [tools.prompts.original(problem) for problem in problems]
            groups = roll_out(tools, prompts, names, "again")
            verdicts = grade_outcome(tools, problems, groups)
            return (groups, (verdicts == Verdict.CORRECT).astype(np.float32), verdicts), {}
        scaffolds = [tools.scaffolds[problem.id] for problem in problems]
        groups = roll_out(tools, [tools.prompts.scaffold(s) for s in scaffolds], names, "scaffold")
        sub, main, verdicts = grade_scaffolds(tools, scaffolds, groups)
        num_sub = np.array([s.num_sub for s in scaffolds], np.int32)
        num_sub = np.broadcast_to(num_sub[:, None], main.shape)
        rewards = self._scaffold_reward(sub, num_sub, main)
        keep = verdicts != Verdict.FAILED
        length = np.asarray(prefix_length(sub, num_sub))
        metrics = {
            "scaffold/reward": masked_mean(rewards, keep),
            "scaffold/main_correct": masked_mean(main, keep),
            "scaffold/prefix_share": masked_mean(length / num_sub, keep),
            "scaffold/complete": masked_mean(length == num_sub, keep),
        }
        metrics |= {  # a histogram: shares of the rollouts by right sub-answers in a row
            f"scaffold/prefix_len/{n}": masked_mean(length == n, keep)
            for n in range(int(num_sub.max()) + 1)
        }
        return (groups, rewards, verdicts), metrics

    def _scaffold_reward(
        self, sub: np.ndarray, num_sub: np.ndarray, main: np.ndarray
    ) -> np.ndarray:
        if self.config.reward == "final":
            return np.asarray(final_only_reward(main))
        kernel = asr_reward if self.config.reward == "prefix" else independent_reward
        return np.asarray(kernel(sub, num_sub, main, beta=self.config.beta))


def grade_scaffolds(
    tools: Tools, scaffolds: Sequence[Scaffold], groups: Groups
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Verify the labelled answers of scaffolded rollouts.

    Returns:
      sub: [B, G, M] bool, right sub-answers; False at padding.
      main: [B, G] bool, right main answers.
      verdicts: [B, G] int8, `Verdict` of the main answer; FAILED where any answer of the rollout
        could not be graded, INCORRECT where it was truncated (its sub-answers count all the same).
    """
    num_prompts, num_rollouts = groups.rollouts.finished.shape
    responses = [text for texts in groups.texts for text in texts]
    repeated = [scaffold for scaffold in scaffolds for _ in range(num_rollouts)]
    with tools.timed("grade"):
        sub, main = tools.verifier.verify_scaffolds(responses, repeated)
    sub = sub.reshape(num_prompts, num_rollouts, -1)
    main = main.reshape(num_prompts, num_rollouts)
    failed = (main == Verdict.FAILED) | (sub == Verdict.FAILED).any(axis=-1)
    verdicts = settle(np.where(failed, Verdict.FAILED, main), groups.rollouts)
    return sub == Verdict.CORRECT, verdicts == Verdict.CORRECT, verdicts


Scored = tuple[Groups, np.ndarray, np.ndarray]  # with rewards [B, G] and verdicts [B, G]


def _replace(original: Scored, again: Scored, chosen: np.ndarray) -> Scored:
    """Put the groups of `again`, with their rewards and verdicts, in the places `chosen`."""
    groups, rewards, verdicts = original
    prompt_ids, texts = list(groups.prompt_ids), list(groups.texts)
    for i, b in enumerate(chosen):
        prompt_ids[b], texts[b] = again[0].prompt_ids[i], again[0].texts[i]

    def put(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        out = old.copy()
        out[chosen] = new
        return out

    fields = {
        field.name: put(
            getattr(groups.rollouts, field.name), getattr(again[0].rollouts, field.name)
        )
        for field in dataclasses.fields(groups.rollouts)
    }
    rollouts = dataclasses.replace(groups.rollouts, **fields)
    routed = np.zeros(len(groups), bool)
    routed[chosen] = True
    mixed = np.asarray(mixed_reward(routed, put(rewards, again[1]), rewards))
    return Groups(prompt_ids, rollouts, texts), mixed, put(verdicts, again[2])

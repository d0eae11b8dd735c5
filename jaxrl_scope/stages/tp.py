"""Stage `tp`: rewards at the ends of thoughts (TP-GRPO)."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import FailureGuard
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.grading.offsets import decode_with_ends
from jaxrl_scope.grading.thought_judge import ThoughtItem, ThoughtJudge, ThoughtSkips
from jaxrl_scope.grading.thought_tokens import TokenThoughts, pad_thoughts, token_thoughts
from jaxrl_scope.stages.base import Tools, build_experience, masked_mean
from jaxrl_scope.stages.phased import PhasedStage, Rolled
from jaxrl_scope.stages.propositions import check_propositions
from jaxrl_scope.train.experience import Experience
from rewards import group_advantages, thought_advantages, thought_reward_size

Thoughts = list[TokenThoughts | None]  # of the R rollouts of a batch; None where not judged


@dataclasses.dataclass(frozen=True)
class TpConfig:
    """Settings of TP-GRPO and its published variants.

    Attributes:
      alpha: α, weight of the process rewards of right solutions, in (0, 1]; 0 turns them off.
      only: process rewards for "correct" or for "incorrect" solutions alone (Table 4), or for
        "both". The others are not judged.
      skips: which responses are not worth judging, in characters (Appendix B.1).
      check_propositions: assert Propositions 1 and 2 on the tokens of every judged rollout.
      judge: who labels the steps; its `mode` is not used.
    """

    alpha: float = 1.0
    only: Literal["both", "correct", "incorrect"] = "both"
    skips: ThoughtSkips = ThoughtSkips()
    check_propositions: bool = False
    judge: JudgeConfig = JudgeConfig()

    def __post_init__(self):
        if not 0.0 <= self.alpha <= 1.0:
            raise ValueError(f"tp.alpha must lie in [0, 1], got {self.alpha}")
        for name in ("min_think_chars", "min_answer_chars"):
            if getattr(self.skips, name) < 0:
                raise ValueError(
                    f"tp.skips.{name} is a number of characters, at least 0; got "
                    f"{getattr(self.skips, name)}"
                )


class TpStage(PhasedStage):
    """The outcome reward of a rollout, and on top of it rewards at the ends of its thoughts."""

    def __init__(self, config: TpConfig, judge: ThoughtJudge):
        """Take the judge."""
        self.config = config
        self._judge = judge
        self._guard = FailureGuard(config.judge.max_failure_share, config.judge.failure_window)

    def reward(self, problems: Sequence[Problem], rolled: Rolled, tools: Tools) -> Experience:
        """Judge what is worth it and place the rewards.

        A rollout whose judge failed leaves its group and the loss; one that was skipped keeps the
        plain outcome advantage.

        Raises:
          JudgeFailureError: the judge fails too often for training to go on.
          PropositionError: `check_propositions` is set and one does not hold.
        """
        with tools.timed("judge"):
            thoughts, verdicts, metrics = self._judge_all(problems, rolled, tools)
        advantages, more = self._advantages(thoughts, verdicts, rolled, tools)
        correct = verdicts == Verdict.CORRECT
        return build_experience(
            tools,
            problems,
            rolled.groups,
            correct.astype(np.float32),
            verdicts,
            scaffolded=np.zeros(len(problems), bool),
            advantages=advantages,
            metrics=metrics
            | more
            | {"outcome/mean": masked_mean(correct, verdicts != Verdict.FAILED)},
        )

    def _judge_all(
        self, problems: Sequence[Problem], rolled: Rolled, tools: Tools
    ) -> tuple[Thoughts, np.ndarray, dict[str, float]]:
        """Thoughts of the R rollouts; verdicts [B, G], FAILED where the judge failed; metrics."""
        rollouts, verdicts = rolled.groups.rollouts, rolled.verdicts.reshape(-1)
        group = rollouts.response_len.shape[1]
        rows: list[int] = []
        items: list[ThoughtItem] = []
        ends: list[np.ndarray] = []
        skipped: Counter[str] = Counter()
        for row in np.flatnonzero(self._wanted(verdicts)):
            b, g = divmod(int(row), group)
            ids = rollouts.response_ids[b, g, : rollouts.response_len[b, g]].tolist()
            text, char_ends = decode_with_ends(tools.tokenizer, ids)
            item = ThoughtItem(problems[b].text, text, bool(verdicts[row] == Verdict.CORRECT))
            reason = self.config.skips.reason(item, truncated=not rollouts.finished[b, g])
            if reason is None:
                rows.append(int(row))
                items.append(item)
                ends.append(char_ends)
            else:
                skipped[reason] += 1
        results = self._judge.submit(items).result()
        self._guard.record([result.failure for result in results])
        thoughts: Thoughts = [None] * verdicts.size
        verdicts = verdicts.copy()
        for row, result, char_ends in zip(rows, results, ends, strict=True):
            if result.ok:
                thoughts[row] = token_thoughts(result, char_ends)
            else:
                verdicts[row] = Verdict.FAILED
        metrics = {f"tp/skipped/{name}": float(n) for name, n in skipped.items()}
        metrics["tp/judged"] = float(len(items))
        metrics["judge/failed_share"] = self._guard.share
        metrics |= {f"judge/{name}": value for name, value in self._judge.metrics().items()}
        return thoughts, verdicts.reshape(rolled.verdicts.shape), metrics

    def _wanted(self, verdicts: np.ndarray) -> np.ndarray:
        """Rollouts whose kind earns process rewards."""
        right, wrong = verdicts == Verdict.CORRECT, verdicts == Verdict.INCORRECT
        return {"both": right | wrong, "correct": right, "incorrect": wrong}[self.config.only]

    def _advantages(
        self, thoughts: Thoughts, verdicts: np.ndarray, rolled: Rolled, tools: Tools
    ) -> tuple[np.ndarray, dict[str, float]]:
        """[B, G, T] float32 advantages, and metrics: `tp/eta` is the share of groups that learn."""
        rollouts = rolled.groups.rollouts
        correct, keep = verdicts == Verdict.CORRECT, verdicts != Verdict.FAILED
        outcome = group_advantages(correct.astype(np.float32), keep, ddof=tools.ddof)
        size = thought_reward_size(
            correct,
            outcome,
            keep,
            alpha=self.config.alpha,
            only=None if self.config.only == "both" else self.config.only,
        )
        good, end, num_steps = pad_thoughts(thoughts)
        length, outcome, size = (
            np.asarray(x).reshape(-1) for x in (rollouts.response_len, outcome, size)
        )
        width = rollouts.response_ids.shape[2]
        advantages = np.asarray(
            thought_advantages(good, end, num_steps, length, outcome, size, max_len=width)
        )
        if self.config.check_propositions:
            check_propositions(advantages, thoughts, length, outcome, size, correct.reshape(-1))
        metrics = thought_metrics(thoughts, correct.reshape(-1), length)
        moved = (advantages != 0).reshape(len(correct), -1).any(axis=1)
        metrics["tp/eta"] = float(moved.mean())
        return advantages.reshape(rollouts.response_ids.shape), metrics

    def close(self) -> None:
        """Release the judge."""
        self._judge.close()


def thought_metrics(
    thoughts: Thoughts, correct: np.ndarray, response_len: np.ndarray
) -> dict[str, float]:
    """Thoughts per judged rollout, and the share of tokens in bad ones.

    `tp/bad_share/correct` is the back-track share: tokens of right responses that lie in work which
    the response itself took back. `tp/bad_share/incorrect` are tokens that the answer does not use.

    Args:
      thoughts: R entries, None where not judged.
      correct: [R] bool.
      response_len: [R] int tokens.
    """
    metrics = {}
    for name, kind in (("correct", True), ("incorrect", False)):
        rows = [i for i, t in enumerate(thoughts) if t is not None and correct[i] == kind]
        if not rows:
            continue
        judged = [t for t in (thoughts[i] for i in rows) if t is not None]
        bad = sum(int(np.diff(t.end, prepend=0)[~t.good].sum()) for t in judged)
        metrics[f"tp/bad_share/{name}"] = bad / float(response_len[rows].sum())
        metrics[f"tp/thoughts/{name}"] = float(np.mean([len(t.end) for t in judged]))
    return metrics

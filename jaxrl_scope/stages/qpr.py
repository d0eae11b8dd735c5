"""Stage `qpr`: verified-correct traces earn the quality of their steps (SCOPE-RL, stage 2)."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.grading.judge import (
    FailureGuard,
    Judge,
    JudgeItem,
    JudgeResult,
    StepLabel,
    pad_labels,
)
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.stages.base import (
    Groups,
    Tools,
    build_experience,
    grade_outcome,
    join_groups,
    masked_mean,
    roll_out,
)
from jaxrl_scope.train.experience import Experience
from rewards import PENALTIES, holistic_reward, overlong_reward, qpr_reward


@dataclasses.dataclass(frozen=True)
class QprConfig:
    """Settings of stage 2 and its published variants.

    Attributes:
      reward: "process" is the paper's S_u x Φ x κ; "holistic" takes one score per trace from the
        judge (`judge.mode` must be "holistic"); "overlong" needs no judge: the outcome less a
        penalty near the length cap.
      without: leave one factor of the process reward out (Table 3b).
      penalties: λ of mechanical, redundant, reversion and error steps (Appendix I).
      alpha: of the length factor κ (Appendix I).
      overlong_buffer: tokens before the cap over which the overlong penalty grows.
      chunks: the batch is generated in this many parts, and each is judged while the next is
        generated.
      judge: who labels the steps.
    """

    reward: Literal["process", "holistic", "overlong"] = "process"
    without: Literal["nothing", "positive", "penalty", "length"] = "nothing"
    penalties: tuple[float, float, float, float] = PENALTIES
    alpha: float = 0.5
    overlong_buffer: int = 4096
    chunks: int = 4
    judge: JudgeConfig = JudgeConfig()

    def __post_init__(self):
        if self.chunks < 1:
            raise ValueError(f"qpr.chunks must be at least 1, got {self.chunks}")
        if not all(0.0 <= penalty < 1.0 for penalty in self.penalties):
            raise ValueError(f"qpr.penalties must lie in [0, 1), got {self.penalties}")
        if (self.reward == "holistic") != (self.judge.mode == "holistic"):
            raise ValueError(
                "qpr.reward 'holistic' and qpr.judge.mode 'holistic' go together, got "
                f"{self.reward!r} and {self.judge.mode!r}"
            )


class QprStage:
    """Original prompts only; the gate comes first: a wrong trace is never sent to the judge."""

    def __init__(self, config: QprConfig, judge: Judge | None):
        """Take the judge; None where the reward needs none."""
        self.config = config
        self._judge = judge
        self._guard = FailureGuard(config.judge.max_failure_share, config.judge.failure_window)

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out, verify, judge the correct traces and reward one batch."""
        parts = np.array_split(np.arange(len(problems)), min(self.config.chunks, len(problems)))
        groups, verdicts, pending = [], [], []
        for part in parts:
            some = [problems[b] for b in part]
            prompts = [tools.prompts.original(problem) for problem in some]
            group = roll_out(tools, prompts, [problem.id for problem in some], "original")
            verdict = grade_outcome(tools, some, group)
            groups.append(group)
            verdicts.append(verdict)
            pending.append(self.submit(some, group, verdict))
        joined, verdict = join_groups(groups), np.concatenate(verdicts)
        gated = verdict == Verdict.CORRECT
        rewards, verdict, metrics = self.score(tools, joined, verdict, pending)
        experience = build_experience(
            tools,
            problems,
            joined,
            rewards,
            verdict,
            scaffolded=np.zeros(len(problems), bool),
            metrics=metrics,
        )
        judged = [result for future in pending for result in future.result()]
        return with_steps(experience, joined, gated, judged)

    def submit(
        self, problems: Sequence[Problem], groups: Groups, verdicts: np.ndarray
    ) -> "Future[list[JudgeResult]]":
        """Send the traces whose verdict is CORRECT, in row order, to the judge."""
        if self._judge is None:
            done: Future[list[JudgeResult]] = Future()
            done.set_result([])
            return done
        return self._judge.submit(
            [
                JudgeItem(problem.text, text, problem.answer)
                for problem, texts, row in zip(problems, groups.texts, verdicts, strict=True)
                for text, verdict in zip(texts, row, strict=True)
                if verdict == Verdict.CORRECT
            ]
        )

    def score(
        self,
        tools: Tools,
        groups: Groups,
        verdicts: np.ndarray,
        pending: Sequence["Future[list[JudgeResult]]"],
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Compute R_QPR (Eq. 12); a rollout whose judge failed leaves its group and the loss.

        Args:
          tools: the run's tools.
          groups: B groups of rollouts.
          verdicts: [B, G] int8.
          pending: what `submit` returned for these groups, in order.

        Returns:
          rewards [B, G] float32; verdicts [B, G] int8, FAILED where the judge failed; metrics.

        Raises:
          JudgeFailureError: the judge fails too often for training to go on.
        """
        config, correct = self.config, verdicts == Verdict.CORRECT
        lengths = groups.rollouts.response_len
        keep = verdicts != Verdict.FAILED
        metrics = {
            "outcome/mean": masked_mean(correct, keep),
            "response_length/correct": masked_mean(lengths, correct),
        }
        if self._judge is None:
            cap = tools.sampling.max_response_len
            buffer = min(config.overlong_buffer, cap)
            rewards = overlong_reward(correct, lengths, max_response_len=cap, buffer=buffer)
            return np.asarray(rewards), verdicts, metrics
        with tools.timed("judge"):
            results = [result for future in pending for result in future.result()]
        self._guard.record([result.failure for result in results])
        judged = np.array([result.ok for result in results], bool)
        keep[correct] &= judged
        metrics |= step_metrics(results)
        metrics["judge/failed"] = float((~judged).sum())
        metrics["judge/failed_share"] = self._guard.share
        metrics |= {f"judge/{name}": value for name, value in self._judge.metrics().items()}
        rewards = self._judged_reward(correct, keep, results)
        return rewards, np.where(keep, verdicts, Verdict.FAILED).astype(np.int8), metrics

    def _judged_reward(
        self, correct: np.ndarray, keep: np.ndarray, results: Sequence[JudgeResult]
    ) -> np.ndarray:
        """[B, G] float32 reward from the judge's labels or scores."""
        config = self.config
        if config.reward == "holistic":
            scores = np.zeros(correct.shape, np.float32)
            scores[correct] = [0.0 if r.score is None else r.score for r in results]
            return np.asarray(holistic_reward(correct, scores, keep))
        packed, counts, _ = pad_labels(results)
        labels = np.zeros((*correct.shape, packed.shape[-1]), np.int32)
        num_steps = np.ones(correct.shape, np.int32)
        labels[correct], num_steps[correct] = packed, np.maximum(counts, 1)
        return np.asarray(
            qpr_reward(
                correct,
                labels,
                num_steps,
                keep,
                penalties=config.penalties,
                alpha=config.alpha,
                without=None if config.without == "nothing" else config.without,
            )
        )

    def close(self) -> None:
        """Release the judge."""
        if self._judge is not None:
            self._judge.close()


def with_steps(
    experience: Experience, groups: Groups, gated: np.ndarray, results: Sequence[JudgeResult]
) -> Experience:
    """Put the judge's labels into the samples that people read; `gated` [B, G] bool was judged."""
    texts = [groups.texts[b][g] for b, g in np.argwhere(gated)]
    labelled = {
        text: tuple(
            (text[start:end], label.name.lower())
            for (start, end), label in zip(result.steps, result.labels, strict=True)
        )
        for text, result in zip(texts, results, strict=False)
        if result.labels
    }
    samples = tuple(
        dataclasses.replace(sample, steps=labelled.get(sample.response, ()))
        for sample in experience.samples
    )
    return dataclasses.replace(experience, samples=samples)


def step_metrics(results: Sequence[JudgeResult]) -> dict[str, float]:
    """Shares of the five labels among all judged steps, and steps per judged trace."""
    labelled = [result.labels for result in results if result.labels]
    if not labelled:
        return {}
    counts = Counter(label for labels in labelled for label in labels)
    total = sum(counts.values())
    shares = {f"steps/{label.name.lower()}": counts[label] / total for label in StepLabel}
    return shares | {"steps/mean": total / len(labelled)}

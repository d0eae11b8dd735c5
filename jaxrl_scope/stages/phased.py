"""Stages whose batch is made in two parts: rolled out, and rewarded, the judge's part.

The two need not follow each other at once: the off-policy pipeline (`train/pipeline.py`) rolls out
many batches, then rewards them all. What passes between them is `Rolled`.
"""

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.stages.base import Groups, Tools, grade_outcome, roll_out
from jaxrl_scope.train.experience import Experience


@dataclasses.dataclass(frozen=True)
class Rolled:
    """Rollouts of a batch with the verdicts on their answers.

    Attributes:
      groups: B groups of G rollouts on the original prompts.
      verdicts: [B, G] int8 of `Verdict` values.
    """

    groups: Groups
    verdicts: np.ndarray


class PhasedStage(abc.ABC):
    """A stage on original prompts, in two parts."""

    def roll(self, problems: Sequence[Problem], tools: Tools) -> Rolled:
        """Roll out and verify one batch."""
        groups = roll_out(
            tools,
            [tools.prompts.original(problem) for problem in problems],
            [problem.id for problem in problems],
            "original",
        )
        return Rolled(groups, grade_outcome(tools, problems, groups))

    @abc.abstractmethod
    def reward(self, problems: Sequence[Problem], rolled: Rolled, tools: Tools) -> Experience:
        """Reward what was rolled out for these problems; the policy is not used."""

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out, grade and reward one batch."""
        return self.reward(problems, self.roll(problems, tools), tools)

    def close(self) -> None:
        """Release what the stage itself holds: nothing, unless it says otherwise."""
        return

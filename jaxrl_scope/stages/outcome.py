"""Stage `outcome`: plain GRPO or GSPO on the verifier's 0/1, the baseline of every other stage."""

from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.stages.base import Tools, build_experience, masked_mean
from jaxrl_scope.stages.phased import PhasedStage, Rolled
from jaxrl_scope.train.experience import Experience


class OutcomeStage(PhasedStage):
    """Every problem on its original prompt; reward 1 if the verifier says correct, else 0."""

    def reward(self, problems: Sequence[Problem], rolled: Rolled, tools: Tools) -> Experience:
        """Reward 1 or 0."""
        correct = rolled.verdicts == Verdict.CORRECT
        return build_experience(
            tools,
            problems,
            rolled.groups,
            correct.astype(np.float32),
            rolled.verdicts,
            scaffolded=np.zeros(len(problems), bool),
            metrics={"outcome/mean": masked_mean(correct, rolled.verdicts != Verdict.FAILED)},
        )

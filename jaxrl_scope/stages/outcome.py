"""Stage `outcome`: plain GRPO or GSPO on the verifier's 0/1, the baseline of every other stage."""

from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.stages.base import (
    Tools,
    build_experience,
    grade_outcome,
    masked_mean,
    roll_out,
)
from jaxrl_scope.train.experience import Experience


class OutcomeStage:
    """Every problem on its original prompt; reward 1 if the verifier says correct, else 0."""

    def collect(self, problems: Sequence[Problem], tools: Tools) -> Experience:
        """Roll out and grade one batch of problems."""
        groups = roll_out(
            tools,
            [tools.prompts.original(problem) for problem in problems],
            [problem.id for problem in problems],
            "original",
        )
        verdicts = grade_outcome(tools, problems, groups)
        correct = verdicts == Verdict.CORRECT
        return build_experience(
            tools,
            problems,
            groups,
            correct.astype(np.float32),
            verdicts,
            scaffolded=np.zeros(len(problems), bool),
            metrics={"outcome/mean": masked_mean(correct, verdicts != Verdict.FAILED)},
        )

    def close(self) -> None:
        """Nothing to release."""

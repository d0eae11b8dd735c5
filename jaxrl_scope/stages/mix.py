"""Stage `mix`: both rewards of SCOPE-RL from the start, the paper's control for staging."""

from collections.abc import Sequence

import numpy as np

from jaxrl_scope.data.problems import Problem
from jaxrl_scope.grading import Verdict
from jaxrl_scope.stages.asr import AsrConfig, AsrStage
from jaxrl_scope.stages.base import Groups, Tools
from jaxrl_scope.stages.qpr import QprStage


class MixStage(AsrStage):
    """Routed groups earn R_ASR on their scaffolds, the others R_QPR on the original prompts.

    Source: SCOPE-RL, Table 3(c), Mix-Stage. The paper does not say how the two are mixed; this is
    Eq. (11) with R_QPR in the place of r_out.
    """

    def __init__(self, config: AsrConfig, quality: QprStage):
        """Take the settings of stage 1, and stage 2 for its reward."""
        super().__init__(config)
        self._quality = quality

    def score_original(
        self,
        problems: Sequence[Problem],
        tools: Tools,
        groups: Groups,
        verdicts: np.ndarray,
        routed: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Judge the correct traces of the groups that keep their rollouts."""
        kept = np.where(routed[:, None], Verdict.INCORRECT, verdicts).astype(np.int8)
        pending = [self._quality.submit(problems, groups, kept)]
        rewards, kept, metrics = self._quality.score(tools, groups, kept, pending)
        del metrics["outcome/mean"]  # of the kept groups alone; stage 1 logs that of all
        return rewards, np.where(routed[:, None], verdicts, kept), metrics

    def close(self) -> None:
        """Release the judge."""
        self._quality.close()

"""Which stage a config names: the one place that lists them all."""

import functools
from pathlib import Path

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.data.world_labels import label_trace
from jaxrl_scope.data.world_thoughts import label_thoughts
from jaxrl_scope.grading.judge import Judge
from jaxrl_scope.grading.judge_config import build_judge, build_thought_judge
from jaxrl_scope.grading.thought_judge import ThoughtJudge
from jaxrl_scope.stages.asr import AsrStage
from jaxrl_scope.stages.base import Stage
from jaxrl_scope.stages.graft import GraftStage
from jaxrl_scope.stages.mix import MixStage
from jaxrl_scope.stages.outcome import OutcomeStage
from jaxrl_scope.stages.qpr import QprStage
from jaxrl_scope.stages.tp import TpStage


def make_stage(config: TrainConfig, run_dir: Path | None = None) -> Stage:
    """Build the stage that a config names; `run_dir` is where it may write what it keeps."""
    ledger = run_dir / "ledger.jsonl" if run_dir else None
    stages = {
        "outcome": lambda: OutcomeStage(),
        "asr": lambda: AsrStage(config.asr),
        "qpr": lambda: QprStage(config.qpr, make_judge(config)),
        "tp": lambda: TpStage(config.tp, make_thought_judge(config)),
        "mix": lambda: MixStage(config.asr, QprStage(config.qpr, make_judge(config))),
        "graft": lambda: GraftStage(config.graft, ledger),
    }
    return stages[config.stage]()


def make_judge(config: TrainConfig) -> Judge | None:
    """Build the training judge; None where the reward needs none."""
    if config.qpr.reward == "overlong":
        return None
    return build_judge(
        config.qpr.judge, functools.partial(label_trace, modulus=config.world.modulus)
    )


def make_thought_judge(config: TrainConfig) -> ThoughtJudge:
    """Build the judge of thoughts."""
    return build_thought_judge(
        config.tp.judge, functools.partial(label_thoughts, modulus=config.world.modulus)
    )

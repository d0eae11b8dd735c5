"""Which stage a config names: the one place that lists them all."""

from jaxrl_scope.config import TrainConfig
from jaxrl_scope.stages.asr import AsrStage
from jaxrl_scope.stages.base import Stage
from jaxrl_scope.stages.outcome import OutcomeStage


def make_stage(config: TrainConfig) -> Stage:
    """Build the stage that a config names."""
    stages = {
        "outcome": lambda: OutcomeStage(),
        "asr": lambda: AsrStage(config.asr),
    }
    return stages[config.stage]()

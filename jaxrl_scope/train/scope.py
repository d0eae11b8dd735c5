"""The two stages of SCOPE-RL as one run: ASR, then QPR from its best checkpoint."""

import dataclasses
from pathlib import Path

from jaxrl_scope.config import TrainConfig


def split(config: TrainConfig, run_dir: Path) -> tuple[TrainConfig, TrainConfig]:
    """Return the settings of the two runs that `--stage scope` makes, in RUN/asr and RUN/qpr.

    Only the policy's parameters pass from one to the other: stage 2 starts from the best checkpoint
    of stage 1 by validation accuracy, with a new optimizer and its own schedule.
    """
    scope = config.scope
    first = dataclasses.replace(config, stage="asr", run_dir=str(run_dir / "asr"))
    length = scope.qpr_max_response_len or config.rollout.max_response_len
    second = dataclasses.replace(
        config,
        stage="qpr",
        run_dir=str(run_dir / "qpr"),
        updates=scope.qpr_updates,
        model=dataclasses.replace(config.model, path=first.run_dir),
        rollout=dataclasses.replace(config.rollout, max_response_len=length),
        optimizer=scope.qpr_optimizer,
    )
    return first, second

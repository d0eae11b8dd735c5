"""Vetted settings, by name; each preset is a function of the stage.

`world` trains on the built-in world, on two CPU cores, in about five minutes. The others are the
reference runs of SCOPE-RL (Table 1) for 8 x 80 GB: Qwen3-8B or 0.6B on DAPO-Math or Big-Math.
"""

from collections.abc import Callable

from jaxrl_scope.config import (
    DataConfig,
    EvalConfig,
    MeshConfig,
    RolloutConfig,
    SourceConfig,
    TrainConfig,
)
from jaxrl_scope.train.checkpoint import CheckpointConfig
from jaxrl_scope.train.optimizer import OptimizerConfig
from jaxrl_scope.train.update import UpdateConfig


def world(stage: str) -> TrainConfig:
    """The built-in world. Outcome GRPO does best at a lower learning rate than ASR."""
    return TrainConfig(
        stage=stage,
        preset="world",
        updates=45,
        data=DataConfig(batch_problems=16, max_prompt_len=64),
        rollout=RolloutConfig(group=8, max_response_len=112),
        update=UpdateConfig(token_budget=32768, length_multiple=32, chunk_tokens=16384),
        optimizer=OptimizerConfig(
            lr=1.5e-4 if stage == "outcome" else 5e-4, warmup_updates=3, b2=0.95
        ),
        eval=EvalConfig(every=15, samples=8),
        checkpoint=CheckpointConfig(every=5),
    )


def _qwen3(size: str, corpus: str) -> Callable[[str], TrainConfig]:
    def preset(stage: str) -> TrainConfig:
        """Spec section 8: batch 48 x 8, 1k prompt, 8k response, lr 1e-6 with 60 warm-up updates."""
        return TrainConfig(
            stage=stage,
            preset=f"qwen3-{size.lower()}-{corpus}",
            updates=500,
            model=SourceConfig(path=f"checkpoints/Qwen3-{size}", dtype="bfloat16", remat="full"),
            data=DataConfig(
                problems=f"data/{corpus}.parquet",
                scaffolds=f"data/{corpus}-scaffolds.jsonl",
                validation=f"data/{corpus}-validation.parquet",
                columns={"dapo": "dapo-math", "bigmath": "big-math"}[corpus],
                limit=2400,
                batch_problems=48,
                max_prompt_len=1024,
            ),
            rollout=RolloutConfig(group=8, max_response_len=8192, cache_gib=24.0),
            update=UpdateConfig(token_budget=18432, length_multiple=512, chunk_tokens=2048),
            optimizer=OptimizerConfig(lr=1e-6, schedule="constant", warmup_updates=60),
            mesh=MeshConfig(fsdp=8),
            eval=EvalConfig(every=25, samples=1, greedy=False, limit=128),
            checkpoint=CheckpointConfig(every=25),
        )

    return preset


PRESETS: dict[str, Callable[[str], TrainConfig]] = {
    "world": world,
    "qwen3-8b-dapo": _qwen3("8B", "dapo"),
    "qwen3-8b-bigmath": _qwen3("8B", "bigmath"),
    "qwen3-0.6b-dapo": _qwen3("0.6B", "dapo"),
    "qwen3-0.6b-bigmath": _qwen3("0.6B", "bigmath"),
}

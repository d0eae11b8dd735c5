"""Vetted settings, by name; each preset is a function of the stage.

`world` trains on the built-in world, on two CPU cores, in a few minutes; `world-verbose` on one
whose answers are mostly low-value steps, which is what stage 2 can improve; `world-gate` on one
whose scaffolds can partly be guessed, which tests the prefix gate; `world-backtrack` on one whose
answers take work back, which TP-GRPO is about. The others are the
reference runs of SCOPE-RL (Table 1) for 8 x 80 GB: Qwen3-8B or 0.6B on DAPO-Math or Big-Math, and
of TP-GRPO (`r1-qwen-*`): DeepSeek-R1-Distill-Qwen with update intervals of 50 and 25.
"""

import dataclasses
from collections.abc import Callable

from jaxrl_scope.config import (
    BUILT_IN_CODE,
    DataConfig,
    EvalConfig,
    MeshConfig,
    RolloutConfig,
    ScopeConfig,
    SourceConfig,
    StageName,
    TrainConfig,
)
from jaxrl_scope.data.code_demos import CodeDemoRates
from jaxrl_scope.data.code_world_build import CodeWorldConfig
from jaxrl_scope.data.world_build import WorldConfig
from jaxrl_scope.data.world_demos import DemoRates
from jaxrl_scope.grading.chat_types import ChatConfig
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.grading.thought_judge import ThoughtSkips
from jaxrl_scope.stages.graft import SandboxConfig
from jaxrl_scope.stages.qpr import QprConfig
from jaxrl_scope.stages.tp import TpConfig
from jaxrl_scope.train.checkpoint import CheckpointConfig
from jaxrl_scope.train.optimizer import OptimizerConfig
from jaxrl_scope.train.pipeline import PipelineConfig
from jaxrl_scope.train.update import UpdateConfig
from jaxrl_scope.train.warm_start import WarmStartConfig


def world(stage: StageName) -> TrainConfig:
    """The built-in world. Outcome GRPO and TP-GRPO do best at a lower learning rate than ASR."""
    if stage == "graft":
        return code_world(stage)
    lr = 1.5e-4 if stage in ("outcome", "tp") else 5e-4
    refining = OptimizerConfig(lr=4e-4, schedule="cosine", warmup_updates=3, b2=0.95)
    return TrainConfig(
        stage=stage,
        preset="world",
        updates=60 if stage == "qpr" else 45,
        data=DataConfig(batch_problems=16, max_prompt_len=64),
        rollout=RolloutConfig(group=8, max_response_len=112),
        qpr=QprConfig(judge=JudgeConfig(kind="rules"), chunks=1, overlong_buffer=56),
        tp=TpConfig(judge=JudgeConfig(kind="rules"), skips=ThoughtSkips(0, 0)),
        scope=ScopeConfig(qpr_updates=60, qpr_max_response_len=0, qpr_optimizer=refining),
        update=UpdateConfig(token_budget=32768, length_multiple=32, chunk_tokens=16384),
        optimizer=refining if stage == "qpr" else OptimizerConfig(lr=lr, warmup_updates=3, b2=0.95),
        eval=EvalConfig(every=15, samples=8),
        checkpoint=CheckpointConfig(every=5),
    )


def code_world(stage: StageName) -> TrainConfig:
    """The built-in code world: chains of functions, run in the sandbox."""
    return TrainConfig(
        stage=stage,
        preset="code-world",
        updates=30,
        model=SourceConfig(path=BUILT_IN_CODE),
        data=DataConfig(
            problems=BUILT_IN_CODE,
            scaffolds="",
            validation=BUILT_IN_CODE,
            batch_problems=16,
            max_prompt_len=32,
        ),
        rollout=RolloutConfig(group=8, max_response_len=144),
        sandbox=SandboxConfig(wall_s=10.0, cpu_s=10, memory_mb=512),
        update=UpdateConfig(token_budget=32768, length_multiple=32, chunk_tokens=16384),
        optimizer=OptimizerConfig(lr=5e-4, warmup_updates=3, b2=0.95),
        eval=EvalConfig(every=15, samples=4),
        checkpoint=CheckpointConfig(every=10),
    )


def code_world_short(stage: StageName) -> TrainConfig:
    """The built-in code world with 3 or 4 steps and fewer slips, where chains come out right."""
    config = code_world(stage)
    return dataclasses.replace(
        config,
        preset="code-world-short",
        updates=24,
        code_world=CodeWorldConfig(lengths=(3, 4), rates=CodeDemoRates(slip=0.20)),
        eval=EvalConfig(every=12, samples=8),
    )


def world_verbose(stage: StageName) -> TrainConfig:
    """The built-in world with answers that check, restate and doubt: most steps are low-value."""
    habits = DemoRates(check=0.36, restate=0.28, doubt=0.06, repair=0.10)
    config = world(stage)
    return dataclasses.replace(
        config,
        preset="world-verbose",
        rollout=dataclasses.replace(config.rollout, max_response_len=128),
        world=WorldConfig(
            train_lengths=(3, 4),
            eval_lengths=(1, 2, 3, 4),
            original=dataclasses.replace(habits, careful=0.25),
            scaffold=dataclasses.replace(habits, careful=0.35),
            warm_start=WarmStartConfig(width=160, rows=26),
        ),
    )


def world_gate(stage: StageName) -> TrainConfig:
    """The built-in world where later sub-questions can be guessed, and careful steps are rare."""
    config = world(stage)
    rare = DemoRates(careful=0.15)
    return dataclasses.replace(
        config,
        preset="world-gate",
        data=dataclasses.replace(config.data, max_prompt_len=80),
        rollout=dataclasses.replace(config.rollout, max_response_len=144),
        world=WorldConfig(
            original=rare,
            scaffold=rare,
            parity=True,
            warm_start=WarmStartConfig(width=144, rows=29),
        ),
    )


def world_backtrack(stage: StageName) -> TrainConfig:
    """The built-in world with answers that take work back: mistakes mended at once or later."""
    habits = DemoRates(careful=0.30, repair=0.45)
    config = world(stage)
    return dataclasses.replace(
        config,
        preset="world-backtrack",
        rollout=dataclasses.replace(config.rollout, max_response_len=128),
        world=WorldConfig(
            train_lengths=(3, 4),
            eval_lengths=(1, 2, 3, 4),
            original=dataclasses.replace(habits, late=0.45),
            scaffold=habits,
            warm_start=WarmStartConfig(width=160, rows=26),
        ),
    )


def _qwen3(size: str, corpus: str) -> Callable[[StageName], TrainConfig]:
    def preset(stage: StageName) -> TrainConfig:
        """Spec section 8: batch 48 x 8, 1k prompt, response 8k (stage 2: 16k), lr 1e-6 (5e-7)."""
        refining = stage == "qpr"
        return TrainConfig(
            stage=stage,
            preset=f"qwen3-{size.lower()}-{corpus}",
            updates=100 if refining else 500,
            model=SourceConfig(
                path=f"checkpoints/Qwen3-{size}",
                dtype="bfloat16",
                param_dtype="float32",
                remat="full",
            ),
            data=DataConfig(
                problems=f"data/{corpus}.parquet",
                scaffolds=f"data/{corpus}-scaffolds.jsonl",
                validation=f"data/{corpus}-validation.parquet",
                columns={"dapo": "dapo-math", "bigmath": "big-math"}[corpus],
                limit=2400,
                batch_problems=48,
                max_prompt_len=1024,
            ),
            rollout=RolloutConfig(
                group=8, max_response_len=16384 if refining else 8192, cache_gib=20.0
            ),
            update=UpdateConfig(token_budget=18432, length_multiple=512, chunk_tokens=16384),
            optimizer=ScopeConfig().qpr_optimizer
            if refining
            else OptimizerConfig(lr=1e-6, schedule="constant", warmup_updates=60),
            mesh=MeshConfig(fsdp=4, tensor=2),  # what launch/plan.py says fits 80 GB
            eval=EvalConfig(every=25, samples=1, greedy=False, limit=128),
            checkpoint=CheckpointConfig(every=25),
        )

    return preset


def _r1_distill(size: str, interval: int) -> Callable[[StageName], TrainConfig]:
    def preset(stage: StageName) -> TrainConfig:
        """Spec section 5: batch 5 x 8, lr 1e-6, temperature 1, no KL; `outcome` is on-policy GRPO.

        The response cap, data and mesh are this project's choice.
        """
        updates = {"1.5b": (140, 850), "7b": (214, 400)}[size]
        judge = ChatConfig(model="Qwen3-32B", base_url="http://localhost:8000/v1", api_key_env="")
        return TrainConfig(
            stage=stage,
            preset=f"r1-qwen-{size}-i{interval}",
            updates=updates[stage == "outcome"],
            model=SourceConfig(
                path=f"checkpoints/DeepSeek-R1-Distill-Qwen-{size.upper()}",
                dtype="bfloat16",
                remat="full",
            ),
            data=DataConfig(
                problems="data/train.jsonl",
                scaffolds="",
                validation="data/validation.jsonl",
                batch_problems=5,
            ),
            rollout=RolloutConfig(group=8, max_response_len=16384, cache_gib=24.0),
            tp=TpConfig(judge=JudgeConfig(chat=judge, cache_dir="judge-cache")),
            pipeline=PipelineConfig(update_interval=interval if stage == "tp" else 1),
            update=UpdateConfig(token_budget=18432, length_multiple=512, chunk_tokens=2048),
            optimizer=OptimizerConfig(lr=1e-6, schedule="constant", warmup_updates=0),
            mesh=MeshConfig(tensor={"1.5b": 2, "7b": 4}[size]),
            eval=EvalConfig(every=25, samples=1, greedy=False, limit=128),
            checkpoint=CheckpointConfig(every=25),
        )

    return preset


PRESETS: dict[str, Callable[[StageName], TrainConfig]] = {
    "world": world,
    "world-verbose": world_verbose,
    "code-world": code_world,
    "code-world-short": code_world_short,
    "world-gate": world_gate,
    "world-backtrack": world_backtrack,
    "qwen3-8b-dapo": _qwen3("8B", "dapo"),
    "qwen3-8b-bigmath": _qwen3("8B", "bigmath"),
    "qwen3-0.6b-dapo": _qwen3("0.6B", "dapo"),
    "qwen3-0.6b-bigmath": _qwen3("0.6B", "bigmath"),
    **{
        f"r1-qwen-{size}-i{interval}": _r1_distill(size, interval)
        for size in ("1.5b", "7b")
        for interval in (50, 25)
    },
}

"""The settings of a training run: one frozen dataclass per concern, nested in `TrainConfig`.

Values come from, later ones winning: a preset (`presets.py`), a file, the command line.
"""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from jaxrl_scope.data.code_world_build import CodeWorldConfig
from jaxrl_scope.data.world_build import WorldConfig
from jaxrl_scope.rollout.vllm.settings import VllmConfig
from jaxrl_scope.stages.asr import AsrConfig
from jaxrl_scope.stages.graft import GraftConfig, SandboxConfig
from jaxrl_scope.stages.qpr import QprConfig
from jaxrl_scope.stages.tp import TpConfig
from jaxrl_scope.train.checkpoint import CheckpointConfig
from jaxrl_scope.train.losses import LossConfig
from jaxrl_scope.train.optimizer import OptimizerConfig
from jaxrl_scope.train.pipeline import PipelineConfig
from jaxrl_scope.train.update import UpdateConfig
from models import ModelConfig

StageName = Literal["outcome", "asr", "qpr", "mix", "scope", "tp", "graft"]

BUILT_IN = "world"  # as a path: the built-in world's file of that kind
BUILT_IN_CODE = "code-world"  # the same of the built-in code world

# Fields that may differ between a run and its resumption without changing what is computed.
NOT_COMPARED = ("run_dir", "resume", "dry_run", "cache_dir", "checkpoint", "log")


@dataclasses.dataclass(frozen=True)
class SourceConfig:
    """The model that a run starts from.

    Attributes:
      path: Hugging Face model directory with its tokenizer; the directory of a run, whose best
        checkpoint is taken (parameters alone); or "world" for the built-in model.
      dtype: of activations and matrix products, "float32" or "bfloat16"; "" takes the directory's
        own.
      param_dtype: of the weights that are trained and of the optimizer's moments; "" takes `dtype`.
        Steps of 1e-6 vanish in the rounding of bfloat16 weights: keep these in float32.
      remat: what the backward pass recomputes (`models.ModelConfig.remat`); "" takes the default.
      attention: "auto" takes cuDNN's kernel on a GPU in half precision, and XLA elsewhere.
    """

    path: str = BUILT_IN
    dtype: Literal["", "float32", "bfloat16"] = ""
    param_dtype: Literal["", "float32", "bfloat16"] = ""
    remat: Literal["", "none", "dots", "minimal", "full"] = ""
    attention: Literal["auto", "xla", "cudnn"] = "auto"

    def apply(self, model: ModelConfig) -> ModelConfig:
        """The config of the model as it is trained."""
        dtype = self.dtype or model.dtype
        return dataclasses.replace(
            model,
            dtype=dtype,
            param_dtype=self.param_dtype or self.dtype or model.param_dtype,
            remat=self.remat or model.remat,
            attention=self.attention,
        )


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Problems, scaffolds and prompts.

    Attributes:
      problems: problem file to train on (JSONL or parquet, or a `datasets` name), or "world".
      scaffolds: scaffold file, or "world"; "" for none.
      validation: problem file to evaluate on, or "world"; "" for none.
      columns: name of a column preset of the loader; "" tells the layout by each row.
      limit: train on a subset of this many problems, drawn by the seed; 0 for all.
      batch_problems: B, problems per update.
      max_prompt_len: longest prompt, in tokens; problems with a longer one are left out.
      thinking: switch of chat templates that have one; "default" leaves the template's own.
      strict: stop at the first broken row instead of reporting it.
    """

    problems: str = BUILT_IN
    scaffolds: str = BUILT_IN
    validation: str = BUILT_IN
    columns: str = ""
    limit: int = 0
    batch_problems: int = 16
    max_prompt_len: int = 1024
    thinking: Literal["default", "on", "off"] = "default"
    strict: bool = False


@dataclasses.dataclass(frozen=True)
class RolloutConfig:
    """Sampling.

    Attributes:
      group: G, rollouts per problem.
      max_response_len: cap on response tokens; a response that reaches it is truncated.
      temperature: of the rollouts and, alike, of the trainer's log-probabilities.
      cache_gib: bound on a device's key/value cache in the JAX sampler, GiB.
      replay: take the rollouts from this folder, which an earlier run recorded with
        `log.save_rollouts`, instead of generating; "" generates.
      engine: "jax" samples in the trainer's process; "vllm" on vLLM servers, which the trainer
        starts unless `urls` are given.
      urls: vLLM servers that run already, "http://host:8000"; they see the weights' directory.
      ahead: make the next batch on the servers while the trainer learns from this one. Rollouts
        are then one version old, which the importance weights of `loss.tis_cap` correct for; the
        first batch after `--resume` is not, so that a resumed run is another one.
      vllm: the servers.
    """

    group: int = 8
    max_response_len: int = 8192
    temperature: float = 1.0
    cache_gib: float = 4.0
    replay: str = ""
    engine: Literal["jax", "vllm"] = "jax"
    urls: tuple[str, ...] = ()
    ahead: bool = False
    vllm: VllmConfig = VllmConfig()


@dataclasses.dataclass(frozen=True)
class AdvantageConfig:
    """Group normalisation.

    Attributes:
      ddof: 0 divides by the population std (the papers), 1 by the sample std (verl and others).
    """

    ddof: Literal[0, 1] = 0


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Evaluation on the original prompts of the validation problems.

    Attributes:
      every: updates between evaluations; one is always made before the first update and after the
        last. 0 makes only those two.
      samples: rollouts per problem at the training temperature.
      greedy: also answer every problem once at temperature 0.
      limit: problems used while training, 0 for all; the first and last evaluations use all.
    """

    every: int = 15
    samples: int = 8
    greedy: bool = True
    limit: int = 0


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """How many devices each mesh axis has; their product is the number of devices used.

    Attributes:
      data: rows of a batch are split over it, weights are not.
      fsdp: rows and weights are split over it.
      tensor: heads, MLP width and vocabulary are split over it.
    """

    data: int = 1
    fsdp: int = 1
    tensor: int = 1

    @property
    def num_devices(self) -> int:
        """Devices that the mesh takes."""
        return self.data * self.fsdp * self.tensor


@dataclasses.dataclass(frozen=True)
class GradingConfig:
    """The answer verifier.

    Attributes:
      workers: processes for answers that need sympy.
      wall_limit_s: seconds after which an answer has failed.
      memory_limit_mb: memory after which an answer has failed, MB.
    """

    workers: int = 2
    wall_limit_s: float = 3.0
    memory_limit_mb: int = 512


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """What is written besides metrics.jsonl.

    Attributes:
      tensorboard: write event files under RUN/tensorboard.
      plots: write RUN/curves.png at the end.
      every: updates between progress lines where the output is no terminal.
      save_rollouts: keep all rollouts in RUN/rollouts, for `rollout.replay`.
      wandb: Weights & Biases project to log to (extra `wandb`); "" for none.
    """

    tensorboard: bool = True
    plots: bool = True
    every: int = 5
    save_rollouts: bool = False
    wandb: str = ""


@dataclasses.dataclass(frozen=True)
class ScopeConfig:
    """What stage 2 of `--stage scope` changes; stage 1 takes the run's own settings.

    Attributes:
      qpr_updates: updates of stage 2.
      qpr_max_response_len: its cap on response tokens; 0 keeps stage 1's.
      qpr_optimizer: its optimizer (spec section 8: half the rate of stage 1, cosine).
    """

    qpr_updates: int = 100
    qpr_max_response_len: int = 16384
    qpr_optimizer: OptimizerConfig = OptimizerConfig(lr=5e-7, schedule="cosine", warmup_updates=0)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training run.

    Attributes:
      stage: what decides the reward.
      preset: where the defaults come from.
      seed: of data order, rollouts and minibatches.
      updates: number of updates (batches).
      run_dir: where the run is written; "" takes the next free runs/STAGE-PRESET-sSEED.
      resume: go on with the run in `run_dir` (with "", the latest of that name).
      dry_run: print what would be done, check it, and stop.
      cache_dir: where the built-in world and compiled functions are kept between runs; ""
        takes ~/.cache/jaxrl-scope.
    """

    stage: StageName = "asr"
    preset: str = "world"
    seed: int = 0
    updates: int = 100
    run_dir: str = ""
    resume: bool = False
    dry_run: bool = False
    cache_dir: str = ""
    model: SourceConfig = SourceConfig()
    data: DataConfig = DataConfig()
    rollout: RolloutConfig = RolloutConfig()
    asr: AsrConfig = AsrConfig()
    qpr: QprConfig = QprConfig()
    graft: GraftConfig = GraftConfig()
    sandbox: SandboxConfig = SandboxConfig()
    scope: ScopeConfig = ScopeConfig()
    tp: TpConfig = TpConfig()
    pipeline: PipelineConfig = PipelineConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    loss: LossConfig = LossConfig()
    update: UpdateConfig = UpdateConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    mesh: MeshConfig = MeshConfig()
    grading: GradingConfig = GradingConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    log: LogConfig = LogConfig()
    world: WorldConfig = WorldConfig()
    code_world: CodeWorldConfig = CodeWorldConfig()

    def __post_init__(self):
        _at_least(1, "updates", self.updates)
        _at_least(1, "data.batch_problems", self.data.batch_problems)
        _at_least(1, "rollout.max_response_len", self.rollout.max_response_len)
        _at_least(2, "rollout.group", self.rollout.group, "a group of one has no baseline")
        for axis in ("data", "fsdp", "tensor"):
            _at_least(1, f"mesh.{axis}", getattr(self.mesh, axis))
        if self.rollout.temperature <= 0:
            raise ValueError(
                f"rollout.temperature must be above 0 to train on, got {self.rollout.temperature}"
            )
        self._check_engine()
        shards = self.mesh.data * self.mesh.fsdp
        if self.data.batch_problems % shards:
            below = self.data.batch_problems // shards * shards
            raise ValueError(
                f"data.batch_problems ({self.data.batch_problems}) must be divisible by mesh.data "
                f"x mesh.fsdp ({shards}), since a group never spans devices. Use "
                f"{' or '.join(str(n) for n in (below, below + shards) if n)}, or another mesh."
            )
        if self.data.batch_problems < self.update.minibatches:
            raise ValueError(
                f"update.minibatches ({self.update.minibatches}) exceeds data.batch_problems "
                f"({self.data.batch_problems}); a group is never split"
            )

    def _check_engine(self) -> None:
        rollout = self.rollout
        if rollout.engine == "jax" and rollout.urls:
            raise ValueError("rollout.urls are vLLM servers; add --rollout vllm")
        for url in rollout.urls:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"rollout.urls holds URLs such as http://host:8000, got {url!r}")
        if not rollout.ahead:
            return
        if rollout.engine != "vllm" or rollout.vllm.placement != "split":
            raise ValueError(
                "rollout.ahead generates during the update: it needs --rollout vllm with "
                "rollout.vllm.placement split"
            )
        if self.pipeline.update_interval > 1:
            raise ValueError(
                "rollout.ahead and pipeline.update_interval > 1 are two ways to be off-policy; "
                "leave one out"
            )
        if not self.policy_loss.tis_cap:
            raise ValueError(
                "rollout.ahead learns from rollouts of older weights, which only the importance "
                "weights correct for: leave loss.tis_cap out, or set it above 0"
            )

    @property
    def policy_loss(self) -> LossConfig:
        """The loss, with the importance weights' cap resolved: on for vLLM, off for JAX."""
        if self.loss.tis_cap is not None:
            return self.loss
        return dataclasses.replace(self.loss, tis_cap=2.0 if self.rollout.engine == "vllm" else 0.0)

    @property
    def is_code(self) -> bool:
        """Whether responses are programs, graded in the sandbox."""
        return self.stage == "graft" or self.data.problems == BUILT_IN_CODE

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.updates * self.update.steps


def _at_least(least: int, name: str, value: int, why: str = "") -> None:
    if value < least:
        reason = f": {why}" if why else ""
        raise ValueError(f"{name} must be at least {least}, got {value}{reason}")


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the config as JSON values."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def read_file(path: Path) -> dict[str, Any]:
    """Read a JSON or TOML file of settings.

    Raises:
      ValueError: it is neither, or does not hold a table.
      OSError: it cannot be read.
    """
    text = path.read_text()
    try:
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not valid {path.suffix or 'JSON'}: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a table of settings, not a {type(values).__name__}")
    return values


def override(config: Any, values: Mapping[str, Any], where: str = "") -> Any:
    """Return `config` with the given fields replaced; nested tables go into nested dataclasses.

    Raises:
      ValueError: a name that is no field; the message lists near ones.
    """
    known = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    changes = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; known: {sorted(known)}"
            raise ValueError(f"unknown setting {where + name!r}{hint}")
        if dataclasses.is_dataclass(known[name]):
            if not isinstance(value, Mapping):
                raise ValueError(f"{where + name} is a table of settings, got {value!r}")
            value = override(known[name], value, f"{where}{name}.")
        elif isinstance(value, list):
            value = tuple(value)
        changes[name] = value
    return dataclasses.replace(config, **changes)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[str]:
    """Name the settings in which two configs (as `to_dict` gives them) differ, with both values."""
    out = []
    for name in sorted(set(old) | set(new)):
        if not where and name in NOT_COMPARED:
            continue
        a, b = old.get(name), new.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out += differences(a, b, f"{where}{name}.")
        elif a != b:
            out.append(f"{where}{name}: {a!r} there, {b!r} here")
    return out

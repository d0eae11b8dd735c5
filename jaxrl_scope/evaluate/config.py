"""Settings of an evaluation, and the published evaluation sets."""

import dataclasses
from typing import Any, Literal

from jaxrl_scope.config import BUILT_IN, GradingConfig, MeshConfig
from jaxrl_scope.data.world_build import WorldConfig
from jaxrl_scope.grading.judge_config import JudgeConfig
from jaxrl_scope.grading.llm_client import ChatConfig

# System prompt of the inference-only baseline (SCOPE-RL, Appendix G and Table 3a), in our words.
CONCISE = (
    "Be brief. Write only the steps that the solution needs, say nothing twice, skip remarks about "
    "what you are doing, and state the final answer as soon as you have it."
)

# Settings that do not change which samples are generated.
SCORING = ("out", "step_quality", "only_correct", "lenient", "judge", "modulus", "grading")
PLACEMENT = ("batch_problems", "cache_gib", "cache_dir", "mesh")


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """One evaluation: a policy on a problem file.

    Attributes:
      preset: where the defaults come from: "world", "gpqa", "math500", "aime", or "custom".
      model: Hugging Face directory, run directory of launch/train.py, or "world".
      checkpoint: of a run directory: "best", "latest" or an update.
      dtype: of weights and activations; "" takes the directory's own.
      problems: problem file (JSONL or parquet, or a `datasets` name), or "world".
      columns: name of a column preset of the loader; "" tells the layout by each row.
      difficulties: keep only problems with one of these difficulty labels; () keeps all.
      limit: evaluate a subset of this many problems, drawn by the seed; 0 for all.
      samples: n, responses per problem. pass@k needs n >= k.
      temperature: 0 for greedy answers. The paper does not state its own.
      max_response_len: cap on response tokens; a response that reaches it is truncated.
      max_prompt_len: problems with a longer prompt are left out, tokens.
      thinking: switch of chat templates that have one; "default" leaves the template's own.
      concise: ask for brevity in the system prompt (the inference-only baseline).
      seed: of sampling and of the subset.
      step_quality: also judge the steps.
      only_correct: judge only samples with a right answer.
      lenient: read an unboxed final statement where there is no box.
      judge: evaluation judge; use another model than in training.
      modulus: of the built-in world, for its exact labels (judge.kind "rules").
      grading: the answer verifier.
      batch_problems: problems handed to the sampler at a time.
      cache_gib: bound on the sampler's key/value cache, GiB.
      cache_dir: where the built-in world is kept; "" takes ~/.cache/jaxrl-scope.
      mesh: devices for the weights.
      out: directory of the results; "" takes evaluations/MODEL-PROBLEMS.
    """

    preset: str = "custom"
    model: str = BUILT_IN
    checkpoint: str = "best"
    dtype: Literal["", "float32", "bfloat16"] = ""
    problems: str = BUILT_IN
    columns: str = ""
    difficulties: tuple[str, ...] = ()
    limit: int = 0
    samples: int = 1
    temperature: float = 1.0
    max_response_len: int = 16_384
    max_prompt_len: int = 2048
    thinking: Literal["default", "on", "off"] = "default"
    concise: bool = False
    seed: int = 0
    step_quality: bool = True
    only_correct: bool = False
    lenient: bool = False
    # SCOPE-RL, Appendix H: another model than the training judge, asked twice.
    judge: JudgeConfig = JudgeConfig(
        mode="two_call", chat=ChatConfig(model="gemini-3-flash-preview")
    )
    modulus: int = WorldConfig().modulus
    grading: GradingConfig = GradingConfig()
    batch_problems: int = 16
    cache_gib: float = 4.0
    cache_dir: str = ""
    mesh: MeshConfig = MeshConfig()
    out: str = ""

    def __post_init__(self):
        for name in ("samples", "max_response_len", "max_prompt_len", "batch_problems"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.temperature < 0 or self.limit < 0:
            raise ValueError("temperature and limit must not be negative")
        if self.temperature == 0 and self.samples > 1:
            raise ValueError(
                f"samples={self.samples} at temperature 0 would be the same response "
                f"{self.samples} times; use samples=1, or a temperature"
            )
        if self.step_quality and self.judge.mode == "holistic":
            raise ValueError("the evaluation protocol labels steps: judge.mode must be a call mode")


PRESETS: dict[str, dict[str, Any]] = {
    "custom": {},
    # The built-in world with its exact labels: seconds on a CPU.
    "world": {
        "samples": 8,
        "max_response_len": 112,
        "max_prompt_len": 64,
        "batch_problems": 64,
        "judge": JudgeConfig(kind="rules"),
    },
    # SCOPE-RL, Table 6. 134 is the number of level-5 problems in MATH500; the paper only gives the
    # count, so that these are the ones is our reading.
    "gpqa": {"columns": "gpqa", "samples": 1},
    "math500": {"columns": "math500", "samples": 1, "difficulties": ("5",)},
    "aime": {"columns": "aime", "samples": 8},
}


def preset_config(name: str) -> EvaluateConfig:
    """The settings of a preset.

    Raises:
      ValueError: unknown name; the message lists the known ones.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return dataclasses.replace(EvaluateConfig(preset=name), **PRESETS[name])

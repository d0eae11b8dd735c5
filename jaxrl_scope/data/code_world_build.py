"""The built-in code world on disk: problem files and a warm-started model directory."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np

from jaxrl_scope.data.code_demos import (
    CodeDemoRates,
    code_prompt,
    code_vocabulary,
    difficulty,
    write_code,
)
from jaxrl_scope.data.code_operators import TINY
from jaxrl_scope.data.code_problems import CodeProblem, to_problem
from jaxrl_scope.data.code_world import Walk, draw_problems, draw_walk
from jaxrl_scope.data.loaders import save_problems
from jaxrl_scope.data.world_build import INIT_STD, build_once
from jaxrl_scope.data.world_tokenizer import EOS_ID, PAD_ID, word_tokenizer
from jaxrl_scope.grading.grafting import check_references
from jaxrl_scope.grading.sandbox import PRELOAD_SCIENCE, Limits, SandboxPool
from jaxrl_scope.train.warm_start import Demonstration, WarmStartConfig, warm_start
from models import ModelConfig, init_params, save_hf

FORMAT = 1  # raise when the meaning of the settings or of the files changes


@dataclasses.dataclass(frozen=True)
class CodeWorldConfig:
    """Settings of the built-in code world; built once per set of settings and then cached.

    Attributes:
      lengths: steps per problem.
      train_per_length: training problems of each length.
      eval_per_length: validation problems of each length; none of them is trained on.
      rates: habits of the demonstrations.
      width: of the model's residual stream.
      layers: of the model.
      warm_start: how the model imitates the demonstrations.
      seed: draws problems, demonstrations and initial weights.
    """

    lengths: tuple[int, ...] = (4, 5, 6)
    train_per_length: int = 200
    eval_per_length: int = 20
    rates: CodeDemoRates = CodeDemoRates()
    width: int = 64
    layers: int = 2
    warm_start: WarmStartConfig = WarmStartConfig(updates=400, rows=24, width=176)
    seed: int = 0

    def __post_init__(self):
        if not self.lengths or min(self.lengths) < 3 or max(self.lengths) > 6:
            raise ValueError(f"code_world.lengths must lie in 3..6, got {self.lengths}")

    @property
    def digest(self) -> str:
        """12 hex digits that name these settings."""
        text = json.dumps([FORMAT, dataclasses.asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def model(self) -> ModelConfig:
        """A tiny Qwen3: about 10^5 parameters at the default width."""
        return ModelConfig(
            vocab_size=len(word_tokenizer(*code_vocabulary())),
            num_layers=self.layers,
            embed_dim=self.width,
            mlp_dim=3 * self.width,
            num_q_heads=self.width // 16,
            num_kv_heads=max(1, self.width // 32),
            head_dim=16,
            rope_theta=10_000.0,
            tie_embeddings=True,
            max_position=1024,
            eos_token_ids=(EOS_ID,),
            pad_token_id=PAD_ID,
            remat="none",
        )


@dataclasses.dataclass(frozen=True)
class CodeWorldFiles:
    """Where a code world lies: problem files to train and to evaluate on, and the model."""

    train: Path
    validation: Path
    model: Path
    scaffolds: str = ""


def prepare_code_world(
    config: CodeWorldConfig,
    cache_dir: Path,
    on_update: Callable[[int, float], None] = lambda update, loss: None,
) -> CodeWorldFiles:
    """Return the files of a code world, building them first if they are not in the cache."""
    home = cache_dir / f"code-world-{config.digest}"
    build_once(home, lambda scratch: _build(config, scratch, on_update))
    return CodeWorldFiles(home / "train.jsonl", home / "validation.jsonl", home / "model")


def _build(config: CodeWorldConfig, home: Path, on_update: Callable[[int, float], None]) -> None:
    rng = np.random.default_rng(config.seed)
    per_length = config.eval_per_length + config.train_per_length
    pairs = draw_problems(rng, config.lengths, per_length, TINY)
    num_held_out = config.eval_per_length * len(config.lengths)
    _check(pairs)
    for name, chosen in (("validation", pairs[:num_held_out]), ("train", pairs[num_held_out:])):
        save_problems(
            home / f"{name}.jsonl",
            [to_problem(problem, code_prompt(w), difficulty(w)) for w, problem in chosen],
        )
    model = warm_start(
        init_params(config.model, jax.random.key(config.seed), std=INIT_STD),
        code_demonstrations(
            config, np.random.default_rng([config.seed, 1]), [w for w, _ in pairs[:num_held_out]]
        ),
        config.warm_start,
        on_update,
    )
    save_hf(home / "model", config.model, model)
    word_tokenizer(*code_vocabulary()).save_pretrained(home / "model")
    (home / "settings.json").write_text(json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def _check(pairs: Sequence[tuple[Walk, CodeProblem]]) -> None:
    """Differential test of all problems; refuses to build a world on which it fails."""
    with SandboxPool(2, Limits(wall_s=60.0), preload=PRELOAD_SCIENCE) as pool:
        failed = check_references([problem for _, problem in pairs], pool)
    if failed:
        name, number, which, result = failed[0]
        raise ValueError(
            f"{len(failed)} sources of generated problems fail their own tests; first: problem "
            f"{name}, step {number}, {which}: {result.reason}"
        )


def code_demonstrations(
    config: CodeWorldConfig, rng: np.random.Generator, held_out: Sequence[Walk]
) -> Iterator[Demonstration]:
    """Draw demonstrations without end, all lengths alike, none of a held-out problem."""
    tokenizer = word_tokenizer(*code_vocabulary())
    excluded = set(held_out)

    def encode(text: str, end: str = "") -> np.ndarray:
        return np.array(tokenizer(text + end)["input_ids"], np.int32)

    while True:
        walk = draw_walk(rng, int(rng.choice(config.lengths)), TINY)
        if walk not in excluded:
            response = write_code(rng, walk, config.rates)
            yield encode(code_prompt(walk)), encode(response, f" {tokenizer.eos_token}")

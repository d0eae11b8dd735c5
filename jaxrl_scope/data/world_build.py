"""The built-in world on disk: problem files, a scaffold file and a warm-started model directory.

Everything is written in the formats that real data comes in and read back through the same loaders.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np

from jaxrl_scope.data.loaders import save_problems
from jaxrl_scope.data.scaffold_file import save_scaffolds
from jaxrl_scope.data.world import Chain, draw_chains, scaffold_prompt, to_problem, to_scaffold
from jaxrl_scope.data.world_demos import DemoRates, write_original, write_scaffolded
from jaxrl_scope.data.world_tokenizer import EOS_ID, PAD_ID, make_tokenizer
from jaxrl_scope.train.warm_start import Demonstration, WarmStartConfig, warm_start
from models import ModelConfig, init_params, save_hf

# At so small a width 0.02 leaves the first hundred steps to growing the weights.
INIT_STD = 0.06
FORMAT = 2  # raise when the meaning of the settings or of the files changes


@dataclasses.dataclass(frozen=True)
class WorldConfig:
    """Settings of the built-in world; a world is built once per set of settings and then cached.

    Attributes:
      modulus: N, values are 0..N-1. A prime above 60 keeps lucky answers rare.
      train_lengths: operations per training problem.
      eval_lengths: operations per validation problem, and of the demonstrations.
      train_per_length: training problems of each length.
      eval_per_length: validation problems of each length.
      original: habits of the demonstrations on original prompts.
      scaffold: habits of the demonstrations on scaffold prompts.
      scaffold_share: share of demonstrations on scaffold prompts.
      parity: scaffolds also ask for the parity of intermediate results, which can be guessed.
      width: of the model's residual stream.
      layers: of the model.
      head_dim: width of an attention head; it divides `width`. vLLM on a CPU takes no less than 32.
      warm_start: how the model imitates the demonstrations.
      seed: draws problems, demonstrations and initial weights.
    """

    modulus: int = 61
    train_lengths: tuple[int, ...] = (4, 5)
    eval_lengths: tuple[int, ...] = (1, 2, 3, 4, 5)
    train_per_length: int = 2000
    eval_per_length: int = 40
    original: DemoRates = DemoRates(careful=0.20)
    scaffold: DemoRates = DemoRates(careful=0.35)
    scaffold_share: float = 0.4
    parity: bool = False
    width: int = 64
    layers: int = 2
    head_dim: int = 16
    warm_start: WarmStartConfig = WarmStartConfig()
    seed: int = 0

    def __post_init__(self):
        if min(self.train_lengths + self.eval_lengths) < 1:
            raise ValueError("world: a problem has at least one operation")
        if max(self.train_lengths + self.eval_lengths) > 8:
            raise ValueError("world: the tokenizer has labels for chains of at most 8 operations")
        if self.parity and max(self.train_lengths + self.eval_lengths) > 5:
            raise ValueError("world: with parity it has labels for at most 5 operations")
        if self.head_dim < 2 or self.head_dim % 2 or self.width % self.head_dim:
            raise ValueError(
                f"world.head_dim must be even and divide world.width; got {self.head_dim} and "
                f"{self.width}"
            )

    @property
    def digest(self) -> str:
        """12 hex digits that name these settings."""
        text = json.dumps([FORMAT, dataclasses.asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def model(self) -> ModelConfig:
        """A tiny Qwen3: about 10^5 parameters at the default width."""
        tokenizer = make_tokenizer(self.modulus, self.parity)
        return ModelConfig(
            vocab_size=len(tokenizer),
            num_layers=self.layers,
            embed_dim=self.width,
            mlp_dim=3 * self.width,
            num_q_heads=self.width // self.head_dim,
            num_kv_heads=max(1, self.width // self.head_dim // 2),
            head_dim=self.head_dim,
            rope_theta=10_000.0,
            tie_embeddings=True,
            max_position=1024,
            eos_token_ids=(EOS_ID,),
            pad_token_id=PAD_ID,
            remat="none",
        )


@dataclasses.dataclass(frozen=True)
class WorldFiles:
    """Where a world lies.

    Attributes:
      train: problem file to train on.
      validation: problem file to evaluate on; no problem of it is in `train`.
      scaffolds: scaffold file of the training and validation problems.
      model: Hugging Face directory of the warm-started model and its tokenizer.
    """

    train: Path
    validation: Path
    scaffolds: Path
    model: Path


def prepare_world(
    config: WorldConfig,
    cache_dir: Path,
    on_update: Callable[[int, float], None] = lambda update, loss: None,
) -> WorldFiles:
    """Return the files of a world, building them first if they are not in the cache."""
    home = cache_dir / f"world-{config.digest}"
    build_once(home, lambda scratch: _build(config, scratch, on_update))
    return WorldFiles(
        home / "train.jsonl", home / "validation.jsonl", home / "scaffolds.jsonl", home / "model"
    )


def build_once(home: Path, build: Callable[[Path], None]) -> None:
    """Fill the directory `home` with `build`, unless it is there.

    It builds in a scratch directory that is renamed into place, so that a killed build leaves
    nothing behind that could be taken for a finished one.
    """
    if home.is_dir():
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        build(scratch)
        _publish(scratch, home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _publish(scratch: Path, home: Path) -> None:
    try:
        os.rename(scratch, home)
    except OSError:
        if not home.is_dir():  # else another process built the same world meanwhile
            raise


def _build(config: WorldConfig, home: Path, on_update: Callable[[int, float], None]) -> None:
    rng = np.random.default_rng(config.seed)
    modulus = config.modulus
    held_out = draw_chains(rng, config.eval_lengths, config.eval_per_length, modulus)
    train = draw_chains(rng, config.train_lengths, config.train_per_length, modulus)
    train = [chain for chain in train if chain not in set(held_out)]
    save_problems(home / "train.jsonl", map(to_problem, train))
    save_problems(home / "validation.jsonl", map(to_problem, held_out))
    scaffolds = (to_scaffold(chain, config.parity) for chain in train + held_out)
    save_scaffolds(home / "scaffolds.jsonl", [s for s in scaffolds if s is not None])
    model = warm_start(
        init_params(config.model, jax.random.key(config.seed), std=INIT_STD),
        demonstrations(config, np.random.default_rng([config.seed, 1]), frozenset(held_out)),
        config.warm_start,
        on_update,
    )
    save_hf(home / "model", config.model, model)
    make_tokenizer(modulus, config.parity).save_pretrained(home / "model")
    (home / "settings.json").write_text(json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def demonstrations(
    config: WorldConfig, rng: np.random.Generator, held_out: frozenset[Chain]
) -> Iterator[Demonstration]:
    """Draw demonstrations without end, all lengths alike, none of a held-out problem.

    Chains of one operation are few enough that the held-out ones are nearly all of them; they are
    the language's basic facts, and stay in.
    """
    tokenizer = make_tokenizer(config.modulus, config.parity)

    def encode(text: str, end: str = "") -> np.ndarray:
        return np.array(tokenizer(text + end)["input_ids"], np.int32)

    while True:
        length = int(rng.choice(config.eval_lengths))
        chain = draw_chains(rng, [length], 1, config.modulus)[0]
        if length > 1 and chain in held_out:
            continue
        scaffold = (
            to_scaffold(chain, config.parity) if rng.random() < config.scaffold_share else None
        )
        if scaffold is None:
            prompt, response = to_problem(chain).text, write_original(rng, chain, config.original)
        else:
            prompt = scaffold_prompt(chain, config.parity)
            response = write_scaffolded(rng, chain, config.scaffold, config.parity)
        yield encode(prompt), encode(response, f" {tokenizer.eos_token}")

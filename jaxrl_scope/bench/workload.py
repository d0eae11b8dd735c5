"""The work that every engine is timed on: shapes, weights and batches.

The numbers (shapes, seeds, distributions) are those of the peer benchmark, so that `check`, the
mean log-probability or the loss, comes out the same for every engine that does the same work.
"""

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
import numpy as np

from jaxrl_scope.train.experience import Experience
from models.config import ModelConfig
from models.hf import hf_table
from models.qwen3 import INIT_STD, Qwen3, abstract_params

WorkName = Literal["rollout", "train", "logprob"]
PEER_NAMES: dict[WorkName, str] = {"rollout": "W1", "train": "W2", "logprob": "W3"}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much work there is.

    Attributes:
      num_prompts: prompts of a rollout.
      group: rollouts of each prompt; advantages are normalised over as many rows.
      prompt_len: tokens of every prompt.
      response_len: tokens of every response.
      rows: of a train step or a batch of log-probabilities; a multiple of `group`.
    """

    num_prompts: int = 8
    group: int = 8
    prompt_len: int = 128
    response_len: int = 128
    rows: int = 32


PEER_SIZES = Sizes()


def _shape(vocab_size, embed_dim, num_layers, num_q_heads, num_kv_heads, head_dim, mlp_dim):
    return ModelConfig(
        vocab_size=vocab_size,
        embed_dim=embed_dim,
        num_layers=num_layers,
        num_q_heads=num_q_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        mlp_dim=mlp_dim,
        tie_embeddings=True,
        remat="none",  # microbatches are small enough to keep their activations
        unroll=num_layers,
    )


MODELS = {
    "M1": _shape(512, 128, 4, 4, 2, 32, 384),
    "M2": _shape(32_000, 512, 8, 8, 4, 64, 1536),
    "M3": _shape(151_936, 1024, 28, 16, 8, 128, 3072),  # the shape of Qwen3-0.6B
}


def _qwen3(embed_dim, num_layers, num_q_heads, mlp_dim, tie_embeddings=True):
    cfg = _shape(151_936, embed_dim, num_layers, num_q_heads, 8, 128, mlp_dim)
    return dataclasses.replace(
        cfg,
        tie_embeddings=tie_embeddings,
        dtype="bfloat16",
        param_dtype="bfloat16",
        remat="full",
        unroll=1,
    )


# Published models, with random weights: for a GPU, at the lengths of real training.
FULL_SIZE = {
    "Qwen3-0.6B": _qwen3(1024, 28, 16, 3072),
    "Qwen3-1.7B": _qwen3(2048, 28, 16, 6144),
    "Qwen3-4B": _qwen3(2560, 36, 32, 9728),
    "Qwen3-8B": _qwen3(4096, 36, 32, 12_288, tie_embeddings=False),
}
# A train step of 8,192 tokens, and decoding with a batch of 256.
FULL_SIZES = Sizes(num_prompts=32, group=8, prompt_len=1024, response_len=1024, rows=4)


@dataclasses.dataclass(frozen=True)
class Work:
    """What is timed.

    Attributes:
      tokens: counted per call.
      flops: floating-point operations per counted token that the work cannot do without: a prompt
        prefilled once per group, logits only where they are used, causal attention, the backward
        pass twice the forward, nothing recomputed.
      bytes: memory traffic per counted token that it cannot do without: in a rollout the weights
        once per decoded position and every row's live keys and values; 0 for the others, which
        are bound by arithmetic.
    """

    tokens: int
    flops: float
    bytes: float


def least_work(cfg: ModelConfig, name: WorkName, sizes: Sizes = PEER_SIZES) -> Work:
    """The least that a call of `name` must do on `cfg`."""
    prompt_len, response_len = sizes.prompt_len, sizes.response_len
    q, kv = cfg.num_q_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    layers, width = cfg.num_layers, prompt_len + response_len
    body = layers * (2 * cfg.embed_dim * (q + kv) + 3 * cfg.embed_dim * cfg.mlp_dim)
    head = cfg.embed_dim * cfg.vocab_size

    def attention(context: float) -> float:
        return 4 * q * layers * context

    if name == "rollout":
        rows, context = sizes.num_prompts * sizes.group, prompt_len + response_len / 2
        tokens = rows * response_len
        prefill = (2 * body + attention(prompt_len / 2)) * sizes.num_prompts * prompt_len
        flops = 2 * (body + head) + attention(context) + prefill / tokens
        moved = (body + head) / rows + 2 * kv * layers * context
        return Work(tokens, flops, cfg.compute_dtype.itemsize * moved)
    forward = 2 * body + attention(width / 2) + 2 * head * response_len / width
    return Work(sizes.rows * width, forward * (3 if name == "train" else 1), 0.0)


# The place of each weight of a layer in the numbering of the random streams.
_STREAMS = (
    *("attn_norm", "mlp_norm", "q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"),
    *("gate_proj", "up_proj", "down_proj"),
)


def build(cfg: ModelConfig, seed: int = 0) -> Qwen3:
    """The model with the weights that all engines get: norms one, the rest N(0, 0.02).

    Each matrix has its own stream and is drawn as [outputs, inputs].
    """
    model = abstract_params(cfg)

    def draw(stream: int, entry, shape: tuple[int, ...]) -> np.ndarray:
        if entry.ours.endswith("norm"):
            return np.ones(shape, np.float32)
        inputs = math.prod(shape[: entry.inputs]) if entry.inputs else shape[-1]
        rng = np.random.default_rng([seed, stream])
        value = rng.standard_normal((math.prod(shape) // inputs, inputs), np.float32)
        value *= np.float32(INIT_STD)
        return value.T.reshape(shape) if entry.inputs else value

    for entry, weight in hf_table(model):
        if entry.per_layer:
            first, each = 2 + _STREAMS.index(entry.ours), len(_STREAMS)
            layers = [
                draw(first + i * each, entry, weight.shape[1:]) for i in range(cfg.num_layers)
            ]
            owner, value = model.layers, np.stack(layers)
        else:
            owner, value = model, draw(int(entry.ours != "embed"), entry, weight.shape)
        setattr(owner, entry.ours, weight.replace(jnp.asarray(value, weight.dtype)))
    return model


def rollout_prompts(cfg: ModelConfig, sizes: Sizes = PEER_SIZES, seed: int = 1) -> np.ndarray:
    """[num_prompts, prompt_len] int32 ids; each prompt is sampled `group` times."""
    shape = (sizes.num_prompts, sizes.prompt_len)
    return np.random.default_rng(seed).integers(1, cfg.vocab_size, shape, np.int32)


def train_batch(cfg: ModelConfig, sizes: Sizes = PEER_SIZES, seed: int = 2) -> Experience:
    """Full rows, no padding, with advantages normalised per group.

    `rollout_logprobs`, which the benchmark also takes as the old log-probabilities, are those of a
    uniform policy, so that the ratio is not one, some of it is clipped, and the loss tests the
    model.
    """
    rows, group = sizes.rows, min(sizes.group, sizes.rows)
    prompt_len, response_len = sizes.prompt_len, sizes.response_len
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, cfg.vocab_size, (rows, prompt_len + response_len), np.int32)
    rewards = rng.standard_normal((rows // group, group))
    centred = rewards - rewards.mean(1, keepdims=True)
    advantages = (centred / (rewards.std(1, keepdims=True) + 1e-4)).astype(np.float32)
    shape = (rows, response_len)
    return Experience(
        prompt_ids=ids[:, :prompt_len],
        prompt_len=np.full(rows, prompt_len, np.int32),
        response_ids=ids[:, prompt_len:],
        response_len=np.full(rows, response_len, np.int32),
        rollout_logprobs=np.full(shape, -math.log(cfg.vocab_size), np.float32),
        advantages=np.broadcast_to(advantages.reshape(-1, 1), shape),
        mask=np.ones(shape, bool),
        metrics={},
    )

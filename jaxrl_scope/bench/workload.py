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

NUM_PROMPTS, GROUP, PROMPT_LEN, RESPONSE_LEN = 8, 8, 128, 128  # rollout: 64 rows
ROWS = 32  # train, logprob

WorkName = Literal["rollout", "train", "logprob"]
PEER_NAMES: dict[WorkName, str] = {"rollout": "W1", "train": "W2", "logprob": "W3"}


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


def least_work(cfg: ModelConfig, name: WorkName) -> Work:
    """The least that a call of `name` must do on `cfg`, in float32."""
    q, kv = cfg.num_q_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    layers, width = cfg.num_layers, PROMPT_LEN + RESPONSE_LEN
    body = layers * (2 * cfg.embed_dim * (q + kv) + 3 * cfg.embed_dim * cfg.mlp_dim)
    head = cfg.embed_dim * cfg.vocab_size

    def attention(context: float) -> float:
        return 4 * q * layers * context

    if name == "rollout":
        rows, context = NUM_PROMPTS * GROUP, PROMPT_LEN + RESPONSE_LEN / 2
        tokens = rows * RESPONSE_LEN
        prefill = (2 * body + attention(PROMPT_LEN / 2)) * NUM_PROMPTS * PROMPT_LEN
        flops = 2 * (body + head) + attention(context) + prefill / tokens
        return Work(tokens, flops, 4 * ((body + head) / rows + 2 * kv * layers * context))
    forward = 2 * body + attention(width / 2) + 2 * head * RESPONSE_LEN / width
    return Work(ROWS * width, forward * (3 if name == "train" else 1), 0.0)


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


def rollout_prompts(cfg: ModelConfig, seed: int = 1) -> np.ndarray:
    """[NUM_PROMPTS, PROMPT_LEN] int32 ids; each prompt is sampled GROUP times."""
    shape = (NUM_PROMPTS, PROMPT_LEN)
    return np.random.default_rng(seed).integers(1, cfg.vocab_size, shape, np.int32)


def train_batch(cfg: ModelConfig, seed: int = 2) -> Experience:
    """ROWS full rows, no padding, with advantages normalised per group.

    `rollout_logprobs`, which the benchmark also takes as the old log-probabilities, are those of a
    uniform policy, so that the ratio is not one, some of it is clipped, and the loss tests the
    model.
    """
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, cfg.vocab_size, (ROWS, PROMPT_LEN + RESPONSE_LEN), np.int32)
    rewards = rng.standard_normal((ROWS // GROUP, GROUP))
    centred = rewards - rewards.mean(1, keepdims=True)
    advantages = (centred / (rewards.std(1, keepdims=True) + 1e-4)).astype(np.float32)
    shape = (ROWS, RESPONSE_LEN)
    return Experience(
        prompt_ids=ids[:, :PROMPT_LEN],
        prompt_len=np.full(ROWS, PROMPT_LEN, np.int32),
        response_ids=ids[:, PROMPT_LEN:],
        response_len=np.full(ROWS, RESPONSE_LEN, np.int32),
        rollout_logprobs=np.full(shape, -math.log(cfg.vocab_size), np.float32),
        advantages=np.broadcast_to(advantages.reshape(-1, 1), shape),
        mask=np.ones(shape, bool),
        metrics={},
    )

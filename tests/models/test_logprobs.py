"""The memory of log-probabilities: a chunk of logits at a time, forwards and backwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import ModelConfig, abstract_params, init_params, logits, token_logprobs

VOCAB, ROWS, WIDTH = 151_936, 4, 2048
CONFIG = ModelConfig(
    vocab_size=VOCAB, num_layers=1, embed_dim=8, mlp_dim=8, num_q_heads=1, num_kv_heads=1,
    head_dim=8, tie_embeddings=True,
)  # fmt: skip


def whole(model, hidden, targets):
    """The plain way: all logits at once."""
    scores = jax.nn.log_softmax(logits(model, hidden))
    return jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]


def chunked(model, hidden, targets):
    return token_logprobs(model, hidden, targets)[0]


def peak(function, *, gradient: bool) -> int:
    """Temporaries and outputs of the compiled program, bytes; nothing is run."""

    def total(model, hidden, targets):
        return function(model, hidden, targets).sum()

    arguments = (
        abstract_params(CONFIG),
        jax.ShapeDtypeStruct((ROWS, WIDTH, 8), jnp.float32),
        jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.int32),
    )
    program = jax.grad(total, argnums=(0, 1)) if gradient else total
    memory = jax.jit(program).lower(*arguments).compile().memory_analysis()
    return memory.temp_size_in_bytes + memory.output_size_in_bytes


@pytest.mark.parametrize("gradient", [False, True])
def test_peak_is_a_quarter_of_the_full_logits_at_most(gradient):
    full, ours = peak(whole, gradient=gradient), peak(chunked, gradient=gradient)
    assert full >= 4 * ROWS * WIDTH * VOCAB  # the plain way holds them all
    assert ours <= 0.25 * full
    # Absolutely: not even half of one copy of the logits.
    assert ours < 0.5 * 4 * ROWS * WIDTH * VOCAB


@pytest.mark.parametrize("chunk_tokens", [6, 64])
def test_chunks_change_neither_values_nor_gradients(chunk_tokens):
    cfg = ModelConfig(
        vocab_size=33, num_layers=1, embed_dim=8, mlp_dim=8, num_q_heads=1, num_kv_heads=1,
        head_dim=8,
    )  # fmt: skip
    model = jax.jit(lambda key: init_params(cfg, key, std=0.5))(jax.random.key(0))
    hidden = jax.random.normal(jax.random.key(1), (3, 7, 8))
    targets = jax.random.randint(jax.random.key(2), (3, 7), 0, 33)
    weights = jax.random.normal(jax.random.key(3), (3, 7))

    def ours(model, hidden):
        values, _ = token_logprobs(model, hidden, targets, chunk_tokens=chunk_tokens)
        return (values * weights).sum()

    def plain(model, hidden):
        return (whole(model, hidden, targets) * weights).sum()

    got = jax.jit(jax.value_and_grad(ours, (0, 1)))(model, hidden)
    expected = jax.jit(jax.value_and_grad(plain, (0, 1)))(model, hidden)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)

"""Attention in blocks against plain masked softmax, in value and gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import attention
from models.linear import linear

ROWS, HEADS, KV_HEADS, DIM = 2, 4, 2, 8


def plain(q, k, v, segments=None):
    """Full score matrix, one softmax; query head i reads key head i // (Q / K)."""
    width = q.shape[1]
    k, v = (jnp.repeat(x, HEADS // KV_HEADS, axis=2) for x in (k, v))
    scores = jnp.einsum("rwqh,rsqh->rqws", q, k) * DIM**-0.5
    mask = jnp.tril(jnp.ones((width, width), bool))[None]
    if segments is not None:
        mask = mask & (segments[:, :, None] == segments[:, None, :])
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, -1e30), axis=-1)
    return jnp.einsum("rqws,rsqh->rwqh", weights, v)


def make(width: int):
    rng = np.random.default_rng(width)
    heads = (HEADS, KV_HEADS, KV_HEADS)
    q, k, v = (jnp.asarray(rng.normal(size=(ROWS, width, h, DIM)), jnp.float32) for h in heads)
    lengths = rng.integers(1, 5, (ROWS, width))
    segments = np.stack([np.repeat(np.arange(width), row)[:width] for row in lengths])
    return q, k, v, jnp.asarray(segments, jnp.int32)


# One position, less than a block, exactly one, several and a part, and a row with longer blocks.
@pytest.mark.parametrize("width", [1, 13, 16, 40, 150])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_equal_plain_softmax(width, packed, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 16)
    monkeypatch.setattr(attention, "MAX_BLOCKS", 4)
    q, k, v, segments = make(width)
    chosen = segments if packed else None

    def loss(attend):
        return lambda q, k, v: jnp.sum(jnp.sin(attend(q, k, v, chosen)))

    np.testing.assert_allclose(attention.attend(q, k, v, chosen), plain(q, k, v, chosen), atol=2e-6)
    ours = jax.jit(jax.grad(loss(attention.attend), (0, 1, 2)))(q, k, v)
    theirs = jax.jit(jax.grad(loss(plain), (0, 1, 2)))(q, k, v)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_blocks_are_few_and_cover_the_row():
    for width in (1, 64, 65, 1024, 17_408):
        blocks = attention._blocks(width)
        assert len(blocks) <= attention.MAX_BLOCKS
        assert [i for start, stop in blocks for i in range(start, stop)] == list(range(width))


def test_no_pass_holds_the_whole_score_matrix():
    width = 2048
    q, k, v, _ = make(width)

    def largest(function) -> int:
        """Elements of the largest intermediate array of a function's jaxpr, inner ones too."""
        sizes = []

        def walk(jaxpr):
            for equation in jaxpr.eqns:
                sizes.extend(out.aval.size for out in equation.outvars)
                for value in equation.params.values():
                    for inner in value if isinstance(value, tuple | list) else [value]:
                        inner = getattr(inner, "jaxpr", inner)
                        if hasattr(inner, "eqns"):
                            walk(inner)

        walk(jax.make_jaxpr(function)(q, k, v).jaxpr)
        return max(sizes)

    gradient = jax.grad(lambda q, k, v: jnp.sum(attention.attend(q, k, v)), (0, 1, 2))
    whole = ROWS * HEADS * width * width
    assert largest(gradient) <= whole // 8
    assert largest(jax.grad(lambda q, k, v: jnp.sum(plain(q, k, v)), (0, 1, 2))) >= whole


@pytest.mark.parametrize("num_in", [1, 2])
def test_linear_equals_tensordot(num_in):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 5, 3, 4)), jnp.float32)
    w = jnp.asarray(rng.normal(size=(*x.shape[-num_in:], 2, 6)), jnp.float32)

    def value_and_gradients(product):
        return jax.value_and_grad(lambda x, w: jnp.sum(jnp.sin(product(x, w, num_in))), (0, 1))(
            x, w
        )

    ours, theirs = value_and_gradients(linear), value_and_gradients(jnp.tensordot)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.fixture
def fused_calls(monkeypatch):
    """Stands for cuDNN's kernel, which needs a GPU: the same function by XLA, with a note of it."""
    calls, real = [], jax.nn.dot_product_attention

    def dot_product_attention(*args, implementation, **kwargs):
        calls.append(implementation)
        return real(*args, implementation="xla", **kwargs)

    monkeypatch.setattr(jax.nn, "dot_product_attention", dot_product_attention)
    return calls


@pytest.mark.parametrize("packed", [False, True])
def test_what_cudnn_is_asked_for_is_the_same_attention(packed, fused_calls):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = ((2, 24, 4, 16), (2, 24, 2, 16), (2, 24, 2, 16))
    q, k, v = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    segments = jnp.array([[0] * 9 + [1] * 15, [3] * 23 + [0]]) if packed else None
    ours = attention.attend(q, k, v, segments, "xla")
    assert not fused_calls
    theirs = attention.attend(q, k, v, segments, "cudnn")
    assert fused_calls == ["cudnn"]
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_auto_takes_cudnn_on_a_gpu_in_half_precision(fused_calls, monkeypatch):
    half = [jnp.ones((1, 8, heads, 16), jnp.bfloat16) for heads in (4, 2, 2)]
    attention.attend(*half)
    assert not fused_calls
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    attention.attend(*(x.astype(jnp.float32) for x in half))
    attention.attend(*(jnp.ones((1, 8, heads, 192), jnp.bfloat16) for heads in (4, 2, 2)))
    assert not fused_calls
    attention.attend(*half)
    assert fused_calls == ["cudnn"]

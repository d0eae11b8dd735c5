"""Causal grouped-query attention over whole rows."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_MASKED = -1e30  # finite: a row that sees nothing yields a mean of values, not NaN


def causal_mask(
    width: int,
    valid: Bool[Array, "R W"] | None = None,
    segments: Int[Array, "R W"] | None = None,
) -> Bool[Array, "#R W W"]:
    """True where query (axis -2) may see key (axis -1)."""
    mask = jnp.tril(jnp.ones((width, width), bool))[None]
    if valid is not None:
        mask = mask & valid[:, None, :]
    if segments is not None:
        mask = mask & (segments[:, :, None] == segments[:, None, :])
    return mask


def attend(
    q: Float[Array, "R W Q H"],
    k: Float[Array, "R S K H"],
    v: Float[Array, "R S K H"],
    mask: Bool[Array, "#R W S"],
) -> Float[Array, "R W Q H"]:
    """Softmax attention; scores and their softmax in float32, the result in q's dtype."""
    rows, width, heads, dim = q.shape
    kv_heads = k.shape[2]
    # [R, W, Q, H] -> [R, W, K, Q/K, H]: query head i reads key/value head i // (Q/K)
    q = q.reshape(rows, width, kv_heads, heads // kv_heads, dim)
    scores = jnp.einsum("RWKGH,RSKH->RKGWS", q, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores * dim**-0.5, _MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    out = jnp.einsum("RKGWS,RSKH->RWKGH", weights, v)
    return out.reshape(rows, width, heads, dim)

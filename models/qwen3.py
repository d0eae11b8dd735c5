"""The decoder: Qwen3, and by flags Qwen2 and Llama, as Flax NNX modules used as plain pytrees.

Reading order: weights (`Layer`, `Qwen3`), `init_params`, then the functions that compute. Nothing
here mutates a module: gradients, optimizers, checkpoints and `jax.tree.map` work on it directly.

Letters: R rows, W positions of a row, D width, Q query heads, K key/value heads, H head width,
F mlp width, V vocabulary, L layers.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key

from models.attention import attend
from models.config import ModelConfig
from models.linear import linear
from models.partition import constrain_axes
from models.rope import apply_rope, rope_tables

INIT_STD = 0.02


class Layer(nnx.Module):
    """The weights of all decoder layers, stacked on a leading L axis, scanned one at a time.

    Projections are held by head, [D, Q, H] rather than [D, Q * H], so that a sharding rule can name
    the heads.
    """

    def __init__(self, cfg: ModelConfig, key: Key[Array, ""], std: float):
        layers, d, f = cfg.num_layers, cfg.embed_dim, cfg.mlp_dim
        q, k, h = cfg.num_q_heads, cfg.num_kv_heads, cfg.head_dim
        dtype = jnp.dtype(cfg.param_dtype)
        keys = iter(jax.random.split(key, 7))

        def normal(*shape, axes):
            value = std * jax.random.normal(next(keys), (layers, *shape), jnp.float32)
            return nnx.Param(value.astype(dtype), axes=("layers", *axes))

        def constant(value, *shape, axes):
            return nnx.Param(jnp.full((layers, *shape), value, dtype), axes=("layers", *axes))

        self.attn_norm = constant(1, d, axes=("norm",))
        self.q_proj = normal(d, q, h, axes=("embed", "q_heads", "head_dim"))
        self.k_proj = normal(d, k, h, axes=("embed", "kv_heads", "head_dim"))
        self.v_proj = normal(d, k, h, axes=("embed", "kv_heads", "head_dim"))
        self.o_proj = normal(q, h, d, axes=("q_heads", "head_dim", "embed"))
        if cfg.qkv_bias:
            self.q_bias = constant(0, q, h, axes=("q_heads", "head_dim"))
            self.k_bias = constant(0, k, h, axes=("kv_heads", "head_dim"))
            self.v_bias = constant(0, k, h, axes=("kv_heads", "head_dim"))
        if cfg.out_bias:
            self.o_bias = constant(0, d, axes=("norm",))
        if cfg.qk_norm:
            self.q_norm = constant(1, h, axes=("norm",))
            self.k_norm = constant(1, h, axes=("norm",))
        self.mlp_norm = constant(1, d, axes=("norm",))
        self.gate_proj = normal(d, f, axes=("embed", "mlp"))
        self.up_proj = normal(d, f, axes=("embed", "mlp"))
        self.down_proj = normal(f, d, axes=("mlp", "embed"))


class Qwen3(nnx.Module):
    """All weights of a model, with its config.

    Attributes:
      cfg: static; part of the tree structure, so that a function jitted on the model sees it.
      embed: [V, D] embedding table.
      layers: the stacked decoder layers.
      final_norm: [D].
      head: [V, D]; absent when the embedding table serves as the head.
    """

    def __init__(self, cfg: ModelConfig, key: Key[Array, ""], std: float = INIT_STD):
        dtype = jnp.dtype(cfg.param_dtype)
        embed_key, layer_key, head_key = jax.random.split(key, 3)

        def table(key):
            value = std * jax.random.normal(key, (cfg.vocab_size, cfg.embed_dim), jnp.float32)
            return nnx.Param(value.astype(dtype), axes=("vocab", "embed"))

        self.cfg = cfg
        self.embed = table(embed_key)
        self.layers = Layer(cfg, layer_key, std)
        self.final_norm = nnx.Param(jnp.ones(cfg.embed_dim, dtype), axes=("norm",))
        if not cfg.tie_embeddings:
            self.head = table(head_key)

    @property
    def head_weight(self) -> Float[Array, "V D"]:
        """[V, D] the output table, in `param_dtype`."""
        return self.embed[...] if self.cfg.tie_embeddings else self.head[...]


def init_params(cfg: ModelConfig, key: Key[Array, ""], *, std: float = INIT_STD) -> Qwen3:
    """A new model: matrices from N(0, std), norms one, biases zero, in `cfg.param_dtype`."""
    return Qwen3(cfg, key, std)


def abstract_params(cfg: ModelConfig) -> Qwen3:
    """The model's tree with `jax.ShapeDtypeStruct` leaves; allocates nothing."""
    return jax.eval_shape(lambda: Qwen3(cfg, jax.random.key(0)))


def rms_norm(
    x: Float[Array, "... D"], weight: Float[Array, " D"], eps: float
) -> Float[Array, "... D"]:
    """RMSNorm in float32, the result in the dtype of `x`."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(jnp.square(y), axis=-1, keepdims=True) + eps)
    return y.astype(x.dtype) * weight.astype(x.dtype)


def project_qkv(
    layer: Layer,
    cfg: ModelConfig,
    x: Float[Array, "R W D"],
    sin: Float[Array, "#R W H"],
    cos: Float[Array, "#R W H"],
) -> tuple[Float[Array, "R W Q H"], Float[Array, "R W K H"], Float[Array, "R W K H"]]:
    """Queries, keys (both rotated) and values of the normalised input."""
    dtype = x.dtype
    x = rms_norm(x, layer.attn_norm[...], cfg.norm_eps)
    q = linear(x, layer.q_proj[...])
    k = linear(x, layer.k_proj[...])
    v = linear(x, layer.v_proj[...])
    if cfg.qkv_bias:
        q = q + layer.q_bias[...].astype(dtype)
        k = k + layer.k_bias[...].astype(dtype)
        v = v + layer.v_bias[...].astype(dtype)
    if cfg.qk_norm:
        q = rms_norm(q, layer.q_norm[...], cfg.norm_eps)
        k = rms_norm(k, layer.k_norm[...], cfg.norm_eps)
    return apply_rope(q, sin, cos), apply_rope(k, sin, cos), v


def project_out(
    layer: Layer, cfg: ModelConfig, attended: Float[Array, "R W Q H"]
) -> Float[Array, "R W D"]:
    """The attention block's contribution to the residual stream."""
    out = linear(attended, layer.o_proj[...], 2)
    return out + layer.o_bias[...].astype(out.dtype) if cfg.out_bias else out


def mlp(layer: Layer, cfg: ModelConfig, x: Float[Array, "R W D"]) -> Float[Array, "R W D"]:
    """The gated MLP's contribution to the residual stream."""
    x = rms_norm(x, layer.mlp_norm[...], cfg.norm_eps)
    gate = linear(x, layer.gate_proj[...])
    up = linear(x, layer.up_proj[...])
    return linear(jax.nn.silu(gate) * up, layer.down_proj[...])


def forward_layer(
    layer: Layer, cfg: ModelConfig, x, sin, cos, segments=None
) -> Float[Array, "R W D"]:
    """One decoder layer on whole rows. `layer` holds one layer's weights, without the L axis."""
    q, k, v = project_qkv(layer, cfg, x, sin, cos)
    attended = checkpoint_name(attend(q, k, v, segments, cfg.attention), "attended")
    x = x + project_out(layer, cfg, attended)
    return x + mlp(layer, cfg, x)


_REMAT_POLICY = {
    "full": None,
    "dots": jax.checkpoint_policies.save_from_both_policies(
        jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
        jax.checkpoint_policies.save_only_these_names("attended"),
    ),
    "minimal": jax.checkpoint_policies.save_only_these_names("attended"),
}


def remat(body, policy: str):
    """`body` with the recomputation that `policy` (see `ModelConfig.remat`) asks for."""
    if policy == "none":
        return body
    return jax.checkpoint(body, policy=_REMAT_POLICY[policy], prevent_cse=False)


def embed_tokens(model: Qwen3, ids: Int[Array, "R W"]) -> Float[Array, "R W D"]:
    """Rows of the embedding table in the compute dtype."""
    return model.embed[...][ids].astype(model.cfg.compute_dtype)


def forward_hidden(
    model: Qwen3,
    ids: Int[Array, "R W"],
    positions: Int[Array, "R W"] | None = None,
    valid: Bool[Array, "R W"] | None = None,
    segments: Int[Array, "R W"] | None = None,
    *,
    mesh: Mesh | None = None,
) -> Float[Array, "R W D"]:
    """Run the decoder; the result is normalised and ready for the head.

    Args:
      ids: [R, W] int32 tokens; what stands at padding changes nothing elsewhere.
      positions: [R, W] int32 rotary positions; 0, 1, 2, ... by default.
      valid: [R, W] bool, False at padding, on whichever side; all True by default. Padding after
        the last real token needs no mask, since attention is causal.
      segments: [R, W] int32, where several sequences are packed in a row: a position attends only
        to its own segment. `positions` must then restart with each.
      mesh: where given, rows stay split over it between layers, so that weights are gathered for
        the rows and not rows for the weights.

    Returns:
      [R, W, D] in the compute dtype; positions that are not valid hold finite numbers that mean
      nothing.
    """
    cfg = model.cfg
    width = ids.shape[1]
    if positions is None:
        positions = jnp.arange(width, dtype=jnp.int32)[None]
    sin, cos = rope_tables(cfg, positions)
    if valid is not None:
        # Padding becomes a segment of its own.
        segments = jnp.where(valid, 0 if segments is None else segments, -1)
    rows = ("rows", None, None)
    x = constrain_axes(embed_tokens(model, ids), rows, mesh)

    def body(x, layer):
        return constrain_axes(forward_layer(layer, cfg, x, sin, cos, segments), rows, mesh), None

    x, _ = jax.lax.scan(remat(body, cfg.remat), x, model.layers, unroll=cfg.unroll)
    return rms_norm(x, model.final_norm[...], cfg.norm_eps)


def logits(model: Qwen3, hidden: Float[Array, "... D"]) -> Float[Array, "... V"]:
    """[..., V] float32 logits. For training use `token_logprobs`, which never holds them all."""
    return head_logits(hidden, model.head_weight)


def head_logits(hidden: Float[Array, "... D"], head: Float[Array, "V D"]) -> Float[Array, "... V"]:
    """[..., V] float32 product with the output table, in the dtype of `hidden`."""
    return jnp.einsum(
        "...D,VD->...V", hidden, head.astype(hidden.dtype), preferred_element_type=jnp.float32
    )

"""Log-probabilities and entropies of given tokens, without ever holding logits for all of them.

Logits are made for a chunk of tokens at a time and, where there are several chunks, made again in
the backward pass, so that the peak is one chunk's [chunk, V] instead of [R, T, V].
"""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from models.partition import ROW_AXES, num_row_shards, spec
from models.qwen3 import Qwen3, forward_hidden, head_logits

CHUNK_TOKENS = 1024


def token_logprobs(
    model: Qwen3,
    hidden: Float[Array, "R T D"],
    targets: Int[Array, "R T"],
    *,
    temperature: float = 1.0,
    chunk_tokens: int = CHUNK_TOKENS,
    mesh: Mesh | None = None,
) -> tuple[Float[Array, "R T"], Float[Array, "R T"]]:
    """Log-probability of each target, and entropy, under softmax(logits / temperature).

    Args:
      model: gives the head.
      hidden: [R, T, D] hidden states that predict `targets`.
      targets: [R, T] int32 tokens.
      temperature: > 0.
      chunk_tokens: about how many tokens' logits exist at a time, at least one position of every
        row; positions are cut and rows kept whole, so that a sharding of rows survives.
      mesh: where given, rows are split over it, R a multiple of their parts. The head is then
        gathered, and its gradient summed over the parts, once for all chunks.

    Returns:
      ([R, T] float32 logprobs <= 0, [R, T] float32 entropy in nats), both differentiable.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, not {temperature}.")
    width = max(1, chunk_tokens // hidden.shape[0])
    run = functools.partial(_chunked_logprobs, temperature=temperature, width=width)
    if num_row_shards(mesh) > 1:
        # By hand over the axes of rows: left to itself, the partitioner sends the head and its
        # gradient once per chunk.
        rows = spec(("rows",))

        def each(head, hidden, targets, run=run):
            return run(jax.lax.pcast(head, ROW_AXES, to="varying"), hidden, targets)

        run = jax.shard_map(
            each,
            mesh=mesh,
            in_specs=(PartitionSpec(), rows, rows),
            out_specs=rows,
            axis_names=set(ROW_AXES),
        )
    return run(model.head_weight, hidden, targets)


def _chunked_logprobs(head, hidden, targets, *, temperature: float, width: int):
    """`token_logprobs` of the rows at hand, `width` positions of each at a time."""
    rows, length, _ = hidden.shape
    width = min(length, width)
    num_chunks = -(-length // width)
    pad = num_chunks * width - length

    def chunked(x):  # [R, T, ...] -> [T/c, R, c, ...]
        x = jnp.pad(x, ((0, 0), (0, pad), *[(0, 0)] * (x.ndim - 2)))
        return x.reshape(rows, num_chunks, width, *x.shape[2:]).swapaxes(0, 1)

    def one(head, hidden, targets):
        scaled = head_logits(hidden, head) / temperature
        log_total = jax.nn.logsumexp(scaled, axis=-1)
        chosen = jnp.take_along_axis(scaled, targets[..., None], axis=-1)[..., 0]
        mean = jnp.sum(jnp.exp(scaled - log_total[..., None]) * scaled, axis=-1)
        return chosen - log_total, log_total - mean

    if num_chunks == 1:
        # Making the logits again would save nothing: the backward pass starts with them.
        return one(head, hidden, targets)

    remade = jax.checkpoint(one)

    def body(_, chunk):
        return None, remade(head, *chunk)

    _, chunks = jax.lax.scan(body, None, (chunked(hidden), chunked(targets)))

    def whole(x):  # [T/c, R, c] -> [R, T]
        return x.swapaxes(0, 1).reshape(rows, -1)[:, :length]

    return whole(chunks[0]), whole(chunks[1])


def response_logprobs(
    model: Qwen3,
    prompt_ids: Int[Array, "R P"],
    prompt_len: Int[Array, " R"],
    response_ids: Int[Array, "R T"],
    response_len: Int[Array, " R"],
    *,
    temperature: float = 1.0,
    chunk_tokens: int = CHUNK_TOKENS,
    mesh: Mesh | None = None,
) -> tuple[Float[Array, "R T"], Float[Array, "R T"]]:
    """Log-probability and entropy of every response token given its prompt and what precedes it.

    Masks come from the lengths alone, so that any id may stand in the padding.

    Args:
      model: the policy.
      prompt_ids: [R, P] int32, LEFT-padded.
      prompt_len: [R] int32, 1 <= prompt_len <= P.
      response_ids: [R, T] int32, RIGHT-padded.
      response_len: [R] int32, 0 <= response_len <= T.
      temperature: > 0; the distribution is softmax(logits / temperature).
      chunk_tokens: see `token_logprobs`.
      mesh: see `forward_hidden` and `token_logprobs`.

    Returns:
      ([R, T] float32 logprobs, [R, T] float32 entropy in nats); exactly 0 at padding, with no
      gradient from it.
    """
    prompt_width, length = prompt_ids.shape[1], response_ids.shape[1]
    real = jnp.arange(length) < response_len[:, None]
    # Rows are moved to the left edge: padding then stands only after the last real token, where
    # causal attention needs no mask, and the rotary positions of all rows are 0, 1, 2, ...
    ids = jnp.concatenate([prompt_ids, jnp.where(real, response_ids, 0)], axis=1)
    shift = prompt_width - prompt_len
    source = (jnp.arange(prompt_width + length) + shift[:, None]) % (prompt_width + length)
    hidden = forward_hidden(model, jnp.take_along_axis(ids, source, axis=1), mesh=mesh)
    # The token at t is predicted from the position before it.
    predict = jax.vmap(lambda row, start: jax.lax.dynamic_slice_in_dim(row, start, length))
    hidden = predict(hidden, prompt_len - 1)
    logprobs, entropy = token_logprobs(
        model,
        hidden,
        jnp.where(real, response_ids, 0),
        temperature=temperature,
        chunk_tokens=chunk_tokens,
        mesh=mesh,
    )
    return jnp.where(real, logprobs, 0.0), jnp.where(real, entropy, 0.0)

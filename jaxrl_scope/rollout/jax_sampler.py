"""The in-process sampler: prefill once per problem, decode the group, stop when all rows ended."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams
from models.config import ModelConfig
from models.decode import KeyValues, decode_step, decode_weights, prefill
from models.partition import constrain_axes, num_row_shards, shard_rows, to_host
from models.qwen3 import Layer, Qwen3, logits
from models.sampling import draw, row_uniforms, take_greedy

_PROMPT_BUCKET = 32  # prompts are padded to a multiple of this
_FIRST_WINDOW = 32  # response positions cached at first; the cache then grows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """What decoding carries from token to token. BG rows, group-major.

    Attributes:
      tokens: [BG] int32, the last sampled token of each row.
      done: [BG] bool, True where an end-of-text token was sampled (or the row is padding).
      ids: [T, BG] int32 sampled tokens, 0 after the end.
      logprobs: [T, BG] float32, 0 after the end.
      length: [BG] int32.
      cache: per layer, keys and values of the response so far.
    """

    tokens: jax.Array
    done: jax.Array
    ids: jax.Array
    logprobs: jax.Array
    length: jax.Array
    cache: list[KeyValues]


class JaxSampler:
    """Samples from a model held in this process.

    The rollouts of a request depend on (seed, update, request.key, rollout index) and the weights;
    which other requests are in the batch, and how it is cut or padded, only changes rounding.
    """

    def __init__(
        self,
        cfg: ModelConfig,
        model: Qwen3,
        *,
        mesh: jax.sharding.Mesh | None = None,
        version: int = 0,
        cache_bytes: int = 4 * 2**30,
    ):
        """Take `model` as version `version` of the weights.

        Args:
          cfg: the model's config; its `eos_token_ids` end a response.
          model: weights.
          mesh: devices to sample on; the default device by default.
          version: number reported with rollouts until the next `load`.
          cache_bytes: bound on a device's key/value cache; a larger batch is sampled in parts.
        """
        self._cfg = cfg
        self._mesh = mesh
        self._cache_bytes = cache_bytes
        self.load(model, version)

    def load(self, params: object, version: int) -> None:
        """Make `params`, a model of the same config, the weights of all later rollouts."""
        if not isinstance(params, Qwen3) or params.cfg != self._cfg:
            raise ValueError(
                f"expected a model of config {self._cfg}, got {type(params).__name__}."
            )
        self._model, self._layers = decode_weights(params, mesh=self._mesh)
        self._version = version

    def metrics(self) -> dict[str, float]:
        """Nothing: rollouts come from the trainer's own weights."""
        return {}

    def rest(self) -> None:
        """Do nothing: the weights are the trainer's."""

    def stop_waiting(self) -> None:
        """Do nothing: no server is waited for."""

    def close(self) -> None:
        """Drop the weights."""
        del self._model, self._layers

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        """Sample `params.num_rollouts` responses to every request, in the order given.

        At temperature 0 the most likely token is taken and the logprobs are those of temperature 1.

        Raises:
          ValueError: no requests, an empty prompt, or a size or temperature out of range.
        """
        self._check(requests, params)
        size = self._batch_size(requests, params)
        parts = [
            self._generate_batch(requests[i : i + size], params)
            for i in range(0, len(requests), size)
        ]
        return Rollouts(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in dataclasses.fields(Rollouts)
            }
        )

    def _check(self, requests: Sequence[Request], params: SamplingParams) -> None:
        if not requests:
            raise ValueError("generate needs at least one request.")
        for i, request in enumerate(requests):
            ids = np.asarray(request.prompt_ids)
            if ids.ndim != 1 or not ids.size:
                raise ValueError(
                    f"request {i}: prompt_ids must be 1-d and not empty, got {ids.shape}."
                )
            if ids.min() < 0 or ids.max() >= self._cfg.vocab_size:
                raise ValueError(
                    f"request {i}: prompt_ids must lie in [0, {self._cfg.vocab_size}), "
                    f"got {ids.min()} to {ids.max()}; is it the model's own tokenizer?"
                )
        if params.num_rollouts < 1 or params.max_response_len < 1 or params.temperature < 0:
            raise ValueError(
                "num_rollouts and max_response_len must be at least 1 and temperature at least 0, "
                f"got {params}."
            )

    def _batch_size(self, requests: Sequence[Request], params: SamplingParams) -> int:
        """How many requests fit `cache_bytes` on every device; at least one a shard of rows."""
        prompt = max(len(request.prompt_ids) for request in requests)
        return fitting_problems(self._cfg, self._mesh, self._cache_bytes, prompt, params)

    def _generate_batch(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        count, group, length = len(requests), params.num_rollouts, params.max_response_len
        shards = num_row_shards(self._mesh)
        problems = shards * _bucket(-(-count // shards))
        prompt_ids, prompt_len = (
            shard_rows(x, self._mesh) for x in _pad_prompts(requests, problems)
        )
        keys = _row_keys(requests, params, problems)
        real = shard_rows(np.arange(problems) < count, self._mesh)
        windows = cache_windows(length)
        greedy = params.temperature == 0
        temperature = jnp.float32(params.temperature or 1.0)
        prompt_cache, state = _start(
            self._model,
            self._layers,
            prompt_ids,
            prompt_len,
            keys,
            real,
            temperature,
            length=windows[-1],
            window=windows[0],
            group=group,
            greedy=greedy,
            mesh=self._mesh,
        )
        start = 1
        for window in windows:
            stop = min(window, length)
            if bool(jnp.all(state.done)):
                break
            if window != windows[0]:
                state = _grow(state, window)
            state = continue_rollouts(
                self._model,
                self._layers,
                prompt_cache,
                prompt_len,
                state,
                keys,
                temperature,
                jnp.int32(start),
                jnp.int32(stop),
                greedy=greedy,
            )
            start = stop
        return self._to_rollouts(state, problems, count, group, length)

    def _to_rollouts(self, state: State, problems, count, group, length) -> Rollouts:
        ids, logprobs, lengths, done = to_host(
            (state.ids, state.logprobs, state.length, state.done)
        )

        def grouped(x):  # [BG, ...] -> [B, G, ...], padding requests dropped
            return np.ascontiguousarray(x.reshape(problems, group, *x.shape[1:])[:count])

        ids, logprobs = grouped(ids.T)[..., :length], grouped(logprobs.T)[..., :length]
        return Rollouts(
            response_ids=ids,
            response_len=grouped(lengths),
            logprobs=logprobs,
            finished=grouped(done),
            version=np.full((count, group), self._version, np.int32),
            valid=np.asarray(np.isfinite(logprobs).all(axis=-1)),
        )


def fitting_problems(
    cfg: ModelConfig,
    mesh: jax.sharding.Mesh | None,
    cache_bytes: int,
    prompt_len: int,
    params: SamplingParams,
) -> int:
    """How many problems' caches fit `cache_bytes` a device; at least one a shard of rows."""
    positions = prompt_len + params.num_rollouts * params.max_response_len
    per_position = 2 * cfg.num_layers * cfg.num_kv_heads * cfg.head_dim
    bytes_each = positions * per_position * cfg.compute_dtype.itemsize
    if mesh is not None:
        bytes_each //= mesh.shape["tensor"]
    return num_row_shards(mesh) * max(1, cache_bytes // bytes_each)


def _bucket(count: int) -> int:
    """The least power of two, or three times one, that holds `count`."""
    power = 1 << max(0, count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and power * 3 // 4 >= count else power


def cache_windows(length: int) -> list[int]:
    """Cache sizes, each about half as long again as the one before, up to the whole response."""
    whole = -(-length // _FIRST_WINDOW) * _FIRST_WINDOW
    sizes = [_FIRST_WINDOW]
    while sizes[-1] < whole:
        grown = sizes[-1] + max(_FIRST_WINDOW, sizes[-1] // 2)
        sizes.append(min(whole, -(-grown // _FIRST_WINDOW) * _FIRST_WINDOW))
    return sizes


def _pad_prompts(requests: Sequence[Request], problems: int) -> tuple[np.ndarray, np.ndarray]:
    """RIGHT-padded [B, P] ids and [B] lengths; padding requests hold one token."""
    longest = max(len(request.prompt_ids) for request in requests)
    width = -(-longest // _PROMPT_BUCKET) * _PROMPT_BUCKET
    ids = np.zeros((problems, width), np.int32)
    lengths = np.ones(problems, np.int32)
    for i, request in enumerate(requests):
        ids[i, : len(request.prompt_ids)] = request.prompt_ids
        lengths[i] = len(request.prompt_ids)
    return ids, lengths


def _row_keys(requests: Sequence[Request], params: SamplingParams, problems: int) -> jax.Array:
    """[BG] keys folded from (seed, update, request.key, rollout)."""
    words = np.zeros((problems, 2), np.uint32)
    for i, request in enumerate(requests):
        words[i] = [request.key & 0xFFFFFFFF, (request.key >> 32) & 0xFFFFFFFF]
    return _fold_keys(
        jax.random.key(params.seed), np.uint32(params.update), words, group=params.num_rollouts
    )


@functools.partial(jax.jit, static_argnames="group")
def _fold_keys(key, update, words, *, group):
    fold = jax.random.fold_in
    key = fold(key, update)

    def row(word, g):
        return fold(fold(fold(key, word[0]), word[1]), g)

    rows = jax.vmap(jax.vmap(row, (None, 0)), (0, None))(words, jnp.arange(group))
    return rows.reshape(-1)  # [B, G] -> [BG]


def _sample(model: Qwen3, hidden, uniforms, temperature, greedy: bool):
    scores = logits(model, hidden)
    return take_greedy(scores) if greedy else draw(scores / temperature, uniforms)


def _is_eos(tokens, eos_token_ids: tuple[int, ...]):
    return functools.reduce(jnp.logical_or, (tokens == e for e in eos_token_ids), tokens < 0)


@functools.partial(jax.jit, static_argnames=("length", "window", "group", "greedy", "mesh"))
def _start(
    model: Qwen3,
    layers: list[Layer],
    prompt_ids,
    prompt_len,
    keys,
    real,
    temperature,
    *,
    length: int,
    window: int,
    group: int,
    greedy: bool,
    mesh: jax.sharding.Mesh | None,
) -> tuple[list[KeyValues], State]:
    """Prefill every prompt once and sample the first token of each of its rollouts."""
    cfg = model.cfg
    hidden, prompt_cache = prefill(model, layers, prompt_ids, prompt_len)
    rows = hidden.shape[0] * group
    uniforms = row_uniforms(keys, jnp.int32(0), 1)[0]
    tokens, logprobs = _sample(
        model, jnp.repeat(hidden, group, axis=0), uniforms, temperature, greedy
    )
    alive = jnp.repeat(real, group)
    tokens = jnp.where(alive, tokens, 0)
    shape = (rows, cfg.num_kv_heads, window, cfg.head_dim)
    empty = jnp.zeros(shape, cfg.compute_dtype)
    # Nothing that an empty cache is made from says where it lies.
    empty = constrain_axes(empty, ("rows", "kv_heads", None, None), mesh)
    return prompt_cache, State(
        tokens=tokens,
        done=~alive | _is_eos(tokens, cfg.eos_token_ids),
        ids=jnp.zeros((length, rows), jnp.int32).at[0].set(tokens),
        logprobs=jnp.zeros((length, rows), jnp.float32).at[0].set(jnp.where(alive, logprobs, 0.0)),
        length=jnp.ones(rows, jnp.int32),
        cache=[KeyValues(empty, empty)] * cfg.num_layers,
    )


@functools.partial(jax.jit, static_argnames="window")
def _grow(state: State, window: int) -> State:
    """The state with a cache of `window` positions; not donated, since no buffer keeps its size."""

    def grow(x):
        return jnp.pad(x, ((0, 0), (0, 0), (0, window - x.shape[2]), (0, 0)))

    return dataclasses.replace(state, cache=jax.tree.map(grow, state.cache))


@functools.partial(jax.jit, static_argnames="greedy", donate_argnames="state")
def continue_rollouts(
    model: Qwen3,
    layers: list[Layer],
    prompt_cache: list[KeyValues],
    prompt_len,
    state: State,
    keys,
    temperature,
    start,
    stop,
    *,
    greedy: bool,
) -> State:
    """Sample the response tokens [start, stop), or fewer if every row ends before."""
    cfg = model.cfg
    uniforms = row_uniforms(keys, start, state.cache[0].k.shape[2])

    def unfinished(carry):
        index, state = carry
        return (index < stop) & ~jnp.all(state.done)

    def step(carry):
        index, state = carry
        hidden, cache = decode_step(
            model, layers, state.tokens, prompt_len, prompt_cache, state.cache, index - 1
        )
        tokens, logprobs = _sample(model, hidden, uniforms[index - start], temperature, greedy)
        tokens = jnp.where(state.done, 0, tokens)
        logprobs = jnp.where(state.done, 0.0, logprobs)
        return index + 1, State(
            tokens=tokens,
            done=state.done | _is_eos(tokens, cfg.eos_token_ids),
            ids=state.ids.at[index].set(tokens),
            logprobs=state.logprobs.at[index].set(logprobs),
            length=state.length + ~state.done,
            cache=cache,
        )

    return jax.lax.while_loop(unfinished, step, (start, state))[1]

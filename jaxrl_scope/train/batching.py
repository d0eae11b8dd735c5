"""Experience cut into microbatches of a few fixed shapes, within a token budget."""

import dataclasses
import math
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrl_scope.train.experience import Experience
from models.partition import num_row_shards, shard_rows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Microbatch:
    """Rows that go through the model together; fields as in `Experience`, on the devices.

    `old_logprobs` and `ref_logprobs` are [R, T] float32, or None where they are not needed.
    """

    prompt_ids: jax.Array
    prompt_len: jax.Array
    response_ids: jax.Array
    response_len: jax.Array
    rollout_logprobs: jax.Array
    advantages: jax.Array
    mask: jax.Array
    old_logprobs: jax.Array | None = None
    ref_logprobs: jax.Array | None = None


def bucket_length(length: int, multiple: int) -> int:
    """Round a length up to `multiple` times 1, 2, 3, 4, 6, 8, 12, 16 ..."""
    units = max(1, -(-length // multiple))
    power = 1 << (units - 1).bit_length()
    if power >= 4 and units <= power * 3 // 4:
        power = power * 3 // 4
    return power * multiple


def num_rows(width: int, token_budget: int, shards: int) -> int:
    """Rows of a microbatch: a power of two of them a shard, within the budget or one."""
    return shards * 2 ** int(math.log2(max(1, token_budget // width)))


def full_shape(
    max_prompt_len: int,
    max_response_len: int,
    *,
    token_budget: int,
    length_multiple: int,
    mesh: Mesh | None,
) -> tuple[int, int, int]:
    """(rows, prompt width, response width) of a microbatch of rows of the greatest length."""
    prompt = bucket_length(max_prompt_len, length_multiple)
    width = bucket_length(max_response_len, length_multiple)
    return num_rows(prompt + width, token_budget, num_row_shards(mesh)), prompt, width


def make_microbatches(
    experience: Experience,
    rows: np.ndarray,
    *,
    token_budget: int,
    length_multiple: int,
    mesh: Mesh | None = None,
) -> list[Microbatch]:
    """Cut rows of an experience into microbatches.

    Rows are sorted by length, so that a microbatch holds rows of like length and pads little. Each
    has a power of two of rows, and prompt and response widths from a short ladder
    (`bucket_length`): the number of shapes, and so of compilations, is bounded. Rows without a
    token in the loss are left out. The loss is a sum over rows divided once by a global count, so
    how it is cut changes rounding only.

    Args:
      experience: the batch.
      rows: [r] int, the rows to use.
      token_budget: most padded tokens (prompt + response) of a microbatch per shard of rows; at
        least one row a shard is always taken.
      length_multiple: unit of the ladder of widths.
      mesh: places rows over its data and fsdp axes; None for the default device.

    Returns:
      Microbatches; none if no row has a token in the loss.
    """
    cuts = cut_rows(experience, rows, token_budget, length_multiple, num_row_shards(mesh))
    return [_take(experience, *cut, mesh) for cut in cuts]


def cut_rows(
    experience: Experience, rows: np.ndarray, token_budget: int, length_multiple: int, shards: int
) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield each microbatch's row numbers, padded number of rows, prompt and response width.

    Arguments as for `make_microbatches`.
    """
    rows = rows[experience.mask[rows].any(axis=1)]
    if not rows.size:
        return
    order = rows[np.argsort(-experience.response_len[rows], kind="stable")]
    prompt_width = bucket_length(int(experience.prompt_len[rows].max()), length_multiple)
    while order.size:
        width = bucket_length(int(experience.response_len[order[0]]), length_multiple)
        count = num_rows(prompt_width + width, token_budget, shards)
        count = min(count, shards * 2 ** math.ceil(math.log2(max(1, order.size / shards))))
        yield order[:count], count, prompt_width, width
        order = order[count:]


def _take(
    experience: Experience,
    rows: np.ndarray,
    count: int,
    prompt_width: int,
    width: int,
    mesh: Mesh | None,
) -> Microbatch:
    """Gather rows, cut or pad them to the widths, and fill up with empty rows to `count`."""

    def put(x: np.ndarray) -> jax.Array:
        return shard_rows(x, mesh)

    def fill(x: np.ndarray, value: int = 0) -> np.ndarray:
        pad = [(0, count - len(rows)), *[(0, 0)] * (x.ndim - 1)]
        return np.pad(x, pad, constant_values=value)

    def response(x: np.ndarray) -> np.ndarray:
        x = x[rows, :width]
        return np.pad(x, [(0, 0), (0, width - x.shape[1])])

    prompt_ids = experience.prompt_ids[rows][:, -prompt_width:]
    prompt_ids = np.pad(prompt_ids, [(0, 0), (prompt_width - prompt_ids.shape[1], 0)])
    old = experience.old_logprobs
    return Microbatch(
        prompt_ids=put(fill(prompt_ids)),
        prompt_len=put(fill(experience.prompt_len[rows], 1)),
        response_ids=put(fill(response(experience.response_ids))),
        response_len=put(fill(experience.response_len[rows])),
        rollout_logprobs=put(fill(response(experience.rollout_logprobs))),
        advantages=put(fill(response(experience.advantages))),
        mask=put(fill(response(experience.mask))),
        old_logprobs=None if old is None else put(fill(response(old))),
    )

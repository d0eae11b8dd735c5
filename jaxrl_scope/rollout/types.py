"""The one interface between the trainer and whatever generates text."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np


@dataclasses.dataclass(frozen=True)
class Request:
    """One prompt to be answered G times.

    Attributes:
      prompt_ids: [p] int32 token ids, no padding.
      key: names the prompt in the random stream; rollout g of this request is sampled with a key
        folded from (seed, update, key, g) and nothing else, so that the same request gives the same
        rollouts whatever else is in the batch. Use `request_key(problem_id, variant)`.
    """

    prompt_ids: np.ndarray
    key: int


def request_key(problem_id: str, variant: str = "original", occurrence: int = 0) -> int:
    """Name a prompt in the random stream: 63 bits of a hash of what it is.

    `occurrence` tells apart prompts that stand twice in a batch, which would otherwise be answered
    with the same rollouts.
    """
    name = f"{problem_id}\x00{variant}\x00{occurrence}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1


@dataclasses.dataclass(frozen=True)
class SamplingParams:
    """How to sample.

    Attributes:
      num_rollouts: G, rollouts per request.
      max_response_len: cap on response tokens, the end-of-text token included.
      temperature: 0 means greedy; rollout logprobs are those of the tempered distribution.
      seed: the run's seed.
      update: index of the update these rollouts are for.
    """

    num_rollouts: int
    max_response_len: int
    temperature: float = 1.0
    seed: int = 0
    update: int = 0


@dataclasses.dataclass(frozen=True)
class Rollouts:
    """G responses to each of B requests. Plain numpy: this crosses from the sampler to the host.

    Attributes:
      response_ids: [B, G, T] int32; the end-of-text token, when sampled, is part of the response.
        Positions from `response_len` on hold 0 and mean nothing.
      response_len: [B, G] int32, 1 <= response_len <= T.
      logprobs: [B, G, T] float32, log-probability of each sampled token as the sampler saw it.
      finished: [B, G] bool, True where the response ended with an end-of-text token; False means
        that it was cut off at the cap (truncated).
      version: [B, G] int32, weight version that each rollout was sampled with.
      valid: [B, G] bool, False where no usable rollout came back (server lost, NaN logprobs).
    """

    response_ids: np.ndarray
    response_len: np.ndarray
    logprobs: np.ndarray
    finished: np.ndarray
    version: np.ndarray
    valid: np.ndarray


class Sampler(Protocol):
    """Generates rollouts with a given version of the policy's weights."""

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        """Sample `params.num_rollouts` responses to every request, in the order given."""
        ...

    def load(self, params: object, version: int) -> None:
        """Make `params` (the trainer's parameter pytree) the weights of all later rollouts."""
        ...

    def metrics(self) -> dict[str, float]:
        """Numbers about the rollouts since the last call, to be logged by these names."""
        ...

    def rest(self) -> None:
        """Give up what the trainer needs during an update; the next `generate` takes it back."""
        ...

    def stop_waiting(self) -> None:
        """The run is to end: from now on `generate` fails where it would wait for a server."""
        ...

    def close(self) -> None:
        """Release processes and memory."""
        ...

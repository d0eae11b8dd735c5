"""A sampler that says what it is told, in the words of the built-in world."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams

TOKENIZER = make_tokenizer(61)


class ScriptedSampler:
    """Answers through `say(prompt text, rollout index)`; a text without "<|end|>" is truncated."""

    def __init__(self, say: Callable[[str, int], str]):
        self.say = say
        self.requests: list[Request] = []
        self.lost: set[str] = set()
        self.budget = 10**9

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> Rollouts:
        self.budget -= len(requests)
        if self.budget < 0:
            raise KeyboardInterrupt
        self.requests += requests
        shape = (len(requests), params.num_rollouts)
        ids = np.zeros((*shape, params.max_response_len), np.int32)
        length, finished = np.ones(shape, np.int32), np.zeros(shape, bool)
        valid = np.ones(shape, bool)
        for b, request in enumerate(requests):
            prompt = TOKENIZER.decode(request.prompt_ids)
            for g in range(params.num_rollouts):
                row = TOKENIZER(self.say(prompt, g))["input_ids"][: params.max_response_len]
                ids[b, g, : len(row)] = row
                length[b, g] = len(row)
                finished[b, g] = row[-1] == TOKENIZER.eos_token_id
                valid[b, g] = prompt not in self.lost
        zeros = np.zeros(ids.shape, np.float32)
        return Rollouts(ids, length, zeros, finished, np.zeros(shape, np.int32), valid)

    def load(self, params, version):
        pass

    def close(self):
        pass


@pytest.fixture
def tokenizer():
    return TOKENIZER


@pytest.fixture
def scripted():
    return ScriptedSampler

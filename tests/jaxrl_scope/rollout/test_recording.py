"""Recorded rollouts come back as they were, and only where they belong."""

import numpy as np
import pytest

from jaxrl_scope.rollout.recording import RecordingSampler, ReplaySampler
from jaxrl_scope.rollout.types import Request, Rollouts, SamplingParams


class Counter:
    """Answers with numbers that tell calls apart; later calls are wider."""

    def __init__(self):
        self.calls = 0
        self.closed = False

    def generate(self, requests, params):
        self.calls += 1
        shape = (len(requests), params.num_rollouts)
        width = 2 + self.calls
        rng = np.random.default_rng(self.calls)
        return Rollouts(
            response_ids=rng.integers(1, 9, (*shape, width)).astype(np.int32),
            response_len=rng.integers(1, width, shape).astype(np.int32),
            logprobs=rng.normal(size=(*shape, width)).astype(np.float32),
            finished=rng.random(shape) < 0.5,
            version=np.full(shape, self.calls, np.int32),
            valid=np.ones(shape, bool),
        )

    def load(self, params, version):
        pass

    def close(self):
        self.closed = True


def request(key: int) -> Request:
    return Request(np.array([1, 2], np.int32), key)


def test_replayed_rollouts_equal_the_recorded_ones_in_any_order(tmp_path):
    inner = Counter()
    recorder = RecordingSampler(inner, tmp_path / "rollouts")
    params = SamplingParams(num_rollouts=3, max_response_len=8, update=4)
    first = recorder.generate([request(5), request(6)], params)
    second = recorder.generate([request(7)], params)
    recorder.close()
    assert inner.closed

    replay = ReplaySampler(tmp_path / "rollouts")
    again = replay.generate([request(7), request(5)], params)
    assert again.response_ids.shape == (2, 3, 4)  # widened to the wider of the two
    for name in ("response_len", "finished", "version", "valid"):
        assert np.array_equal(getattr(again, name)[0], getattr(second, name)[0])
        assert np.array_equal(getattr(again, name)[1], getattr(first, name)[0])
    assert np.array_equal(again.response_ids[1, :, :3], first.response_ids[0])
    assert np.array_equal(again.logprobs[0], second.logprobs[0])


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"update": 5}, 5), ({"num_rollouts": 2}, 5), ({"temperature": 0.5}, 5), ({}, 99)],
)
def test_other_requests_are_refused(tmp_path, changes, key):
    settings = {"num_rollouts": 3, "max_response_len": 8, "update": 4}
    RecordingSampler(Counter(), tmp_path).generate([request(5)], SamplingParams(**settings))
    replay = ReplaySampler(tmp_path)
    with pytest.raises(ValueError, match="Replay with the data, seed"):
        replay.generate([request(key)], SamplingParams(**(settings | changes)))


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no recorded rollouts"):
        ReplaySampler(tmp_path)

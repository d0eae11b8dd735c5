"""The pipeline against a stage that records what it is asked for."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.rollout.types import Rollouts, SamplingParams
from jaxrl_scope.stages.base import Groups, Tools
from jaxrl_scope.stages.phased import PhasedStage, Rolled
from jaxrl_scope.train.experience import Experience, Sample
from jaxrl_scope.train.pipeline import Pipeline, PipelineConfig, PipelineError


class FakeStage(PhasedStage):
    """Rollouts are a function of the update alone, as those of the real sampler are."""

    def __init__(self):
        self.calls: list[tuple[str, int]] = []

    def roll(self, problems, tools):
        update = tools.sampling.update
        self.calls.append(("roll", update))
        rng = np.random.default_rng(update)
        length = rng.integers(1, 6, (2, 2)).astype(np.int32)
        ids = rng.integers(10, 60, (2, 2, 5)).astype(np.int32)
        ones = np.ones((2, 2), bool)
        logprobs = rng.normal(size=ids.shape).astype(np.float32)
        rollouts = Rollouts(ids, length, logprobs, ones, ones * update, ones)
        prompts = [np.array([7, 8], np.int32), np.array([9], np.int32)]
        return Rolled(Groups(prompts, rollouts, [["a", "b"]] * 2), ones.astype(np.int8))

    def reward(self, problems, rolled, tools):
        update = int(rolled.groups.rollouts.version[0, 0])
        self.calls.append(("reward", update))
        ids = rolled.groups.rollouts.response_ids.reshape(4, 5)
        length = rolled.groups.rollouts.response_len.reshape(4)
        return Experience(
            prompt_ids=np.repeat([[7, 8], [0, 9]], 2, axis=0).astype(np.int32),
            prompt_len=np.array([2, 2, 1, 1], np.int32),
            response_ids=ids,
            response_len=length,
            rollout_logprobs=rolled.groups.rollouts.logprobs.reshape(4, 5),
            advantages=ids.astype(np.float32) / 7,
            mask=np.arange(5) < length[:, None],
            metrics={"reward/mean": update / 3},
            samples=(Sample("p", "prompt", "é", 0.5, 1, False, (("useful", "a"), ("error", "b"))),),
        )


@pytest.fixture
def make(tmp_path):
    def build(interval=3, last=7, stop=lambda: False):
        unused, stage = SimpleNamespace(), FakeStage()
        sampling = SamplingParams(num_rollouts=2, max_response_len=5)
        tools = Tools(unused, unused, make_tokenizer(61), unused, {}, sampling)  # pyright: ignore[reportArgumentType]
        pipeline = Pipeline(
            stage,
            tools,
            batch=lambda update: [],
            score=lambda experience: experience.rollout_logprobs + 1,
            interval=interval,
            last=last,
            directory=tmp_path / "phases",
            should_stop=stop,
        )
        return pipeline, stage, tools

    return build


def same(a: Experience, b: Experience) -> bool:
    for field in dataclasses.fields(Experience):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            if x.dtype != y.dtype or not np.array_equal(x, y):
                return False
        elif x != y:
            return False
    return True


def test_phases_roll_out_then_reward_then_hand_out(make):
    pipeline, stage, _ = make()
    for update in range(1, 8):
        pipeline.experience(update)
    expected = []
    for phase in ([1, 2, 3], [4, 5, 6], [7]):
        expected += [("roll", update) for update in phase]
        expected += [("reward", update) for update in phase]
    assert stage.calls == expected
    assert [update for update in range(8) if pipeline.is_boundary(update)] == [0, 3, 6]


def test_an_interval_of_one_hands_out_what_collect_makes_bit_for_bit(make):
    pipeline, stage, tools = make(interval=1)
    for update in (1, 2):
        made = pipeline.experience(update)
        tools.sampling = dataclasses.replace(tools.sampling, update=update)
        collected = stage.collect([], tools)
        metrics = dict(collected.metrics) | {"pipeline/staleness": 0.0}
        assert same(made, dataclasses.replace(collected, metrics=metrics))
        assert made.old_logprobs is None


def test_batches_of_a_phase_remember_the_weights_that_rolled_out(make):
    pipeline, _, _ = make()
    for update in (1, 2, 3):
        made = pipeline.experience(update)
        assert (made.old_logprobs == made.rollout_logprobs + 1).all()
        assert made.metrics["pipeline/staleness"] == update - 1


def test_a_stop_leaves_the_phase_to_be_finished_later(make, tmp_path):
    whole, _, _ = make()
    expected = whole.experience(1)
    for path in (tmp_path / "phases").iterdir():
        path.unlink()
    done = []
    for batches in (0, 1, 4):  # allowed before the stop: none, then one roll, then all but one
        stops = iter([False] * batches + [True])
        pipeline, stage, _ = make(stop=lambda stops=stops: next(stops))
        assert pipeline.experience(1) is None
        assert len(stage.calls) == batches
        done += stage.calls
    pipeline, stage, _ = make()
    assert same(pipeline.experience(1), expected)
    assert done + stage.calls == [(part, u) for part in ("roll", "reward") for u in (1, 2, 3)]


def test_damaged_rollouts_are_made_again(make, tmp_path):
    stops = iter([False, False, False, True])
    pipeline, stage, _ = make(stop=lambda: next(stops))
    assert pipeline.experience(1) is None
    (tmp_path / "phases" / "000002-rollouts.npz").write_bytes(b"damaged")
    pipeline, stage, _ = make()
    pipeline.experience(1)
    assert [call for call in stage.calls if call[0] == "roll"] == [("roll", 2)]


def test_a_lost_batch_of_a_phase_under_way_is_an_error(make, tmp_path):
    pipeline, _, _ = make()
    pipeline.experience(1)
    (tmp_path / "phases" / "000002-experience.npz").write_bytes(b"damaged")
    with pytest.raises(PipelineError, match="update 2 needs"):
        pipeline.experience(2)


def test_files_of_phases_gone_by_are_deleted(make, tmp_path):
    pipeline, _, _ = make(interval=2, last=6)
    for update in range(1, 7):
        pipeline.experience(update)
        (tmp_path / "phases" / ".000001-rollouts.npz.x7").write_bytes(b"left by a kill")
    names = sorted(path.name[:6] for path in (tmp_path / "phases").glob("[0-9]*"))
    assert sorted(set(names)) == ["000003", "000004", "000005", "000006"]
    assert PipelineConfig().update_interval == 1

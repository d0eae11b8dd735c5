"""Layers of settings, their errors, and differences between runs."""

import dataclasses

import pytest

from jaxrl_scope.config import (
    DataConfig,
    MeshConfig,
    RolloutConfig,
    TrainConfig,
    differences,
    override,
    to_dict,
)
from jaxrl_scope.stages.asr import AsrConfig


def test_settings_survive_json():
    config = TrainConfig(asr=AsrConfig(routing="offline", hard_labels=("k4", "k5")))
    assert override(TrainConfig(), to_dict(config)) == config


def test_override_reaches_nested_settings_and_names_strangers():
    config = override(TrainConfig(), {"asr": {"tau": 0.25}, "seed": 3})
    assert (config.asr.tau, config.seed, config.asr.beta) == (0.25, 3, 0.5)
    with pytest.raises(ValueError, match=r"'asr\.tua'; did you mean tau"):
        override(TrainConfig(), {"asr": {"tua": 0.25}})
    with pytest.raises(ValueError, match="table"):
        override(TrainConfig(), {"asr": 3})


def test_differences_are_named_and_harmless_ones_left_out():
    old = to_dict(TrainConfig(run_dir="a"))
    new = to_dict(TrainConfig(run_dir="b", resume=True, asr=AsrConfig(tau=0.25)))
    assert differences(old, new) == ["asr.tau: 0.5 there, 0.25 here"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"updates": 0}, "updates"),
        ({"rollout": RolloutConfig(group=1)}, "baseline"),
        ({"rollout": RolloutConfig(temperature=0.0)}, "temperature"),
        ({"data": DataConfig(batch_problems=30), "mesh": MeshConfig(data=8)}, "Use 24 or 32"),
    ],
)
def test_rules_across_settings(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TrainConfig(), **change)

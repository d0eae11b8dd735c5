"""Versions of the weights on disk: what is written is read, and damage is refused."""

import types

import jax
import numpy as np
import pytest

from jaxrl_scope.rollout.vllm.publish import write_weights
from jaxrl_scope.rollout.vllm.weights import (
    MARKER,
    BadWeightsError,
    check_model,
    read_groups,
    read_manifest,
)
from models import ModelConfig, init_params
from models.hf import to_hf_tensors


def make(tied: bool, dtype: str = "float32"):
    config = ModelConfig(
        vocab_size=40,
        num_layers=2,
        embed_dim=32,
        mlp_dim=48,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=8,
        tie_embeddings=tied,
        eos_token_ids=(1, 5),
        dtype=dtype,
        param_dtype=dtype,
    )
    return init_params(config, jax.random.key(3), std=0.3)


@pytest.mark.parametrize(("tied", "dtype"), [(True, "float32"), (False, "bfloat16")])
def test_what_is_read_is_the_export(tmp_path, tied, dtype):
    model = make(tied, dtype)
    write_weights(tmp_path / "v3", model, 3)
    manifest = read_manifest(tmp_path / "v3")
    groups = list(read_groups(tmp_path / "v3", manifest))
    found = {name: value for group in groups for name, value in group.items()}
    expected = dict(to_hf_tensors(model))
    assert manifest.version == 3 and found.keys() == expected.keys()
    assert ("lm_head.weight" in found) is not tied
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    assert max(len(group) for group in groups) < 15  # a layer at a time


def test_another_dtype_can_be_asked_for(tmp_path):
    write_weights(tmp_path / "v0", make(True), 0, dtype="bfloat16")
    assert {d for _, d in read_manifest(tmp_path / "v0").tensors.values()} == {"bfloat16"}


def test_unfinished_and_damaged_versions_are_refused(tmp_path):
    folder = tmp_path / "v1"
    write_weights(folder, make(True), 1)
    largest = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(content[:-1])
    with pytest.raises(BadWeightsError, match=f"expected {len(content)} bytes"):
        read_manifest(folder)
    largest.unlink()
    with pytest.raises(BadWeightsError, match="is missing"):
        read_manifest(folder)
    (folder / MARKER).write_text("{")
    with pytest.raises(BadWeightsError, match="cannot be read"):
        read_manifest(folder)
    (folder / MARKER).unlink()
    with pytest.raises(BadWeightsError, match="sync_dir"):
        read_manifest(folder)


def test_weights_of_another_model_are_refused_by_name(tmp_path):
    manifest = write_weights(tmp_path / "v1", make(True), 1)
    check_model(manifest, types.SimpleNamespace(**manifest.model))
    other = types.SimpleNamespace(**(manifest.model | {"hidden_size": 64, "vocab_size": 41}))
    with pytest.raises(BadWeightsError, match=r"vocab_size is 40.*41.*hidden_size is 32.*64"):
        check_model(manifest, other)

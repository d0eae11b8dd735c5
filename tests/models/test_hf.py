"""Import and export of Hugging Face directories: bit for bit, sharded, without a full host copy."""

import dataclasses
import json
import tracemalloc

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import models.hf
from models import ModelConfig, UnsupportedConfigError, init_params, load_hf, save_hf
from models.partition import MESH_AXES, model_shardings
from models.published import PUBLISHED
from models.rope import inverse_frequencies

CONFIG = ModelConfig(
    vocab_size=64, num_layers=2, embed_dim=32, mlp_dim=64, num_q_heads=4, num_kv_heads=2,
    head_dim=8, eos_token_ids=(1, 3), pad_token_id=0,
)  # fmt: skip
FAMILIES = {
    "qwen3": CONFIG,
    "qwen2": dataclasses.replace(CONFIG, model_type="qwen2", qk_norm=False, qkv_bias=True),
    "llama": dataclasses.replace(CONFIG, model_type="llama", qk_norm=False, tie_embeddings=True),
}


def make_mesh(*shape):
    return jax.make_mesh(shape, MESH_AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [None, (1, 4, 2)])
def test_round_trip_is_bit_exact(family, dtype, shape, tmp_path, monkeypatch):
    monkeypatch.setattr(models.hf, "SHARD_BYTES", 20_000)  # several files and an index
    cfg = dataclasses.replace(FAMILIES[family], dtype=dtype, param_dtype=dtype)
    save_hf(tmp_path / "a", cfg, init_params(cfg, jax.random.key(0)))
    mesh = make_mesh(*shape) if shape else None
    loaded_cfg, loaded = load_hf(tmp_path / "a", mesh=mesh)
    assert loaded_cfg == cfg
    if mesh is not None:
        wanted = jax.tree.leaves(model_shardings(loaded, mesh))
        assert [x.sharding for x in jax.tree.leaves(loaded)] == wanted
    save_hf(tmp_path / "b", loaded_cfg, loaded)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert sum(name.endswith(".safetensors") for name in files) > 1
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_loading_holds_no_second_copy_on_the_host(tmp_path):
    """What numpy holds at its peak besides the weights that stay: about one stacked weight."""
    cfg = dataclasses.replace(CONFIG, vocab_size=2048, num_layers=8, embed_dim=128, mlp_dim=256)
    model = init_params(cfg, jax.random.key(0))
    sizes = [x.nbytes for x in jax.tree.leaves(model)]
    save_hf(tmp_path, cfg, model)
    load_hf(tmp_path, mesh=make_mesh(1, 4, 2))  # imports and caches are not counted
    tracemalloc.start()
    _, loaded = load_hf(tmp_path, mesh=make_mesh(1, 4, 2))
    jax.block_until_ready(loaded)
    stays, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - stays < 2 * max(sizes) < 0.5 * sum(sizes)


def test_master_weights_may_be_wider_than_the_activations(tmp_path):
    save_hf(tmp_path, CONFIG, init_params(CONFIG, jax.random.key(0)))
    cfg, model = load_hf(tmp_path, dtype="bfloat16", param_dtype="float32")
    assert (cfg.dtype, cfg.param_dtype) == ("bfloat16", "float32")
    expected = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    np.testing.assert_array_equal(np.asarray(model.embed[...]), expected)


def test_every_published_config_reads_back():
    for cfg in PUBLISHED.values():
        assert ModelConfig.from_hf(cfg.to_hf()) == cfg
    billions = {name: round(cfg.num_params / 1e9, 2) for name, cfg in PUBLISHED.items()}
    # As the model cards count them (Qwen3-0.6B: 0.6B; 8B: 8.2B; 32B: 32.8B).
    assert billions["Qwen3-0.6B"] == 0.60
    assert billions["Qwen3-8B"] == 8.19
    assert billions["Qwen3-32B"] == 32.76


# Each a whole config.json, as published.
QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 12288,
    "max_position_embeddings": 40960, "max_window_layers": 36, "model_type": "qwen3",
    "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
R1_DISTILL_QWEN_1_5B = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 1536, "initializer_range": 0.02,
    "intermediate_size": 8960, "max_position_embeddings": 131072, "max_window_layers": 21,
    "model_type": "qwen2", "num_attention_heads": 12, "num_hidden_layers": 28,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000,
    "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "transformers_version": "4.48.3", "use_cache": True, "use_mrope": False,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "published"),
    [("Qwen3-8B", QWEN3_8B), ("DeepSeek-R1-Distill-Qwen-1.5B", R1_DISTILL_QWEN_1_5B)],
)
def test_shapes_are_those_of_the_published_config(name, published):
    read = ModelConfig.from_hf(published)
    assert read.eos_token_ids == (published["eos_token_id"],)
    assert dataclasses.replace(read, eos_token_ids=(), bos_token_id=None) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"layer_types": ["sliding_attention"]}, "sliding_attention"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "longrope"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}}, "needs factor"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0}}, "mscale"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_dropout": 0.1}, "attention_dropout"),
        ({"model_type": "qwen3_moe"}, "qwen3_moe"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(change, says):
    with pytest.raises(UnsupportedConfigError, match=says):
        ModelConfig.from_hf(CONFIG.to_hf() | change)


def test_tensors_that_do_not_fit_are_all_named(tmp_path):
    save_hf(tmp_path, CONFIG, init_params(CONFIG, jax.random.key(0)))
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"num_hidden_layers": 3, "intermediate_size": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"missing model\.layers\.2.*and \d+ more"):
        load_hf(tmp_path)


@pytest.mark.parametrize("family", ["Qwen3Config", "Qwen2Config", "LlamaConfig"])
def test_fields_left_out_are_those_of_transformers(family):
    import transformers

    given = {
        "vocab_size": 99,
        "hidden_size": 512,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
    }
    config = getattr(transformers, family)(**given)
    ours = ModelConfig.from_hf(given | {"model_type": config.model_type})
    theirs = config.to_dict()
    assert ours.num_kv_heads == theirs["num_key_value_heads"]
    assert ours.head_dim == (theirs.get("head_dim") or 512 // 32)
    assert ours.norm_eps == theirs["rms_norm_eps"]
    assert ours.tie_embeddings == theirs["tie_word_embeddings"]
    assert ours.out_bias == bool(theirs.get("attention_bias"))
    assert ours.max_position == theirs["max_position_embeddings"]
    assert ours.rope_theta == theirs["rope_parameters"]["rope_theta"]


ROPES = {
    "default": {"rope_type": "default", "rope_theta": 5e5},
    "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5},
    "yarn": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "yarn_all": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "beta_fast": 20.0, "beta_slow": 2.0,
        "original_max_position_embeddings": 1024, "attention_factor": 0.8, "truncate": False,
    },
    "llama3": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 512,
    },
}  # fmt: skip


def transformers_config(family, rope, **changes):
    import transformers

    fields = {
        "vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "bos_token_id": 2, "eos_token_id": [1, 3], "pad_token_id": 0,
    }  # fmt: skip
    return getattr(transformers, family)(**fields | changes, rope_parameters=dict(ROPES[rope]))


@pytest.mark.parametrize("family", ["Qwen3Config", "Qwen2Config", "LlamaConfig"])
@pytest.mark.parametrize("rope", ROPES)
@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True, "attention_bias": True}])
def test_a_config_of_transformers_comes_back_as_it_was(family, rope, changes):
    if family == "Qwen2Config":
        changes = {name: value for name, value in changes.items() if name != "attention_bias"}
    else:
        changes = changes | {"head_dim": 24}
    config = transformers_config(family, rope, **changes)
    ours = ModelConfig.from_hf(config.to_dict())
    back, wanted = type(config)(**ours.to_hf()).to_dict(), config.to_dict()
    # What a yarn config leaves open is written out.
    assert back["rope_parameters"].items() >= wanted["rope_parameters"].items()
    assert ModelConfig.from_hf(back) == ours
    ours_only = ("architectures", "dtype", "rope_theta", "rope_scaling", "rope_parameters")
    back, wanted = (
        {name: value for name, value in found.items() if name not in ours_only}
        for found in (back, wanted)
    )
    if family == "Qwen2Config":
        assert back.pop("head_dim") == 64 // 8
    assert back == wanted


@pytest.mark.parity
@pytest.mark.parametrize("rope", ROPES)
def test_rotary_frequencies_are_those_of_transformers(rope):
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    config = transformers_config("Qwen3Config", rope, head_dim=32)
    theirs = Qwen3RotaryEmbedding(config)
    frequencies, scale = inverse_frequencies(ModelConfig.from_hf(config.to_dict()))
    np.testing.assert_allclose(frequencies, theirs.inv_freq.numpy(), rtol=1e-6)
    assert scale == pytest.approx(theirs.attention_scaling, rel=1e-6)

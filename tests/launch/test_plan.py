"""`launch/plan.py`: its sums, its verdict and its advice, on a small model."""

import dataclasses
import json
import re

import pytest

from jaxrl_scope.plan.report import GB, advice, make_plan, verdicts
from jaxrl_scope.presets import PRESETS
from launch.plan import main, model_config, with_devices
from models import ModelConfig
from models.published import PUBLISHED

SMALL = ModelConfig(
    vocab_size=512, num_layers=2, embed_dim=64, mlp_dim=128, num_q_heads=4, num_kv_heads=2,
    head_dim=16, param_dtype="float32", dtype="bfloat16",
)  # fmt: skip


def make_config(**rollout):
    config = with_devices(PRESETS["qwen3-8b-dapo"]("asr"), 8)
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, max_prompt_len=64),
        rollout=dataclasses.replace(config.rollout, max_response_len=192, **rollout),
        update=dataclasses.replace(config.update, token_budget=1024, length_multiple=64),
    )


@pytest.fixture(scope="module")
def plan():
    return make_plan(make_config(), SMALL)


@pytest.mark.slow
def test_state_is_split_over_the_devices(plan):
    # Norms are whole everywhere; all else is an eighth, and the sampler's are split over tensor.
    whole = 4 * SMALL.num_params
    assert whole / 8 < plan.params < whole / 8 + 4 * 5000
    assert plan.optimizer == pytest.approx(2 * plan.params, abs=64)
    tensor = make_config().mesh.tensor
    assert plan.sampler == pytest.approx(2 * SMALL.num_params / tensor, rel=1e-2)  # bfloat16
    program = plan.programs["gradient"]
    assert program.arguments > plan.params + plan.gradient
    assert program.aliased == pytest.approx(plan.gradient, rel=0.01)  # accumulated in place


@pytest.mark.slow
def test_arithmetic_is_that_of_the_model(plan):
    tokens = plan.rows * 256 / 8
    matrices = SMALL.num_params - SMALL.vocab_size * SMALL.embed_dim  # the embedding is looked up
    least = 3 * 2 * matrices * tokens  # forward, and twice that backward
    assert least < plan.programs["gradient"].cost.flops < 2.5 * least
    assert plan.collective_bytes()["all-gather"] > 0


@pytest.mark.slow
def test_decoding_gathers_neither_weights_nor_cache(plan):
    # Split over `tensor`, a token costs sums of activations; nothing large changes its place.
    layer = 2 * (SMALL.num_params - SMALL.vocab_size * SMALL.embed_dim) / SMALL.num_layers
    traffic = plan.programs["decode"].cost.collective_bytes
    moved = sum(size for kind, size in traffic.items() if kind != "all-reduce")
    assert traffic["all-reduce"] > 0
    assert moved < layer / 2  # what one device would miss of a single layer, bfloat16
    assert moved < plan.cache / 100


@pytest.mark.slow
def test_advice_names_the_setting_that_helps(plan):
    config = make_config()
    crowded = dataclasses.replace(plan, cache=200 * GB)
    assert "rollout.cache_gib" in advice(crowded, config)
    assert "does NOT fit 141 GB" in verdicts(crowded, config)[1]
    one_each = dataclasses.replace(crowded, decode_rows=config.mesh.fsdp * config.rollout.group)
    assert "rollout.max_response_len" in advice(one_each, config)
    assert "mesh.tensor" in advice(dataclasses.replace(plan, sampler=200 * GB), config)
    assert "mesh.fsdp" in advice(dataclasses.replace(plan, optimizer=200 * GB), config)
    large = dataclasses.replace(plan.programs["gradient"], temporaries=200 * GB)
    big = dataclasses.replace(plan, programs=plan.programs | {"gradient": large})
    assert "update.token_budget" in advice(big, config)
    assert "update.chunk_tokens" in advice(dataclasses.replace(big, logits=100 * GB), config)
    single = dataclasses.replace(big, rows=config.mesh.fsdp)
    assert "mesh.fsdp" in advice(single, config)
    dots = dataclasses.replace(config, model=dataclasses.replace(config.model, remat="dots"))
    assert "model.remat full" in advice(single, dots)


@pytest.mark.slow
def test_the_command_reads_a_directory(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(SMALL.to_hf()))
    arguments = [
        *("--preset", "qwen3-0.6b-dapo", "--devices", "2", "--mesh.tensor", "1"),
        *("--model.path", str(tmp_path)),
        *("--data.max-prompt-len", "32", "--rollout.max-response-len", "32"),
        *("--update.token-budget", "128", "--update.length-multiple", "32"),
    ]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "fsdp 2" in shown
    assert re.search(r"fits 80 GB: \d+\.\d GB to spare", shown)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--preset", "world"), "published"),
        (("--preset", "qwen3-8b-dapo", "--mesh.tensor", "3", "--devices", "8"), "multiple of"),
        (("--preset", "nothing"), "unknown preset"),
    ],
)
def test_bad_input(arguments, says, capsys):
    assert main(list(arguments)) == 2
    assert says in capsys.readouterr().err


def test_presets_train_float32_weights_in_bfloat16():
    config = PRESETS["qwen3-8b-dapo"]("asr")
    model = model_config(config)
    assert (model.dtype, model.param_dtype, model.remat) == ("bfloat16", "float32", "full")
    assert model.num_params == PUBLISHED["Qwen3-8B"].num_params

"""The same weights give the same logits, log-probabilities and gradients as transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models import (
    forward_hidden,
    load_hf,
    logits,
    response_logprobs,
    save_hf,
)
from models.hf import to_hf_tensors

pytestmark = pytest.mark.parity
TOLERANCE = 1e-4
SIZES = {
    "vocab_size": 67,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rope_theta": 10_000.0,
}


def make_reference(family: str, tied: bool):
    """A random tiny model of transformers, with every weight away from its trivial value."""
    import torch
    import transformers

    config_class, model_class = {
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    }[family]
    head = {} if family == "qwen2" else {"head_dim": 12}
    config = config_class(
        **SIZES, **head, tie_word_embeddings=tied, eos_token_id=1, pad_token_id=0, bos_token_id=2
    )
    torch.manual_seed(0)
    model = model_class(config).eval().to(torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.15 + (1.0 if weight.ndim == 1 else 0.0))
    return model


@pytest.fixture(params=["qwen3", "qwen2", "llama"])
def family(request) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def pair(request, family, tmp_path):
    """(reference, config, ours) with equal weights."""
    reference = make_reference(family, request.param)
    reference.save_pretrained(tmp_path / "hf")
    config, model = load_hf(tmp_path / "hf")
    return reference, config, model


def reference_logits(reference, ids, mask):
    import torch

    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    with torch.no_grad():
        return (
            reference(
                input_ids=torch.tensor(ids),
                attention_mask=torch.tensor(mask),
                position_ids=torch.tensor(positions),
            )
            .logits.float()
            .numpy()
        )


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_with_padding(pair, side):
    reference, _, model = pair
    rng = np.random.default_rng(0)
    width, lengths = 13, np.array([13, 7, 1, 10])
    ids = rng.integers(3, 67, (4, width))
    real = np.arange(width) < lengths[:, None]
    mask = (real[:, ::-1] if side == "left" else real).astype(np.int64)
    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    hidden = forward_hidden(
        model, jnp.asarray(ids), jnp.asarray(positions), jnp.asarray(mask.astype(bool))
    )
    ours = np.asarray(logits(model, hidden))
    theirs = reference_logits(reference, ids, mask)
    at = mask.astype(bool)
    assert np.abs(theirs[at]).max() > 0.5
    assert np.abs(ours[at] - theirs[at]).max() <= TOLERANCE


def rows_of(rng, rows=3, prompt=6, width=9):
    """Prompts padded on the left, responses on the right, lengths even and odd."""
    prompt_len = rng.integers(1, prompt + 1, rows).astype(np.int32)
    response_len = rng.integers(1, width + 1, rows).astype(np.int32)
    return (
        rng.integers(3, 67, (rows, prompt)).astype(np.int32),
        prompt_len,
        rng.integers(3, 67, (rows, width)).astype(np.int32),
        response_len,
    )


def reference_logprobs(reference, prompt_ids, prompt_len, response_ids, response_len):
    """Row by row, without any padding; a torch tensor per row that carries its gradient."""
    import torch

    out = []
    for prompt, p, response, t in zip(
        prompt_ids, prompt_len, response_ids, response_len, strict=True
    ):
        ids = torch.tensor(np.concatenate([prompt[len(prompt) - p :], response[:t]]))[None].long()
        scores = torch.log_softmax(reference(input_ids=ids).logits.float()[0], dim=-1)
        out.append(scores[p - 1 : p + t - 1].gather(1, ids[0, p:, None])[:, 0])
    return out


def test_response_logprobs_and_gradients(pair):
    import torch

    reference, _, model = pair
    rows = rows_of(np.random.default_rng(1))
    theirs = reference_logprobs(reference, *rows)
    ours, _ = response_logprobs(model, *map(jnp.asarray, rows))
    for row, expected in zip(np.asarray(ours), theirs, strict=True):
        t = len(expected)
        np.testing.assert_allclose(row[:t], expected.detach().numpy(), atol=TOLERANCE)
        assert not row[t:].any()

    torch.cat(theirs).mean().backward()
    total = rows[3].sum()  # response tokens
    gradient = jax.grad(lambda m: response_logprobs(m, *map(jnp.asarray, rows))[0].sum() / total)(
        model
    )
    expected = {name: weight.grad.numpy() for name, weight in reference.named_parameters()}
    found = dict(to_hf_tensors(gradient))
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert np.abs(expected[name]).max() > 10 * TOLERANCE, name
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE, err_msg=name)


def test_export_loads_in_transformers(pair, tmp_path):
    import transformers

    reference, config, model = pair
    save_hf(tmp_path / "export", config, model)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "export").eval()
    ids, mask = np.arange(3, 19)[None], np.ones((1, 16), np.int64)
    np.testing.assert_array_equal(
        reference_logits(loaded, ids, mask), reference_logits(reference, ids, mask)
    )

"""`launch/export.py`: what it writes is the checkpoint, and other programs load it."""

import json
import sys

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from jaxrl_scope.config import SourceConfig, TrainConfig, to_dict
from jaxrl_scope.data.world_tokenizer import make_tokenizer
from jaxrl_scope.train.checkpoint import CheckpointConfig, Checkpoints, Progress
from jaxrl_scope.train.optimizer import make_optimizer
from jaxrl_scope.train.update import init_state
from launch.export import main
from models import ModelConfig, init_params, load_hf, save_hf

PROMPTS = [[5, 6, 7, 8, 9], [10, 11, 12]]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model directory and a run from it, whose checkpoint 1 is best and 2 latest."""
    home = tmp_path_factory.mktemp("export")
    tokenizer = make_tokenizer(61)
    config = ModelConfig(
        vocab_size=len(tokenizer), num_layers=2, embed_dim=64, mlp_dim=96, num_q_heads=4,
        num_kv_heads=2, head_dim=32, tie_embeddings=True, max_position=256,
        eos_token_ids=(tokenizer.eos_token_id,), pad_token_id=tokenizer.pad_token_id, remat="none",
    )  # fmt: skip
    model = init_params(config, jax.random.key(0), std=0.2)
    save_hf(home / "model", config, model)
    tokenizer.save_pretrained(home / "model")
    run = TrainConfig(stage="qpr", model=SourceConfig(path=str(home / "model")))
    optimizer = make_optimizer(run.optimizer, 10)
    checkpoints = Checkpoints(home / "run" / "checkpoints", CheckpointConfig(keep=3))
    for update, accuracy in ((1, 0.5), (2, 0.25)):
        params = jax.tree.map(lambda x, update=update: x * (1 + update / 16), model)
        progress = Progress(update=update, best_update=1, best_accuracy=0.5)
        checkpoints.save(init_state(params, optimizer), progress, accuracy)
    checkpoints.close()
    (home / "run" / "config.json").write_text(json.dumps(to_dict(run)))
    return home


def tensors(path):
    return load_file(path / "model.safetensors")


@pytest.mark.parametrize(
    ("source", "more", "factor"),
    [
        ("model", (), 1.0),
        ("run", (), 17 / 16),
        ("run", ("--checkpoint", "latest"), 18 / 16),
        ("run/checkpoints/2", (), 18 / 16),
    ],
)
def test_weights_are_those_of_the_checkpoint_bit_for_bit(home, tmp_path, source, more, factor):
    assert main([str(home / source), str(tmp_path / "deep" / "out"), *more]) == 0
    expected, written = tensors(home / "model"), tensors(tmp_path / "deep" / "out")
    assert written.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(written[name], value * np.float32(factor), strict=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        assert (tmp_path / "deep" / "out" / name).is_file()
    assert load_hf(tmp_path / "deep" / "out")[0] == load_hf(home / "model")[0]


def test_another_dtype_rounds_and_is_recorded(home, tmp_path):
    assert main([str(home / "run"), str(tmp_path / "out"), "--dtype", "bfloat16"]) == 0
    source, written = tensors(home / "model"), tensors(tmp_path / "out")
    for name, value in source.items():
        rounded = (value * np.float32(17 / 16)).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(written[name], rounded, strict=True)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "model"), "exists"),
        (("nowhere", "out"), "no model directory"),
        (("run", "out", "--checkpoint", "7"), "known: best, latest, 1, 2"),
        (("run/checkpoints/2", "out", "--checkpoint", "1"), "names its checkpoint already"),
    ],
)
def test_bad_input_leaves_nothing_behind(home, capsys, arguments, says):
    before = sorted(home.iterdir())
    source, out, *more = arguments
    assert main([str(home / source), str(home / out), *more]) == 2
    assert says in capsys.readouterr().err
    assert sorted(home.iterdir()) == before


@pytest.mark.parity
def test_transformers_loads_it_with_its_tokenizer(home, tmp_path):
    import torch
    import transformers

    from models import forward_hidden, logits

    assert main([str(home / "run"), str(tmp_path / "out")]) == 0
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    ids = np.array([PROMPTS[0]])
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    _, model = load_hf(tmp_path / "out")
    np.testing.assert_allclose(logits(model, forward_hidden(model, ids)), expected, atol=1e-4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.get_vocab() == make_tokenizer(61).get_vocab()


@pytest.mark.vllm
def test_vllm_continues_as_we_do(home, tmp_path):
    from jaxrl_scope.rollout.jax_sampler import JaxSampler
    from jaxrl_scope.rollout.types import Request, SamplingParams
    from jaxrl_scope.rollout.vllm.client import Client
    from jaxrl_scope.rollout.vllm.server import Launch, ServerProcess, free_port

    assert main([str(home / "run"), str(tmp_path / "out")]) == 0
    config, model = load_hf(tmp_path / "out")
    ours = JaxSampler(config, model).generate(
        [Request(np.array(ids), i) for i, ids in enumerate(PROMPTS)],
        SamplingParams(num_rollouts=1, max_response_len=12, temperature=0.0),
    )
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(tmp_path / "out"), "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "64", "--enforce-eager", "--enable-scale-out"]
    server = ServerProcess(Launch(command, {"VLLM_CPU_KVCACHE_SPACE": "1"}), tmp_path / "log")
    try:
        client = Client(f"http://127.0.0.1:{port}", timeout_s=60)
        server.wait_healthy(client, timeout_s=300)
        for i, ids in enumerate(PROMPTS):
            [choice] = client.generate(ids, {"temperature": 0, "max_tokens": 12})
            length = int(ours.response_len[i, 0])
            assert choice["token_ids"] == ours.response_ids[i, 0, :length].tolist()
    finally:
        server.stop()

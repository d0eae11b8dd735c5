import numpy as np
import pytest
import tokenizers
import transformers

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.prompts import PromptBuilder, original_messages, scaffold_messages

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
THINKING_TEMPLATE = (
    TEMPLATE
    + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)
PROBLEM = Problem("p", "How many?", "4")
SCAFFOLD = Scaffold("p", ("First?", "Second?"), ("88", "99"), "How many?", "77")


def byte_tokenizer(template=TEMPLATE):
    """One token per byte, and no merges: text and ids correspond one to one."""
    vocabulary = {
        c: i for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    }
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=model)
    fast.chat_template = template
    return fast


def text_of(ids, tokenizer):
    return tokenizer.decode(ids)


def test_original_prompt_ends_where_the_response_starts():
    tokenizer = byte_tokenizer()
    ids = PromptBuilder(tokenizer, instruction="Think.", system="Be kind.").original(PROBLEM)
    assert ids.dtype == np.int32
    assert ids.ndim == 1
    text = text_of(ids, tokenizer)
    assert text == "<system>Be kind.<end><user>How many?\n\nThink.<end><assistant>"


def test_an_empty_instruction_gives_the_bare_problem():
    tokenizer = byte_tokenizer()
    builder = PromptBuilder(tokenizer, instruction="", scaffold_instruction="")
    assert text_of(builder.original(PROBLEM), tokenizer) == "<user>How many?<end><assistant>"
    assert "Sub-question 1: First?" in text_of(builder.scaffold(SCAFFOLD), tokenizer)


def test_choices_are_lettered_and_asked_for_by_letter():
    problem = Problem("p", "Which?", "B", task="mcq", choices=("one", "two"))
    content = original_messages(problem)[-1]["content"]
    assert "Which?\n\n(A) one\n(B) two\n\n" in content
    assert "letter" in content


def test_scaffold_prompt_orders_questions_and_names_every_label_but_no_answer():
    content = scaffold_messages(SCAFFOLD)[0]["content"]
    places = [content.index(text) for text in ("First?", "Second?", "How many?")]
    assert places == sorted(places)
    for label in ("[SUB-1 ANSWER] \\boxed{", "[SUB-2 ANSWER] \\boxed{", "[MAIN ANSWER] \\boxed{"):
        assert label in content
    assert "[SUB-3 ANSWER]" not in content
    for answer in ("88", "99", "77"):
        assert answer not in content


def test_messages_of_a_file_are_sent_as_they_are():
    messages = ({"role": "user", "content": "[SUB] 55 - 3 [MAIN] 55 - 3 * 2 ?"},)
    tokenizer = byte_tokenizer()
    builder = PromptBuilder(tokenizer, system="unused")
    expected = f"<user>{messages[0]['content']}<end><assistant>"
    problem = Problem("p", "x", "1", messages=messages)
    scaffold = Scaffold("p", ("55 - 3",), ("52",), "x", "1", messages=messages)
    assert text_of(builder.original(problem), tokenizer) == expected
    assert text_of(builder.scaffold(scaffold), tokenizer) == expected


def test_thinking_switch_reaches_the_template():
    tokenizer = byte_tokenizer(THINKING_TEMPLATE)
    texts = {
        thinking: text_of(PromptBuilder(tokenizer, thinking=thinking).original(PROBLEM), tokenizer)
        for thinking in (None, True, False)
    }
    assert texts[False] == texts[True] + "<think></think>"
    assert texts[None] == texts[True]


def test_thinking_switch_without_effect_is_refused():
    with pytest.raises(ValueError, match="enable_thinking"):
        PromptBuilder(byte_tokenizer(), thinking=False)


def test_tokenizer_without_a_template_is_refused():
    with pytest.raises(ValueError, match="no chat template"):
        PromptBuilder(byte_tokenizer(template=None))


def test_a_template_that_renders_nothing_is_refused():
    builder = PromptBuilder(byte_tokenizer("{% if false %}x{% endif %}"))
    with pytest.raises(ValueError, match="no token"):
        builder.original(PROBLEM)


def test_ids_are_those_of_the_whole_rendered_chat():
    """A merge across the end of a message must not be lost: the chat is tokenized in one piece."""
    vocabulary = {
        c: i for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    }
    vocabulary["?<"] = len(vocabulary)
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[("?", "<")]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model)
    tokenizer.chat_template = TEMPLATE
    ids = PromptBuilder(tokenizer, instruction="").original(PROBLEM)
    assert vocabulary["?<"] in ids

"""The word-level tokenizer of the built-in world, in Hugging Face format."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerFast

from jaxrl_scope.data.world import PARITY

MAX_SUB_LABELS = 7
PAD, EOS = "<|pad|>", "<|end|>"
PAD_ID, EOS_ID = 0, 1  # the first words of the vocabulary
# One message's content is the prompt; the world has no roles and needs no turn markers.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def make_tokenizer(modulus: int, parity: bool = False) -> PreTrainedTokenizerFast:
    """Build the tokenizer: one token per value 0..modulus-1 and one per word of the language.

    With `parity` the language has the word for questions about it.
    """
    labels = [f"[SUB-{i} ANSWER]" for i in range(1, MAX_SUB_LABELS + 1)] + ["[MAIN ANSWER]"]
    words = ["+", "-", "*", "?", ":", "=", ";", "check", "so", "wait", "\\boxed{", "}"]
    words += ["[SUB]", "[MAIN]", *map(str, range(modulus))]
    words += [PARITY] if parity else []
    return word_tokenizer(labels, words)


def word_tokenizer(labels: Sequence[str], words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build a tokenizer with a token for each label, which may hold spaces, and for each word."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate([PAD, EOS, *labels, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # Labels hold a space; as added tokens they are cut out before the text is split at spaces.
    tokenizer.add_tokens([AddedToken(label, normalized=False) for label in labels])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )

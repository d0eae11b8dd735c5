"""Text of sampled tokens together with the place of every token in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# A character has at most four bytes, so at most four byte tokens: after that many the bytes are
# no character, and waiting for more would make the cost quadratic.
_MAX_PENDING = 5


def decode_with_ends(tokenizer: Any, ids: Sequence[int]) -> tuple[str, np.ndarray]:
    """Decode tokens one by one, keeping for each how much text is complete after it.

    The text is made of the tokens' own pieces, never re-tokenised, so a span of characters maps
    back to the sampled ids exactly. Special tokens (end of text) add no text.

    Args:
      tokenizer: a Hugging Face tokenizer (`decode(ids, skip_special_tokens=...)`).
      ids: T token ids, without padding.

    Returns:
      text: the concatenated pieces.
      char_ends: [T] int64, non-decreasing; the last entry is `len(text)`.
    """
    ids = [int(token) for token in ids]

    def decode(start: int, end: int) -> str:
        return tokenizer.decode(
            ids[start:end], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    pieces: list[str] = []
    char_ends = np.zeros(len(ids), np.int64)
    length = 0
    context, done = 0, 0  # ids[context:done] are re-decoded: a piece depends on what precedes it
    for index in range(len(ids)):
        before = decode(context, done)
        after = decode(context, index + 1)
        whole = not after.endswith("\ufffd") or index + 1 - done >= _MAX_PENDING
        if whole or index + 1 == len(ids):
            pieces.append(after[len(before) :])
            length += len(pieces[-1])
            context, done = done, index + 1
        char_ends[index] = length
    return "".join(pieces), char_ends

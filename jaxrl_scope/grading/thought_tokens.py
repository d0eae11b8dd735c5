"""From judged steps to the token arrays that `rewards.thoughts` reads."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrl_scope.grading.segment import step_of_token
from jaxrl_scope.grading.thought_judge import ThoughtResult


class TokenThoughts(NamedTuple):
    """Thoughts of one response, as runs of tokens.

    Attributes:
      good: [n] bool, alternating; the last is True.
      end: [n] int32, number of tokens up to and with each thought, increasing; the last is T.
    """

    good: np.ndarray
    end: np.ndarray


def token_thoughts(result: ThoughtResult, char_ends: np.ndarray) -> TokenThoughts:
    """Cut the tokens of a judged response into thoughts; every token belongs to exactly one.

    A token has the flag of the step that holds its last character. The last token bears the answer
    and is good even where it began in a bad step. A step that ends no token of
    its own disappears.

    Args:
      result: a result without failure.
      char_ends: [T] int, T >= 1, characters complete after each token, for the text that was
        judged (`decode_with_ends`).

    Raises:
      ValueError: `result` is a failure, or the judged text is not the one the tokens spell.
    """
    if not result.ok:
        raise ValueError(f"the response was not judged ({result.failure}); it has no thoughts")
    length = result.steps[-1][1]
    spelled = int(char_ends[-1]) if len(char_ends) else 0
    if spelled != length:
        raise ValueError(
            f"the judged text has {length} characters but the tokens spell {spelled}; judge the "
            "text that decode_with_ends gives for these tokens"
        )
    flags = np.array(result.good, bool)[step_of_token(result.steps, char_ends)]
    flags[-1] = True
    last = np.append(flags[1:] != flags[:-1], True)
    return TokenThoughts(flags[last], np.flatnonzero(last).astype(np.int32) + 1)


def pad_thoughts(
    rows: Sequence[TokenThoughts | None],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stack thoughts of R responses; None stands for one that was not judged.

    Returns:
      step_good: [R, N] bool, N the most thoughts rounded up to a power of two; False in pads.
      step_end: [R, N] int32, 0 in the padding.
      num_steps: [R] int32, 0 where not judged, which `thought_advantages` reads as plain GRPO.
    """
    num_steps = np.array([0 if row is None else len(row.end) for row in rows], np.int32)
    longest = max(1, int(num_steps.max(initial=1)))
    shape = (len(rows), 1 << (longest - 1).bit_length())
    good, end = np.zeros(shape, bool), np.zeros(shape, np.int32)
    for index, row in enumerate(rows):
        if row is not None:
            good[index, : len(row.end)] = row.good
            end[index, : len(row.end)] = row.end
    return good, end, num_steps

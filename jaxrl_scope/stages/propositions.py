"""Propositions 1 and 2 of TP-GRPO, asserted on the tokens of real rollouts.

The check reads nothing of the kernel that made the advantages: rewards are placed token by token
and summed from the end in float64.
"""

from collections.abc import Sequence

import numpy as np

from jaxrl_scope.grading.thought_tokens import TokenThoughts

_ROUNDING = 1e-5  # of float32 values of the size of r̂_o, a few units


class PropositionError(RuntimeError):
    """The advantages of a rollout are not what the propositions say."""


def check_propositions(
    advantages: np.ndarray,
    thoughts: Sequence[TokenThoughts | None],
    response_len: np.ndarray,
    outcome: np.ndarray,
    size: np.ndarray,
    correct: np.ndarray,
) -> None:
    """Assert both propositions, and that advantages are the suffix sums of the rewards.

    Good thoughts have A = r̂_o; bad ones A = r̂_o - r_c in a right solution (Proposition 1) and
    A = 0 in a wrong one (Proposition 2), or r̂_o where process rewards are off (`size` 0). A
    rollout that was not judged has A = r̂_o throughout.

    Args:
      advantages: [R, T] float32, as trained on.
      thoughts: R entries, None where not judged.
      response_len: [R] int tokens.
      outcome: [R] float32, r̂_o.
      size: [R] float32, r_c or r_inc.
      correct: [R] bool.

    Raises:
      PropositionError: one does not hold; the message names rollout and token.
    """
    for row, thought in enumerate(thoughts):
        length, base, step = int(response_len[row]), float(outcome[row]), float(size[row])
        if length == 0:
            continue
        bad = np.zeros(length, bool)
        rewards = np.zeros(length)
        rewards[-1] = base
        if thought is not None:
            bad = np.repeat(~thought.good, np.diff(thought.end, prepend=0))
            if len(bad) != length:
                raise PropositionError(
                    f"rollout {row}: its thoughts cover {len(bad)} of its {length} tokens"
                )
            rewards[thought.end[:-1] - 1] = np.where(thought.good[:-1], step, -step)
        of_bad = base if step == 0 else base - step if correct[row] else 0.0
        expected = np.where(bad, of_bad, base)
        name = f"Proposition {1 if correct[row] else 2}"
        _compare(row, advantages[row, :length], expected, name, bad)
        _compare(row, advantages[row, :length], rewards[::-1].cumsum()[::-1], "the sum", bad)


def _compare(
    row: int, actual: np.ndarray, expected: np.ndarray, name: str, bad: np.ndarray
) -> None:
    wrong = np.flatnonzero(~(np.abs(actual - expected) <= _ROUNDING))
    if wrong.size:
        token = int(wrong[0])
        kind = "bad" if bad[token] else "good"
        raise PropositionError(
            f"rollout {row}, token {token} ({kind} thought): the advantage is {actual[token]}, "
            f"but {name} says {expected[token]}"
        )

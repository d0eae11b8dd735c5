"""Rewards for TRL: pass the functions to `GRPOTrainer(reward_funcs=[...])`.

The data set needs a column `ground_truth`, an answer or {"sub1": ..., ..., "main": ...}.
"""

import os
from collections.abc import Sequence
from typing import Any

# The trainer runs on torch: JAX must not reserve the accelerator's memory beside it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxrl_scope.integrations.scoring import last_message, score


def asr_reward_func(
    prompts: Sequence[Any], completions: Sequence[Any], ground_truth: Sequence[Any], **columns: Any
) -> list[float | None]:
    """Stage-1 reward of SCOPE-RL: R_ASR for scaffolded prompts, the outcome reward for others.

    Args:
      prompts: [K] prompts; not used.
      completions: [K] texts, or lists of chat messages of which the last is read.
      ground_truth: [K] values of the column.
      **columns: the other columns and what the trainer adds; not used.

    Returns:
      [K] rewards in [0, 1]; None, which TRL takes as "does not apply", where a limit of the
      verifier was exceeded.

    Raises:
      ValueError: a ground truth of neither form, a completion without text.
    """
    graded = score([last_message(c) for c in completions], ground_truth, kind="asr")
    return [s.reward for s in graded]


def outcome_reward_func(
    prompts: Sequence[Any], completions: Sequence[Any], ground_truth: Sequence[Any], **columns: Any
) -> list[float | None]:
    """Outcome reward of the final (main) answer; arguments and result as for `asr_reward_func`."""
    graded = score([last_message(c) for c in completions], ground_truth, kind="outcome")
    return [s.reward for s in graded]

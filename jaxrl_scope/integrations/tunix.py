"""Rewards for Tunix: pass the functions to a learner's `reward_fns`.

The data set needs a field `ground_truth`, an answer or {"sub1": ..., ..., "main": ...}.
"""

import math
from collections.abc import Sequence
from typing import Any

from jaxrl_scope.integrations.scoring import RewardKind, last_message, score


def asr_reward_fn(prompts: Sequence[str], completions: Sequence[str], **kwargs: Any) -> list[float]:
    """Stage-1 reward of SCOPE-RL: R_ASR for scaffolded prompts, the outcome reward for others.

    Args:
      prompts: [K] prompts; not used.
      completions: [K] texts.
      **kwargs: `ground_truth`, [K] values of the field; others are not used.

    Returns:
      [K] rewards in [0, 1]; NaN where a limit of the verifier was exceeded. Tunix cannot leave a
      rollout out: it adds up the reward functions with NaN as 0, and its metrics show the NaN.

    Raises:
      ValueError: no field `ground_truth`, a ground truth of neither form.
    """
    return _rewards(completions, kwargs, "asr")


def outcome_reward_fn(
    prompts: Sequence[str], completions: Sequence[str], **kwargs: Any
) -> list[float]:
    """Outcome reward of the final (main) answer; arguments and result as for `asr_reward_fn`."""
    return _rewards(completions, kwargs, "outcome")


def _rewards(completions: Sequence[str], fields: dict[str, Any], kind: RewardKind) -> list[float]:
    if "ground_truth" not in fields:
        known = ", ".join(sorted(fields)) or "none"
        raise ValueError(f"the data set needs a field 'ground_truth'; it has {known}")
    graded = score([last_message(c) for c in completions], fields["ground_truth"], kind=kind)
    return [math.nan if s.reward is None else s.reward for s in graded]

"""Rewards for verl: point `custom_reward_function.path` here, `.name` at one of the functions."""

import os
from typing import Any

# The trainer runs on torch: JAX must not reserve the accelerator's memory beside it.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxrl_scope.integrations.scoring import RewardKind, score


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    **reward_kwargs: Any,
) -> dict[str, float]:
    """Stage-1 reward of SCOPE-RL: R_ASR for scaffolded prompts, the outcome reward for others.

    Args:
      data_source: corpus of the row; not used.
      solution_str: the response.
      ground_truth: `reward_model.ground_truth` of the row, an answer or
        {"sub1": ..., ..., "main": ...}.
      extra_info: not used.
      **reward_kwargs: `beta` is the weight of the prefix term (0.5); others belong to other
        reward functions and are not used.

    Returns:
      "score", the reward that verl trains on; "acc", 1 if the main answer is right;
      "prefix_share", leading right sub-answers over their number; "verifier_failed", 1 where a
      limit of the verifier was exceeded. verl cannot leave a rollout out, so such a one scores 0:
      watch the figure.

    Raises:
      ValueError: a ground truth of neither form, `beta` outside [0, 1].
    """
    return _score(solution_str, ground_truth, "asr", reward_kwargs.get("beta", 0.5))


def compute_outcome_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    **reward_kwargs: Any,
) -> dict[str, float]:
    """Outcome reward of the final (main) answer; arguments and result as for `compute_score`."""
    return _score(solution_str, ground_truth, "outcome", 0.5)


def _score(response: str, ground_truth: Any, kind: RewardKind, beta: float) -> dict[str, float]:
    (graded,) = score([response], [ground_truth], kind=kind, beta=beta)
    return {
        "score": 0.0 if graded.reward is None else graded.reward,
        "acc": float(graded.correct),
        "prefix_share": graded.prefix_share,
        "verifier_failed": float(graded.reward is None),
    }

"""Reward kernels of SCOPE-RL, TP-GRPO and GRAFT: pure functions from padded arrays to arrays.

Every kernel runs under `jit`, `vmap`, `pmap` and `shard_map`, takes NumPy or JAX arrays, computes
in float32, and gives the same value whatever stands in the padding. Bad input is a `ValueError`.
"""

from rewards.groups import (
    GroupMoments,
    effective_gradient_ratio,
    group_advantages,
    group_moments,
    outcome_gate,
)
from rewards.scaffold import (
    asr_reward,
    final_only_reward,
    independent_reward,
    mixed_reward,
    prefix_length,
    prefix_products,
    route_mask,
)

__all__ = [
    "GroupMoments",
    "asr_reward",
    "effective_gradient_ratio",
    "final_only_reward",
    "group_advantages",
    "group_moments",
    "independent_reward",
    "mixed_reward",
    "outcome_gate",
    "prefix_length",
    "prefix_products",
    "route_mask",
]

"""Policy losses: GRPO and GSPO as pure functions of log-probabilities and per-token advantages.

A loss is returned as (sum, count) and divided once, after the sums and counts of all microbatches
and devices are added: the result does not depend on how the batch was cut. Everything is float32.
"""

import dataclasses
from typing import Literal

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

LOG_RATIO_LIMIT = 20.0
DEFAULT_CLIP = {"grpo": (0.2, 0.2), "gspo": (3e-4, 4e-4)}

WeightedSum = tuple[Float[Array, ""], Float[Array, ""]]


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """Settings of the policy loss (spec section 7).

    Attributes:
      kind: "grpo" clips the ratio of each token, "gspo" that of the whole response.
      clip_low: lower clip width; None takes the method's own (0.2 for GRPO, 3e-4 for GSPO).
      clip_high: upper clip width; None takes the method's own (0.2 for GRPO, 4e-4 for GSPO).
      aggregation: "token-mean" over the whole batch; "seq-mean-token-mean": mean over responses of
        their token means; "constant": sum over tokens divided by responses x `divisor`. None takes
        the method's own (token-mean for GRPO, seq-mean-token-mean for GSPO).
      divisor: tokens per response that "constant" divides by.
      kl_coef: weight of the k3 estimate of KL(policy || reference); 0 keeps no reference model.
      entropy_coef: weight of the entropy bonus.
      tis_cap: cap of the importance weight exp(old - rollout) that corrects for a sampler whose
        log-probabilities differ from the trainer's; 0 turns it off, None takes 2 for rollouts by
        vLLM (`TrainConfig.policy_loss`) and 0 otherwise.
    """

    kind: Literal["grpo", "gspo"] = "grpo"
    clip_low: float | None = None
    clip_high: float | None = None
    aggregation: Literal["token-mean", "seq-mean-token-mean", "constant"] | None = None
    divisor: float = 1024.0
    kl_coef: float = 0.0
    entropy_coef: float = 0.0
    tis_cap: float | None = None

    def __post_init__(self):
        for name in ("clip_low", "clip_high"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"loss.{name} is a width above 0, got {value}")
        for name in ("kl_coef", "entropy_coef", "tis_cap"):
            if (getattr(self, name) or 0.0) < 0:
                raise ValueError(f"loss.{name} must not be negative, got {getattr(self, name)}")
        if self.divisor <= 0:
            raise ValueError(f"loss.divisor must be above 0 tokens, got {self.divisor}")

    @property
    def clip(self) -> tuple[float, float]:
        """Clip widths (low, high)."""
        low, high = DEFAULT_CLIP[self.kind]
        return (
            low if self.clip_low is None else self.clip_low,
            high if self.clip_high is None else self.clip_high,
        )

    @property
    def mode(self) -> str:
        """The aggregation in force."""
        default = "token-mean" if self.kind == "grpo" else "seq-mean-token-mean"
        return self.aggregation or default


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LossInputs:
    """What a loss reads. Entries where `mask` is False may hold anything.

    Attributes:
      policy_logprobs: [R, T] float32, of the sampled tokens under the current weights; the only
        input besides `entropy` that the gradient flows through.
      old_logprobs: [R, T] float32, under the trainer's weights at the start of the update, or of
        the phase in the off-policy pipeline.
      rollout_logprobs: [R, T] float32, as the sampler reported them.
      advantages: [R, T] float32.
      entropy: [R, T] float32, nats, of the policy at each position.
      mask: [R, T] bool, tokens that count.
      ref_logprobs: [R, T] float32 under the frozen reference; None when `kl_coef` is 0.
    """

    policy_logprobs: Float[Array, "R T"]
    old_logprobs: Float[Array, "R T"]
    rollout_logprobs: Float[Array, "R T"]
    advantages: Float[Array, "R T"]
    entropy: Float[Array, "R T"]
    mask: Bool[Array, "R T"]
    ref_logprobs: Float[Array, "R T"] | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LossOutputs:
    """Sums and counts; add them over microbatches and devices, then divide.

    Attributes:
      loss: (sum, count) of the objective to be minimised.
      metrics: (sum, count) of each metric by name.
    """

    loss: WeightedSum
    metrics: dict[str, WeightedSum]


def policy_loss(inputs: LossInputs, config: LossConfig) -> LossOutputs:
    """Compute the clipped policy loss, its optional KL and entropy terms, and its metrics.

        GRPO   ratio_t = exp(policy_t - old_t)
        GSPO   s_t = sg[s] * exp(policy_t - sg[policy_t]),  s = exp(mean_t(policy_t - old_t))
        loss_t = -min(ratio_t * A_t, clip(ratio_t, 1 - low, 1 + high) * A_t)

    GSPO is always computed in its token form: for an advantage that is constant over a response it
    equals the sequence form in value and in gradient, and it is defined for per-token advantages.

    Source: spec section 7 (GRPO: Shao et al. 2024, Eq. 3; GSPO: Zheng et al. 2025, Eqs. 5-7 and
    14). Deviation: log-ratios are held within +-20, which only changes values that exp would
    overflow on.

    Raises:
      ValueError: `kl_coef` is set but `ref_logprobs` is None.
    """
    chex.assert_equal_shape(
        [inputs.policy_logprobs, inputs.old_logprobs, inputs.advantages, inputs.mask]
    )
    mask = inputs.mask
    policy, old, advantages = (
        jnp.where(mask, x.astype(jnp.float32), 0.0)
        for x in (inputs.policy_logprobs, inputs.old_logprobs, inputs.advantages)
    )
    log_ratio = jnp.clip(policy - old, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if config.kind == "gspo":
        mean = _masked_mean(jax.lax.stop_gradient(log_ratio), mask, axis=-1)[:, None]
        ratio = jnp.exp(mean) * jnp.exp(policy - jax.lax.stop_gradient(policy))
    else:
        ratio = jnp.exp(log_ratio)
    low, high = config.clip
    clipped = jnp.clip(ratio, 1.0 - low, 1.0 + high)
    objective = jnp.minimum(ratio * advantages, clipped * advantages)
    is_clipped = clipped * advantages < ratio * advantages
    weight, is_finite = _sampler_weight(old, inputs.rollout_logprobs, mask, config.tis_cap or 0.0)
    token_loss = -weight * objective

    metrics = _ratio_metrics(mask, log_ratio, ratio, is_clipped, inputs.entropy)
    metrics |= _sampler_metrics(old, inputs.rollout_logprobs, mask & is_finite)
    if config.kl_coef > 0:
        if inputs.ref_logprobs is None:
            raise ValueError("loss.kl_coef > 0 needs ref_logprobs; none were given")
        kl = _k3(policy, jnp.where(mask, inputs.ref_logprobs, 0.0))
        token_loss = token_loss + config.kl_coef * kl
        metrics["policy/ref_kl"] = _sum_count(kl, mask)
    if config.entropy_coef > 0:
        token_loss = token_loss - config.entropy_coef * jnp.where(mask, inputs.entropy, 0.0)
    return LossOutputs(aggregate(token_loss, mask, config.mode, config.divisor), metrics)


def aggregate(
    token_loss: Float[Array, "R T"], mask: Bool[Array, "R T"], mode: str, divisor: float
) -> WeightedSum:
    """Reduce per-token losses to (sum, count); a response without tokens counts nowhere.

    Args:
      token_loss: [R, T] float32.
      mask: [R, T] bool, tokens that count.
      mode: as `LossConfig.aggregation`.
      divisor: tokens per response in mode "constant".

    Returns:
      Two [] float32: sum and count; the loss is their quotient (0 where the count is 0).
    """
    token_loss = jnp.where(mask, token_loss, 0.0)
    num_responses = jnp.sum(jnp.any(mask, axis=-1)).astype(jnp.float32)
    if mode == "token-mean":
        return jnp.sum(token_loss), jnp.sum(mask).astype(jnp.float32)
    if mode == "seq-mean-token-mean":
        return jnp.sum(_masked_mean(token_loss, mask, axis=-1)), num_responses
    return jnp.sum(token_loss), num_responses * divisor


def divide(weighted: WeightedSum) -> Float[Array, ""]:
    """Return sum / count, and 0 for an empty count."""
    total, count = weighted
    return jnp.where(count > 0, total / jnp.where(count > 0, count, 1.0), 0.0)


def _masked_mean(x, mask, axis):
    count = jnp.sum(mask, axis=axis)
    return jnp.sum(jnp.where(mask, x, 0.0), axis=axis) / jnp.maximum(count, 1)


def _sum_count(x, mask) -> WeightedSum:
    return jnp.sum(jnp.where(mask, x, 0.0)), jnp.sum(mask).astype(jnp.float32)


def _k3(policy, ref):
    """Estimate KL(policy || reference) per token: exp(d) - d - 1 with d = ref - policy."""
    difference = jnp.clip(ref - policy, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return jnp.exp(difference) - difference - 1.0


def _sampler_weight(old, rollout, mask, cap):
    """Return the truncated importance weight min(exp(old - rollout), cap) and where it is defined.

    A log-probability that the sampler reported as NaN or infinite gives the neutral weight 1.
    """
    is_finite = jnp.isfinite(rollout)
    gap = jnp.where(mask & is_finite, old - jnp.where(is_finite, rollout, 0.0), 0.0)
    gap = jnp.clip(gap, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    weight = jnp.minimum(jnp.exp(gap), cap) if cap > 0 else jnp.ones_like(old)
    return jax.lax.stop_gradient(weight), is_finite


def _ratio_metrics(mask, log_ratio, ratio, is_clipped, entropy):
    return {
        "policy/clip_frac": _sum_count(is_clipped.astype(jnp.float32), mask),
        "policy/entropy": _sum_count(entropy, mask),
        "policy/ratio_mean": _sum_count(ratio, mask),
        "policy/ratio_spread": _sum_count(jnp.square(ratio - 1.0), mask),
        "policy/old_kl": _sum_count(-log_ratio, mask),
    }


def _sampler_metrics(old, rollout, mask):
    gap = jnp.abs(old - jnp.where(mask, rollout, 0.0))
    return {"sampler/logprob_gap_mean": _sum_count(gap, mask)}

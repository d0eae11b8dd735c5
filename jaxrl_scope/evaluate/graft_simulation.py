"""Simulated policies with known b, c and ε, on which every estimate of the diagnosis is checked."""

import dataclasses
import math

import numpy as np

from rewards import Ledger, step_ledger


@dataclasses.dataclass(frozen=True)
class SimulatedPolicy:
    """A policy that acts alike on every problem, with independent steps.

    Attributes:
      right: [S] probability that step t is right on a sound prefix, c.
      broken: probability that a step passes although its prefix does not hold.
      coupled: probability that a step that is right on the reference's prefix fails on a sound own
        one (ε = -1).
      unaligned: probability that r̃ is NA.
    """

    right: tuple[float, ...] = (0.85, 0.8, 0.75, 0.7, 0.7)
    broken: float = 0.05
    coupled: float = 0.08
    unaligned: float = 0.03

    def __post_init__(self):
        rates = (*self.right, self.broken, self.coupled, self.unaligned)
        if not self.right or not all(0.0 <= rate <= 1.0 for rate in rates):
            raise ValueError(f"rates of a simulated policy must lie in [0, 1], got {rates}")

    def pass_rate(self) -> np.ndarray:
        """[S] probability that step t passes on a prefix that holds; step 1 has no coupling."""
        coupled = np.where(np.arange(len(self.right)) > 0, self.coupled, 0.0)
        return np.asarray(self.right) * (1.0 - coupled)

    def survival(self) -> np.ndarray:
        """[S] true p̂_t: probability that all steps before t pass."""
        return np.concatenate([[1.0], np.cumprod(self.pass_rate())[:-1]])

    def grafted_rate(self) -> np.ndarray:
        """[S] true rate of r̃ among the steps where it exists."""
        return np.asarray(self.right, float)

    def residual_rate(self) -> np.ndarray:
        """[S] true rate of ε ≠ 0: coupling on a sound prefix, passing on a broken one."""
        sound = self.survival()
        coupled = np.where(np.arange(len(self.right)) > 0, self.coupled, 0.0)
        return sound * np.asarray(self.right) * coupled + (1.0 - sound) * self.broken

    def spread(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """[S] expected std of r in a group: over all `group` trajectories, and within b = 1.

        The expectation of the population std of a binomial sample; within b = 1 also over the
        random size of the group, given that it has at least two.
        """
        sound, rate = self.survival(), self.pass_rate()
        overall = sound * rate + (1.0 - sound) * self.broken
        across = np.array([_expected_std(group, p) for p in overall])
        within = []
        for p, q in zip(sound, rate, strict=True):
            sizes = np.arange(2, group + 1)
            weights = np.array([_binomial(group, int(n), p) for n in sizes])
            values = np.array([_expected_std(int(n), q) for n in sizes])
            within.append(float(weights @ values / weights.sum()))
        return across, np.array(within)


def simulate(
    policy: SimulatedPolicy, num_problems: int, group: int, seed: int = 0
) -> tuple[Ledger, np.ndarray]:
    """Draw trajectories.

    Returns:
      The ledger of [B, G, S] arrays, and the kind of each residual [B, G, S] int32: "numeric
      convention" for coupling, "local error" for a pass on a broken prefix.
    """
    rng = np.random.default_rng(seed)
    steps = len(policy.right)
    shape = (num_problems, group, steps)
    right = rng.random(shape) < np.asarray(policy.right)
    coupled = (rng.random(shape) < policy.coupled) & (np.arange(steps) > 0)
    lucky = rng.random(shape) < policy.broken
    passed = np.zeros(shape, bool)
    sound = np.ones(shape[:2], bool)
    for t in range(steps):
        passed[..., t] = np.where(sound, right[..., t] & ~coupled[..., t], lucky[..., t])
        sound &= passed[..., t]
    alignable = rng.random(shape) >= policy.unaligned
    ledger = step_ledger(passed, right, alignable, np.full(num_problems, steps, np.int32))
    bucket = np.where(np.asarray(ledger.prefix_ok), 1, 2).astype(np.int32)
    return ledger, bucket


def _binomial(n: int, k: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


def _expected_std(n: int, p: float) -> float:
    return sum(_binomial(n, k, p) * math.sqrt(k / n * (1 - k / n)) for k in range(n + 1))

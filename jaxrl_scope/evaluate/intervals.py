"""Confidence intervals of accuracies."""

import math
from collections.abc import Sequence

import numpy as np

Z95 = 1.959964  # 97.5th percentile of the normal distribution


def wilson_interval(share: float, count: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a share among `count` independent trials; (0, 1) for none."""
    if count <= 0:
        return 0.0, 1.0
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count)
    half *= math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    # Rounding must not push an end past the share itself, nor past 0 and 1.
    return max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share))


def accuracy_interval(
    correct: Sequence[bool] | np.ndarray, problem: Sequence[str]
) -> tuple[float, float]:
    """95 % interval of an accuracy over samples that share problems.

    Samples of one problem are alike, so K samples tell less than K problems would. Wilson's
    interval with the effective number of samples, K divided by the design effect (Kish): the
    variance of the mean with whole problems as the units over that with samples as the units. With
    one sample per problem it is Wilson's interval itself. Where all samples agree nothing can be
    estimated, and the effective number is the number of problems.

    Args:
      correct: [K] verdicts.
      problem: [K] problem of each sample.
    """
    values = np.asarray(correct, float)
    if not values.size:
        return 0.0, 1.0
    share = float(values.mean())
    names, index = np.unique(np.asarray(problem), return_inverse=True)
    between = np.sum(np.bincount(index, weights=values - share) ** 2)
    within = values.size * share * (1 - share)
    effective = values.size / max(1.0, between / within) if within > 0 else len(names)
    return wilson_interval(share, effective)

"""Independent noise: the modes of a Renyi tilt drawn jointly and exactly, through the partition they make.

The lambda + 1 draws of a slot fall into a partition of lambda + 1, whose chance under uniform draws is multinomial; a
slot drawn n times brings the factor e^joint[n] (balls-in-bins: joint[n] = h n (n - 1) / 2). The normaliser is the Renyi
moment E_Q[(P / Q)^(lambda + 1)] itself, so the bound M is the Renyi bound on delta: the smallest possible.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
LARGEST_ORDER = 30  # 6,842 partitions of 31


def partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``total`` as a falling sum of parts, each at most ``largest``.

    >>> list(partitions(4, 4))
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@lru_cache(maxsize=64)
def _table(order: int, bins: int) -> tuple[Array, Counts]:
    """Log chance under uniform draws, and the parts (padded with 0), of every partition."""
    kept = [parts for parts in partitions(order + 1, order + 1) if len(parts) <= bins]
    width = min(order + 1, bins)
    log_chance = [
        math.lgamma(order + 2)
        - sum(math.lgamma(n + 1) for n in parts)
        + math.lgamma(bins + 1)
        - math.lgamma(bins - len(parts) + 1)
        - sum(math.lgamma(m + 1) for m in Counter(parts).values())
        - (order + 1) * math.log(bins)
        for parts in kept
    ]
    return np.array(log_chance), np.array([parts + (0,) * (width - len(parts)) for parts in kept])


def _log_weights(order: int, bins: int, joint: Array) -> tuple[Array, Counts]:
    log_chance, counts = _table(order, bins)
    return log_chance + joint[counts].sum(axis=1), counts


def gaussian_joint(order: int, energy: float) -> Array:
    """Log of E_Q[l^n], l the likelihood ratio of a Gaussian mode of this energy, n = 0..order + 1."""
    n = np.arange(order + 2)
    return energy * n * (n - 1) / 2


def log_moment(order: int, bins: int, joint: Array) -> float:
    """Log of E_Q[(P / Q)^(order + 1)], P the mean of ``bins`` modes in coordinates of their own.

    Args:
        order: lambda.
        bins: how many modes.
        joint: log of E_Q[l^n] for the likelihood ratio l of one mode, n = 0..order + 1.

    >>> round(log_moment(1, 1, gaussian_joint(1, 0.25)), 6)  # one mode: (order + 1) order / 2 times its energy
    0.25
    """
    return float(logsumexp(_log_weights(order, bins, joint)[0]))


def draw_counts(order: int, bins: int, joint: Array, uniform: Array) -> Counts:
    """How often each of the first modes is drawn, for uniform numbers in [0, 1); shapes (n,) to (n, at most order + 1).

    Modes are exchangeable, so which ones are hit does not matter: the most frequent comes first.
    """
    log_weight, counts = _log_weights(order, bins, joint)
    ladder = np.cumsum(np.exp(log_weight - log_weight.max()))
    return np.asarray(counts[np.minimum(np.searchsorted(ladder, uniform * ladder[-1], side="right"), len(ladder) - 1)])

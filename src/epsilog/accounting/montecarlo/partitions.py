"""Independent noise: the modes of a Renyi tilt drawn jointly and exactly, through the partition they make.

With H = h I only how often each mode was drawn matters: the lambda + 1 draws fall into a partition of lambda + 1, whose
chance under uniform draws is multinomial and whose likelihood ratio is e^(h sum n (n - 1) / 2). The normaliser Z is the
Renyi moment E_Q[(P / Q)^(lambda + 1)] itself, so the bound M is the Renyi bound on delta: the smallest possible.
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
def _table(order: int, bins: int) -> tuple[Array, Array, Array]:
    """Log chance under uniform draws, number of equal pairs, and the parts (padded with 0) of every partition."""
    kept = [parts for parts in partitions(order + 1, order + 1) if len(parts) <= bins]
    width = min(order + 1, bins)
    counts = np.array([parts + (0,) * (width - len(parts)) for parts in kept], dtype=float)
    log_chance = [
        math.lgamma(order + 2)
        - sum(math.lgamma(n + 1) for n in parts)
        + math.lgamma(bins + 1)
        - math.lgamma(bins - len(parts) + 1)
        - sum(math.lgamma(m + 1) for m in Counter(parts).values())
        - (order + 1) * math.log(bins)
        for parts in kept
    ]
    return np.array(log_chance), (counts * (counts - 1) / 2).sum(axis=1), counts


def log_moment(order: int, bins: int, energy: float) -> float:
    """Log of E_Q[(P / Q)^(order + 1)] for P the mean of N(e_i, s^2 I) over ``bins`` modes, energy = 1 / s^2.

    >>> round(log_moment(1, 1, 0.25), 6)  # one mode: the Gaussian, (order + 1) order / 2 times its energy
    0.25
    """
    log_chance, pairs, _ = _table(order, bins)
    return float(logsumexp(log_chance + energy * pairs))


def draw_counts(order: int, bins: int, energy: float, uniform: Array) -> Array:
    """How often each of the first modes is drawn, for uniform numbers in [0, 1); shapes (n,) to (n, at most order + 1).

    Modes are exchangeable, so which ones are hit does not matter: the most frequent comes first.
    """
    log_chance, pairs, counts = _table(order, bins)
    weight = np.exp(log_chance + energy * pairs - log_moment(order, bins, energy))
    ladder = np.cumsum(weight)
    return np.asarray(counts[np.minimum(np.searchsorted(ladder, uniform * ladder[-1], side="right"), len(ladder) - 1)])

"""Confidence intervals for a probability that was sampled: exact at one sample size, or valid at every one.

An interval holds with probability at least 1 - ``failure`` over the draws; the sample size is fixed beforehand for
``clopper_pearson_interval`` and may depend on what was seen for ``anytime_interval``. Ends are rounded outwards.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import BOUND
from epsilog.terms import check

Array = NDArray[np.float64]
FEW = 128  # hits; below, the distribution is summed, since SciPy's incomplete beta function errs there by up to 6e-8
_FURTHER = 3 * FEW  # terms after which nothing is left
LEAST_FAILURE = 1e-250  # of a failure probability; parts of it must stay clear of underflow


def binomial_error(hits: int) -> float:
    """Return a bound on the relative error of a computed binomial probability (``docs/montecarlo/bounds.md``)."""
    return 2e-10 + 1e-14 * math.sqrt(hits)


def binomial_cdf(probability: Array, samples: int, hits: int) -> Array:
    """Return the chance of at most ``hits`` hits, at each hit probability; shape (n,) to (n,)."""
    if hits >= samples:
        return np.ones_like(probability)
    if hits < FEW:
        return _tails(probability, samples, hits)[0]
    return np.asarray(betaincc(hits + 1.0, float(samples - hits), probability))


def binomial_sf(probability: Array, samples: int, hits: int) -> Array:
    """Return the chance of more than ``hits`` hits, at each hit probability; shape (n,) to (n,)."""
    if hits >= samples:
        return np.zeros_like(probability)
    if hits < FEW:
        return _tails(probability, samples, hits)[1]
    return np.asarray(betainc(hits + 1.0, float(samples - hits), probability))


def _tails(probability: Array, samples: int, hits: int) -> tuple[Array, Array]:
    """Return both tails of the binomial distribution: one summed from its largest term, the other its complement."""
    below = np.zeros(probability.shape)
    above = np.zeros(probability.shape)
    right = probability * (samples + 1.0) >= hits + 1  # the mode is above: at most ``hits`` is the tail
    for tail, where, term in ((below, right & (probability < 1), hits), (above, ~right & (probability > 0), hits + 1)):
        p = probability[where][:, None]
        if term == hits:
            i = np.arange(hits, 0, -1.0)
            ratios = i / (samples - i + 1) * ((1 - p) / p)
        else:
            i = np.arange(term, min(samples, term + _FURTHER), dtype=float)
            ratios = (samples - i) / (i + 1) * (p / (1 - p))
        largest = _log_choices(samples, term) + xlogy(term, p[:, 0]) + xlog1py(samples - term, -p[:, 0])
        tail[where] = np.exp(largest) * (1 + np.cumprod(ratios, axis=1).sum(axis=1))
    return np.where(right, below, 1 - above), np.where(right, 1 - below, above)


@lru_cache(maxsize=1024)
def _log_choices(samples: int, chosen: int) -> float:
    return math.fsum(math.log((samples - i) / (i + 1)) for i in range(chosen))


def _counts(hits: int, samples: int, failure: float) -> tuple[int, int, float]:
    samples = check.integer(1)(samples=samples)
    hits, failure = check.integer(0, samples)(hits=hits), check.in_open_interval(0, 1)(failure=failure)
    return hits, samples, check.at_least(LEAST_FAILURE / 4)(failure=failure)


def clopper_pearson_interval(*, hits: int, samples: int, failure: float) -> tuple[float, float]:
    """Compute the exact two-sided interval for the chance of a hit, half of ``failure`` on either side.

    Source:
        Clopper & Pearson 1934.

    >>> low, high = clopper_pearson_interval(hits=10, samples=1000, failure=0.05)
    >>> round(low, 6), round(high, 6)
    (0.004806, 0.018313)
    """
    hits, samples, failure = _counts(hits, samples, failure)
    return lower_confidence_bound(hits, samples, failure / 2), upper_confidence_bound(hits, samples, failure / 2)


def upper_confidence_bound(hits: int, samples: int, failure: float) -> float:
    """Return the chance at which ``hits`` or fewer have probability ``failure``, rounded up."""
    hits, samples, failure = _counts(hits, samples, failure)
    if hits == samples:
        return 1.0
    tail = failure * (1 - binomial_error(hits))
    return bisect_doubles(lambda p: float(binomial_cdf(np.array([p]), samples, hits)[0]) <= tail, hits / samples, 1.0)[
        1
    ]


def lower_confidence_bound(hits: int, samples: int, failure: float) -> float:
    """Return the chance at which ``hits`` or more have probability ``failure``, rounded down."""
    hits, samples, failure = _counts(hits, samples, failure)
    if hits == 0:
        return 0.0
    tail = failure * (1 - binomial_error(hits))
    return bisect_doubles(
        lambda p: float(binomial_sf(np.array([p]), samples, hits - 1)[0]) > tail, 0.0, hits / samples
    )[0]


def anytime_interval(*, hits: int, samples: int, failure: float) -> tuple[float, float]:
    """Compute an interval that holds at all sample sizes at once, so that looking and stopping are free.

    The likelihood of the counts under a Beta(1/2, 1/2) prior, over that at p, is a martingale of mean 1 under p. It
    ever reaches 1 / failure with probability at most ``failure`` (Ville).

    Source:
        Robbins 1970; Howard et al. 2021 (arXiv:1810.08240).

    >>> low, high = anytime_interval(hits=10, samples=1000, failure=0.05)
    >>> low < 0.0048 < 0.0183 < high
    True
    """
    hits, samples, failure = _counts(hits, samples, failure)
    mixed = float(betaln(hits + 0.5, samples - hits + 0.5)) - math.log(math.pi) + math.log(failure)

    def plausible(p: float) -> bool:  # BOUND covers the round-off of betaln
        log_p = hits * math.log(p) if hits else 0.0
        log_q = (samples - hits) * math.log1p(-p) if hits < samples else 0.0
        return mixed - (log_p + log_q) < BOUND * (1 + abs(mixed))

    mean = hits / samples
    low = 0.0 if hits == 0 else bisect_doubles(plausible, 0.0, mean)[0]
    high = 1.0 if hits == samples else bisect_doubles(lambda p: not plausible(p), mean, 1.0)[1]
    return low, high

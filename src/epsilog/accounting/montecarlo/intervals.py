"""Confidence intervals for a probability that was sampled: exact at one sample size, or valid at every one.

An interval holds with probability at least 1 - ``failure`` over the draws; the sample size is fixed beforehand for
``clopper_pearson`` and may depend on what was seen for ``anytime``. Ends are rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import betainc, betaincc, betaln

from epsilog.terms import check

# Relative, on every binomial probability: SciPy's incomplete beta function errs by up to 6e-11 (a few hits among about
# 2e9 samples; elsewhere by 1e-12), measured against 60 digits.
SLACK = 2e-10


LEAST_FAILURE = 1e-250  # of a failure probability; parts of it must stay clear of underflow


def _counts(hits: int, samples: int, failure: float) -> tuple[int, int, float]:
    samples = check.integer(1)(samples=samples)
    hits, failure = check.integer(0, samples)(hits=hits), check.between(0, 1)(failure=failure)
    return hits, samples, check.at_least(LEAST_FAILURE / 4)(failure=failure)


def clopper_pearson(*, hits: int, samples: int, failure: float) -> tuple[float, float]:
    """Computes the exact two-sided interval for the chance of a hit, half of ``failure`` on either side.

    Source:
        Clopper & Pearson 1934.

    >>> low, high = clopper_pearson(hits=10, samples=1000, failure=0.05)
    >>> round(low, 6), round(high, 6)
    (0.004806, 0.018313)
    """
    hits, samples, failure = _counts(hits, samples, failure)
    return lower_end(hits, samples, failure / 2), upper_end(hits, samples, failure / 2)


def upper_end(hits: int, samples: int, failure: float) -> float:
    """The chance at which ``hits`` or fewer have probability ``failure``, rounded up."""
    hits, samples, failure = _counts(hits, samples, failure)
    if hits == samples:
        return 1.0
    tail = failure * (1 - SLACK)
    _, end = _crossing(lambda p: float(betaincc(hits + 1.0, float(samples - hits), p)) > tail, hits / samples, 1.0)
    return end


def lower_end(hits: int, samples: int, failure: float) -> float:
    """The chance at which ``hits`` or more have probability ``failure``, rounded down."""
    hits, samples, failure = _counts(hits, samples, failure)
    if hits == 0:
        return 0.0
    tail = failure * (1 - SLACK)
    end, _ = _crossing(lambda p: float(betainc(float(hits), samples - hits + 1.0, p)) <= tail, 0.0, hits / samples)
    return end


def anytime(*, hits: int, samples: int, failure: float) -> tuple[float, float]:
    """Computes an interval that holds at all sample sizes at once, so that one may look and stop at will.

    The likelihood of the counts, mixed over a Beta(1/2, 1/2) prior, over that at p is a martingale of mean 1
    under p; it ever reaches 1 / failure with probability at most ``failure`` (Ville).

    Source:
        Robbins 1970; Howard et al. 2021 (arXiv:1810.08240).

    >>> low, high = anytime(hits=10, samples=1000, failure=0.05)
    >>> low < 0.0048 < 0.0183 < high
    True
    """
    hits, samples, failure = _counts(hits, samples, failure)
    mixed = float(betaln(hits + 0.5, samples - hits + 0.5)) - math.log(math.pi) + math.log(failure)

    def plausible(p: float) -> bool:  # a margin of 1e-9 on the log for round-off in betaln
        log_p = hits * math.log(p) if hits else 0.0
        log_q = (samples - hits) * math.log1p(-p) if hits < samples else 0.0
        return mixed - (log_p + log_q) < 1e-9 * (1 + abs(mixed))

    mean = hits / samples
    low = 0.0 if hits == 0 else _crossing(lambda p: not plausible(p), 0.0, mean)[0]
    high = 1.0 if hits == samples else _crossing(plausible, mean, 1.0)[1]
    return low, high


def _crossing(before: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The bracket (to 1e-13 of itself) in which ``before`` stops holding; it holds at the lower end or that is low."""
    for _ in range(2000):
        middle = math.sqrt(low) * math.sqrt(high) if low > 0 and high > 2 * low else (low + high) / 2
        if not low < middle < high or high - low <= 1e-13 * high:
            break
        low, high = (middle, high) if before(middle) else (low, middle)
    return low, high

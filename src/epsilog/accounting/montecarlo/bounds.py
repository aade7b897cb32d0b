"""What counts of hits prove: confidence intervals, and what a verified release promises.

An interval for the chance of a hit holds with probability at least 1 - ``failure`` over the draws; the sample size is
fixed beforehand for ``clopper_pearson_interval`` and may depend on what was seen for ``anytime_interval``. Ends are
rounded outwards.

A noise search verifies candidates in a list's order by independent draws. The last one before the first failure is
released, or the fallback if the first one fails. The released index is independent of private data, so the released
mechanism is a mixture. Its delta at the one epsilon of interest is at most E[delta_I] = Int Pr[delta_I > y] dy, and
delta_I > y only if the first candidate with delta > y passed. Each bound below is that integral for one kind of test.
Proofs and hypotheses: ``docs/montecarlo/bounds.md``. ``noise_search`` enforces the hypotheses; these functions only
compute.

Notation: ``samples`` is N. ``hits`` is k, the largest passing number of hits. ``bound`` is M, the hard bound of the
estimator: a hit has probability delta / M. ``fallback_delta`` is the fallback's delta (0: it reveals nothing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from epsilog.numerics.roots import bisect_doubles, find_first_integer
from epsilog.numerics.rounding import BOUND, TINY, round_outward, round_up
from epsilog.terms import CalibrationError, CheckError, check

Array = NDArray[np.float64]
_STEP = 8  # roundings of a step of the recursion, and of a chord: up to four, and up to six
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
    tail = failure / 2 * (1 - binomial_error(hits))

    def is_below(p: float) -> bool:  # so many hits or more are too rare there
        return float(binomial_sf(np.array([p]), samples, hits - 1)[0]) <= tail

    def is_above(p: float) -> bool:
        return float(binomial_cdf(np.array([p]), samples, hits)[0]) <= tail

    mean = hits / samples
    low = 0.0 if hits == 0 else bisect_doubles(lambda p: not is_below(p), 0.0, mean)[0]
    return low, 1.0 if hits == samples else bisect_doubles(is_above, mean, 1.0)[1]


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


def _test(samples: int, hits: int, fallback_delta: float, bound: float) -> tuple[int, int, float, float]:
    """Return the numbers of a test, checked."""
    samples, bound = check.integer(1)(samples=samples), check.positive()(bound=bound)
    hits = check.integer(0, samples)(hits=hits)
    return samples, hits, check.in_closed_interval(0, min(1.0, bound))(fallback_delta=fallback_delta), bound


def binomial_delta(*, samples: int, hits: int, fallback_delta: float = 0.0, bound: float = 1.0) -> float:
    """Bound the released delta when candidates pass with at most ``hits`` hits among ``samples`` Bernoulli draws.

    Returns:
        d_f + M E[(k + 1 - Y)^+] / (N + 1), Y ~ Bin(N + 1, d_f / M), rounded up; with a fallback that reveals nothing
        this is M (k + 1) / (N + 1).

    >>> round(binomial_delta(samples=999_999, hits=8), 12)
    9e-06
    """
    samples, hits, fallback_delta, bound = _test(samples, hits, fallback_delta, bound)
    exact = Fraction(bound) * Fraction(hits + 1, samples + 1)
    if fallback_delta == 0:
        return min(1.0, round_outward(exact, up=True))
    p = np.array([min(1.0, fallback_delta / bound)])
    first = (hits + 1) * float(binomial_cdf(p, samples + 1, hits)[0])
    second = (samples + 1) * float(p[0]) * float(binomial_cdf(p, samples, hits - 1)[0]) if hits else 0.0
    area = bound * max(first - second, 0.0) / (samples + 1)
    # both chances err by their share; what is returned is at least the larger of the two deltas, before that
    return min(1.0, max(fallback_delta + area, round_outward(exact, up=True)) * (1 + 2 * binomial_error(hits)))


def bound_listed_delta(
    tests: Sequence[tuple[int, int, float]], *, fallback_delta: float = 0.0, cells: int = 2000
) -> float:
    """Bound the released delta of a list with known tests, if every candidate has separate draws.

    Solve W_i(y) = max(y, sup_x y + F_i(x) (W_{i+1}(x) - y)) from the last test to the first. W_i is the best expected
    delta with y in hand and the tests from i on to come. Within a cell every pass has the probability of its lower end
    and the value of its upper end: an upper bound for any number of cells.

    Args:
        tests: samples, hits and bound of each candidate's test, in the list's order.
        fallback_delta: delta of what is released if the first candidate fails.
        cells: into which the deltas are cut around the thresholds.

    Source:
        docs/montecarlo/bounds.md, Theorem 3.

    >>> 1.0 < binomial_delta(samples=2000, hits=10) / bound_listed_delta([(2000, 10, 1.0)] * 4)
    True
    """
    cells = check.integer(10, 20_000)(cells=cells)
    known = tuple(_test(samples, hits, 0.0, bound) for samples, hits, bound in tests)
    if not known:
        raise CheckError("tests", "at least one", repr(tests), verb="hold")
    fallback_delta = check.in_closed_interval(0, 1)(fallback_delta=fallback_delta)
    return _bound_listed(tuple((samples, hits, bound) for samples, hits, _, bound in known), fallback_delta, cells)


@lru_cache(maxsize=64)
def _bound_listed(tests: tuple[tuple[int, int, float], ...], fallback: float, cells: int) -> float:
    grid = _grid(tests, fallback, cells)
    below, values = grid[:-1], grid
    held = np.union1d(grid[::8], [fallback, grid[-1]])  # W is convex: between these, the chord is above it
    for samples, hits, bound in reversed(tests):
        chance = binomial_cdf(np.minimum(below / bound, 1.0), samples, hits) * (1 + binomial_error(hits)) + TINY
        chance = np.where(below <= bound, np.minimum(chance, 1.0), 0.0)  # no delta is above the bound that is proven
        if_passed = chance * values[1:]
        best = np.array([max(float(y), float(((1 - chance) * y + if_passed).max())) for y in held])
        values = np.minimum(round_up(np.interp(grid, held, round_up(best, _STEP)), _STEP), 1.0)
    return float(values[np.searchsorted(grid, fallback)])


def _grid(tests: Sequence[tuple[int, int, float]], fallback: float, cells: int) -> Array:
    """Return the ends of cells from 0 to 1: fine at passing probabilities, coarse near them, none far away."""

    def between(low: float, high: float, count: int) -> Array:
        return np.linspace(
            min(bound * find_transition(hits, samples, low) for samples, hits, bound in tests),
            max(bound * find_transition(hits, samples, high) for samples, hits, bound in tests),
            count,
        )

    ends = np.array([0.0, fallback, 1.0, *(math.nextafter(bound, math.inf) for _, _, bound in tests)])
    parts = (ends, between(-4.5, 5.0, cells), between(-9.0, 12.0, cells // 5 + 2))
    return np.unique(np.clip(np.concatenate(parts), 0.0, 1.0))


def find_transition(hits: int, samples: int, deviations: float) -> float:
    """Return where the chance of passing is close to 1 (deviations below 0) or close to 0 (above)."""
    return min(1.0, max(0.0, (hits + 1 + deviations * math.sqrt(hits + 1) + max(deviations, 0) * 3) / (samples + 1)))


def maximize_hits(*, samples: int, target_delta: float, fallback_delta: float = 0.0, bound: float = 1.0) -> int:
    """Return the most hits that may pass while ``binomial_delta`` stays at most ``target_delta``.

    Raises:
        CalibrationError: even no hits at all would promise more than the target.

    >>> maximize_hits(samples=1_000_000, target_delta=1e-5)
    9
    """
    samples, target_delta = (
        check.integer(1)(samples=samples),
        check.in_unit_interval(check.DOWN)(target_delta=target_delta),
    )

    def meets(hits: int) -> bool:
        return binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound) <= target_delta

    if not meets(0):
        raise CalibrationError(f"{samples} samples are too few for delta {target_delta:g}: even 0 hits promise more")
    return find_first_integer(lambda hits: not meets(hits), 0, samples + 1) - 1

"""What a verified release promises once the simulation's own randomness is counted in.

Candidates are verified in a list's order by independent draws. The last one before the first failure is released, or
the fallback if the first one fails. The released index is independent of private data, so the released mechanism is a
mixture. Its delta at the one epsilon of interest is at most E[delta_I] = Int Pr[delta_I > y] dy, and delta_I > y only
if the first candidate with delta > y passed. Each bound below is that integral for one kind of test. Proofs and
hypotheses: ``docs/montecarlo/bounds.md``. ``noise_search`` enforces the hypotheses; these functions only compute.

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

from epsilog.accounting.montecarlo.intervals import binomial_cdf, binomial_error
from epsilog.accounting.montecarlo.two_point import bisect_transition, require_samples, scaled_kl_divergence
from epsilog.numerics.roots import find_first_integer
from epsilog.numerics.rounding import TINY, round_outward, round_up
from epsilog.terms import CalibrationError, CheckError, check

Array = NDArray[np.float64]
_STEP = 8  # roundings of a step of the recursion, and of a chord: up to four, and up to six


def _test(samples: int, hits: int, fallback_delta: float, bound: float) -> tuple[int, int, float, float]:
    """Return the numbers of a test, checked."""
    samples, bound = check.integer(1)(samples=samples), check.positive()(bound=bound)
    hits = check.integer(0, samples)(hits=hits)
    return samples, hits, check.in_closed_interval(0, min(1.0, bound))(fallback_delta=fallback_delta), bound


def pass_probability(*, delta: float, samples: int, hits: int, bound: float = 1.0) -> float:
    """Compute the chance that a candidate with this true delta passes: Pr[Bin(samples, delta / bound) <= hits].

    >>> round(pass_probability(delta=0.0, samples=10, hits=0), 3)
    1.0
    """
    samples, hits, _, bound = _test(samples, hits, 0.0, bound)
    delta = check.in_closed_interval(0, bound)(delta=delta)
    return float(binomial_cdf(np.array([delta / bound]), samples, hits)[0])


def integrated_delta(*, samples: int, base_delta: float, fallback_delta: float | None = None) -> float:
    """Bound the released delta for any estimator with values in [0, 1] that passes if its mean is <= ``base_delta``.

    Args:
        samples: independent draws per candidate.
        base_delta: the threshold, in (0, 1].
        fallback_delta: delta of the fallback; by default ``base_delta``, as in the reference.

    Returns:
        d + Int_d^1 exp(-N KL(base_delta || y)) dy, d the larger of the two deltas; rounded up.

    >>> integrated_delta(samples=566_000, base_delta=5e-6) <= 1e-5
    True
    """
    count = float(require_samples(samples))
    base_delta = check.in_unit_interval()(base_delta=base_delta)
    fallback = base_delta if fallback_delta is None else fallback_delta
    fallback = check.in_closed_interval(0, 1)(fallback_delta=fallback)
    start = max(base_delta, fallback)
    if start >= 1:
        return 1.0
    if start < 1e-300:
        raise CheckError("base_delta", "at least 1e-300", repr(base_delta))

    def decay(s: float) -> float:  # at y = start + (1 - start) u, u the logistic of s
        u = 1 / (1 + math.exp(-s))
        share = ((start - base_delta) + (1 - start) * u) / (1 - base_delta)
        return scaled_kl_divergence(count, base_delta, min(share, 1.0)) if share < 1 else math.inf

    floor = decay(-700.0)
    begins = bisect_transition(lambda s: decay(s) > floor + 1, -700.0, 36.0)
    step = 1 / 16
    grid = np.arange(max(begins - 45, -700.0), min(begins + 45, 700.0), step)
    # the trapezoidal rule over s in (-inf, inf): the integrand is analytic and decays at both ends
    u = 1 / (1 + np.exp(-grid))
    falls = np.array([decay(s) if s < 36 else math.inf for s in grid])
    area = (1 - start) * float((np.exp(-falls) * u * (1 - u)).sum()) * step
    return min(1.0, (start + area) * (1 + binomial_error(0)))


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


def supremum_delta(
    *, samples: int, hits: int, fallback_delta: float = 0.0, bound: float = 1.0, cells: int = 2000
) -> float:
    """Bound the released delta over every *fixed* list of candidates with independent draws; at most the above.

    Solves W(y) = max(y, sup_{y' > y} y + F(y') (W(y') - y)) from the top, F the chance of passing, W the best expected
    delta with y in hand. Within a cell a step is free and every pass is as likely as at the cell's lower end: an upper
    bound for any number of cells.

    >>> supremum_delta(samples=2000, hits=10) < binomial_delta(samples=2000, hits=10)
    True
    """
    samples, hits, fallback_delta, bound = _test(samples, hits, fallback_delta, bound)
    cells = check.integer(10, 20_000)(cells=cells)
    top = min(1.0, bound)
    mean = (hits + 1) / (samples + 1)
    spread = math.sqrt(mean / samples) + 1 / samples
    edge = min(top, bound * min(1.0, mean + 9 * spread + 40 / samples))
    grid = np.linspace(fallback_delta, max(edge, fallback_delta), cells + 1)
    if grid[-1] < top:
        grid = np.append(grid, top)
    chance = binomial_cdf(np.minimum(grid / bound, 1.0), samples, hits) * (1 + binomial_error(hits)) + TINY
    chance = np.minimum(chance, 1.0)
    values = grid.copy()
    for i in range(len(grid) - 2, -1, -1):
        gains = chance[i:-1] * (values[i + 1 :] - grid[i])
        values[i] = grid[i] + max(0.0, float(gains.max()))
    return min(
        1.0,
        round_up(float(values[0]), 4 * len(grid)),
        binomial_delta(samples=samples, hits=hits, fallback_delta=fallback_delta, bound=bound),
    )


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

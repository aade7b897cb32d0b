"""Compositions of finite laws in many digits: the truth, by brute force, that certified intervals have to contain.

A pair is a list of outcomes with their two exact masses. Two outcomes compose to a binomial law, whose tails are summed
where they fall fast and inverted from the generating function elsewhere; several are listed by their counts. Nothing
here shares a line, a formula's arrangement or a precision with the accountant.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import mpmath
from mpmath import mpf

DIGITS = 90
Pair = tuple[tuple[mpf, mpf], ...]  # the masses of each outcome under P and under Q


def response(epsilon: float) -> Pair:
    """Binary randomized response with a loss of ``epsilon``: what a pure statement is dominated by."""
    with mpmath.workdps(DIGITS + 340):  # its rarer mass may be e^-700
        rare = 1 / (1 + mpmath.exp(mpf(epsilon)))
        return ((1 - rare, rare), (rare, 1 - rare))


def randomized_response(flip: float, categories: int) -> Pair:
    """Two rows of k-ary randomized response; the answers that say nothing are one outcome."""
    with mpmath.workdps(DIGITS + 40):
        rare = mpf(flip) / categories
        often, rest = 1 - mpf(flip) + rare, (categories - 2) * rare
        return ((often, rare), (rare, often)) + (((rest, rest),) if categories > 2 else ())


def sampled(pair: Pair, share: float, *, removed: bool) -> Pair:
    """What sampling makes of a pair: ((1 - q) Q + q P, Q) if the unit is removed, (P, (1 - q) P + q Q) if added."""
    with mpmath.workdps(DIGITS + 340):
        q = mpf(share)
        if removed:
            return tuple(((1 - q) * other + q * one, other) for one, other in pair)
        return tuple((one, (1 - q) * one + q * other) for one, other in pair)


def largest_loss(pair: Pair, count: int) -> mpf:
    """Epsilon at delta 0."""
    with mpmath.workdps(DIGITS + 340):
        return count * max(mpmath.log(one / other) for one, other in pair if one > 0)


def delta(pair: Pair, count: int, epsilon: mpf | float) -> mpf:
    """Delta of ``count`` independent copies."""
    with mpmath.workdps(DIGITS + 40):
        epsilon = mpf(epsilon)
        if len(pair) == 2:
            return _of_two(pair, count, epsilon)
        total = mpf(0)
        for counts in _divisions(count, len(pair)):
            ways = mpmath.factorial(count)
            one = other = mpf(1)
            for times, (p, q) in zip(counts, pair, strict=True):
                ways /= mpmath.factorial(times)
                one, other = one * p**times, other * q**times
            total += ways * max(one - mpmath.exp(epsilon) * other, mpf(0))
        return total


def delta_of_mix(parts: list[tuple[Pair, int]], epsilon: mpf | float) -> mpf:
    """Delta of a few copies of each of several pairs, by listing every outcome of all of them."""
    with mpmath.workdps(DIGITS + 40):
        whole = [(mpf(1), mpf(1))]
        for pair, count in parts:
            for _ in range(count):
                whole = [(one * p, other * q) for one, other in whole for p, q in pair]
        return sum((max(one - mpmath.exp(mpf(epsilon)) * other, mpf(0)) for one, other in whole), mpf(0))


def _divisions(count: int, kinds: int) -> list[tuple[int, ...]]:
    """All ways to write ``count`` as an ordered sum of ``kinds`` numbers."""
    return [
        tuple(b - a - 1 for a, b in zip((-1, *bars), (*bars, count + kinds - 1), strict=True))
        for bars in combinations(range(count + kinds - 1), kinds - 1)
    ]


def _of_two(pair: Pair, count: int, epsilon: mpf) -> mpf:
    (p, q), (p_low, q_low) = sorted(pair, key=lambda masses: masses[0] / masses[1], reverse=True)
    high, low = mpmath.log(p / q), mpmath.log(p_low / q_low)
    if high == low:
        return max(mpf(0), 1 - mpmath.exp(epsilon))
    first = max(int(mpmath.floor((epsilon - count * low) / (high - low))) + 1, 0)
    if first > count:
        return mpf(0)
    return tail(count, p, p_low, first) - mpmath.exp(epsilon) * tail(count, q, q_low, first)


@cache
def tail(count: int, p: mpf, rest: mpf, first: int) -> mpf:
    """The chance of at least ``first`` successes in ``count`` trials; ``rest`` is 1 - p, with all its digits."""
    mean = count * p
    if first <= 0:
        return mpf(1)
    if first <= mean:
        return 1 - _upper_tail(count, rest, p, count - first + 1)
    return _upper_tail(count, p, rest, first)


def _upper_tail(count: int, p: mpf, rest: mpf, first: int) -> mpf:
    """The same from the mean on."""
    if first > count:
        return mpf(0)
    fall = (count - first) * p / ((first + 1) * rest)  # each term is at most so much of the one before it
    if count - first < 3000 or fall**3000 < mpf(10) ** -DIGITS:
        chosen = mpmath.loggamma(count + 1) - mpmath.loggamma(first + 1) - mpmath.loggamma(count - first + 1)
        term = mpmath.exp(chosen + first * mpmath.log(p) + (count - first) * mpmath.log(rest))
        total = mpf(0)
        for k in range(first, count + 1):
            total += term
            term *= (count - k) * p / ((k + 1) * rest)
            if term < total * mpf(10) ** -DIGITS:
                break
        return total
    deviation = mpmath.sqrt(count * p * rest)
    tilt = max((first - count * p) / deviation**2, 1 / deviation)
    step = tilt / 24  # the rule errs by e^(-2 pi 24), and the cut below by e^-162
    nodes = int(mpmath.ceil(18 / deviation / step)) + 1
    total = mpf(0)
    for node in range(-nodes, nodes + 1):
        z = mpmath.mpc(tilt, step * node)
        wave = count * mpmath.log(rest + p * mpmath.exp(z)) - first * z
        total += (mpmath.exp(wave) / (1 - mpmath.exp(-z))).real
    return total * step / (2 * mpmath.pi)

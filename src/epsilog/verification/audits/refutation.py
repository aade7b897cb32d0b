"""Bound the probability of the observed correct guesses under a claim: a point, or a trade-off curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.special import bdtrc, expit, ndtr, ndtri

Curve = Callable[[float], float]
"""The least probability under one data set of an event with probability y under its neighbor; increasing and convex."""


def build_line_curve(lines: Sequence[tuple[float, float]]) -> Curve:
    """Return the curve of points (epsilon, delta) of a profile: P(A) <= e^epsilon Q(A) + delta, and with P, Q swapped.

    >>> curve = build_line_curve([(0.0, 0.1)])
    >>> round(curve(0.5), 12), curve(0.05)
    (0.4, 0.0)
    """
    both = [line for epsilon, delta in lines for line in _two_ways(epsilon, delta)]

    def least(y: float) -> float:
        return max(0.0, *(slope * y + start for slope, start in both))

    return least


def _two_ways(epsilon: float, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return slope and intercept of both lines: Q(A) >= (P(A) - delta) / e^epsilon, and its form for A's complement."""
    shrunk = math.exp(-epsilon)
    return (shrunk, -delta * shrunk), (1 / shrunk, 1 - delta - 1 / shrunk)


def list_profile_points(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a profile with delta below 1 and a finite exponential of epsilon."""
    return [(epsilon, delta) for epsilon, delta in points if 0 <= delta < 1 and 0 <= epsilon < 300]


def build_gaussian_curve(mu: float) -> Curve:
    """Return the curve of mu-GDP.

    Source: Dong, Roth & Su 2019 (arXiv:1905.02383), Definition 2.6.
    """

    def least(y: float) -> float:
        return 0.0 if y <= 0 else 1.0 if y >= 1 else float(ndtr(ndtri(y) - mu))

    return least


def bound_p_value(canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float) -> float:
    """Bound the probability of at least ``correct`` correct guesses under (epsilon, delta)-DP.

    Independent fair coins include the canaries. The released results give ``guesses`` guesses, a number fixed in
    advance.

    Args:
        canaries: m.
        guesses: at most m.
        correct: v, at most ``guesses``.
        epsilon: of the claim, at least 0.
        delta: of the claim, in [0, 1].

    Source:
        Steinke, Nasr & Jagielski 2023 (arXiv:2305.08846), Theorem 5.2:
        P(W >= v) + 2 m delta max over i of P(v > W >= v - i) / i, with W binomial of ``guesses`` trials and success
        probability e^epsilon / (1 + e^epsilon).

    >>> round(bound_p_value(100, 100, 60, epsilon=0.0, delta=0.0), 4)  # sixty heads or more of a hundred
    0.0284
    """
    if correct <= 0:
        return 1.0
    chance = float(expit(epsilon))
    least = float(bdtrc(correct - 1, guesses, chance))
    if delta == 0:
        return least
    i = np.arange(1, correct + 1)
    reached = np.where(i < correct, bdtrc(np.maximum(correct - i - 1, 0), guesses, chance), 1.0)
    return min(1.0, least + 2 * canaries * delta * float(np.max((reached - least) / i)))


def refutes_f_dp(canaries: int, guesses: int, correct: int, *, curve: Curve, level: float) -> bool:
    """Return whether at least ``correct`` correct guesses have probability below ``level`` under a trade-off function.

    Let p_i be the probability of exactly i correct guesses of c'. Let r_c = sum over i >= c of i p_i / m: the
    probability that a given canary is guessed correctly and at least c are in total. Let h_c be the same for wrong
    guesses, with c' - i. Flipping one coin makes a correct guess wrong and lowers the total by one, so
    h_(i) >= curve(r_(i+1)). If the level were reached, the sum would exceed the fraction of canaries that are guessed.

    Args:
        canaries: m, each included by a fair coin.
        guesses: c', fixed in advance.
        correct: c.
        curve: of the claim, the same for both adjacency types.
        level: in (0, 1).

    Source:
        Mahloujifar, Melis & Chaudhuri 2025 (arXiv:2410.22235), Theorem 3.2 and Algorithm 3, with two values per canary.
    """
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        least = curve(right)
        if least <= wrong:
            break
        right, wrong = min(1.0, right + i / (guesses - i) * (least - wrong)), least
    return right + wrong > guesses / canaries * (1 + 1e-9)

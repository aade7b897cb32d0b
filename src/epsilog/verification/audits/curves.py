"""The least FPR of an attack with a given TPR: inverse trade-off functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from scipy.special import ndtr, ndtri

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

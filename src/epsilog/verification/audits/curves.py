"""How wrong an attacker must be at least who is right so often: the inverse of a curve from false to true positives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from scipy.special import ndtr, ndtri

Curve = Callable[[float], float]
"""The least chance of an event under one neighbor that has chance y under the other; rises with y, and is convex."""


def build_line_curve(lines: Sequence[tuple[float, float]]) -> Curve:
    """The curve of points (epsilon, delta) of a privacy profile: P(A) <= e^epsilon Q(A) + delta for each, both ways.

    >>> curve = build_line_curve([(0.0, 0.1)])
    >>> round(curve(0.5), 12), curve(0.05)
    (0.4, 0.0)
    """
    both = [line for epsilon, delta in lines for line in _two_ways(epsilon, delta)]

    def least(y: float) -> float:
        return max(0.0, *(slope * y + start for slope, start in both))

    return least


def _two_ways(epsilon: float, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Q(A) >= (P(A) - delta) / e^epsilon, and the same of what is not A: slope and start of each line."""
    shrunk = math.exp(-epsilon)
    return (shrunk, -delta * shrunk), (1 / shrunk, 1 - delta - 1 / shrunk)


def list_profile_points(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points of a profile that say something: delta below 1, and epsilon small enough to compute with."""
    return [(epsilon, delta) for epsilon, delta in points if 0 <= delta < 1 and 0 <= epsilon < 300]


def build_gaussian_curve(mu: float) -> Curve:
    """The curve of mu-GDP.

    Source: Dong, Roth & Su 2019 (arXiv:1905.02383), Definition 2.6.
    """

    def least(y: float) -> float:
        return 0.0 if y <= 0 else 1.0 if y >= 1 else float(ndtr(ndtri(y) - mu))

    return least

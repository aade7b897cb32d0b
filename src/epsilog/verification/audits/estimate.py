"""Estimate epsilon from two normal distributions fitted to scores; not a bound on either side."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from epsilog.terms import CheckError, check

Vector = NDArray[np.float64]
Normal = tuple[float, float]
"""Mean and standard deviation."""
MOST = 100.0  # the largest estimate
NARROWEST = 1e-12


def estimate_by_cosines(scores: Vector, included: NDArray[np.bool_], *, delta: float) -> float:
    """Estimate epsilon from the cosines of included canaries and of excluded ones.

    Its error is unbounded: it assumes that one canary represents all, and that the tails are normal.

    Source:
        Andrew, Kairouz, Oh, Oprea, McMahan & Suriyakumar 2023 (arXiv:2302.03098): normal distributions are fitted to
        the cosines of used and unused canaries with the last model. Here the unused canaries are the excluded ones.

    Raises:
        CheckError: fewer than two canaries on a side.
    """
    both = scores[~included], scores[included]
    for name, side in zip(("out", "in"), both, strict=True):
        if side.size < 2:
            raise CheckError("canaries", f"at least 2 that were {name}", f"{side.size}", verb="be")
    return estimate_epsilon(*map(fit_normal, both), delta=delta)


def fit_normal(values: Vector) -> Normal:
    """Return mean and standard deviation of a sample."""
    return float(values.mean()), max(float(values.std(ddof=1)), NARROWEST)


def estimate_epsilon(absent: Normal, present: Normal, *, delta: float) -> float:
    """Return epsilon at delta of two normal distributions, given by mean and standard deviation; at most 100.

    >>> round(estimate_epsilon((0.0, 1.0), (1.0, 1.0), delta=1e-5), 3)  # mu = 1 of Gaussian DP
    4.377
    """
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    low, high = 0.0, MOST

    def is_met(epsilon: float) -> bool:
        return max(_divergence(absent, present, epsilon), _divergence(present, absent, epsilon)) <= delta

    if is_met(low):
        return low
    if not is_met(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_met(middle) else (middle, high)
    return high


def _divergence(one: Normal, other: Normal, epsilon: float) -> float:
    """Return the hockey-stick divergence of two normal distributions: P - e^epsilon Q where ln p - ln q > epsilon."""
    (m, s), (n, t) = one, other
    # ln p - ln q - epsilon = a x^2 + b x + c
    a, b = (1 / t**2 - 1 / s**2) / 2, m / s**2 - n / t**2
    c = (n / t) ** 2 / 2 - (m / s) ** 2 / 2 + math.log(t / s) - epsilon
    if abs(a) < 1e-12 * (1 / t**2 + 1 / s**2):
        if b == 0:
            return max(0.0, 1 - math.exp(epsilon)) if c > 0 else 0.0
        edges = [(-c / b, math.inf)] if b > 0 else [(-math.inf, -c / b)]
    else:
        root = b * b - 4 * a * c
        if root <= 0:
            edges = [(-math.inf, math.inf)] if a > 0 else []
        else:
            q = -(b + math.copysign(math.sqrt(root), b)) / 2
            left, right = sorted((q / a, c / q))
            edges = [(-math.inf, left), (right, math.inf)] if a > 0 else [(left, right)]
    p, q = (sum(_mass(normal, edge) for edge in edges) for normal in (one, other))
    return max(0.0, p - math.exp(epsilon) * q)


def _mass(normal: Normal, edge: tuple[float, float]) -> float:
    low, high = ((each - normal[0]) / normal[1] for each in edge)
    return float(ndtr(-low) - ndtr(-high)) if low > 0 else float(ndtr(high) - ndtr(low))

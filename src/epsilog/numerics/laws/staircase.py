"""Staircase noise moved by whole steps: a law of a few atoms, one step of epsilon apart.

Moved by k steps the loss takes whole multiples of epsilon from -k to k, and no shorter shift loses more anywhere:
docs/accounting/staircase.md proves it.
"""

from __future__ import annotations

import math

import numpy as np

from epsilog.numerics.laws.base import Array, Atoms
from epsilog.numerics.rounding import gamma as rounded

__all__ = ["staircase"]


def staircase(epsilon: float, gamma: float, steps: int) -> Atoms:
    """The pair of the noise moved by so many steps, and not moved.

    Each of the k steps between the two centres has three parts; the outer ones are as wide as the narrower part of a
    step, and there the nearer centre's stair is the higher by one.

    Args:
        epsilon: of one step, with ``steps`` times it within reach of an exponential.
        gamma: the first step's share, in [0, 1].
        steps: k, how many steps it is moved.

    >>> staircase(1.0, 0.5, 1).p.round(4)  # binary randomized response
    array([0.2689, 0.    , 0.7311])
    """
    fall, k = math.exp(-epsilon), steps
    top = -math.expm1(-epsilon) / (2 * (gamma + fall * (1 - gamma)))  # of a whole step at the height of the first
    narrow, inner = min(gamma, 1 - gamma), abs(2 * gamma - 1)
    u: Array = np.asarray(epsilon * np.arange(-k, k + 1), dtype=np.float64)
    p = np.zeros(2 * k + 1)
    p[-1], p[0] = 0.5, math.exp(-k * epsilon) / 2
    for i in range(k):  # between i and i + 1 steps from where Q sits
        near, far = top * math.exp(-(k - 1 - i) * epsilon), top * math.exp(-(k - i) * epsilon)
        p[2 * i] += narrow * far
        p[2 * i + 1] += inner * (near if gamma >= 0.5 else far)
        p[2 * i + 2] += narrow * near
    return Atoms(u, p, step=epsilon, relative_error=rounded(64.0 + 16 * k * (1 + epsilon)))

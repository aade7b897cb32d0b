"""The kernel through which delta reads a law that was tilted by e^(theta loss).

delta(e) = e^(K(theta) - theta e) E k(S - e) with k(y) = e^(-theta y) (1 - e^-y) for y > 0: k rises to its peak, at y =
ln(1 + 1 / theta), and falls again. Any method that tilts bounds what it does not know of S by that peak.
"""

from __future__ import annotations

import math

import numpy as np

from epsilog.numerics.rounding import Number


def peak(theta: float) -> float:
    """The kernel's largest value, theta^theta / (theta + 1)^(theta + 1), to a few roundings: nothing cancels.

    >>> peak(1.0)
    0.25
    """
    return math.exp(-theta * math.log1p(1 / theta)) / (1 + theta)


def log_peak(theta: Number) -> Number:
    """Its logarithm; shape (k,) to (k,), too.

    >>> math.isclose(log_peak(1.0), math.log(0.25))
    True
    """
    if isinstance(theta, np.ndarray):
        return np.asarray(-theta * np.log1p(1 / theta) - np.log1p(theta))
    return -theta * math.log1p(1 / theta) - math.log1p(theta)

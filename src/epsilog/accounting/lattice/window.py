"""Where a sum of lattice variables lies, but for a chance that Chernoff's bound makes as small as is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilog.accounting.lattice.law import Integers
from epsilog.accounting.laws.base import Array
from epsilog.accounting.rounding import BOUND

_RATES = np.geomspace(0.02, 40, 18)  # exponents of Chernoff's bound, in standard deviations
_MOST = 500.0  # an exponent whose exponential a double holds


def window(laws: Sequence[tuple[Integers, Array, int]], nats: float) -> tuple[float, float, float]:
    """Lattice indices beyond which a sum lies with probability at most e^-nats on either side, and its mean between.

    ``laws`` are the independent summands' points, their probabilities, and how often each is summed.
    """
    means = [float(weight @ points) for points, weight, _ in laws]
    centred = [(points - mean, weight, count) for (points, weight, count), mean in zip(laws, means, strict=True)]
    mean = math.fsum(count * mean for (_, _, count), mean in zip(laws, means, strict=True))
    spread = math.sqrt(math.fsum(count * float(weight @ (away * away)) for away, weight, count in centred))
    rates = _RATES / max(spread, 1e-6)
    sides = []
    for sign in (-1.0, 1.0):
        log_moment = np.zeros(len(rates))
        for away, weight, count in centred:
            exponent = sign * rates[:, None] * away
            grown = np.expm1(np.minimum(exponent, _MOST)) - exponent  # the mean of the exponent itself is 0
            log_moment += np.where(exponent.max(axis=1) < _MOST, count * np.log1p(grown @ weight), np.inf)
        farthest = math.fsum(count * float((sign * away).max()) for away, _, count in centred)
        sides.append(min(farthest, float(np.min((log_moment + nats + 1) / rates))) + 2 + BOUND * abs(mean))
    return mean - sides[0], mean, mean + sides[1]

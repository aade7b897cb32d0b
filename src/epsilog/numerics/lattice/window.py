"""Where a sum of lattice variables lies, but for a chance that Chernoff's bound makes as small as is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilog.numerics.lattice.law import Integers
from epsilog.numerics.laws.base import Array
from epsilog.numerics.rounding import BOUND

_RATES = np.geomspace(0.02, 40, 18).tolist()  # exponents of Chernoff's bound, in standard deviations
_START = 13  # of these: about the best for a normal law and the nats in use
_MOST = 500.0  # an exponent whose exponential a double holds


def window(laws: Sequence[tuple[Integers, Array, int]], nats: float) -> tuple[float, float, float]:
    """Lattice indices beyond which a sum lies with probability at most e^-nats on either side, and its mean between.

    ``laws`` are the independent summands' points, their probabilities, and how often each is summed.
    """
    means = [float(weight @ points) for points, weight, _ in laws]
    centred: list[tuple[Array, Array, int]] = [
        (np.asarray(points - mean), weight, count) for (points, weight, count), mean in zip(laws, means, strict=True)
    ]
    mean = math.fsum(count * mean for (_, _, count), mean in zip(laws, means, strict=True))
    spread = math.sqrt(math.fsum(count * float(weight @ (away * away)) for away, weight, count in centred))
    sides = []
    for sign in (-1.0, 1.0):
        farthest = math.fsum(count * float((sign * away).max()) for away, _, count in centred)
        reach = _reach(centred, sign / max(spread, 1e-6), nats + 1)
        sides.append(min(farthest, reach) + 2 + BOUND * abs(mean))
    return mean - sides[0], mean, mean + sides[1]


def _reach(centred: Sequence[tuple[Array, Array, int]], unit: float, nats: float) -> float:
    """The distance beyond which Chernoff's bound leaves e^-nats on one side; ``unit`` is one over a deviation, signed.

    The bound falls and then rises with the rate, so a walk from where a normal law's is least finds the least.
    """
    at = _START
    best = _at_rate(centred, _RATES[at] * unit, nats)
    for step in (-1, 1):
        following = at + step
        while 0 <= following < len(_RATES):
            other = _at_rate(centred, _RATES[following] * unit, nats)
            if not (other < best or math.isinf(best)):
                break
            best, following = other, following + step
        if following != at + step:
            break
    return best


def _at_rate(centred: Sequence[tuple[Array, Array, int]], rate: float, nats: float) -> float:
    log_moment = 0.0
    for away, weight, count in centred:
        exponent = rate * away
        if not exponent.max() < _MOST:
            return math.inf
        log_moment += count * math.log1p(float((np.expm1(exponent) - exponent) @ weight))  # the exponent's mean is 0
    return (log_moment + nats) / abs(rate)

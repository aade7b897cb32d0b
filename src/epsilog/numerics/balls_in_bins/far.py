"""Balls-in-bins with means so far apart that one round decides: what a lattice of ratios cannot hold.

With Y = exp(mu X - mu^2 / 2), S the sum of b of them and G the curve of two Gaussians mu apart,

    G(e + ln b) <= delta of remove <= G(e + ln b) + Phi(x - mu) + (b - 1) Phi(-x)    for every x,
    delta of add <= Phi((ln b - e) / mu + mu / 2)^b.

Proofs: docs/accounting/balls-in-bins.md, section 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import log_ndtr, ndtr, ndtri

from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import ELEMENTARY, LEAST, MU, ONCE, TINY, TWICE, gamma, round_down, round_up

_SHARE = 1e-3  # of delta: what ratios that do not decide may add to it
_TAIL = 64.0  # roundings in a normal tail
_EDGE = 4  # of a difference of means, by the larger: one, and what both were made in
_REACH = 64  # of a quotient and a sum, by the sizes of all that enters: fewer than MU


def bound_large_mu(
    bins: int, mu: float, question: Question, *, free: float, directions: Sequence[AdjacencyType]
) -> Bounds:
    """Bound the answer; ``free`` is what bounds it without bins."""
    low, high, log_bins = round_down(mu, MU), round_up(mu, MU), math.log(bins)
    logs = round_down(log_bins, ELEMENTARY), round_up(log_bins, ELEMENTARY)

    def least(epsilon: float) -> float:
        return gaussian_delta(low, round_up(epsilon + logs[1], ONCE))[0] if AdjacencyType.REMOVE in directions else 0.0

    def most(epsilon: float, delta: float) -> float:
        found = 0.0
        if AdjacencyType.REMOVE in directions:
            found = round_up(
                gaussian_delta(high, round_down(epsilon + logs[0], ONCE))[1] + _rest(bins, low, _SHARE * delta), TWICE
            )
        if AdjacencyType.ADD in directions:
            found = max(found, _bound_addition(bins, (low, high), logs, epsilon))
        return min(found, gaussian_delta(high, epsilon)[1])

    match question:
        case EpsilonAt(delta):
            upper = bisect_doubles(lambda at: most(at, delta) <= delta, 0.0, free)[1] if math.isfinite(free) else free
            lower = bisect_doubles(lambda at: least(at) <= delta, 0.0, upper)[0] if math.isfinite(upper) else 0.0
            return Bounds(lower, upper)
        case DeltaAt(epsilon):
            lower = least(epsilon)
            return Bounds(lower, max(lower, min(most(epsilon, max(lower, TINY)), free)))


def _rest(bins: int, mu: float, share: float) -> float:
    """Return what ratios add that are not above that at x, and two above it at once."""
    x = mu + float(ndtri(max(share, TINY)))
    below, above = (round_up(float(ndtr(at)), _TAIL * (1 + at * at)) for at in (x - mu + gamma(_EDGE) * mu, -x))
    return below + (bins - 1) * above + LEAST


def _bound_addition(bins: int, mu: tuple[float, float], logs: tuple[float, float], epsilon: float) -> float:
    """Return the chance that no ratio is large enough to hide the unit."""
    ways = ((one - epsilon) / each + each / 2 for one in logs for each in mu)
    x = max(ways)
    x += gamma(_REACH) * (abs(x) + mu[1] + (logs[1] + epsilon) / mu[0])
    exponent = bins * float(log_ndtr(x)) * (1 - gamma(_TAIL * (1 + x * x)))
    return min(round_up(math.exp(min(exponent, 0.0)), ELEMENTARY) + LEAST, 1.0)

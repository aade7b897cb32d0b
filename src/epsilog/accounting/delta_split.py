"""Stated deltas taken apart: the chance that (epsilon, delta) statements give everything away, and the rest of a mix.

An (epsilon, delta) statement is dominated by randomized response with infinity mass delta (Kairouz, Oh & Viswanath
2015, Theorem 3.1). With such a probability F, delta composes to F + (1 - F) delta_rest(epsilon), exactly. So accounting
treats the statement as pure, and the result meets its delta to the last digit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from epsilog.numerics.questions import Bounds
from epsilog.numerics.rounding import round_outward, union_probability

_MOST = 32  # failures with an exact joint probability as a fraction


@dataclass(frozen=True, slots=True)
class FailureProbability:
    """The chance that some statement of a mix gives everything away, bounded from both sides.

    Attributes:
        low: at least this.
        high: at most this.
    """

    low: float
    high: float

    def remaining_delta(self, delta: float) -> tuple[float | None, float | None]:
        """Bound what remains of ``delta`` for the rest, from below and above; None where it does not even suffice."""
        return _subtract_failure(delta, self.high, up=False), _subtract_failure(delta, self.low, up=True)

    def add_to(self, rest: Bounds) -> Bounds:
        """Bound delta of the whole from bounds on that of the rest."""
        below, above = (
            Fraction(one) + (1 - Fraction(one)) * Fraction(other)
            for one, other in ((self.low, rest.lower), (self.high, rest.upper))
        )
        return Bounds(round_outward(below, up=False), round_outward(above, up=True))


def joint(chances: list[tuple[float, int]]) -> FailureProbability:
    """Return the probability that any of several events with counts happens.

    >>> joint([(0.5, 2)])
    FailureProbability(low=0.75, high=0.75)
    """
    if sum(count for _, count in chances) <= _MOST:
        survives = math.prod(((1 - Fraction(chance)) ** count for chance, count in chances), start=Fraction(1))
        return FailureProbability(round_outward(1 - survives, up=False), round_outward(1 - survives, up=True))
    least, most = union_probability(chances)
    return FailureProbability(max(least, *(chance for chance, _ in chances)), most)


def _subtract_failure(delta: float, failing: float, *, up: bool) -> float | None:
    if delta < failing or failing == 1:
        return None
    return round_outward((Fraction(delta) - Fraction(failing)) / (1 - Fraction(failing)), up=up)

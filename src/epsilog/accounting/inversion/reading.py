"""Epsilon at a delta, from a curve whose deltas are bounded at any epsilon: both ends are checked on the curve."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from epsilog.numerics.questions import Bounds
from epsilog.numerics.roots import secant
from epsilog.numerics.rounding import gamma


class Readable(ABC):
    """A curve of deltas of one composition.

    Attributes:
        theta: the tilt that it was made at.
        width: the tilted deviation of the loss, about.
        infinite: the least and the most mass that gives everything away.
    """

    theta: float
    width: float
    infinite: tuple[float, float]

    @abstractmethod
    def delta(self, epsilon: float) -> Bounds:
        """Bounds delta at ``epsilon``."""

    def epsilon(self, delta: float, near: float) -> Bounds:
        """Bounds epsilon at ``delta``; either end was checked by computing its delta."""
        if self.infinite[0] > delta:
            return Bounds(math.inf, math.inf)
        if self.delta(0.0).upper <= delta:
            return Bounds(0.0, 0.0)
        here = max(near, 1e-9 * self.width)
        if self.infinite[1] < delta:
            here = _root(lambda at: self.delta(at).upper / delta, here, self.theta)
            upper = self._checked(here, 1.0, lambda at: self.delta(at).upper <= delta)
        else:
            upper = math.inf
        here = _root(lambda at: self.delta(at).lower / delta, here, self.theta)
        lower = self._checked(here, -1.0, lambda at: at == 0 or self.delta(at).lower >= delta)
        return Bounds(lower if math.isfinite(lower) else 0.0, upper)

    def _checked(self, here: float, side: float, holds: Callable[[float], bool]) -> float:
        """Moves ``here`` to one side until the test holds; ``inf`` if it never does."""
        nudge = max(1e-12 / self.theta, gamma(4.0) * here)
        for _ in range(60):
            candidate = max(here + side * nudge, 0.0)
            if holds(candidate):
                return candidate
            nudge *= 3
        return math.inf


def _root(ratio: Callable[[float], float], guess: float, theta: float) -> float:
    """About where ``ratio`` is 1, searched in its logarithm; it falls, from above 1 at 0."""

    def excess(here: float) -> float:
        return math.log(value) if (value := ratio(here)) > 0 else -50.0

    return secant(excess, guess, -theta, enough=1e-13)

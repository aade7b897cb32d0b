"""A lower and an upper bound on one number, both proven: so they cannot contradict each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """A lower and an upper bound on the same number; ``inf`` is a number here, NaN is none.

    If the lower one is above the upper one a program or a proof is wrong, and no interval at all is the answer.

    Raises:
        ArithmeticError: the two contradict each other.

    >>> Bounds(1.0, 2.0).meet(Bounds(1.5, 3.0))
    Bounds(lower=1.5, upper=2.0)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ArithmeticError(
                f"two proven bounds contradict each other: {self.lower!r} from below and {self.upper!r} from above; "
                "please report this"
            )

    def __iter__(self) -> Iterator[float]:
        """Unpacks as ``lower, upper``."""
        return iter((self.lower, self.upper))

    def meet(self, other: Bounds) -> Bounds:
        """What both say together.

        Raises:
            ArithmeticError: they have no number in common.
        """
        return Bounds(max(self.lower, other.lower), min(self.upper, other.upper))

    def within(self, gap: float, *, least: float = 0.0) -> bool:
        """Whether the width is at most ``gap`` of the upper bound, or ``least``; what is exact always is."""
        if self.lower == self.upper or math.isinf(self.upper):
            return self.lower == self.upper
        return self.upper - self.lower <= max(gap * self.upper, least)

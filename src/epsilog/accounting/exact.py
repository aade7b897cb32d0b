"""Numbers without round-off: fractions, rounded once, to the side that is safe."""

from __future__ import annotations

import math
from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.terms import DiscreteLaplace, Laplace, NeighboringRelation, PureDP


def rounded(number: Fraction, *, up: bool) -> float:
    """The nearest double that is not below (or not above) a number from 0 on.

    >>> rounded(Fraction(2, 5), up=True), rounded(Fraction(2, 5), up=False) < 0.4
    (0.4, True)
    """
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if up else math.nextafter(math.inf, 0.0)
    if up:
        return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, 0.0)


def pure_loss(bag: Bag, relation: NeighboringRelation) -> Fraction | None:
    """The largest loss of a mix of Laplace noises and pure statements, which simply add up; None if a part is no such.

    Neighbours attain it: with Laplace noise those a whole sensitivity apart, with a statement those of randomized
    response.

    >>> pure_loss({Laplace(100.0): 40}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    Fraction(2, 5)
    """
    far = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
    total = Fraction(0)
    for part, count in bag.items():
        match part:
            case Laplace(noise_multiplier=noise) if noise > 0:
                total += count * far / Fraction(noise)
            case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity) if scale > 0:
                total += count * far * sensitivity / Fraction(scale)
            case PureDP(epsilon=epsilon):
                total += count * Fraction(epsilon)
            case _:
                return None
    return total

"""The plainest pairs, from nothing told to nothing hidden, and what stands for laws that doubles cannot hold.

A pair comes as two laws: the first dominates what it stands for, neighbours attain the second.
docs/accounting/certified-bounds.md, 1.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from epsilog.numerics.laws.base import Atoms, BaseLaw, Tent
from epsilog.numerics.rounding import LEAST, RATIO, down, up

METHOD = "privacy loss distributions"
MOST_ATOMS = 2_000_000
NEAREST = 1e-100  # a distance between Gaussians, or a loss, whose square a double holds
LONGEST = 600.0  # a loss whose exponential a double holds; beyond it an outcome counts as giving everything away
NO_LARGEST = (math.inf, math.inf)  # bounds of the largest loss where none is the largest


def same(law: BaseLaw) -> tuple[BaseLaw, BaseLaw]:
    """A law that dominates and is attained."""
    return law, law


def pure(epsilon: float, delta: float) -> Atoms:
    """Randomized response, with a chance delta of giving everything away: Kairouz, Oh & Viswanath 2015, Thm 3.1."""
    if epsilon == 0:
        return Atoms(np.zeros(1), np.array([1 - delta]), only_p=delta, step=1.0)
    often = 1 / (1 + math.exp(-epsilon))
    rare = often * math.exp(-epsilon)  # not 1 - often: under Q this is nearly everything, so every digit counts
    return Atoms(np.array([-epsilon, epsilon]), (1 - delta) * np.array([rare, often]), delta, 2 * epsilon)


def nothing_hidden(stated: tuple[float, float] | None = None) -> Atoms:
    """Whatever happens gives everything away; the largest loss remains what is ``stated``, if anything is."""
    return Atoms(np.zeros(0), np.zeros(0), only_p=1.0, stated=stated)


def within_reach(
    law: Callable[[float], Tent | Atoms], epsilon: float, stated: tuple[float, float] | None, *, certain: float = 0.0
) -> tuple[BaseLaw, BaseLaw]:
    """A law of a family that grows with ``epsilon``, and its stand-ins where doubles cannot hold it.

    Losses that are too small to be squared become the least that are not, or (below) none, but for the chance
    ``certain`` of giving everything away. Losses whose exponential is too large count as giving everything away, or
    (below) become the largest that are not. The largest loss remains what is ``stated``.
    """
    if epsilon < NEAREST:
        return replace(law(NEAREST), stated=stated), replace(pure(0.0, certain), stated=stated)
    if epsilon > LONGEST:
        return nothing_hidden(stated), replace(law(LONGEST), stated=stated)
    return same(replace(law(epsilon), stated=stated))


def around(epsilon: float) -> tuple[float, float]:
    """Bounds a number from 0 on that was rounded a few times."""
    return down(epsilon, RATIO), up(epsilon, RATIO) + LEAST

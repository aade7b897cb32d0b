"""Choices: the exponential mechanism, report noisy max and sparse vector, from what they can lose at most.

docs/accounting/certified-bounds.md, 1.3, on the exponential mechanism; docs/accounting/selection.md on the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from epsilog.numerics.laws.base import Atoms, BaseLaw, Tent
from epsilog.numerics.pairs import LONGEST, NEAREST, pure, same, within_reach
from epsilog.numerics.responses import statement
from epsilog.numerics.rounding import RATIO, down, rounded

_LEANS = (0.5, 0.53, 0.57, 0.62, 0.68, 0.76, 0.79, 0.85, 0.9, 0.95)
_LEANS_OF_ONE = tuple(1 - 0.5 * 2 ** (-i / 6) for i in range(84))


def bounded_range(spread: float) -> tuple[BaseLaw, BaseLaw]:
    """The exponential mechanism: above its profile, below the middle one of its instances (docs, 1.3)."""
    if spread == 0:
        return same(pure(0.0, 0.0))
    above, _ = within_reach(lambda at: Tent(at, 0.25 / math.sinh(at / 2), 0.0), spread, (spread, spread))
    _, below = within_reach(lambda at: pure(at, 0.0), spread / 2, (spread, spread))
    return above, below


def instances(spread: float, *, alone: bool) -> tuple[Atoms, ...]:
    """Instances of an exponential mechanism: the larger of their two losses, over the range, leans from 1/2 to 1.

    Any is one (docs, 1.3). The best one depends on the question; the more there are, the nearer to the middle.
    """
    return tuple(_leaning(spread, lean) for lean in (_LEANS_OF_ONE if alone else _LEANS)) if spread >= NEAREST else ()


def _leaning(spread: float, lean: float) -> Atoms:
    """Two outputs of a mechanism of range s, with losses t = ``lean`` s and t - s."""
    s = min(spread, LONGEST)
    t = lean * s
    often, rare = math.expm1(t - s) / math.expm1(-s), math.exp(t - s) * math.expm1(-t) / math.expm1(-s)
    return Atoms(np.array([t - s, t]), np.array([rare, often]), step=s, stated=(spread, spread))


def chosen(loss: Fraction, *, half: Fraction, laplace: bool) -> tuple[BaseLaw, BaseLaw]:
    """A choice whose largest loss is known: above its statement; below two noisy numbers that are compared.

    They are ``half`` a scale apart, one way or the other. The larger wins with the odds 2 e^half - 1 under exponential
    noise, 4 e^half / (2 + half) - 1 under Laplace noise: docs/accounting/selection.md.
    """
    stated = rounded(loss, up=False), rounded(loss, up=True)
    apart = min(rounded(half, up=False), LONGEST)
    odds = (4 * math.expm1(apart) - 2 * apart) / (2 + apart) if laplace else 2 * math.expm1(apart)
    told = min(down(math.log1p(odds), 4 * RATIO), LONGEST)
    return statement(stated[1], 0.0)[0], replace(pure(told if told > NEAREST else 0.0, 0.0), stated=stated)

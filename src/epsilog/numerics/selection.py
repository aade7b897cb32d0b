"""Answers out of a few: randomized response, statements, the exponential mechanism, noisy maxima, sparse vectors.

docs/accounting/certified-bounds.md derives the pairs. Section 1.6 has the two rows of randomized response, which are
the pair of every statement about epsilon and delta (Kairouz, Oh & Viswanath 2015, arXiv:1311.0776). Section 1.3 has the
exponential mechanism, docs/accounting/selection.md the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from epsilog.numerics.distributions.base import BasePair, DiscretePair, LaplacePair
from epsilog.numerics.pairs import (
    LONGEST,
    NEAREST,
    bound_rounded,
    build_non_private_pair,
    clamp_to_doubles,
    pure,
    use_exact_pair,
)
from epsilog.numerics.rounding import RATIO, round_down, round_outward

_SKEWS = (0.5, 0.53, 0.57, 0.62, 0.68, 0.76, 0.79, 0.85, 0.9, 0.95)
_SKEWS_ALONE = tuple(1 - 0.5 * 2 ** (-i / 6) for i in range(84))


def build_approximate_dp_pair(epsilon: float, delta: float) -> tuple[BasePair, BasePair]:
    """A statement about epsilon, with a chance ``delta`` of giving everything away."""
    if epsilon == 0:
        return use_exact_pair(pure(0.0, delta))
    stated = (epsilon, epsilon) if delta == 0 else None
    return clamp_to_doubles(lambda at: pure(at, delta), epsilon, stated, certain=delta)


def build_randomized_response_pair(flip: float, categories: int) -> tuple[BasePair, BasePair]:
    """The true answer has the chance 1 - flip + rare, any other one rare: sums and ratios in which nothing cancels."""
    if flip == 0:
        return use_exact_pair(build_non_private_pair())
    if flip == 1:
        return use_exact_pair(pure(0.0, 0.0))
    rare = flip / categories
    ratio = (1 - flip) / rare if rare > 1e-290 else math.inf
    epsilon = math.log1p(ratio) if ratio < math.inf else math.log1p(-flip) + math.log(categories) - math.log(flip)
    return clamp_to_doubles(lambda at: _three(at, flip, categories), epsilon, bound_rounded(epsilon))


def _three(epsilon: float, flip: float, categories: int) -> DiscretePair:
    """Three answers: against the truth, neither, and the truth.

    An ``epsilon`` within reach may stand for a larger one: then both neighbors' answers are exchanged with a chance
    that is far below round-off.
    """
    rest = (categories - 2) * (flip / categories)
    common = (1 - flip) + flip / categories
    return DiscretePair(
        np.array([-epsilon, 0.0, epsilon]), np.array([common * math.exp(-epsilon), rest, common]), step=epsilon
    )


def build_bounded_range_pairs(spread: float) -> tuple[BasePair, BasePair]:
    """Return the exponential mechanism: above its profile, below the middle one of its instances (docs, 1.3)."""
    if spread == 0:
        return use_exact_pair(pure(0.0, 0.0))
    above, _ = clamp_to_doubles(lambda at: LaplacePair(at, 0.25 / math.sinh(at / 2), 0.0), spread, (spread, spread))
    _, below = clamp_to_doubles(lambda at: pure(at, 0.0), spread / 2, (spread, spread))
    return above, below


def instances(spread: float, *, alone: bool) -> tuple[DiscretePair, ...]:
    """Instances of an exponential mechanism: the larger of their two losses, over the range, leans from 1/2 to 1.

    Any is one (docs, 1.3). The best one depends on the question; the more there are, the nearer to the middle.
    """
    return (
        tuple(_build_skewed_pair(spread, skew) for skew in (_SKEWS_ALONE if alone else _SKEWS))
        if spread >= NEAREST
        else ()
    )


def _build_skewed_pair(spread: float, skew: float) -> DiscretePair:
    """Two outputs of a mechanism of range s, with losses t = ``skew`` s and t - s."""
    s = min(spread, LONGEST)
    t = skew * s
    common, rare = math.expm1(t - s) / math.expm1(-s), math.exp(t - s) * math.expm1(-t) / math.expm1(-s)
    return DiscretePair(np.array([t - s, t]), np.array([rare, common]), step=s, stated=(spread, spread))


def build_selection_pairs(loss: Fraction, *, half: Fraction, laplace: bool) -> tuple[BasePair, BasePair]:
    """Return pairs of a choice with a known maximum loss: above its statement; below two noisy numbers compared.

    They are ``half`` a scale apart, one way or the other. The larger wins with the odds 2 e^half - 1 under exponential
    noise, 4 e^half / (2 + half) - 1 under Laplace noise: docs/accounting/selection.md.
    """
    stated = round_outward(loss, up=False), round_outward(loss, up=True)
    distance = min(round_outward(half, up=False), LONGEST)
    odds = (4 * math.expm1(distance) - 2 * distance) / (2 + distance) if laplace else 2 * math.expm1(distance)
    attained = min(round_down(math.log1p(odds), 4 * RATIO), LONGEST)
    return build_approximate_dp_pair(stated[1], 0.0)[0], replace(
        pure(attained if attained > NEAREST else 0.0, 0.0), stated=stated
    )

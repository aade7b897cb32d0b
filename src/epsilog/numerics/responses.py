"""Randomized response: the pair of its two rows, and of every statement about epsilon and delta.

docs/accounting/certified-bounds.md, 1.6; statements: Kairouz, Oh & Viswanath 2015, arXiv:1311.0776.
"""

from __future__ import annotations

import math

import numpy as np

from epsilog.numerics.distributions.base import BasePair, DiscretePair
from epsilog.numerics.pairs import bound_rounded, build_non_private_pair, clamp_to_doubles, pure, use_exact_pair


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

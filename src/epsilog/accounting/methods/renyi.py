"""Renyi differential privacy: an upper bound wherever every part has a divergence."""

from __future__ import annotations

import math

import numpy as np

from epsilog.accounting.renyi import DEFAULT_ORDERS, rdp_of
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.moments import Array, delta_of, epsilon_of
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.terms import UnsupportedMechanismError

WIDE = 1 + np.concatenate((np.geomspace(1e-6, 1e8, 180), np.geomspace(1e10, 1e160, 50)))
"""Orders to begin with where any order between two of them costs next to nothing."""


def bounds(composition: Composition, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer from above; None where a part has no divergence, or one that no double holds.

    Raises:
        UnsupportedMechanismError: neither has a part a divergence nor the release pairs, and nothing in it is sampled.
    """
    between = not composition.sampled
    orders = WIDE if between else DEFAULT_ORDERS

    def curve(orders: Array) -> Array:
        return rdp_of(composition.bag, orders, composition.relation)

    try:
        match question:
            case EpsilonAt(delta):
                upper = epsilon_of(curve, orders, delta, between=between)
            case DeltaAt(epsilon):
                upper = delta_of(curve, orders, epsilon, between=between)
    except OverflowError:
        return None
    except UnsupportedMechanismError:
        if composition.has_pairs or composition.sampled:
            return None
        raise
    return None if math.isinf(upper) else Bounds(0.0, upper)

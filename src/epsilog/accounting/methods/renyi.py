"""Renyi differential privacy: an upper bound wherever every part has a divergence."""

from __future__ import annotations

import math

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import DeltaAt, EpsilonAt, Question
from epsilog.accounting.renyi import DEFAULT_ORDERS, delta_of, epsilon_of, rdp_of
from epsilog.terms import UnsupportedMechanismError


def bounds(prepared: Prepared, question: Question, gap: float) -> Bounds | None:  # noqa: ARG001
    """Bounds the answer from above; None where a part has no divergence, or one that no double holds.

    Raises:
        UnsupportedMechanismError: neither has a part a divergence nor the release pairs, and nothing in it is sampled.
    """
    try:
        divergence = rdp_of(prepared.bag, DEFAULT_ORDERS, prepared.relation)
        match question:
            case EpsilonAt(delta):
                upper = epsilon_of(divergence, DEFAULT_ORDERS, delta)
            case DeltaAt(epsilon):
                upper = delta_of(divergence, DEFAULT_ORDERS, epsilon)
    except OverflowError:
        return None
    except UnsupportedMechanismError:
        if prepared.has_pairs or prepared.sampled:
            return None
        raise
    return None if math.isinf(upper) else Bounds(0.0, upper)

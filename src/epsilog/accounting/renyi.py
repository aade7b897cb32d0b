"""Renyi differential privacy: additive bounds for every order; the fallback if nothing tighter is proven.

Each mechanism bounds its own divergence (``rdp``); composition is written once, so that none can forget a count.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from epsilog.mechanisms import Release
from epsilog.mechanisms.composition import Composition, ReleaseCounts
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.rdp_conversion import Array, rdp_to_delta, rdp_to_epsilon
from epsilog.numerics.renyi import FEW
from epsilog.numerics.rounding import round_up
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check

DEFAULT_ORDERS: Array = np.array(
    sorted({*(1 + np.geomspace(0.005, 11, 70)), *np.arange(12.0, 65), *np.round(np.geomspace(64, 32768, 50))})
)

_SLACK = 1e-5  # relative: far more than all that is added for rounding, at orders and noise that are measured in this


def rdp(release: Release, orders: Array, *, relation: NeighboringRelation) -> Array:
    """Bound the Renyi divergence of one release from above, in nats, at each order above 1; shape (k,) to (k,).

    Every rounding is towards more (docs, accounting/certified-bounds, section 6).

    Args:
        release: what is released.
        orders: at which, each above 1.
        relation: which data sets are neighbors.

    Raises:
        ValueError: an order is not a finite number above 1 (at 1 it is the Kullback-Leibler divergence: not offered).
        UnsupportedMechanismError: no proven bound for this mechanism under this relation.

    Source:
        Of each part, ``rdp`` in its file under ``mechanisms``; Mironov 2017, Proposition 1 (arXiv:1702.07476), adds.

    >>> from epsilog.mechanisms import Gaussian
    >>> rdp(Gaussian(2.0), np.array([2.0, 8.0]), relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    array([0.25, 1.  ])
    """
    composition = Composition.of(release, relation)
    most = composition if composition.enclosed is None else composition.enclosed[0]
    return rdp_of_parts(most.counts, _check_orders(orders), composition.relation)


def rdp_of_parts(counts: ReleaseCounts, orders: Array, relation: NeighboringRelation) -> Array:
    """Return the same of single releases with their counts, which add up; the orders were checked."""
    with np.errstate(over="ignore", under="ignore"):
        parts = [_times(count, part.rdp(orders, relation)) for part, count in counts.items()]
        return np.asarray(round_up(sum(parts, np.zeros_like(orders)), 2 * (len(parts) - 1)))


def _times(count: int, divergence: Array) -> Array:
    return round_up(count * divergence, FEW) if count > 1 else divergence


def _check_orders(orders: Array) -> Array:
    """Return the orders as doubles; the whole series is read before its first number is judged."""
    numbers = np.array(check.sequence_of(check.real())(orders=orders))
    wrong = numbers[~((numbers > 1) & (numbers < np.inf))]
    if wrong.size:
        raise CheckError("orders", "finite and above 1", repr(float(wrong[0])))
    if not numbers.size:
        raise ValueError("orders must not be empty")
    return numbers


def rdp_lower_bound(release: Release, orders: Array, *, relation: NeighboringRelation) -> Array | None:
    """Bound from below the Renyi divergence that some neighbors attain, in nats; shape (k,) to (k,).

    It sums the parts with an exact divergence ``rdp``, in the direction that is larger for each of them. Divergences of
    products of fixed distributions add up, and none is negative. A statement counts as the largest release that
    satisfies it. None if no part is known exactly.

    Args:
        release: what is released.
        orders: at which, each above 1.
        relation: which data sets are neighbors.

    Raises:
        ValueError: an order is not a finite number above 1.

    Source:
        Van Erven & Harremoes 2014, Theorem 28 (additivity); of each part, ``rdp`` in its file under ``mechanisms``.

    >>> from epsilog.mechanisms import Gaussian
    >>> rdp_lower_bound(Gaussian(2.0), np.array([2.0, 8.0]), relation=NeighboringRelation.ADD_OR_REMOVE_ONE).round(4)
    array([0.25, 1.  ])
    """
    orders, composition = _check_orders(orders), Composition.of(release, relation)
    least = composition if composition.enclosed is None else composition.enclosed[1]
    parts = [(part, count) for part, count in least.counts.items() if part.attains_rdp]
    if not parts:
        return None
    total = np.zeros_like(orders)
    with np.errstate(over="ignore", under="ignore"):
        for part, count in parts:
            at = part.rdp_orders(orders)
            total += count * np.where(at <= orders, part.rdp(at, composition.relation), 0.0)
    return np.asarray(total * (1 - _SLACK))


def renyi_epsilon(
    release: Release,
    *,
    delta: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    orders: Array = DEFAULT_ORDERS,
) -> float:
    """Bound epsilon of ``release`` from above.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in (0, 1).
        relation: which data sets are neighbors.
        orders: Renyi orders, all above 1; shape (k,).

    Returns:
        An upper bound in nats; ``inf`` if a part gives no privacy.

    Raises:
        UnsupportedMechanismError: RDP has no bound for a part.
    Source:
        Asoodeh et al. 2021 (arXiv:2008.06529), proven and rounded as in docs/accounting/moments.md.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> round(renyi_epsilon(Repeated(Gaussian(noise_multiplier=4.0), count=10), delta=1e-5), 2)
    3.62
    """
    delta, orders = check.in_open_interval(0, 1, check.DOWN)(delta=delta), _check_orders(orders)
    return rdp_to_epsilon(partial(rdp, release, relation=relation), orders, delta)


def renyi_delta(
    release: Release,
    *,
    epsilon: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    orders: Array = DEFAULT_ORDERS,
) -> float:
    """Bound delta of ``release`` from above, by the same conversion read the other way.

    Args:
        release: what is released.
        epsilon: in nats, at least 0.
        relation: which data sets are neighbors.
        orders: Renyi orders, all above 1; shape (k,).

    Raises:
        UnsupportedMechanismError: RDP has no bound for a part.

    Source:
        Asoodeh et al. 2021 (arXiv:2008.06529), proven and rounded as in docs/accounting/moments.md.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> renyi_delta(Repeated(Gaussian(noise_multiplier=4.0), count=10), epsilon=3.62) <= 1e-5
    True
    """
    epsilon, orders = check.at_least(0, check.DOWN)(epsilon=epsilon), _check_orders(orders)
    return rdp_to_delta(partial(rdp, release, relation=relation), orders, epsilon)


WIDE = 1 + np.concatenate((np.geomspace(1e-6, 1e8, 180), np.geomspace(1e10, 1e160, 50)))
"""Orders to begin with where any order between two of them costs next to nothing."""


def bound(composition: Composition, question: Question, relative_width: float) -> Bounds | None:  # noqa: ARG001
    """Bound the answer from above; None where a part has no divergence, or one that no double holds.

    Raises:
        UnsupportedMechanismError: neither has a part a divergence nor the release pairs, and nothing in it is sampled.
    """
    between = not composition.sampled
    orders = WIDE if between else DEFAULT_ORDERS

    def curve(orders: Array) -> Array:
        return rdp_of_parts(composition.counts, orders, composition.relation)

    try:
        match question:
            case EpsilonAt(delta):
                upper = rdp_to_epsilon(curve, orders, delta, between=between)
            case DeltaAt(epsilon):
                upper = rdp_to_delta(curve, orders, epsilon, between=between)
    except OverflowError:
        return None
    except UnsupportedMechanismError:
        if composition.has_pairs or composition.sampled:
            return None
        raise
    return None if math.isinf(upper) else Bounds(0.0, upper)

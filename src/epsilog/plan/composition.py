"""A composition of releases: its cost, the cost of each part, its profile and its risks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from epsilog.accounting import delta as bound_delta
from epsilog.accounting import epsilon as bound_epsilon
from epsilog.accounting import tpr_upper_bound
from epsilog.mechanisms import (
    Composed,
    Release,
)
from epsilog.terms import Interval, NeighboringRelation, check

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE

_CLOSE, _SHOWN, _DRAWN = 0.002, 0.005, 0.02  # relative widths: of the mix, of what parts add, of a curve's points


@dataclass(frozen=True, slots=True)
class PartCost:
    """One part of a mix.

    Attributes:
        alone: the interval of the part by itself.
        without: the interval of the mix when this part is left out.
    """

    alone: Interval
    without: Interval


@dataclass(frozen=True, slots=True)
class CompositionPlan:
    """A composition of releases with its cost.

    Attributes:
        epsilon: the interval of all parts together.
        parts: one contribution for each part; they do not add up, as composition is not a sum.
    """

    epsilon: Interval
    parts: tuple[PartCost, ...]


@dataclass(frozen=True, slots=True)
class ProfileView:
    """The whole privacy profile of a release at a grid of epsilons, and its readings.

    Attributes:
        epsilons: the grid, in nats, from 0 upwards.
        deltas: certified intervals of delta, one for each epsilon.
        advantage: delta at epsilon 0: the most by which an attacker beats a coin, as TPR - FPR.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[Interval, ...]
    advantage: Interval

    def true_positive_rate(self, fpr: float) -> float:
        """Bound from above how often an attacker who may be wrong ``fpr`` of the time is right."""
        points = zip(self.epsilons, (delta.upper for delta in self.deltas), strict=True)
        return tpr_upper_bound(points, fpr=fpr)


def plan_composition(
    releases: Sequence[Release], *, delta: float, relation: NeighboringRelation = _ADD_OR_REMOVE
) -> CompositionPlan:
    """Compute the cost of several releases together, of each alone, and of the rest without each.

    Args:
        releases: the parts; their parameters are fixed in advance.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbors.

    Raises:
        UnsupportedMechanismError: no proof covers a part under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> both = plan_composition([Gaussian(4.0), Gaussian(8.0)], delta=1e-6)
    >>> both.epsilon.upper > both.parts[0].alone.upper > both.parts[1].alone.upper
    True
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)

    def compute_cost(parts: Sequence[Release], relative_width: float = _SHOWN) -> Interval:
        return bound_epsilon(Composed(parts), delta=delta, relation=relation, relative_width=relative_width)

    return CompositionPlan(
        epsilon=compute_cost(releases, relative_width=_CLOSE),
        parts=tuple(
            PartCost(alone=compute_cost([part]), without=compute_cost([*releases[:i], *releases[i + 1 :]]))
            for i, part in enumerate(releases)
        ),
    )


def compute_profile_view(
    release: Release, *, delta: float, relation: NeighboringRelation = _ADD_OR_REMOVE, points: int = 25
) -> ProfileView:
    """Bound delta over a grid of epsilons that reaches down to about ``delta``.

    >>> from epsilog.mechanisms import Gaussian
    >>> view = compute_profile_view(Gaussian(1.0), delta=1e-6)
    >>> round(view.advantage.upper, 4), 0.05 < view.true_positive_rate(0.01) < 0.13
    (0.3829, True)
    """
    delta = check.in_open_interval(0, 1)(delta=delta)
    points = check.integer(2)(points=points)
    reach = bound_epsilon(release, delta=delta, relation=relation).upper
    last = reach * 1.1 if math.isfinite(reach) and reach > 0 else 1.0
    epsilons = tuple(last * i / (points - 1) for i in range(points))
    deltas = tuple(bound_delta(release, epsilon=eps, relation=relation, relative_width=_DRAWN) for eps in epsilons)
    return ProfileView(epsilons, deltas, deltas[0])

"""Several releases: what they cost together, each alone and their profile; and two of them side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from epsilog.accounting import (
    GaussianDPFit,
    PointComparison,
    ProfileComparison,
    compare_profiles,
    delta as bound_delta,
    epsilon as bound_epsilon,
    tpr_upper_bound,
)
from epsilog.mechanisms import Composed, Release
from epsilog.plan.interpretation import fit_gaussian_dp_quickly
from epsilog.terms import Interval, NeighboringRelation, check
from epsilog.terms.messages import Message

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


DELTAS = (0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
FPRS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
_TOLERANCE, _RELATIVE_WIDTH = 0.005, 0.01  # a negligible difference of TPR; the relative width of the drawn intervals


@dataclass(frozen=True, slots=True)
class ReleaseComparison:
    """Two releases, compared as curves and at one point of each.

    Attributes:
        found: the comparison, at many deltas and false positive rates, from large to small and from small to large.
        at_delta: how they stand at the delta that was asked for, by epsilon.
        at_fpr: and at the false positive rate, by the best attack's true positive rate; None where it has no proof.
        fits: the mu that each comes close to; None where none does.
    """

    found: ProfileComparison
    at_delta: PointComparison
    at_fpr: PointComparison | None
    fits: tuple[GaussianDPFit | None, GaussianDPFit | None]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Which protects better, and whether the smaller epsilon is the weaker guarantee."""
        outcome, at_delta, at_fpr = self.found.outcome, self.at_delta, self.at_fpr
        tolerance = {} if outcome in ("neither", "open") else {"tolerance": self.found.tolerance}
        statement = Message.of(f"compare/{outcome}", **tolerance)
        if at_fpr is None or {at_delta.better, at_fpr.better} != {"first", "second"}:
            return (statement,)
        small, other = at_delta.better, at_fpr.better
        weaker = Message.of(
            "compare/weaker",
            delta=at_delta.first.given[0][1],
            fpr=at_fpr.first.given[0][1],
            less=Message(f"better/{small}"),
            more=Message(f"better/{other}"),
            upper=getattr(at_delta, small).upper,
            lower=getattr(at_delta, other).lower,
            least=getattr(at_fpr, small).lower,
            most=getattr(at_fpr, other).upper,
        )
        return statement, weaker


def compare_releases(
    first: Release,
    second: Release,
    *,
    delta: float,
    fpr: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> ReleaseComparison:
    """Compare two releases for a reader: whole curves, and one delta and one false positive rate of interest.

    Args:
        first: a release.
        second: another, for the same neighbors.
        delta: the delta of the reported epsilons.
        fpr: the false positive rate of the reported attacks.
        relation: which data sets are neighbors.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part of one under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> compare_releases(Gaussian(2.0), Gaussian(1.0), delta=1e-6, fpr=0.01).found.outcome
    'first'
    """
    delta, fpr = check.in_open_interval(0, 1)(delta=delta), check.in_open_interval(0, 1)(fpr=fpr)
    deltas, fprs = sorted({*DELTAS, delta}, reverse=True), sorted({*FPRS, fpr})
    found = compare_profiles(
        first, second, deltas=deltas, fprs=fprs, relation=relation, tolerance=_TOLERANCE, relative_width=_RELATIVE_WIDTH
    )
    at_fpr = found.at_fprs[fprs.index(fpr)] if found.at_fprs else None
    fits = (fit_gaussian_dp_quickly(first, relation), fit_gaussian_dp_quickly(second, relation))
    return ReleaseComparison(found, found.at_deltas[deltas.index(delta)], at_fpr, fits)

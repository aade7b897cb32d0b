"""The whole privacy curve of a release and its readings: what an attacker can do, what a group loses, rho and mu.

Every value is a certified interval. TPR and FPR are those of the best test between two neighbors; privacy is good if
the true positive rate stays near the false positive rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, overload

from epsilog.accounting import tradeoff
from epsilog.accounting.account import apply_group_size, build_interval, each
from epsilog.accounting.intervals import ArrayLike, Intervals
from epsilog.accounting.renyi import DEFAULT_ORDERS, rdp
from epsilog.mechanisms import Composed, Release, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.lattice.discretize import WorkCounter
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question
from epsilog.numerics.rdp_conversion import Array
from epsilog.numerics.rounding import ELEMENTARY, gamma, round_down, round_up
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_A_QUESTION = 200_000  # of composed frequencies: what asking all methods costs, about
_FAINT = 1e-12  # an epsilon to begin with where one unit's is 0
_SHARES = (0.01, 0.1, 0.3)  # of the false positive rate: a delta that is as large moves the true positive rate no more
_LOOSE = 0.02  # a relative width from which on other methods are asked, too
_MISSED = 8  # roundings of 1 less a product of numbers up to 1, absolute: three differences and a product


@dataclass(frozen=True)
class PrivacyProfile:
    """The privacy curve of one release under one relation; made by ``profile``.

    Attributes:
        release: what is released.
        relation: which data sets are neighbors.
        relative_width: the target relative width in each number.
    """

    release: Annotated[Release, check.instance_of(Release)]
    relation: Annotated[NeighboringRelation, check.enum_member(NeighboringRelation)] = _ADD_OR_REMOVE
    relative_width: Annotated[float, check.in_open_interval(0, 1)] = 0.002

    def __post_init__(self) -> None:
        check.check_fields(self)

    @cached_property
    def _composition(self) -> Composition:
        return Composition.of(self.release, self.relation)

    @overload
    def epsilon(self, delta: float) -> Interval: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> Intervals: ...
    def epsilon(self, delta: float | ArrayLike) -> Interval | Intervals:
        """Bound epsilon at ``delta``, or at each of a series."""
        return each(
            lambda at: build_interval(self._composition, EpsilonAt(at), self.relative_width),
            check.in_half_open_interval(0, 1, check.DOWN),
            delta=delta,
        )

    @overload
    def delta(self, epsilon: float) -> Interval: ...
    @overload
    def delta(self, epsilon: ArrayLike) -> Intervals: ...
    def delta(self, epsilon: float | ArrayLike) -> Interval | Intervals:
        """Bound delta at ``epsilon``, or at each of a series."""
        return each(
            lambda at: build_interval(self._composition, DeltaAt(at), self.relative_width),
            check.at_least(0, check.DOWN),
            epsilon=epsilon,
        )

    def advantage(self) -> Interval:
        """Bound TPR - FPR of the best test: the total variation distance, which is delta at epsilon 0."""
        return replace(self.delta(0.0), quantity="advantage", given=())

    @overload
    def tpr(self, fpr: float) -> Interval: ...
    @overload
    def tpr(self, fpr: ArrayLike) -> Intervals: ...
    def tpr(self, fpr: float | ArrayLike) -> Interval | Intervals:
        """Bound the true positive rate of the best test at the false positive rate ``fpr``, or each of a series.

        Neighbors are taken in the order that helps the attacker more: either of them may be the one to be detected.

        Source: Dong, Roth & Su 2019, Proposition 6 (arXiv:1905.02383), for each order by itself; the lower bound by
        convexity (docs/accounting/certified-bounds.md, section 6).
        """
        return each(self._tpr, check.in_closed_interval(0, 1, check.UP), fpr=fpr)

    def _tpr(self, fpr: float) -> Interval:
        if self._composition.group is not None:
            return self._tpr_of_group(*self._composition.group, fpr)
        if self._composition.enclosed is not None:
            return self._tpr_between(fpr)
        attained, work = self._composition.attained, WorkCounter()
        try:
            orders = tradeoff.bound_tprs(attained, fpr, relative_width=self.relative_width, work=work)
        except UnsupportedMechanismError:
            return self._tpr_without_pairs(fpr)
        worst = max(orders, key=lambda order: order.bounds.upper)
        upper = worst.bounds.upper if attained is self._composition else 1.0
        found = Bounds(max(order.bounds.lower for order in orders), upper)
        if not found.within(_LOOSE) and not (upper < 1 and work.done):
            found = found.intersect(Bounds(0.0, self._by_curve(fpr, work).bounds.upper))  # other methods may do better
        return self._rate(found, worst.at, fpr)

    def _by_curve(self, fpr: float, work: WorkCounter | None = None) -> tradeoff.RateBounds:
        """By delta itself, the larger of all orders: any curve that bounds it in both bounds the rate from above."""

        def bound_delta(epsilon: float) -> Bounds:
            if work is not None:
                work.add(_A_QUESTION)
            claim = self.delta(epsilon)
            return Bounds(claim.lower, claim.upper)  # the lower side only says where to look

        return tradeoff.bound_tpr(
            tradeoff.OrderedPair(bound_delta, bound_delta), fpr, relative_width=self.relative_width, work=work
        )

    def _rate(self, found: Bounds, at: float, fpr: float, *given: tuple[str, float]) -> Interval:
        """A true positive rate, with the method and the assumptions of delta at the ln t that bounds it best."""
        near = self.delta(abs(at))
        return replace(near, lower=found.lower, upper=found.upper, quantity="tpr", given=(("fpr", fpr), *given))

    def _tpr_without_pairs(self, fpr: float) -> Interval:
        found = self._by_curve(fpr)
        upper = min([found.bounds.upper, *(self._rate_at(fpr, share * fpr) for share in _SHARES if share * fpr > 0)])
        return self._rate(Bounds(fpr, max(upper, fpr)), found.at, fpr)

    def _rate_at(self, fpr: float, delta: float) -> float:
        """Bound the rate by one point of the curve: where a curve jumps, a search by its slope misses that point."""
        epsilon = self.epsilon(delta).upper
        if epsilon > LARGEST_LOSS:
            return 1.0
        most = round_up(math.exp(epsilon) * fpr + delta, ELEMENTARY + 2)
        missed = round_down(math.exp(-epsilon), ELEMENTARY) * (1 - fpr - delta)
        return min(1.0, most, 1 - missed + gamma(_MISSED))

    def _tpr_between(self, fpr: float) -> Interval:
        """Above by the rate of what loses no less, below by that of what loses no more."""
        assert self._composition.enclosed is not None
        most, least = (self._of(one).tpr(fpr) for one in self._composition.enclosed)
        return self._rate(Bounds(min(least.lower, most.upper), most.upper), 0.0, fpr)

    def without_sampling(self) -> PrivacyProfile:
        """Return the profile with every unit in every sample: what remains once the participation lists are known.

        Raises:
            UnsupportedMechanismError: a sampled part depends on other units.
        """
        sampled = self._composition.sampled
        return self._of(self._composition.without_sampling(sampled)) if sampled else self

    def _of(self, composition: Composition) -> PrivacyProfile:
        parts = (Repeated(part, count) for part, count in composition.counts.items())
        return replace(self, release=Composed(parts))

    def _tpr_of_group(self, unit: Composition, units: int, fpr: float) -> Interval:
        """From below by the rate of one unit."""
        found = self._by_curve(fpr)
        lower = found.bounds.lower
        if unit.mu is None:  # not the same in both orders
            lower = min(self._of(unit)._tpr(fpr).lower, found.bounds.upper)
        return self._rate(Bounds(lower, found.bounds.upper), found.at, fpr, ("units", float(units)))

    @overload
    def tradeoff(self, fpr: float) -> Interval: ...
    @overload
    def tradeoff(self, fpr: ArrayLike) -> Intervals: ...
    def tradeoff(self, fpr: float | ArrayLike) -> Interval | Intervals:
        """Bound the false negative rate of the best test at the false positive rate ``fpr``: 1 - TPR."""
        return each(self._fnr, check.in_closed_interval(0, 1, check.UP), fpr=fpr)

    def _fnr(self, fpr: float) -> Interval:
        rate = self._tpr(fpr)
        return replace(rate, lower=1 - rate.upper, upper=1 - rate.lower, quantity="fnr")

    def group_delta(self, *, units: int, epsilon: float) -> Interval:
        """Bound delta at ``epsilon`` for neighbors that differ in up to ``units`` units: group privacy.

        Source: docs/accounting/groups.md.
        """
        return self._of_group(units, DeltaAt(check.at_least(0, check.DOWN)(epsilon=epsilon)))

    def group_epsilon(self, *, units: int, delta: float) -> Interval:
        """Bound epsilon at ``delta`` for neighbors that differ in up to ``units`` units.

        >>> from epsilog.mechanisms import Gaussian
        >>> curve = profile(Gaussian(noise_multiplier=8.0))
        >>> curve.group_epsilon(units=8, delta=1e-5).upper < 1.001 * profile(Gaussian(1.0)).epsilon(1e-5).upper
        True
        """
        return self._of_group(units, EpsilonAt(check.in_open_interval(0, 1, check.DOWN)(delta=delta)))

    def _of_group(self, units: int, question: Question) -> Interval:
        units = check.integer(1)(units=units)
        found = build_interval(
            Composition.of(apply_group_size(self.release, units), self.relation), question, self.relative_width
        )
        return found if units > 1 else replace(found, given=(*found.given, ("units", 1.0)))

    def mu(self) -> float | None:
        """The mu of mu-GDP if every part is a Gaussian or states mu, else None; ``gaussian_fit`` comes close to any."""
        return _most(self._composition).mu

    def rdp(self, orders: Array = DEFAULT_ORDERS) -> Array:
        """Bound the Renyi divergence from above at each order; shape (k,) to (k,)."""
        return rdp(self.release, orders, relation=self.relation)


def profile(
    release: Release, *, relation: NeighboringRelation = _ADD_OR_REMOVE, relative_width: float = 0.002
) -> PrivacyProfile:
    """Return the privacy curve of ``release``, to be read in many ways.

    Args:
        release: what is released.
        relation: which data sets are neighbors.
        relative_width: the target relative width in each number.

    Raises:
        CheckError: an argument is out of bounds; a reading refuses what no method has a proof for.

    Source:
        Of each reading, its own; docs/accounting/certified-bounds.md, section 6.

    >>> from epsilog.mechanisms import Gaussian
    >>> round(profile(Gaussian(noise_multiplier=1.0)).advantage().upper, 4)
    0.3829
    """
    return PrivacyProfile(release, relation, relative_width)


def mu(release: Release, relation: NeighboringRelation = _ADD_OR_REMOVE) -> float | None:
    """Return the mu of mu-GDP if every part is a Gaussian or states mu; None if no finite mu is known exactly.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> mu(Repeated(Gaussian(noise_multiplier=2.0), 16))
    2.0
    """
    return _most(Composition.of(release, relation)).mu


def _most(composition: Composition) -> Composition:
    """Return a composition that loses no less, with a bound for every part."""
    return composition if composition.enclosed is None else composition.enclosed[0]


def rho(release: Release, relation: NeighboringRelation = _ADD_OR_REMOVE) -> float:
    """Bound rho of rho-zCDP from above; parts add up.

    Source: of each part, ``zcdp`` in its file under ``mechanisms``.

    >>> from epsilog.mechanisms import Gaussian
    >>> round(rho(Gaussian(noise_multiplier=1.0)), 12)
    0.5
    """
    composition, total = _most(Composition.of(release, relation)), 0.0
    for part, count in composition.counts.items():
        if (one := part.zcdp(composition.relation)) is None:
            raise UnsupportedMechanismError(part, method="zCDP")
        total += count * one
    return round_up(total, 64 + len(composition.counts))

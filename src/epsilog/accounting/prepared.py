"""A release under a relation, read once: what every method asks about it, worked out when it is first asked for."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from epsilog.accounting import exact, failures, truncation
from epsilog.accounting.enclosed import enclosed
from epsilog.accounting.flatten import (
    Bag,
    bins_mu,
    check_coins,
    flatten,
    lone_bins,
    sampled_parts,
    total_mu,
    unsampled,
)
from epsilog.accounting.pairs.dominating import Ordering, largest_loss, orderings
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    GaussianDP,
    Grouped,
    Release,
    Repeated,
    Shuffled,
    Trials,
    TruncatedPoissonSampled,
    Tuned,
    ZeroConcentratedDP,
)
from epsilog.numerics.bounds import Bounds
from epsilog.numerics.exact import rounded
from epsilog.numerics.rounding import down
from epsilog.terms import NeighboringRelation, check

_MOST_MU = 1e300  # of a Gaussian that stands below; with others beside it still a number
_TAILS = 1e-4  # of a delta: what cutting the tails of all epochs together may add to it


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release under a relation; made by ``prepare``.

    Attributes:
        bag: its distinct single releases, with their counts.
        relation: which data sets are neighbours.
        curves: the same with pairs that were read off curves, by how small a delta they are good for.
        stretches: what laws of trials of it may stretch a loss by.
    """

    bag: Bag
    relation: NeighboringRelation
    _orderings: dict[float, tuple[Ordering, ...]] = field(default_factory=dict, init=False, repr=False)
    curves: dict[float, Prepared] = field(default_factory=dict, init=False, repr=False)
    stretches: dict[Trials, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def rounds(self) -> int:
        """Counts the single releases."""
        return sum(self.bag.values())

    @cached_property
    def mu(self) -> float | None:
        """The mu of Gaussians alone; None if a part is something else."""
        return total_mu(self.bag, self.relation)

    @cached_property
    def bins(self) -> tuple[int, float] | None:
        """Bins and mu of balls-in-bins with nothing beside it; None for anything else."""
        return lone_bins(self.bag, self.relation)

    @cached_property
    def sampled(self) -> tuple[Release, ...]:
        """The distinct parts that take some units and leave others out, or do not tell whose report is whose."""
        return sampled_parts(self.bag) + tuple(part for part in self.bag if isinstance(part, Shuffled))

    @cached_property
    def truncated(self) -> tuple[Release, ...]:
        """The distinct parts that are samples which may be cut."""
        return tuple(part for part in self.bag if isinstance(part, TruncatedPoissonSampled))

    @cached_property
    def has_pairs(self) -> bool:
        """Whether it is composed of pairs: all but rho-zCDP statements, and balls-in-bins with nothing beside it."""
        return self.bins is None and not any(isinstance(part, ZeroConcentratedDP) for part in self.bag)

    def orderings(self, size: float = 1e-7) -> tuple[Ordering, ...]:
        """Every order in which neighbours can differ, as composed pairs; ``size`` is a delta that matters, about.

        Raises:
            UnsupportedMechanismError: a part has no proven pair under this relation.
        """
        binned = any(isinstance(part, BallsInBins) for part in self.bag)
        tail_mass = _TAILS * size / max(self.rounds, 1) if binned else 0.0
        if tail_mass not in self._orderings:
            self._orderings[tail_mass] = orderings(self.bag, self.relation, tail_mass=tail_mass)
        return self._orderings[tail_mass]

    @cached_property
    def largest_loss(self) -> Bounds:
        """Bounds the largest possible loss: epsilon at delta 0."""
        if (added := exact.pure_loss(self.bag, self.relation)) is not None:
            return Bounds(rounded(added, up=False), rounded(added, up=True))
        binned = [part for part in self.bag if isinstance(part, BallsInBins)]
        if any(bins_mu(part, self.relation) > 0 for part in binned):
            return Bounds(math.inf, math.inf)
        if not self.has_pairs:
            return Bounds(0.0, 0.0 if self.bins is not None else math.inf)
        lower = max((largest_loss(parts)[0] for order in self.orderings() for parts in order.lowers), default=0.0)
        return Bounds(lower, max((order.largest_loss for order in self.orderings()), default=0.0))

    @cached_property
    def apart(self) -> tuple[Prepared, failures.Failure] | None:
        """The same with (epsilon, delta) statements made pure, and the chance of what they gave away, if any."""
        taken = failures.apart(self.bag)
        return None if taken is None else (Prepared(taken[0], self.relation), taken[1])

    @cached_property
    def untruncated(self) -> tuple[Prepared, truncation.Cut] | None:
        """The same with samples that are never cut, and the chance that any is; None if none can be."""
        taken = truncation.untruncated(self.bag)
        return None if taken is None else (Prepared(taken[0], self.relation), taken[1])

    @cached_property
    def enclosed(self) -> tuple[Prepared, Prepared] | None:
        """Two mixes that lose no less, and no more, with parts that have prices in place of some that have none.

        Raises:
            UnsupportedMechanismError: a matrix mechanism whose participation is drawn, or has too many ways.
        """
        sides = enclosed(self.bag)
        return None if sides is None else (self._mix(sides[0]), self._mix(sides[1]))

    def _mix(self, parts: Sequence[Release]) -> Prepared:
        return Prepared(flatten(Composed(parts)), self.relation)

    @cached_property
    def alone(self) -> Tuned | Grouped | None:
        """The best of several trials, or what a group loses, where that is all there is; None where it is not.

        Mixes that the same group meets are one mix that it meets.
        """
        parts = tuple(self.bag)
        if len(parts) == 1 and isinstance(parts[0], Tuned | Grouped) and self.bag[parts[0]] == 1:
            return parts[0]
        groups = [(part.units, part.release, count) for part, count in self.bag.items() if isinstance(part, Grouped)]
        if not groups or len(groups) < len(parts) or len({units for units, _, _ in groups}) > 1:
            return None
        return Grouped(Composed([Repeated(release, count) for _, release, count in groups]), groups[0][0])

    @cached_property
    def inside(self) -> tuple[Tuned | Grouped, Prepared] | None:
        """The same as ``alone``, with one trial or one unit of it; what a trial costs a group, its best costs it."""
        whole = self.alone
        if isinstance(whole, Grouped) and isinstance(whole.release, Tuned):
            whole = Tuned(Grouped(whole.release.release, whole.units), whole.release.trials)
        return None if whole is None else (whole, Prepared(flatten(whole.release), self.relation))

    @cached_property
    def has_curves(self) -> bool:
        """Whether a part beside others, or repeated, has no pair but a curve."""
        return self.alone is None and any(isinstance(part, Tuned | Grouped) for part in self.bag)

    @cached_property
    def attained(self) -> Prepared:
        """The same with a Gaussian that satisfies its rho-zCDP statements in their place; itself if it has none.

        >>> from epsilog.mechanisms import Laplace
        >>> both = {Laplace(1.0): 1, ZeroConcentratedDP(0.125): 1}
        >>> Prepared(both, NeighboringRelation.ADD_OR_REMOVE_ONE).attained.bag  # doctest: +ELLIPSIS
        {Laplace(...): 1, GaussianDP(mu=0.4999999999999...): 1}
        """
        rho = [part.rho * count for part, count in self.bag.items() if isinstance(part, ZeroConcentratedDP)]
        if not rho:
            return self
        rest = {part: count for part, count in self.bag.items() if not isinstance(part, ZeroConcentratedDP)}
        one = GaussianDP(min(down(math.sqrt(2.0) * math.hypot(*map(math.sqrt, rho)), 8), _MOST_MU))
        return Prepared(rest | {one: rest.get(one, 0) + 1}, self.relation)

    def unsampled(self, parts: Collection[Release]) -> Prepared:
        """The same with every unit in each of ``parts``, in every round of them: it dominates.

        Raises:
            UnsupportedMechanismError: given all coins, the other units' sample depends on whether the unit is there.
        """
        for part in parts:
            check_coins(part, self.relation)
        return Prepared(unsampled(self.bag, parts, self.relation), self.relation)


def prepare(release: Release, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Prepared:
    """Reads a release.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> prepare(Repeated(Gaussian(2.0), 16)).mu
    2.0
    """
    return Prepared(
        flatten(check.instance(Release)(release=release)), check.member(NeighboringRelation)(relation=relation)
    )

"""A release under a relation, read once: what every method asks about it, worked out when it is first asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from epsilog.accounting import failures, truncation
from epsilog.accounting.enclosed import enclosed
from epsilog.mechanisms import (
    Composed,
    GaussianDP,
    Grouped,
    Release,
    Repeated,
    Trials,
    TruncatedPoissonSampled,
    Tuned,
    ZeroConcentratedDP,
)
from epsilog.mechanisms.composition import Composition, flatten
from epsilog.numerics.rounding import down
from epsilog.terms import NeighboringRelation, check

_MOST_MU = 1e300  # of a Gaussian that stands below; with others beside it still a number


@dataclass(frozen=True, eq=False)
class Prepared(Composition):
    """A release under a relation; made by ``prepare``.

    Attributes:
        curves: the same with pairs that were read off curves, by how small a delta they are good for.
        stretches: what laws of trials of it may stretch a loss by.
    """

    curves: dict[float, Prepared] = field(default_factory=dict, init=False, repr=False)
    stretches: dict[Trials, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def truncated(self) -> tuple[Release, ...]:
        """The distinct parts that are samples which may be cut."""
        return tuple(part for part in self.bag if isinstance(part, TruncatedPoissonSampled))

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


def prepare(release: Release, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Prepared:
    """Reads a release.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> prepare(Repeated(Gaussian(2.0), 16)).mu
    2.0
    """
    return Prepared(
        flatten(check.instance(Release)(release=release)), check.member(NeighboringRelation)(relation=relation)
    )

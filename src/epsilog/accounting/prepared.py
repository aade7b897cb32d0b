"""A release under a relation, read once: what every method asks about it, worked out when it is first asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from epsilog.accounting import failures, truncation
from epsilog.mechanisms import (
    Composed,
    GaussianDP,
    Release,
    Repeated,
    Trials,
)
from epsilog.mechanisms.composition import Bag, Composition, flatten
from epsilog.mechanisms.gaussian import MOST_NOISE
from epsilog.numerics.rounding import MU, down, union
from epsilog.numerics.tails import binomial_above
from epsilog.terms import NeighboringRelation, check

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Prepared(Composition):
    """A release under a relation; made by ``prepare``.

    Attributes:
        curves: the same with pairs that were read off curves, by how small a delta they are good for.
        stretches: what laws of trials of it may stretch a loss by.
    """

    curves: dict[float, Prepared] = field(default_factory=dict, init=False, repr=False)
    stretches: dict[Trials, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    def _replaced(self, hook: Callable[[Release], tuple[Release, T] | None]) -> tuple[Bag, list[tuple[T, int]]] | None:
        """The mix with what a hook puts in the place of parts, and what it says beside, with counts; None of none."""
        rest: dict[Release, int] = {}
        said: list[tuple[T, int]] = []
        for part, count in self.bag.items():
            one, more = hook(part) or (part, None)
            rest[one] = rest.get(one, 0) + count
            if more is not None:
                said.append((more, count))
        return (rest, said) if said else None

    @cached_property
    def apart(self) -> tuple[Prepared, failures.Failure] | None:
        """The same with statements made pure, and the chance of what they gave away, if any.

        >>> from epsilog.mechanisms import ApproximateDP
        >>> both = {ApproximateDP(1.0, 1e-6): 2, ApproximateDP(1.0, 0.0): 1}
        >>> Prepared(both, NeighboringRelation.ADD_OR_REMOVE_ONE).apart[1]  # doctest: +ELLIPSIS
        Failure(low=1.99999...e-06, high=1.99999...e-06)
        """
        taken = self._replaced(lambda part: part.failing())
        given_away = [(chance, count) for chance, count in taken[1] if chance > 0] if taken else []
        return (Prepared(taken[0], self.relation), failures.joint(given_away)) if taken and given_away else None

    @cached_property
    def untruncated(self) -> tuple[Prepared, truncation.Cut] | None:
        """The same with samples that are never cut, and the chance that any is; None if none can be.

        >>> from epsilog.mechanisms import Gaussian, TruncatedPoissonSampled
        >>> run = {TruncatedPoissonSampled(Gaussian(1.0), 0.01, population=1000, largest_batch=40): 5}
        >>> Prepared(run, NeighboringRelation.ADD_OR_REMOVE_ONE).untruncated[1]  # doctest: +ELLIPSIS
        Cut(chance=5.503...e-13)
        """
        taken = self._replaced(lambda part: part.uncut())
        if taken is None:
            return None
        chances = [(binomial_above(*coins), count) for coins, count in taken[1]]
        return Prepared(taken[0], self.relation), truncation.Cut(union(chances)[1])

    @cached_property
    def truncated(self) -> tuple[Release, ...]:
        """The distinct parts that are samples which may be cut."""
        return tuple(part for part in self.bag if part.uncut() is not None)

    @cached_property
    def enclosed(self) -> tuple[Prepared, Prepared] | None:
        """Two mixes that lose no less, and no more, with parts that have prices in place of some that have none.

        Domination composes, so a mix lies between the mixes of what its parts lie between.

        Raises:
            UnsupportedMechanismError: a matrix mechanism whose participation is drawn, or has too many ways.
        """
        if not any(part.between() for part in self.bag):
            return None
        sides = [(part.between() or (part, part), count) for part, count in self.bag.items()]
        above, below = (self._mix((both[which], count) for both, count in sides) for which in (0, 1))
        return above, below

    def _mix(self, parts: Iterable[tuple[Release, int]]) -> Prepared:
        return Prepared(flatten(Composed([Repeated(part, count) for part, count in parts])), self.relation)

    @cached_property
    def trials(self) -> tuple[Prepared, Trials] | None:
        """One trial, and the law of their number, where the best of several is all there is."""
        found = next(iter(self.bag)).one_trial if self.rounds == 1 else None
        return None if found is None else (Prepared(flatten(found[0]), self.relation), found[1])

    @cached_property
    def group(self) -> tuple[Prepared, int] | None:
        """What one unit meets, and how many of them one person holds, where the same group meets all of it."""
        units = {None if part.group is None else part.group[1] for part in self.bag}
        if len(units) != 1 or (held := units.pop()) is None:
            return None
        return self._mix((part.group[0], count) for part, count in self.bag.items() if part.group), held

    @cached_property
    def has_curves(self) -> bool:
        """Whether a part beside others, or repeated, has no pair but a curve."""
        if self.trials is not None or self.group is not None:
            return False
        return any(part.one_trial is not None or part.group is not None for part in self.bag)

    @property
    def rho(self) -> list[tuple[float, int]]:
        """What is stated in rho-zCDP, with counts."""
        stated = ((part.statement.get("rho"), count) for part, count in self.bag.items())
        return [(rho, count) for rho, count in stated if rho is not None]

    @cached_property
    def attained(self) -> Prepared:
        """The same with a Gaussian that satisfies its rho-zCDP statements in their place; itself if it has none.

        >>> from epsilog.mechanisms import Laplace, ZeroConcentratedDP
        >>> both = {Laplace(1.0): 1, ZeroConcentratedDP(0.125): 1}
        >>> Prepared(both, NeighboringRelation.ADD_OR_REMOVE_ONE).attained.bag  # doctest: +ELLIPSIS
        {Laplace(...): 1, GaussianDP(mu=0.4999999999999...): 1}
        """
        if not self.rho:
            return self
        rest = {part: count for part, count in self.bag.items() if "rho" not in part.statement}
        distance = math.sqrt(2.0) * math.hypot(*(math.sqrt(rho * count) for rho, count in self.rho))
        one = GaussianDP(min(down(distance, MU), MOST_NOISE))
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

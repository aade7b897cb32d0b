"""Several releases under one relation: every fact that an accountant asks for is a fold over the hooks of its parts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Self

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.numerics.exact import rounded
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

if TYPE_CHECKING:
    from epsilog.numerics.bounds import Bounds
    from epsilog.numerics.pairs import Laws, Ordering, Pairs

Bag = Mapping[Release, int]  # distinct single releases, with their counts

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_DEEPEST = 32  # samples, groups and trials in one another; each takes a dozen of Python's 1,000 frames
_MOST_ROUNDS = 10**100  # of one part; their products with losses and distances are doubles
_TAILS = 1e-4  # of a delta: what cutting the tails of all epochs together may add to it


def flatten(release: Release) -> dict[Release, int]:
    """Counts the distinct single releases inside ``release``; order and nesting do not matter, no release is empty.

    >>> from epsilog.mechanisms import Composed, Gaussian
    >>> flatten(Repeated(Composed([Gaussian(1.0), Repeated(Gaussian(2.0), 3)]), 10))
    {Gaussian(noise_multiplier=1.0, sensitivity=1.0): 10, Gaussian(noise_multiplier=2.0, sensitivity=1.0): 30}
    """
    return _counted([(release, 1)])


def _counted(releases: Iterable[tuple[Release, int]]) -> dict[Release, int]:
    bag: dict[Release, int] = {}
    todo = list(releases)[::-1]
    while todo:
        part, count = todo.pop()
        if count > _MOST_ROUNDS:
            raise UnsupportedMechanismError(
                _innermost(part), method="accounting", reason="so many rounds are no number"
            )
        simpler = part.parts()
        if simpler is None:
            _require_shallow(part)
            bag[part] = bag.get(part, 0) + count
        else:
            todo.extend((inner, count * times) for inner, times in reversed(simpler))
    return bag


def _require_shallow(part: Release) -> None:
    """Refuses what no stack would hold; composition alone may be nested as deeply as one likes."""
    depth, inside = 0, [part]
    while deeper := list({id(one): one for outer in inside for one in outer.inner}.values()):
        depth, inside = depth + 1, deeper
    if depth > _DEEPEST:
        reason = f"more than {_DEEPEST} terms lie around it, one in another"
        raise UnsupportedMechanismError(inside[0], method="accounting", reason=reason)


def _innermost(release: Release) -> Release:
    while release.parts() is not None and len(release.inner) == 1:
        release = release.inner[0]
    return release


def sampled_parts(bag: Bag) -> tuple[Release, ...]:
    """The distinct parts that take some units and leave others out, or draw how much of one they take.

    >>> from epsilog.mechanisms import Composed, Gaussian, PoissonSampled
    >>> sampled_parts(flatten(Composed([Gaussian(1.0), Repeated(PoissonSampled(Gaussian(2.0), 0.5), 3)])))
    (PoissonSampled(release=Gaussian(noise_multiplier=2.0, sensitivity=1.0), sampling_probability=0.5),)
    """
    return tuple(part for part in bag if part.is_amplified)


def unsampled(bag: Bag, parts: Collection[Release], relation: NeighboringRelation = _ADD_OR_REMOVE) -> Bag:
    """The same with every unit in each of ``parts``, in every round of them: it dominates (certified-bounds, 1.5).

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled
    >>> unsampled({(part := PoissonSampled(Gaussian(2.0), 0.5)): 1}, [part])
    {Gaussian(noise_multiplier=2.0, sensitivity=1.0): 1}
    """
    chosen = frozenset(parts)
    return _counted((part.unsampled(relation) if part in chosen else part, count) for part, count in bag.items())


def total_mu(bag: Bag, relation: NeighboringRelation) -> float | None:
    """The mu of a mix of Gaussians (0 for no release at all), None as soon as one part is something else.

    k Gaussians are one with mu^2 = sum mu_i^2; no square is formed that could underflow to nothing.

    >>> from epsilog.mechanisms import Gaussian
    >>> total_mu({Gaussian(1e200): 4}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    2e-200
    """
    parts = [(part.gaussian_mu(relation), count) for part, count in bag.items()]
    known = [math.sqrt(count) * mu for mu, count in parts if mu is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


@dataclass(frozen=True, eq=False)
class Composition:
    """Releases under a relation, read once.

    Attributes:
        bag: the distinct single releases, with their counts.
        relation: which data sets are neighbors.
    """

    bag: Bag
    relation: NeighboringRelation
    _orderings: dict[float, tuple[Ordering, ...]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, release: Release, relation: NeighboringRelation) -> Self:
        """The parts of one release."""
        return cls(flatten(release), relation)

    @cached_property
    def rounds(self) -> int:
        """Counts the single releases."""
        return sum(self.bag.values())

    @cached_property
    def mu(self) -> float | None:
        """The mu of Gaussians alone; None if a part is something else."""
        return total_mu(self.bag, self.relation)

    @cached_property
    def pure_loss(self) -> Fraction | None:
        """The largest loss of parts whose largest losses simply add up; None if a part is no such.

        Neighbors attain it: with Laplace and staircase noise those a whole sensitivity apart, with a statement those of
        randomized response; with noisy maxima and sparse vectors they come as close as one likes
        (docs/accounting/selection.md).

        >>> from epsilog.mechanisms import Laplace
        >>> Composition({Laplace(100.0): 40}, NeighboringRelation.ADD_OR_REMOVE_ONE).pure_loss
        Fraction(2, 5)
        """
        losses = [part.pure_loss(self.relation) for part in self.bag]
        known = [count * loss for count, loss in zip(self.bag.values(), losses, strict=True) if loss is not None]
        return sum(known, Fraction(0)) if len(known) == len(losses) else None

    @cached_property
    def bins(self) -> tuple[int, float] | None:
        """Bins and mu of balls-in-bins with nothing beside it; None for anything else.

        Raises:
            UnsupportedMechanismError: balls-in-bins over no Gaussian, or under replace-one.

        >>> from epsilog.mechanisms import BallsInBins, Gaussian
        >>> bag = {BallsInBins(Gaussian(2.0), bins=10, epochs=4): 1}
        >>> Composition(bag, NeighboringRelation.ADD_OR_REMOVE_ONE).bins
        (10, 1.0)
        """
        return next(iter(self.bag)).allocation(self.relation) if self.rounds == 1 else None

    @cached_property
    def sampled(self) -> tuple[Release, ...]:
        """The distinct parts that take some units and leave others out, or do not tell whose report is whose."""
        return sampled_parts(self.bag) + tuple(part for part in self.bag if part.is_shuffled)

    @cached_property
    def has_pairs(self) -> bool:
        """Whether it is composed of pairs: each part has some, and it is not balls-in-bins with nothing beside it."""
        return self.bins is None and all(part.has_pairs for part in self.bag)

    def orderings(self, size: float = 1e-7) -> tuple[Ordering, ...]:
        """Every order in which neighbors can differ, as composed pairs; ``size`` is a delta that matters, about.

        Raises:
            UnsupportedMechanismError: a part has no proven pair under this relation.

        >>> from epsilog.mechanisms import Gaussian, PoissonSampled
        >>> relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        >>> len(Composition({Gaussian(1.0): 1}, relation).orderings())
        1
        >>> len(Composition({PoissonSampled(Gaussian(1.0), 0.5): 1}, relation).orderings())
        2
        """
        tail_mass = _TAILS * size / self.rounds if any(part.is_binned for part in self.bag) else 0.0
        if tail_mass not in self._orderings:
            replaced = self.relation is NeighboringRelation.REPLACE_ONE
            self._orderings[tail_mass] = numerics.pairs.orderings(self._pairs(tail_mass), replaced=replaced)
        return self._orderings[tail_mass]

    def _pairs(self, tail_mass: float) -> Pairs:
        others = {part: count for part, count in self.bag.items() if part.gaussian_mu(self.relation) is None}
        effort = numerics.pairs.Effort(tail_mass, alone=sum(others.values()) == 1)
        found = [(part.pairs(self.relation, effort), count) for part, count in others.items()]
        gaussians = {part: count for part, count in self.bag.items() if part not in others}
        if (total := total_mu(gaussians, self.relation) or 0.0) > 0:  # all Gaussians are one Gaussian
            found.insert(0, (numerics.pairs.plain(numerics.noise.normal(total)), 1))
        return numerics.pairs.composed(found)

    @cached_property
    def largest_loss(self) -> Bounds:
        """Bounds the largest possible loss: epsilon at delta 0."""
        bounds = numerics.bounds.Bounds
        if (added := self.pure_loss) is not None:
            return bounds(rounded(added, up=False), rounded(added, up=True))
        binned = (part.allocation(self.relation) for part in self.bag)
        if any(one is not None and one[1] > 0 for one in binned):
            return bounds(math.inf, math.inf)
        if not self.has_pairs:
            return bounds(0.0, 0.0 if self.bins is not None else math.inf)
        orderings, largest = self.orderings(), numerics.pairs.largest_loss
        lower = max((largest(parts)[0] for order in orderings for parts in order.lowers), default=0.0)
        return bounds(lower, max((order.largest_loss for order in orderings), default=0.0))

    def unsampled(self, parts: Collection[Release]) -> Self:
        """The same with every unit in each of ``parts``, in every round of them: it dominates.

        Raises:
            UnsupportedMechanismError: given all coins, the other units' sample depends on whether the unit is there.
        """
        for part in parts:
            check_coins(part, self.relation)
        return type(self)(unsampled(self.bag, parts, self.relation), self.relation)


def laws_together(release: Release, relation: NeighboringRelation) -> Laws:
    """Base laws of several releases on one sample: all Gaussians are one; the product of all pairs (docs, 1.11).

    Raises:
        UnsupportedMechanismError: a part has no law, or there are too many.
    """
    reach, products = numerics.reach, numerics.products
    bag = flatten(release)
    gaussians = {part: count for part, count in bag.items() if part.gaussian_mu(relation) is not None}
    found = [(part.laws(relation), count) for part, count in bag.items() if part not in gaussians]
    if (mu := total_mu(gaussians, relation) or 0.0) > 0:
        found.append((numerics.noise.normal(mu), 1))
    if not found:
        return reach.same(reach.pure(0.0, 0.0))
    if len(found) == 1 and found[0][1] == 1:
        return found[0][0]
    if sum(count for _, count in found) > products.MOST_PARTS:
        reason = f"more than {products.MOST_PARTS} releases on one sample"
        raise UnsupportedMechanismError(release, method=reach.METHOD, reason=reason)
    above, below = ([(laws[side], count) for laws, count in found] for side in (0, 1))
    if any(law.only_p >= 1 for law, _ in above):  # one part alone gives everything away
        return reach.nothing_hidden(products.largest(above)), max((law for law, _ in below), key=lambda law: law.only_p)
    upper, lower = products.product(above, upper=True), products.product(below, upper=False)
    return upper or reach.nothing_hidden(products.largest(above)), lower or reach.pure(0.0, 0.0)


def check_absence(part: Release, base: Release, relation: NeighboringRelation) -> None:
    """Requires that a sampled base says what it releases without the unit, where its relation does not (docs, 1.8).

    Raises:
        UnsupportedMechanismError: under zero-out, a sampled statement, or a choice by scores or queries.
    """
    if relation is NeighboringRelation.ZERO_OUT and not all(one.states_absence for one in flatten(base)):
        reason = "under zero-out a statement compares a unit with nothing in its place, not with its absence"
        raise UnsupportedMechanismError(part, method="sampling", reason=reason)


def check_coins(part: Release, relation: NeighboringRelation) -> None:
    """Requires that given all coins a sample with the unit and one without differ in the unit alone (docs, 1.5).

    Raises:
        UnsupportedMechanismError: a sample of a fixed size, or reports that are shuffled, where neighbours do not
            replace one unit; reports that hide among fewer in a sample than in all; one unit's report that is sampled.
    """
    for one, outside in _samples(part, None):
        if one.fixes_population and relation is not NeighboringRelation.REPLACE_ONE:
            reason = f"a fixed number of units means replace-one, not {relation}"
            raise UnsupportedMechanismError(one, method="sampling", reason=reason)
        if one.is_shuffled and outside is not None:
            raise UnsupportedMechanismError(part, method="sampling", reason="of a sample fewer reports are shuffled")
        if outside is not None and outside.is_shuffled:
            raise UnsupportedMechanismError(
                part, method="sampling", reason="one unit's report is neither sampled nor shuffled"
            )


def require_unshuffled(part: Release, base: Release) -> None:
    """Requires that what is computed on a sample does not hide reports among each other.

    Raises:
        UnsupportedMechanismError: it does.
    """
    if any(one.is_shuffled for one in flatten(base)):
        reason = "of a sample fewer units' reports are shuffled"
        raise UnsupportedMechanismError(part, method=numerics.reach.METHOD, reason=reason)


def _samples(part: Release, outside: Release | None) -> list[tuple[Release, Release | None]]:
    """All samples in a release, each with the one that it is drawn from."""
    here = [(part, outside)] if part.is_sample else []
    return [*here, *(found for one in part.inner for found in _samples(one, part if here else outside))]

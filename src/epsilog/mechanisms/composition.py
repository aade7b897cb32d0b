"""How releases add up: a mix, a repetition, and both as a bag of single releases that is read once.

Parameters are fixed in advance; outputs may steer later queries. Composition is read in one place, so no method can
forget a count, and every fact that an accountant asks for is a fold over the hooks of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeVar

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.numerics.rounding import MU, round_down, round_outward, union_probability
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.terms.fields import Field, term

__all__ = ["flatten"]  # what other packages may import from here; ``mechanisms`` names the classes

if TYPE_CHECKING:
    from epsilog.mechanisms.matrix import MatrixMechanism
    from epsilog.mechanisms.tuned import TrialDistribution

ReleaseCounts = Mapping[Release, int]
"""Distinct single releases, with their counts."""

T = TypeVar("T")

_TAILS = 1e-4  # of a delta: what cutting the tails of all epochs together may add to it
_DEEPEST = 32  # samples, groups and trials in one another; each takes a dozen of Python's 1,000 frames
_MOST_ROUNDS = 10**100  # of one part; their products with losses and distances are doubles


@codec.register_term("composed")
@dataclass(frozen=True, slots=True)
class Composed(Release):
    """All of several releases, in any order; none at all costs nothing.

    Attributes:
        releases: the parts.
    """

    releases: tuple[Release, ...]

    def __init__(self, releases: Iterable[Release]) -> None:
        listed = tuple(releases) if isinstance(releases, Set) else releases  # order does not matter
        object.__setattr__(self, "releases", check.sequence_of(check.instance_of(Release))(releases=listed))

    @property
    def inner(self) -> tuple[Release, ...]:
        """Return the parts."""
        return self.releases

    def parts(self) -> tuple[tuple[Release, int], ...]:
        """Return its parts."""
        return tuple((one, 1) for one in self.releases)

    def reveal_samples(self, relation: NeighboringRelation) -> Release:
        """Of each part."""
        return Composed([one.reveal_samples(relation) for one in self.releases])


@term("repeated")
class Repeated(Release):
    """The same release, several times on the same data, with fresh noise and fresh sampling each time."""

    release: Annotated[Release, Field("release of each repetition")]
    count: Annotated[int, Field("number of repetitions", ge=1)]

    @property
    def repeats(self) -> int:
        """``count`` times."""
        return self.count

    def parts(self) -> tuple[tuple[Release, int], ...]:
        """Return what is repeated, as often."""
        return ((self.release, self.count),)

    def batches(self) -> list[tuple[float, int]] | None:
        """As often."""
        once = self.release.batches()
        return None if once is None else [(chance, self.count * times) for chance, times in once]

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:
        """Of what is repeated."""
        return self.release.as_matrix(count * self.count)

    def with_noise(self, noise: float) -> Release:
        """With another noise inside."""
        return replace(self, release=self.release.with_noise(noise))


def flatten(release: Release) -> dict[Release, int]:
    """Count the distinct single releases inside ``release``; order and nesting do not matter, no release is empty.

    >>> from epsilog.mechanisms import Composed, Gaussian, Repeated
    >>> flatten(Repeated(Composed([Gaussian(1.0), Repeated(Gaussian(2.0), 3)]), 10))
    {Gaussian(noise_multiplier=1.0, sensitivity=1.0): 10, Gaussian(noise_multiplier=2.0, sensitivity=1.0): 30}
    """
    return _count_releases([(release, 1)])


def _count_releases(releases: Iterable[tuple[Release, int]]) -> dict[Release, int]:
    counts: dict[Release, int] = {}
    todo = list(releases)[::-1]
    while todo:
        part, count = todo.pop()
        if count > _MOST_ROUNDS:
            raise UnsupportedMechanismError(
                _innermost(part), method="accounting", reason="the number of rounds exceeds double range"
            )
        simpler = part.parts()
        if simpler is None:
            _require_shallow(part)
            counts[part] = counts.get(part, 0) + count
        else:
            todo.extend((inner, count * times) for inner, times in reversed(simpler))
    return counts


def _require_shallow(part: Release) -> None:
    """Refuse what no stack would hold; composition alone may be nested as deeply as one likes."""
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


def compose_mu(counts: ReleaseCounts, relation: NeighboringRelation) -> float | None:
    """Return the mu of a mix of Gaussians (0 for no release at all), None as soon as one part is something else.

    k Gaussians are one with mu^2 = sum mu_i^2; no square is formed that could underflow to nothing.

    >>> from epsilog.mechanisms import Gaussian
    >>> compose_mu({Gaussian(1e200): 4}, NeighboringRelation.ADD_OR_REMOVE_ONE)
    2e-200
    """
    parts = [(part.gaussian_mu(relation), count) for part, count in counts.items()]
    known = [math.sqrt(count) * mu for mu, count in parts if mu is not None]
    return math.hypot(*known) if len(known) == len(parts) else None


def require_absent_output(part: Release, base: Release, relation: NeighboringRelation) -> None:
    """Require that a sampled base says what it releases without the unit, where its relation does not (docs, 1.8).

    Raises:
        UnsupportedMechanismError: under zero-out, a sampled statement, or a choice by scores or queries.
    """
    if relation is NeighboringRelation.ZERO_OUT and not all(one.states_absence for one in flatten(base)):
        reason = "under zero-out a statement compares a unit with nothing in its place, not with its absence"
        raise UnsupportedMechanismError(part, method="sampling", reason=reason)


def check_coins(part: Release, relation: NeighboringRelation) -> None:
    """Require that given all coins a sample with the unit and one without differ in the unit alone (docs, 1.5).

    Raises:
        UnsupportedMechanismError: under another relation than replace-one, a fixed-size sample or shuffled reports;
            reports that hide among fewer in a sample than in all; a sampled single report.
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
    """Require that what is computed on a sample does not hide reports among each other.

    Raises:
        UnsupportedMechanismError: it does.
    """
    if any(one.is_shuffled for one in flatten(base)):
        reason = "of a sample fewer units' reports are shuffled"
        raise UnsupportedMechanismError(part, method=numerics.pairs.METHOD, reason=reason)


def _samples(part: Release, outside: Release | None) -> list[tuple[Release, Release | None]]:
    """Return all samples in a release, each with the one that it is drawn from."""
    here = [(part, outside)] if part.is_sample else []
    return [*here, *(found for one in part.inner for found in _samples(one, part if here else outside))]


@dataclass(frozen=True, eq=False)
class Composition:
    """Releases under a relation, read once.

    Attributes:
        counts: the distinct single releases, with their counts.
        relation: which data sets are neighbors.
        curves: the same with pairs that were read off curves, by how small a delta they are good for.
        loss_shifts: upper bounds on what the selection of the best trial adds to the loss, by trial-count distribution.
    """

    counts: ReleaseCounts
    relation: NeighboringRelation
    curves: dict[float, Composition] = field(default_factory=dict, init=False, repr=False)
    loss_shifts: dict[TrialDistribution, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)
    _orderings: dict[float, tuple[numerics.pairs.PairComposition, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, release: Release, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Composition:
        """Read a release.

        >>> from epsilog.mechanisms import Gaussian
        >>> Composition.of(Repeated(Gaussian(2.0), 16)).mu
        2.0
        """
        parts = flatten(check.instance_of(Release)(release=release))
        return cls(parts, check.enum_member(NeighboringRelation)(relation=relation))

    @cached_property
    def rounds(self) -> int:
        """Count the single releases."""
        return sum(self.counts.values())

    @cached_property
    def mu(self) -> float | None:
        """Return the mu of Gaussians alone; None if a part is something else."""
        return compose_mu(self.counts, self.relation)

    @cached_property
    def pure_loss(self) -> Fraction | None:
        """Return the maximum loss if the maximum losses of all parts add up, else None.

        Neighbors attain it: for Laplace and staircase noise at a distance of one sensitivity, for statements with
        randomized response. Noisy maxima and sparse vectors approach it arbitrarily closely
        (docs/accounting/selection.md).

        >>> from epsilog.mechanisms import Laplace
        >>> Composition({Laplace(100.0): 40}, NeighboringRelation.ADD_OR_REMOVE_ONE).pure_loss
        Fraction(2, 5)
        """
        losses = [part.pure_loss(self.relation) for part in self.counts]
        known = [count * loss for count, loss in zip(self.counts.values(), losses, strict=True) if loss is not None]
        return sum(known, Fraction(0)) if len(known) == len(losses) else None

    @cached_property
    def bins(self) -> tuple[int, float] | None:
        """Return bins and mu of balls-in-bins composed with nothing else, else None.

        Raises:
            UnsupportedMechanismError: balls-in-bins over no Gaussian, or under replace-one.

        >>> from epsilog.mechanisms import BallsInBins, Gaussian
        >>> bag = {BallsInBins(Gaussian(2.0), bins=10, epochs=4): 1}
        >>> Composition(bag, NeighboringRelation.ADD_OR_REMOVE_ONE).bins
        (10, 1.0)
        """
        return next(iter(self.counts)).allocation(self.relation) if self.rounds == 1 else None

    @cached_property
    def sampled(self) -> tuple[Release, ...]:
        """Return the distinct parts that draw units or contributions, or that hide the sender of a report.

        >>> from epsilog.mechanisms import Gaussian, PoissonSampled
        >>> Composition.of(Composed([Gaussian(1.0), Repeated(PoissonSampled(Gaussian(2.0), 0.5), 3)])).sampled
        (PoissonSampled(release=Gaussian(noise_multiplier=2.0, sensitivity=1.0), sampling_probability=0.5),)
        """
        drawn = tuple(part for part in self.counts if part.is_amplified)
        return drawn + tuple(part for part in self.counts if part.is_shuffled)

    @cached_property
    def has_pairs(self) -> bool:
        """Return whether it is a composition of pairs: each part has pairs, and it is not only balls-in-bins."""
        return self.bins is None and all(part.has_pairs for part in self.counts)

    def orderings(self, size: float = 1e-7) -> tuple[numerics.pairs.PairComposition, ...]:
        """Return every order in which neighbors can differ, as composed pairs; ``size`` is a delta that matters, about.

        Raises:
            UnsupportedMechanismError: a part has no proven pair under this relation.

        >>> from epsilog.mechanisms import Gaussian, PoissonSampled
        >>> relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        >>> len(Composition({Gaussian(1.0): 1}, relation).orderings())
        1
        >>> len(Composition({PoissonSampled(Gaussian(1.0), 0.5): 1}, relation).orderings())
        2
        """
        tail_mass = _TAILS * size / self.rounds if any(part.is_binned for part in self.counts) else 0.0
        if tail_mass not in self._orderings:
            replaced = self.relation is NeighboringRelation.REPLACE_ONE
            self._orderings[tail_mass] = numerics.pairs.build_dominating_pairs(
                self._pairs(tail_mass), replaced=replaced
            )
        return self._orderings[tail_mass]

    def _pairs(self, tail_mass: float) -> numerics.pairs.Pairs:
        others = {part: count for part, count in self.counts.items() if part.gaussian_mu(self.relation) is None}
        effort = numerics.pairs.Effort(tail_mass, alone=sum(others.values()) == 1)
        found = [(part.pairs(self.relation, effort), count) for part, count in others.items()]
        gaussians = {part: count for part, count in self.counts.items() if part not in others}
        if (total := compose_mu(gaussians, self.relation) or 0.0) > 0:  # all Gaussians are one Gaussian
            found.insert(0, (numerics.pairs.plain(numerics.gaussian.build_gaussian_pair(total)), 1))
        return numerics.pairs.compose_pairs(found)

    @cached_property
    def largest_loss(self) -> numerics.questions.Bounds:
        """Bound the largest possible loss: epsilon at delta 0."""
        bounds = numerics.questions.Bounds
        if (added := self.pure_loss) is not None:
            return bounds(round_outward(added, up=False), round_outward(added, up=True))
        binned = (part.allocation(self.relation) for part in self.counts)
        if any(one is not None and one[1] > 0 for one in binned):
            return bounds(math.inf, math.inf)
        if not self.has_pairs:
            return bounds(0.0, 0.0 if self.bins is not None else math.inf)
        orderings, largest = self.orderings(), numerics.pairs.bound_max_loss
        lower = max((largest(parts)[0] for order in orderings for parts in order.lowers), default=0.0)
        return bounds(lower, max((order.largest_loss for order in orderings), default=0.0))

    def for_group(self, units: int) -> tuple[Composition, Composition] | None:
        """Return what bounds a group's answer above, and below; None if a part has no distance that simply grows."""
        sides = []
        for high in (True, False):
            found: dict[Release, int] = {}
            for part, count in self.counts.items():
                if (grouped := part.for_group(self.relation, units, above=high)) is None:
                    return None
                found[grouped] = found.get(grouped, 0) + count
            sides.append(Composition(found, self.relation))
        return sides[0], sides[1]

    def without_sampling(self, parts: Collection[Release]) -> Composition:
        """The same with every unit in each of ``parts``, in every round of them: it dominates (certified-bounds, 1.5).

        Raises:
            UnsupportedMechanismError: given all coins, the other units' sample depends on whether the unit is there.
        """
        chosen = frozenset(parts)
        for part in parts:
            check_coins(part, self.relation)
        return self._mix(
            (part.without_sampling(self.relation) if part in chosen else part, count)
            for part, count in self.counts.items()
        )

    def _replace_parts(
        self, hook: Callable[[Release], tuple[Release, T] | None]
    ) -> tuple[ReleaseCounts, list[tuple[T, int]]] | None:
        """Return the parts after a hook replaced some, and the hook's extra values with counts; None without any."""
        rest: dict[Release, int] = {}
        extras: list[tuple[T, int]] = []
        for part, count in self.counts.items():
            one, more = hook(part) or (part, None)
            rest[one] = rest.get(one, 0) + count
            if more is not None:
                extras.append((more, count))
        return (rest, extras) if extras else None

    @cached_property
    def failing(self) -> tuple[Composition, list[tuple[float, int]]] | None:
        """Return the same with statements made pure, and the chances of what they gave away, with counts, if any.

        >>> from epsilog.mechanisms import ApproximateDP
        >>> Composition.of(Repeated(ApproximateDP(1.0, 1e-6), 2)).failing[1]
        [(1e-06, 2)]
        """
        taken = self._replace_parts(lambda part: part.failing())
        given_away = [(chance, count) for chance, count in taken[1] if chance > 0] if taken else []
        return (Composition(taken[0], self.relation), given_away) if taken and given_away else None

    @cached_property
    def uncut(self) -> tuple[Composition, float] | None:
        """Return the same with samples that are never cut, and the chance that any is, rounded up; None if none can be.

        >>> from epsilog.mechanisms import Gaussian, TruncatedPoissonSampled
        >>> run = TruncatedPoissonSampled(Gaussian(1.0), 0.01, population=1000, max_batch_size=40)
        >>> Composition.of(Repeated(run, 5)).uncut[1]  # doctest: +ELLIPSIS
        5.503...e-13
        """
        taken = self._replace_parts(lambda part: part.uncut())
        if taken is None:
            return None
        chances = [(numerics.counts.binomial_tail(*coins), count) for coins, count in taken[1]]
        return Composition(taken[0], self.relation), union_probability(chances)[1]

    @cached_property
    def truncated(self) -> tuple[Release, ...]:
        """Return the distinct parts that are samples which may be cut."""
        return tuple(part for part in self.counts if part.uncut() is not None)

    @cached_property
    def enclosed(self) -> tuple[Composition, Composition] | None:
        """Return two compositions with bounds, one that loses no less and one that loses no more.

        Domination composes: replacing each part by its upper (lower) release gives an upper (lower) composition.

        Raises:
            UnsupportedMechanismError: a matrix mechanism with random participation, or with too many patterns.
        """
        if not any(part.between() for part in self.counts):
            return None
        sides = [(part.between() or (part, part), count) for part, count in self.counts.items()]
        above, below = (self._mix((both[which], count) for both, count in sides) for which in (0, 1))
        return above, below

    def _mix(self, parts: Iterable[tuple[Release, int]]) -> Composition:
        return Composition(_count_releases(parts), self.relation)

    @cached_property
    def trials(self) -> tuple[Composition, TrialDistribution] | None:
        """Return one trial and the distribution of the trial count, if the best of trials is the only part."""
        found = next(iter(self.counts)).one_trial if self.rounds == 1 else None
        return None if found is None else (Composition(flatten(found[0]), self.relation), found[1])

    @cached_property
    def group(self) -> tuple[Composition, int] | None:
        """Return what one unit meets, and how many of them one person holds, where the same group meets all of it."""
        units = {None if part.group is None else part.group[1] for part in self.counts}
        if len(units) != 1 or (held := units.pop()) is None:
            return None
        return self._mix((part.group[0], count) for part, count in self.counts.items() if part.group), held

    @cached_property
    def has_curves(self) -> bool:
        """Return whether a part, composed or repeated, has a curve but no pair."""
        if self.trials is not None or self.group is not None:
            return False
        return any(part.one_trial is not None or part.group is not None for part in self.counts)

    @property
    def rho(self) -> list[tuple[float, int]]:
        """Return what is stated in rho-zCDP, with counts."""
        stated = ((part.statement.get("rho"), count) for part, count in self.counts.items())
        return [(rho, count) for rho, count in stated if rho is not None]

    @cached_property
    def attained(self) -> Composition:
        """Return the same with a Gaussian that satisfies its rho-zCDP statements in their place; itself if it has none.

        >>> from epsilog.mechanisms import Laplace, ZeroConcentratedDP
        >>> both = {Laplace(1.0): 1, ZeroConcentratedDP(0.125): 1}
        >>> Composition(both, NeighboringRelation.ADD_OR_REMOVE_ONE).attained.counts  # doctest: +ELLIPSIS
        {Laplace(...): 1, GaussianDP(mu=0.4999999999999...): 1}
        """
        if not self.rho:
            return self
        rest = {part: count for part, count in self.counts.items() if "rho" not in part.statement}
        distance = math.sqrt(2.0) * math.hypot(*(math.sqrt(rho * count) for rho, count in self.rho))
        from epsilog.mechanisms.gaussian import MOST_NOISE
        from epsilog.mechanisms.statements import GaussianDP

        one = GaussianDP(min(round_down(distance, MU), MOST_NOISE))
        return Composition(rest | {one: rest.get(one, 0) + 1}, self.relation)


def build_joint_pairs(release: Release, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
    """Return base pairs of several releases on one sample: Gaussians merge, other pairs multiply (docs, 1.11).

    Raises:
        UnsupportedMechanismError: a part has no base pair, or there are too many.
    """
    reach, products = numerics.pairs, numerics.products
    counts = flatten(release)
    gaussians = {part: count for part, count in counts.items() if part.gaussian_mu(relation) is not None}
    found = [(part.base_pairs(relation), count) for part, count in counts.items() if part not in gaussians]
    if (mu := compose_mu(gaussians, relation) or 0.0) > 0:
        found.append((numerics.gaussian.build_gaussian_pair(mu), 1))
    if not found:
        return reach.use_exact_pair(reach.pure(0.0, 0.0))
    if len(found) == 1 and found[0][1] == 1:
        return found[0][0]
    if sum(count for _, count in found) > products.MOST_PARTS:
        reason = f"more than {products.MOST_PARTS} releases on one sample"
        raise UnsupportedMechanismError(release, method=reach.METHOD, reason=reason)
    above, below = ([(bases[side], count) for bases, count in found] for side in (0, 1))
    if any(base.infinity_mass >= 1 for base, _ in above):  # one part alone gives everything away
        return reach.build_non_private_pair(products.sum_max_losses(above)), max(
            (base for base, _ in below), key=lambda base: base.infinity_mass
        )
    upper, lower = products.build_product_pair(above, upper=True), products.build_product_pair(below, upper=False)
    return upper or reach.build_non_private_pair(products.sum_max_losses(above)), lower or reach.pure(0.0, 0.0)

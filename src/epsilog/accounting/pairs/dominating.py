"""From a release to its dominating pairs: two laws at least as easy to tell apart as any two neighbours' outputs.

Only what is proven: every case cites its proof, and docs/accounting/certified-bounds.md, section 1, writes out ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain

from epsilog.accounting.exact import pure_loss
from epsilog.accounting.flatten import Bag, flatten, total_mu
from epsilog.accounting.pairs.groups import GroupPair, group_pairs
from epsilog.accounting.pairs.mixtures import mixture_pairs
from epsilog.accounting.pairs.noise import discrete_gaussian, discrete_laplace, laplace, normal, staircase
from epsilog.accounting.pairs.profiled import Profiled
from epsilog.accounting.pairs.replace_one import replaced
from epsilog.accounting.pairs.sampling import binned, check_sampling, sampled_pair, shares, truncated
from epsilog.accounting.pairs.selection import bounded_range, chosen, leaning, leans_of
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Grouped,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
    ReportNoisyMax,
    Shuffled,
    SparseVector,
    Staircase,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.numerics.exact import rounded
from epsilog.numerics.laws.base import Atoms, BaseLaw
from epsilog.numerics.laws.pair import Direction, Pair, Parts
from epsilog.numerics.laws.shuffled import attained, clones, responses
from epsilog.numerics.products import MOST_PARTS, largest, product
from epsilog.numerics.reach import LONGEST, METHOD, NEAREST, nothing_hidden, pure, same, within_reach
from epsilog.numerics.responses import randomized_response, statement
from epsilog.numerics.rounding import RATIO, down, union
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

_REPLACE = NeighboringRelation.REPLACE_ONE
_WAYS = (Direction.REMOVE, Direction.ADD, Direction.BOTH)  # of a sampled pair


@dataclass(frozen=True)
class Ordering:
    """One of the ways two neighbours can be ordered, as composed pairs.

    Attributes:
        upper: pairs whose composition dominates the release in this order, with their counts.
        lowers: compositions that some two neighbours attain (or exceed), any of which bounds from below.
    """

    upper: Parts
    lowers: tuple[Parts, ...]

    @cached_property
    def largest_loss(self) -> float:
        """Bounds the largest loss from above."""
        return largest_loss(self.upper)[1]

    @cached_property
    def rounds(self) -> int:
        """Counts the single pairs."""
        return sum(count for _, count in self.upper)


def orderings(  # noqa: PLR0912
    bag: Bag, relation: NeighboringRelation, *, tail_mass: float = 1e-11
) -> tuple[Ordering, ...]:
    """Returns every order in which neighbours can differ; the worst of them counts.

    ``tail_mass`` is what cutting the tail of one balls-in-bins epoch may add to delta.

    Raises:
        UnsupportedMechanismError: a part has no proven pair under this relation.

    >>> from epsilog.mechanisms import Gaussian
    >>> len(orderings({Gaussian(1.0): 1}, NeighboringRelation.ADD_OR_REMOVE_ONE))
    1
    >>> len(orderings({PoissonSampled(Gaussian(1.0), 0.5): 1}, NeighboringRelation.ADD_OR_REMOVE_ONE))
    2
    """
    gaussians, others = [], {}
    for part, count in bag.items():
        mu = part.gaussian_mu(relation)
        if mu is None:
            others[part] = count
        else:
            gaussians.append(math.sqrt(count) * mu)
    total = math.hypot(*gaussians)
    upper: dict[Direction, list[tuple[Pair, int]]] = {direction: [] for direction in Direction}
    leans = leans_of(others)
    lower: list[dict[Direction, list[tuple[Pair, int]]]] = [{direction: [] for direction in Direction} for _ in leans]

    def attained(direction: Direction, pairs: Sequence[Pair], count: int) -> None:
        for side, pair in zip(lower, pairs, strict=True):
            side[direction].append((pair, count))

    for direction in Direction if total > 0 else ():  # all Gaussians are one Gaussian
        above, below = normal(total)
        upper[direction].append((Pair(above), 1))
        attained(direction, [Pair(below)] * len(leans), 1)
    sampled = False
    for part, count in others.items():
        own = _own_pairs(part, relation, tail_mass)
        if own is not None:
            for way, often in own:
                upper[way.direction].append((way.above, often * count))
                attained(way.direction, [way.below] * len(leans), often * count)
                sampled = sampled or way.sampled
            continue
        cut: TruncatedPoissonSampled | None = None
        if isinstance(part, TruncatedPoissonSampled):  # of no more units than a sample holds nothing is cut: below
            cut, part = part, PoissonSampled(part.release, part.sampling_probability)  # noqa: PLW2901
        base = part.release.plainly() if isinstance(part, PoissonSampled | FixedSizeSampled) else part
        check_sampling(part, relation)
        low, high = shares(part)
        if high == 0:
            continue
        if isinstance(part, PoissonSampled) and relation is _REPLACE:
            (above, below), low, high = replaced(part), 1.0, 1.0  # a pair of its own, symmetric as it is
        else:
            above, below = base_laws(base, relation)
        belows = [leaning(base, lean) or below for lean in leans] if low > 0 else [pure(0.0, 0.0)] * len(leans)
        sides = (Direction.REMOVE, Direction.ADD) if cut and relation is not _REPLACE else _WAYS
        for direction in Direction if low == 1 else sides:
            pair = Pair(truncated(cut, relation, direction)) if cut else sampled_pair(above, high, direction)
            upper[direction].append((pair, count))
            attained(direction, [sampled_pair(law, low, direction) for law in belows], count)
        sampled = sampled or low < 1
    parts, *least = ({k: tuple(v) for k, v in side.items()} for side in (upper, *lower))
    if not sampled:
        return (Ordering(parts[Direction.PLAIN], tuple(side[Direction.PLAIN] for side in least)),)
    if relation is _REPLACE:
        orders = ((side[Direction.REMOVE], side[Direction.ADD], _half_and_half(side)) for side in least)
        return (Ordering(parts[Direction.BOTH], tuple(chain.from_iterable(orders))),)
    return tuple(
        Ordering(parts[direction], tuple(side[direction] for side in least))
        for direction in (Direction.REMOVE, Direction.ADD)
    )


def _own_pairs(part: Release, relation: NeighboringRelation, tail_mass: float) -> list[tuple[GroupPair, int]] | None:
    """The pairs of what is no sample of something that has a pair, by direction, with their counts; None of others."""
    match part:
        case BallsInBins():
            sides = [(way, binned(part, relation, way, tail_mass)) for way in (Direction.REMOVE, Direction.ADD)]
            return [(GroupPair(way, Pair(above), Pair(below)), 1) for way, (above, below) in sides]
        case MixtureOfGaussians():
            bent = relation is not _REPLACE
            return [(GroupPair(*sides, sampled=bent), 1) for sides in mixture_pairs(part, relation)]
        case Grouped():
            return _of_group(part, relation)
        case _:
            return None


def _of_group(part: Grouped, relation: NeighboringRelation) -> list[tuple[GroupPair, int]]:
    """All pairs of what a group meets, with their counts."""
    return [
        (way, count)
        for one, count in flatten(part.release).items()
        for way in group_pairs(one, relation, units=part.units, laws=base_laws)
    ]


def _half_and_half(least: dict[Direction, Parts]) -> Parts:
    """The analyst may turn the question round at every other release: then both orders occur."""
    mixed: list[tuple[Pair, int]] = []
    for (removed, count), (added, _) in zip(least[Direction.REMOVE], least[Direction.ADD], strict=True):
        turned = count // 2 if removed != added else 0
        mixed += [(removed, count - turned)] + ([(added, turned)] if turned else [])
    return tuple(mixed)


def largest_loss(parts: Parts) -> tuple[float, float]:
    """Bounds the largest loss of a composition from below and above: epsilon at delta 0; ``inf`` if none is largest.

    The parts' bounds are added as they are and rounded once, outwards.
    """
    sides, largest = [], [(pair.largest_loss(), count) for pair, count in parts]
    for side in (0, 1):
        if any(math.isinf(losses[side]) for losses, _ in largest):
            sides.append(math.inf)
        else:
            total = sum((Fraction(losses[side]) * count for losses, count in largest), Fraction(0))
            sides.append(rounded(total, up=side == 1))
    return sides[0], sides[1]


def certain_mass(parts: Parts) -> float:
    """The mass under P of what Q cannot produce, rounded down."""
    alone = [
        (0.0 if pair.direction is Direction.ADD else pair.law.only_p * pair.sampling_probability, n)
        for pair, n in parts
    ]
    return union(alone)[0]


def share_of(part: PoissonSampled | FixedSizeSampled) -> float:
    """The chance that a unit is in the sample."""
    return part.sampling_probability if isinstance(part, PoissonSampled) else part.sample_size / part.population


def base_laws(  # noqa: PLR0912
    release: Release, relation: NeighboringRelation
) -> tuple[BaseLaw, BaseLaw]:
    """Returns a law that dominates an unsampled release from above, and one that neighbours attain."""
    far = 2 if relation is _REPLACE else 1
    match release:
        case _ if (mu := total_mu(flatten(release), relation)) is not None:
            if mu == 0:
                return same(pure(0.0, 0.0))
            return normal(mu)
        case Repeated() | Composed():
            return _together(release, relation)
        case Laplace(noise_multiplier=noise):
            return laplace(far / noise) if noise > 0 else same(nothing_hidden())
        case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity):
            return discrete_laplace(scale, far * sensitivity) if scale > 0 else same(nothing_hidden())
        case DiscreteGaussian(noise_stddev=stddev, sensitivity=sensitivity):
            return discrete_gaussian(release, stddev, far * sensitivity) if stddev > 0 else same(nothing_hidden())
        case RandomizedResponse():
            if relation is not _REPLACE:
                raise UnsupportedMechanismError(release, method=METHOD, reason="its neighbours replace one unit")
            return randomized_response(release.flip_probability, release.categories)
        case Staircase(epsilon=eps):
            return staircase(eps, release.first_step, far)
        case ReportNoisyMax() if (other := release.plainly()) is not release:
            return base_laws(other, relation)
        case ReportNoisyMax(noise=noise_law):
            own = release.pure_loss(relation)
            return chosen(own, half=own / 2, laplace=noise_law == "laplace")
        case SparseVector(threshold_noise_multiplier=first, query_noise_multiplier=each):
            loss = release.pure_loss(relation)
            if loss is None:
                return nothing_hidden(), pure(0.0, 0.0)
            return chosen(loss, half=1 / (2 * max(Fraction(first), Fraction(each))), laplace=True)
        case ExponentialMechanism(epsilon=eps, monotone=monotone):
            return bounded_range(eps / 2 if monotone else eps)
        case Shuffled():
            return _shuffled(release, relation)
        case Profiled():
            return release.law(), pure(0.0, 0.0)
        case PureDP(epsilon=eps):
            return statement(eps, 0.0)
        case ApproximateDP(epsilon=eps, delta=share):
            return statement(eps, share)
        case ZeroConcentratedDP():
            raise UnsupportedMechanismError(release, method=METHOD, reason="rho-zCDP has no dominating pair")
        case _:
            raise UnsupportedMechanismError(release, method=METHOD)


def _together(release: Release, relation: NeighboringRelation) -> tuple[BaseLaw, BaseLaw]:
    """Several releases on one sample: all Gaussians are one; the product of all pairs (docs, 1.11)."""
    bag = flatten(release)
    gaussians = {part: count for part, count in bag.items() if part.gaussian_mu(relation) is not None}
    found = [(base_laws(part, relation), count) for part, count in bag.items() if part not in gaussians]
    if (mu := total_mu(gaussians, relation) or 0.0) > 0:
        found.append((normal(mu), 1))
    if len(found) == 1 and found[0][1] == 1:
        return found[0][0]
    if sum(count for _, count in found) > MOST_PARTS:
        reason = f"more than {MOST_PARTS} releases on one sample"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    above, below = ([(laws[side], count) for laws, count in found] for side in (0, 1))
    if any(law.only_p >= 1 for law, _ in above):  # one part alone gives everything away
        return nothing_hidden(largest(above)), max((law for law, _ in below), key=lambda law: law.only_p)
    upper, lower = product(above, upper=True), product(below, upper=False)
    return upper or nothing_hidden(largest(above)), lower or pure(0.0, 0.0)


def _shuffled(release: Shuffled, relation: NeighboringRelation) -> tuple[BaseLaw, BaseLaw]:
    """Reports that hide among each other: above by what a report can lose at most (docs: accounting/shuffling).

    Below by a randomizer that satisfies a statement, or by the responses themselves; by nothing of any other.
    """
    inner = flatten(release.release)
    if relation is not _REPLACE:
        reason = f"how many report is public, so that neighbours replace one unit: not {relation}"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    if any(isinstance(one, Shuffled | FixedSizeSampled | PoissonSampled | BallsInBins) for one in inner):
        raise UnsupportedMechanismError(
            release, method=METHOD, reason="one unit's report is neither sampled nor shuffled"
        )
    added = pure_loss(inner, relation)
    parts = (order.largest_loss for order in orderings(inner, relation))
    epsilon = max(parts, default=0.0) if added is None else rounded(added, up=True)
    if math.isinf(epsilon):
        reason = "only reports that have a largest loss (pure DP) are amplified"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    units, nothing = release.population, pure(0.0, 0.0)
    if epsilon == 0:
        return same(nothing)
    below: Atoms | None = None
    choices = 2
    match tuple(inner.items()):
        case ((PureDP(epsilon=stated), 1),) if stated > NEAREST:
            below = attained(min(stated, LONGEST), units)
            least = stated
        case ((RandomizedResponse(flip_probability=flip, categories=categories), 1),):
            below, choices = responses(flip, categories, units), categories
            least = down(epsilon, 2 * RATIO)
        case _:
            least = 0.0
    above, _ = within_reach(lambda at: clones(at, units, categories=choices), epsilon, (0.0, epsilon))
    return above, nothing if below is None else replace(below, stated=(least, epsilon))

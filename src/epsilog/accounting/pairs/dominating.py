"""From a release to its dominating pairs: two laws at least as easy to tell apart as any two neighbours' outputs.

Only what is proven: every case cites its proof, and docs/accounting/certified-bounds.md, section 1, writes out ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain

import numpy as np

from epsilog.accounting.balls_in_bins.pair import LARGEST_BINNED_MU, SMALLEST_MU, allocated
from epsilog.accounting.exact import choice_loss, pure_loss, rounded, sparse_vector_loss
from epsilog.accounting.flatten import Bag, bins_mu, check_absence, flatten, gaussian_mu_of, plainly, total_mu
from epsilog.accounting.laws.base import Atoms, BaseLaw, Normal, Tent
from epsilog.accounting.laws.pair import Direction, Pair, Parts
from epsilog.accounting.laws.replaced import (
    LARGEST_MU,
    LARGEST_SHIFT,
    RAREST,
    ReplacedLaplace,
    ReplacedSample,
    replaced_discrete_gaussian,
    replaced_discrete_laplace,
)
from epsilog.accounting.laws.shuffled import attained, clones, responses
from epsilog.accounting.laws.staircase import staircase
from epsilog.accounting.laws.told import ToldWhich
from epsilog.accounting.pairs.products import MOST_PARTS, largest, product
from epsilog.accounting.rounding import LEAST, MU, RATIO, down, gamma, union, up
from epsilog.accounting.truncation import binomial_above
from epsilog.terms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    NeighboringRelation,
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
    UnsupportedMechanismError,
    ZeroConcentratedDP,
)

METHOD = "privacy loss distributions"
_REPLACE = NeighboringRelation.REPLACE_ONE
_MOST_ATOMS = 2_000_000
_FARTHEST = 1e4  # from here on next to nothing is hidden: a lattice need not find out how little
_NEAREST = 1e-100  # a distance between Gaussians, or a loss, whose square a double holds
_RAREST = 1e-290  # a sampling probability whose inverse, times any loss, a double holds
_ROUNDED = 1e-12  # a part that is left out of a mass below: far above its roundings
_LONGEST = 600.0  # a loss whose exponential a double holds; beyond it an outcome counts as giving everything away

_ALL = (math.inf, math.inf)  # bounds of the largest loss where none is the largest
_WEIGHT_ERROR = gamma(3000.0)  # of e^-x for x up to 800 that took two roundings, over a sum of such

_LEANS = (0.5, 0.53, 0.57, 0.62, 0.68, 0.76, 0.79, 0.85, 0.9, 0.95)
_LEANS_OF_ONE = tuple(1 - 0.5 * 2 ** (-i / 6) for i in range(84))


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

    >>> from epsilog.terms import Gaussian
    >>> len(orderings({Gaussian(1.0): 1}, NeighboringRelation.ADD_OR_REMOVE_ONE))
    1
    >>> len(orderings({PoissonSampled(Gaussian(1.0), 0.5): 1}, NeighboringRelation.ADD_OR_REMOVE_ONE))
    2
    """
    gaussians, others = [], {}
    for part, count in bag.items():
        mu = gaussian_mu_of(part, relation)
        if mu is None:
            others[part] = count
        else:
            gaussians.append(math.sqrt(count) * mu)
    total = math.hypot(*gaussians)
    upper: dict[Direction, list[tuple[Pair, int]]] = {direction: [] for direction in Direction}
    leans = _leans(others)
    lower: list[dict[Direction, list[tuple[Pair, int]]]] = [{direction: [] for direction in Direction} for _ in leans]

    def attained(direction: Direction, pairs: Sequence[Pair], count: int) -> None:
        for side, pair in zip(lower, pairs, strict=True):
            side[direction].append((pair, count))

    for direction in Direction if total > 0 else ():  # all Gaussians are one Gaussian
        above, below = _normal(total)
        upper[direction].append((Pair(above), 1))
        attained(direction, [Pair(below)] * len(leans), 1)
    sampled = False
    for part, count in others.items():
        if isinstance(part, BallsInBins):
            for direction in (Direction.REMOVE, Direction.ADD):
                above, below = _allocated(part, relation, direction, tail_mass)
                upper[direction].append((Pair(above), count))
                attained(direction, [Pair(below)] * len(leans), count)
            sampled = True
            continue
        if isinstance(part, TruncatedPoissonSampled):
            for direction in Direction if relation is _REPLACE else (Direction.REMOVE, Direction.ADD):
                upper[direction].append((Pair(_truncated(part, relation, direction)), count))
                attained(direction, [Pair(_pure(0.0, 0.0))] * len(leans), count)
            sampled = True
            continue
        base = plainly(part.release) if isinstance(part, PoissonSampled | FixedSizeSampled) else part
        _check_sampling(part, relation)
        low, high = _shares(part)
        if high == 0:
            continue
        if isinstance(part, PoissonSampled) and relation is _REPLACE:
            (above, below), low, high = _replaced(part), 1.0, 1.0  # a pair of its own, symmetric as it is
        else:
            above, below = base_laws(base, relation)
        belows = [_leaning(base, lean) or below for lean in leans] if low > 0 else [_pure(0.0, 0.0)] * len(leans)
        for direction in Direction if low == 1 else (Direction.REMOVE, Direction.ADD, Direction.BOTH):
            upper[direction].append((_sampled(above, high, direction), count))
            attained(direction, [_sampled(law, low, direction) for law in belows], count)
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


def _leans(bag: dict[Release, int]) -> tuple[float, ...]:
    """Which instances of exponential mechanisms to look at from below: the larger of their two losses, over the range.

    Any is an instance (docs, 1.3). The best one depends on the question; the more there are, the nearer to the middle.
    """
    bases = [plainly(part.release) if isinstance(part, PoissonSampled | FixedSizeSampled) else part for part in bag]
    if not any(isinstance(base, ExponentialMechanism) for base in bases):
        return (0.5,)
    return _LEANS_OF_ONE if sum(bag.values()) == 1 else _LEANS


def _leaning(base: Release, lean: float) -> Atoms | None:
    """An exponential mechanism of range s between two outputs, with losses t = ``lean`` s and t - s."""
    if not isinstance(base, ExponentialMechanism):
        return None
    stated = base.epsilon / 2 if base.monotone else base.epsilon
    s = min(stated, _LONGEST)
    if s < _NEAREST:
        return None
    t = lean * s
    often, rare = math.expm1(t - s) / math.expm1(-s), math.exp(t - s) * math.expm1(-t) / math.expm1(-s)
    return Atoms(np.array([t - s, t]), np.array([rare, often]), step=s, stated=(stated, stated))


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


def _shares(part: Release) -> tuple[float, float]:
    """Bounds the chance of being in the sample from below and above; next to none counts as none below, above as some.

    Releases that are not sampled have the chance 1. A pair loses more the larger the chance.
    """
    match part:
        case PoissonSampled(sampling_probability=share):
            least = most = float(share)
        case FixedSizeSampled(sample_size=size, population=population):
            exact = Fraction(size, population)
            least, most = rounded(exact, up=False), rounded(exact, up=True)
        case _:
            least = most = 1.0
    return (least if least >= _RAREST else 0.0), (max(most, _RAREST) if most > 0 else 0.0)


def _sampled(law: BaseLaw, share: float, direction: Direction) -> Pair:
    return (
        Pair(law) if share in (0.0, 1.0) else Pair(law, share, direction)
    )  # what is never sampled is a law of nothing


def _check_sampling(part: Release, relation: NeighboringRelation) -> None:
    """Fixed-size sampling is proven for replacing; Poisson sampling for adding, removing, zeroing, and see below."""
    if isinstance(part, FixedSizeSampled) and relation is not _REPLACE:
        raise UnsupportedMechanismError(part, method=METHOD, reason=f"a fixed size means replace-one, not {relation}")
    if isinstance(part, PoissonSampled):
        check_absence(part, part.release, relation)
    sampled = flatten(part.release) if isinstance(part, PoissonSampled | FixedSizeSampled) else ()
    if any(isinstance(one, Shuffled) for one in sampled):
        raise UnsupportedMechanismError(part, method=METHOD, reason="of a sample fewer units' reports are shuffled")


def _allocated(
    part: BallsInBins, relation: NeighboringRelation, direction: Direction, tail_mass: float
) -> tuple[BaseLaw, BaseLaw]:
    """Balls-in-bins in one direction; out of reach of its lattice the bins are left out of account."""
    mu, nothing = bins_mu(part, relation), _pure(0.0, 0.0)
    if mu == 0:
        return _same(nothing)
    if math.isinf(mu):
        return _same(_nothing_hidden())
    if not SMALLEST_MU <= mu <= LARGEST_BINNED_MU:
        return Normal(up(max(mu, _NEAREST), MU)), nothing
    above, below = allocated(part.bins, mu, direction, max(tail_mass, 1e-250))
    return above, below or nothing


def _replaced(part: PoissonSampled) -> tuple[BaseLaw, BaseLaw]:
    """Poisson sampling under replace-one needs the unit's absence beside both contributions: docs, replace-one."""
    parts, q = flatten(part.release), part.sampling_probability
    revealed = Atoms(np.zeros(1), np.array([1 - q]), q)
    match tuple(parts.items()):
        case ((DiscreteLaplace(noise_scale=noise, sensitivity=shift), 1),):
            return _replaced_on_integers(replaced_discrete_laplace, noise, shift, q, most=LARGEST_SHIFT * noise)
        case ((DiscreteGaussian(noise_stddev=noise, sensitivity=shift), 1),):
            if 2 * (math.ceil(40 * noise) + shift) > _MOST_ATOMS:
                raise UnsupportedMechanismError(part, method=METHOD, reason="too many atoms")
            return _replaced_on_integers(replaced_discrete_gaussian, noise, shift, q, most=40 * noise)
    if all(isinstance(one, Laplace) for one in parts):
        return _replaced_laplace(parts, q, revealed)
    if not all(isinstance(one, Gaussian) for one in parts):
        reason = (
            f"under {_REPLACE} Poisson sampling has a proven pair over Gaussian noise, over Laplace noise and over one "
            "discrete noise"
        )
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    mu = total_mu(parts, NeighboringRelation.ADD_OR_REMOVE_ONE) or 0.0
    if mu == 0:
        return _same(_pure(0.0, 0.0))
    if math.isinf(mu):
        return _same(revealed)
    if mu > LARGEST_MU:  # above as if who is in the sample were told (joint convexity), below a shorter contribution
        return revealed, ReplacedSample(LARGEST_MU, q)
    return ReplacedSample(up(mu, MU), q), ReplacedSample(down(mu, MU), q)


def _replaced_laplace(parts: Bag, q: float, revealed: Atoms) -> tuple[BaseLaw, BaseLaw]:
    """Laplace noises on one sample: above as if their shifts added up in one coordinate, below the largest alone."""
    scales = {one.noise_multiplier: count for one, count in parts.items() if isinstance(one, Laplace)}
    if not scales:
        return _same(_pure(0.0, 0.0))
    if 0.0 in scales:
        return _same(revealed)
    most = rounded(sum((count / Fraction(noise) for noise, count in scales.items()), Fraction(0)), up=True)
    least = rounded(1 / Fraction(min(scales)), up=False)
    above: BaseLaw = revealed if most > LARGEST_SHIFT else ReplacedLaplace(max(most, _NEAREST), max(q, RAREST))
    if above.largest()[1] < _NEAREST:  # too small to be squared
        above = _pure(_NEAREST, 0.0)
    if least > LARGEST_SHIFT:
        return above, _ends_apart(q)
    below = ReplacedLaplace(max(least, _NEAREST), max(q, RAREST))
    seen = q >= RAREST and least >= _NEAREST and below.top >= _NEAREST
    return above, below if seen else _pure(0.0, 0.0)


def _ends_apart(q: float) -> Atoms:
    """What any noise attains that a contribution moves beyond reach: its two ends and the rest (docs, replace-one)."""
    far = ReplacedLaplace(LARGEST_SHIFT, max(q, RAREST)).largest()[0]
    if q < RAREST or far < _NEAREST:
        return _pure(0.0, 0.0)
    often = q / 2 * (1 - _ROUNDED) / (1 + math.exp(-far))
    rare = often * math.exp(-far)
    return Atoms(np.array([-far, 0.0, far]), np.array([rare, 1 - often - rare, often]), step=far)


def _replaced_on_integers(
    law: Callable[[float, int, float], Atoms], noise: float, shift: int, q: float, *, most: float
) -> tuple[BaseLaw, BaseLaw]:
    """Discrete noise; beyond ``most`` it is told above who was in the sample, and below a shorter shift is attained."""
    revealed = Atoms(np.zeros(1), np.array([1 - q]), q)
    if most < 1:
        return revealed, _ends_apart(q)
    if min(shift, most) > _MOST_ATOMS:
        raise UnsupportedMechanismError(DiscreteLaplace(noise, shift), method=METHOD, reason="too many atoms")
    found = law(noise, min(shift, math.floor(most)), max(q, RAREST))
    faint = (np.abs(found.u) < _NEAREST) & (found.u != 0)
    above = replace(found, u=np.where(faint, np.copysign(_NEAREST, found.u), found.u))
    stated = _ALL if found.only_p > 0 else None
    below = replace(found, u=np.where(faint, 0.0, found.u), only_p=0.0, stated=stated)
    return revealed if shift > most else above, below if q >= RAREST else _pure(0.0, 0.0)


def _truncated(part: TruncatedPoissonSampled, relation: NeighboringRelation, direction: Direction) -> BaseLaw:
    """Truncated Poisson samples: it is told whether the others alone fill the batch (docs, 1.9).

    If they do not, nothing is cut, with the unit or without. If they do, the unit takes the place of another, or (its
    place being kept) is in the sample or not.
    """
    parts = flatten(part.release)
    mu = total_mu(parts, NeighboringRelation.ADD_OR_REMOVE_ONE)
    share = part.sampling_probability
    if mu is None or not 1e-6 < mu < LARGEST_MU / 2 or not _RAREST < share < 1:
        reason = "a cut sample has a proven pair over Gaussian noise within reach only"
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    full = binomial_above(part.population - 1, share, part.largest_batch - 1)
    near, far = Normal(up(mu, MU)), Normal(up(2 * mu, MU))
    match relation:
        case NeighboringRelation.ADD_OR_REMOVE_ONE:
            return ToldWhich(Pair(near, share, direction), Pair(far, share, direction), full)
        case NeighboringRelation.ZERO_OUT:
            return ToldWhich(Pair(near, share, direction), Pair(near), up(full * share, 1))
        case NeighboringRelation.REPLACE_ONE:
            return ToldWhich(Pair(ReplacedSample(near.mu, share)), Pair(far), up(full * share, 1))


def base_laws(  # noqa: PLR0912
    release: Release, relation: NeighboringRelation
) -> tuple[BaseLaw, BaseLaw]:
    """Returns a law that dominates an unsampled release from above, and one that neighbours attain."""
    far = 2 if relation is _REPLACE else 1
    match release:
        case _ if (mu := total_mu(flatten(release), relation)) is not None:
            if mu == 0:
                return _same(_pure(0.0, 0.0))
            return _normal(mu)
        case Repeated() | Composed():
            return _together(release, relation)
        case Laplace(noise_multiplier=noise):
            return _laplace(far / noise) if noise > 0 else _same(_nothing_hidden())
        case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity):
            return _discrete_laplace(scale, far * sensitivity) if scale > 0 else _same(_nothing_hidden())
        case DiscreteGaussian(noise_stddev=stddev, sensitivity=sensitivity):
            return _discrete_gaussian(release, stddev, far * sensitivity) if stddev > 0 else _same(_nothing_hidden())
        case RandomizedResponse():
            if relation is not _REPLACE:
                raise UnsupportedMechanismError(release, method=METHOD, reason="its neighbours replace one unit")
            return _randomized_response(release.flip_probability, release.categories)
        case Staircase(epsilon=eps):
            return _staircase(eps, release.first_step, far)
        case ReportNoisyMax() if (other := plainly(release)) is not release:
            return base_laws(other, relation)
        case ReportNoisyMax(noise=noise_law):
            return _chosen(choice_loss(release), half=choice_loss(release) / 2, laplace=noise_law == "laplace")
        case SparseVector(threshold_noise_multiplier=first, query_noise_multiplier=each):
            loss = sparse_vector_loss(release)
            if loss is None:
                return _nothing_hidden(), _pure(0.0, 0.0)
            return _chosen(loss, half=1 / (2 * max(Fraction(first), Fraction(each))), laplace=True)
        case ExponentialMechanism(epsilon=eps, monotone=monotone):
            return _bounded_range(eps / 2 if monotone else eps)
        case Shuffled():
            return _shuffled(release, relation)
        case PureDP(epsilon=eps):
            return _statement(eps, 0.0)
        case ApproximateDP(epsilon=eps, delta=share):
            return _statement(eps, share)
        case ZeroConcentratedDP():
            raise UnsupportedMechanismError(release, method=METHOD, reason="rho-zCDP has no dominating pair")
        case _:
            raise UnsupportedMechanismError(release, method=METHOD)


def _same(law: BaseLaw) -> tuple[BaseLaw, BaseLaw]:
    return law, law


def _normal(mu: float) -> tuple[BaseLaw, BaseLaw]:
    """Two Gaussians mu apart, with room for the rounding of mu; nothing is nearer than a lattice can tell."""
    if math.isinf(mu):
        return _same(_nothing_hidden())
    if mu > _FARTHEST:
        return _nothing_hidden(), Normal(_FARTHEST)
    return Normal(up(max(mu, _NEAREST), MU)), Normal(down(mu, MU)) if mu > _NEAREST else _pure(0.0, 0.0)


def _nothing_hidden(stated: tuple[float, float] | None = None) -> Atoms:
    return Atoms(np.zeros(0), np.zeros(0), only_p=1.0, stated=stated)


def _within_reach(
    law: Callable[[float], Tent | Atoms], epsilon: float, stated: tuple[float, float] | None, *, certain: float = 0.0
) -> tuple[BaseLaw, BaseLaw]:
    """A law of a family that grows with ``epsilon``, and its stand-ins where doubles cannot hold it.

    Losses that are too small to be squared become the least that are not, or (below) none, but for the chance
    ``certain`` of giving everything away. Losses whose exponential is too large count as giving everything away, or
    (below) become the largest that are not. The largest loss remains what is ``stated``.
    """
    if epsilon < _NEAREST:
        return replace(law(_NEAREST), stated=stated), replace(_pure(0.0, certain), stated=stated)
    if epsilon > _LONGEST:
        return _nothing_hidden(stated), replace(law(_LONGEST), stated=stated)
    return _same(replace(law(epsilon), stated=stated))


def _off(epsilon: float) -> tuple[float, float]:
    """Bounds a number from 0 on that was rounded a few times."""
    return down(epsilon, RATIO), up(epsilon, RATIO) + LEAST


def _laplace(epsilon: float) -> tuple[BaseLaw, BaseLaw]:
    """One Laplace with the whole L1 shift dominates the coordinates together (docs, 1.3)."""
    return _within_reach(lambda at: Tent(at, 0.25 * math.exp(-at / 2), 0.5), epsilon, _off(epsilon))


def _staircase(epsilon: float, share: float, steps: int) -> tuple[BaseLaw, BaseLaw]:
    """Staircase noise moved by whole steps (docs: accounting/staircase), or what stands for it out of reach."""
    largest = steps * epsilon
    stated = (largest, largest)
    if largest < _NEAREST:
        return replace(_pure(_NEAREST, 0.0), stated=stated), replace(_pure(0.0, 0.0), stated=stated)
    if largest > _LONGEST:  # below: beyond either centre, and between
        rare = math.exp(-_LONGEST) / 2
        ends = Atoms(np.array([-_LONGEST, 0.0, _LONGEST]), np.array([rare, 0.5 - rare, 0.5]), step=_LONGEST)
        return _nothing_hidden(stated), replace(ends, stated=stated)
    return _same(replace(staircase(epsilon, share, steps), stated=stated))


def _chosen(loss: Fraction, *, half: Fraction, laplace: bool) -> tuple[BaseLaw, BaseLaw]:
    """A choice whose largest loss is known: above its statement; below two noisy numbers that are compared.

    They are ``half`` a scale apart, one way or the other. The larger wins with the odds 2 e^half - 1 under exponential
    noise, 4 e^half / (2 + half) - 1 under Laplace noise: docs/accounting/selection.md.
    """
    stated = rounded(loss, up=False), rounded(loss, up=True)
    apart = min(rounded(half, up=False), _LONGEST)
    odds = (4 * math.expm1(apart) - 2 * apart) / (2 + apart) if laplace else 2 * math.expm1(apart)
    told = min(down(math.log1p(odds), 4 * RATIO), _LONGEST)
    return _statement(stated[1], 0.0)[0], replace(_pure(told if told > _NEAREST else 0.0, 0.0), stated=stated)


def _bounded_range(spread: float) -> tuple[BaseLaw, BaseLaw]:
    """The exponential mechanism: above its profile, below the middle one of its instances (docs, 1.3)."""
    if spread == 0:
        return _same(_pure(0.0, 0.0))
    above, _ = _within_reach(lambda at: Tent(at, 0.25 / math.sinh(at / 2), 0.0), spread, (spread, spread))
    _, below = _within_reach(lambda at: _pure(at, 0.0), spread / 2, (spread, spread))
    return above, below


def _statement(epsilon: float, delta: float) -> tuple[BaseLaw, BaseLaw]:
    """A statement about epsilon, with a chance ``delta`` of giving everything away."""
    if epsilon == 0:
        return _same(_pure(0.0, delta))
    stated = (epsilon, epsilon) if delta == 0 else None
    return _within_reach(lambda at: _pure(at, delta), epsilon, stated, certain=delta)


def _pure(epsilon: float, delta: float) -> Atoms:
    """Randomized response, with a chance delta of giving everything away: Kairouz, Oh & Viswanath 2015, Thm 3.1."""
    if epsilon == 0:
        return Atoms(np.zeros(1), np.array([1 - delta]), only_p=delta, step=1.0)
    often = 1 / (1 + math.exp(-epsilon))
    rare = often * math.exp(-epsilon)  # not 1 - often: under Q this is nearly everything, so every digit counts
    return Atoms(np.array([-epsilon, epsilon]), (1 - delta) * np.array([rare, often]), delta, 2 * epsilon)


def _randomized_response(flip: float, categories: int) -> tuple[BaseLaw, BaseLaw]:
    """The true answer has the chance 1 - flip + rare, any other one rare: sums and ratios in which nothing cancels."""
    if flip == 0:
        return _same(_nothing_hidden())
    if flip == 1:
        return _same(_pure(0.0, 0.0))
    rare = flip / categories
    ratio = (1 - flip) / rare if rare > 1e-290 else math.inf
    epsilon = math.log1p(ratio) if ratio < math.inf else math.log1p(-flip) + math.log(categories) - math.log(flip)
    return _within_reach(lambda at: _three(at, flip, categories), epsilon, _off(epsilon))


def _three(epsilon: float, flip: float, categories: int) -> Atoms:
    """Three answers: against the truth, neither, and the truth.

    An ``epsilon`` within reach may stand for a larger one: then both neighbours' answers are exchanged with a chance
    that is far below round-off.
    """
    rest = (categories - 2) * (flip / categories)
    often = (1 - flip) + flip / categories
    return Atoms(np.array([-epsilon, 0.0, epsilon]), np.array([often * math.exp(-epsilon), rest, often]), step=epsilon)


def _together(release: Release, relation: NeighboringRelation) -> tuple[BaseLaw, BaseLaw]:
    """Several releases on one sample: all Gaussians are one; the product of all pairs (docs, 1.11)."""
    bag = flatten(release)
    gaussians = {part: count for part, count in bag.items() if gaussian_mu_of(part, relation) is not None}
    found = [(base_laws(part, relation), count) for part, count in bag.items() if part not in gaussians]
    if (mu := total_mu(gaussians, relation) or 0.0) > 0:
        found.append((_normal(mu), 1))
    if len(found) == 1 and found[0][1] == 1:
        return found[0][0]
    if sum(count for _, count in found) > MOST_PARTS:
        reason = f"more than {MOST_PARTS} releases on one sample"
        raise UnsupportedMechanismError(release, method=METHOD, reason=reason)
    above, below = ([(laws[side], count) for laws, count in found] for side in (0, 1))
    if any(law.only_p >= 1 for law, _ in above):  # one part alone gives everything away
        return _nothing_hidden(largest(above)), max((law for law, _ in below), key=lambda law: law.only_p)
    upper, lower = product(above, upper=True), product(below, upper=False)
    return upper or _nothing_hidden(largest(above)), lower or _pure(0.0, 0.0)


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
    units, nothing = release.population, _pure(0.0, 0.0)
    if epsilon == 0:
        return _same(nothing)
    below: Atoms | None = None
    choices = 2
    match tuple(inner.items()):
        case ((PureDP(epsilon=stated), 1),) if stated > _NEAREST:
            below = attained(min(stated, _LONGEST), units)
            least = stated
        case ((RandomizedResponse(flip_probability=flip, categories=categories), 1),):
            below, choices = responses(flip, categories, units), categories
            least = down(epsilon, 2 * RATIO)
        case _:
            least = 0.0
    above, _ = _within_reach(lambda at: clones(at, units, categories=choices), epsilon, (0.0, epsilon))
    return above, nothing if below is None else replace(below, stated=(least, epsilon))


def _discrete_laplace(scale: float, shift: int) -> tuple[BaseLaw, BaseLaw]:
    """Losses (abs(k) - abs(k - shift)) / scale, one step of 2 / scale apart; beyond the shift they are constant."""
    if shift > _MOST_ATOMS:
        raise UnsupportedMechanismError(DiscreteLaplace(scale, shift), method=METHOD, reason="too many atoms")
    epsilon = shift / scale

    def law(at: float) -> Atoms:
        if at < epsilon:  # out of reach: what lies between the two centres is one outcome
            top = 1 / (1 + math.exp(-1 / scale))
            low = top * math.exp(-at)
            return Atoms(np.array([-at, 0.0, at]), np.array([low, max(1 - top - low, 0.0), top]), step=at)
        scaled = shift / at
        k = np.arange(shift + 1)
        centre = math.tanh(0.5 / scaled)  # mass at the centre: (1 - r) / (1 + r), r = e^(-1/scale)
        p = centre * np.exp(-(shift - k) / scaled)
        p[-1] = 1 / (1 + math.exp(-1 / scaled))  # the centre and all beyond it
        p[0] = p[-1] * math.exp(-shift / scaled)
        return Atoms((2 * k - shift) / scaled, p, step=2 / scaled, relative_error=gamma(64 + 4 * at))

    return _within_reach(law, epsilon, _off(epsilon))


def _discrete_gaussian(release: Release, stddev: float, shift: int) -> tuple[BaseLaw, BaseLaw]:
    """Losses are linear in the outcome; the tails beyond 40 standard deviations (below e^-800) count as lost."""
    far = math.ceil(40 * stddev) + shift
    if 2 * far > _MOST_ATOMS:
        raise UnsupportedMechanismError(release, method=METHOD, reason="too many atoms")
    if shift > 40 * stddev:  # the least loss of an outcome from the further centre on, shift^2 / (2 stddev^2), is 800
        weight = np.exp(-0.5 * np.minimum(np.arange(far) / stddev, 100.0) ** 2)
        top = float(weight.sum() / (2 * weight.sum() - 1))
        rare = top * math.exp(-_LONGEST)
        atoms = Atoms(
            np.array([-_LONGEST, 0.0, _LONGEST]),
            np.array([rare, 1 - top, top]),
            relative_error=_WEIGHT_ERROR,
            stated=_ALL,
        )
        return _nothing_hidden(), atoms
    k = np.arange(-far, far + shift + 1)
    logs = -((k - shift) ** 2) / (2 * stddev**2)
    p = np.exp(logs)
    p = p / p.sum()
    u = shift * (2 * k - shift) / (2 * stddev**2)
    keep = (np.abs(u) < _LONGEST) & (p > 0)
    tail_mass = float(p[~keep].sum()) * (1 + _WEIGHT_ERROR) + 1e-290
    atoms = Atoms(u[keep], p[keep], tail_mass, step=shift / stddev**2, relative_error=_WEIGHT_ERROR)
    return atoms, replace(atoms, only_p=0.0, stated=_ALL)

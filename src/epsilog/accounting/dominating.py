"""From a release to its dominating pairs: two laws at least as easy to tell apart as any two neighbours' outputs.

Only what is proven: every case cites its proof, and docs/accounting/certified-bounds.md, section 1, writes out ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from epsilog.accounting.allocated import LARGEST_BINNED_MU, SMALLEST_MU, allocated
from epsilog.accounting.flatten import bins_mu, flatten, gaussian_mu_of, total_mu
from epsilog.accounting.laws import UNIT, Atoms, BaseLaw, Link, Normal, Pair, Tent
from epsilog.accounting.replaced import LARGEST_MU, ReplacedSample
from epsilog.terms import (
    ApproximateDP,
    BallsInBins,
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
    UnsupportedMechanismError,
    ZeroConcentratedDP,
)

METHOD = "privacy loss distributions"
_REPLACE = NeighboringRelation.REPLACE_ONE
_MOST_ATOMS = 2_000_000
_FARTHEST = 1e4  # from here on next to nothing is hidden: a lattice need not find out how little
_NEAREST = 1e-100  # a distance between Gaussians whose square a double holds
_LONGEST = 600.0  # a loss whose exponential a double holds; beyond it an outcome counts as giving everything away

_LEANS = (0.5, 0.53, 0.57, 0.62, 0.68, 0.76, 0.79, 0.85, 0.9, 0.95)
_LEANS_OF_ONE = tuple(1 - 0.5 * 2 ** (-i / 6) for i in range(84))

Parts = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class Direction:
    """One of the ways two neighbours can be ordered, as composed pairs.

    Attributes:
        upper: pairs whose composition dominates the release in this direction, with their counts.
        lowers: compositions that some two neighbours attain (or exceed), any of which bounds from below.
    """

    upper: Parts
    lowers: tuple[Parts, ...]


def directions(  # noqa: PLR0912
    release: Release, relation: NeighboringRelation, *, lost: float = 1e-11
) -> tuple[Direction, ...]:
    """Returns every direction in which neighbours can differ; the worst of them counts.

    ``lost`` is what cutting the tail of one balls-in-bins epoch may add to delta.

    Raises:
        UnsupportedMechanismError: a part has no proven pair under this relation.

    >>> from epsilog.terms import Gaussian
    >>> len(directions(Gaussian(1.0), NeighboringRelation.ADD_OR_REMOVE_ONE))
    1
    >>> len(directions(PoissonSampled(Gaussian(1.0), 0.5), NeighboringRelation.ADD_OR_REMOVE_ONE))
    2
    """
    gaussians, bag = [], {}
    for part, count in flatten(release).items():
        mu = gaussian_mu_of(part, relation)
        if mu is None:
            bag[part] = count
        else:
            gaussians.append(math.sqrt(count) * mu)
    total = math.hypot(*gaussians)
    upper: dict[Link, list[tuple[Pair, int]]] = {link: [] for link in Link}
    leans = _leans(bag)
    lower: list[dict[Link, list[tuple[Pair, int]]]] = [{link: [] for link in Link} for _ in leans]

    def attained(link: Link, pairs: Sequence[Pair], count: int) -> None:
        for side, pair in zip(lower, pairs, strict=True):
            side[link].append((pair, count))

    for link in Link if total > 0 else ():  # all Gaussians are one Gaussian
        above, below = _normal(total)
        upper[link].append((Pair(above), 1))
        attained(link, [Pair(below)] * len(leans), 1)
    sampled = False
    for part, count in bag.items():
        if isinstance(part, BallsInBins):
            for link in (Link.REMOVE, Link.ADD):
                above, below = _allocated(part, relation, link, lost)
                upper[link].append((Pair(above), count))
                attained(link, [Pair(below)] * len(leans), count)
            sampled = True
            continue
        base, share = (
            (part.release, share_of(part)) if isinstance(part, PoissonSampled | FixedSizeSampled) else (part, 1)
        )
        _check_sampling(part, relation)
        if share == 0:
            continue
        if isinstance(part, PoissonSampled) and relation is _REPLACE:
            (above, below), share = _replaced(part), 1  # a pair of its own, symmetric as it is
        else:
            above, below = base_laws(base, relation)
        belows = [_leaning(base, lean) or below for lean in leans]
        for link in Link:
            if share == 1:
                upper[link].append((Pair(above), count))
                attained(link, [Pair(law) for law in belows], count)
            elif link is not Link.PLAIN:
                upper[link].append((Pair(above, share, link), count))
                attained(link, [Pair(law, share, link) for law in belows], count)
        sampled = sampled or share < 1
    parts, *least = ({k: tuple(v) for k, v in side.items()} for side in (upper, *lower))
    if not sampled:
        return (Direction(parts[Link.PLAIN], tuple(side[Link.PLAIN] for side in least)),)
    if relation is _REPLACE:
        orders = ((side[Link.REMOVE], side[Link.ADD], _half_and_half(side)) for side in least)
        return (Direction(parts[Link.BOTH], tuple(chain.from_iterable(orders))),)
    return tuple(Direction(parts[link], tuple(side[link] for side in least)) for link in (Link.REMOVE, Link.ADD))


def _leans(bag: dict[Release, int]) -> tuple[float, ...]:
    """Which instances of exponential mechanisms to look at from below: the larger of their two losses, over the range.

    Any is an instance (docs, 1.3). The best one depends on the question; the more there are, the nearer to the middle.
    """
    bases = [part.release if isinstance(part, PoissonSampled | FixedSizeSampled) else part for part in bag]
    if not any(isinstance(base, ExponentialMechanism) for base in bases):
        return (0.5,)
    return _LEANS_OF_ONE if sum(bag.values()) == 1 else _LEANS


def _leaning(base: Release, lean: float) -> Atoms | None:
    """An exponential mechanism of range s between two outputs, with losses t = ``lean`` s and t - s."""
    if not isinstance(base, ExponentialMechanism):
        return None
    s = min(base.epsilon / 2 if base.monotone else base.epsilon, _LONGEST)
    if s == 0:
        return None
    t = lean * s
    often, rare = math.expm1(t - s) / math.expm1(-s), math.exp(t - s) * math.expm1(-t) / math.expm1(-s)
    return Atoms(np.array([t - s, t]), np.array([rare, often]), step=s)


def _half_and_half(least: dict[Link, Parts]) -> Parts:
    """The analyst may turn the question round at every other release: then both orders occur."""
    mixed: list[tuple[Pair, int]] = []
    for (removed, count), (added, _) in zip(least[Link.REMOVE], least[Link.ADD], strict=True):
        turned = count // 2 if removed != added else 0
        mixed += [(removed, count - turned)] + ([(added, turned)] if turned else [])
    return tuple(mixed)


def largest_loss(parts: Parts) -> float:
    """The largest loss a composition can have; ``inf`` if none is the largest."""
    total = 0.0
    for pair, count in parts:
        if isinstance(pair.law, Normal) or pair.law.only_p > 0:
            if pair.link is not Link.ADD:
                return math.inf
            total += count * -math.log1p(-pair.sampling_probability)
        else:
            total += count * max(float(pair.from_base(np.array([pair.law.ends()[1]]))[0]), 0.0)
    return total


def share_of(part: PoissonSampled | FixedSizeSampled) -> float:
    """The chance that a unit is in the sample."""
    return part.sampling_probability if isinstance(part, PoissonSampled) else part.sample_size / part.population


def _check_sampling(part: Release, relation: NeighboringRelation) -> None:
    """Fixed-size sampling is proven for replacing; Poisson sampling for adding, removing, zeroing, and see below."""
    if isinstance(part, FixedSizeSampled) and relation is not _REPLACE:
        raise UnsupportedMechanismError(part, method=METHOD, reason=f"a fixed size means replace-one, not {relation}")


def _allocated(part: BallsInBins, relation: NeighboringRelation, link: Link, lost: float) -> tuple[BaseLaw, BaseLaw]:
    """Balls-in-bins in one direction; out of reach of its lattice the bins are left out of account."""
    mu, nothing = bins_mu(part, relation), _pure(0.0, 0.0)
    if mu == 0:
        return _same(nothing)
    if math.isinf(mu):
        return _same(_nothing_hidden())
    if not SMALLEST_MU <= mu <= LARGEST_BINNED_MU:
        return Normal(max(mu, _NEAREST) * (1 + 4 * UNIT)), nothing
    above, below = allocated(part.bins, mu, link, max(lost, 1e-250))
    return above, below or nothing


def _replaced(part: PoissonSampled) -> tuple[BaseLaw, BaseLaw]:
    """Poisson sampling under replace-one needs the unit's absence beside both contributions: Gaussians have a proof."""
    parts = flatten(part.release)
    if not all(isinstance(one, Gaussian) for one in parts):
        reason = f"under {_REPLACE} Poisson sampling has a proven pair over Gaussian noise only"
        raise UnsupportedMechanismError(part, method=METHOD, reason=reason)
    mu = total_mu(part.release, NeighboringRelation.ADD_OR_REMOVE_ONE) or 0.0
    if mu == 0:
        return _same(_pure(0.0, 0.0))
    revealed = Atoms(np.zeros(1), np.array([1 - part.sampling_probability]), part.sampling_probability)
    if math.isinf(mu):
        return _same(revealed)
    if mu > LARGEST_MU:  # above as if who is in the sample were told (joint convexity), below a shorter contribution
        return revealed, ReplacedSample(LARGEST_MU, part.sampling_probability)
    above, below = (ReplacedSample(mu * by, part.sampling_probability) for by in (1 + 4 * UNIT, 1 - 4 * UNIT))
    return above, below


def base_laws(release: Release, relation: NeighboringRelation) -> tuple[BaseLaw, BaseLaw]:  # noqa: PLR0912
    """Returns a law that dominates an unsampled release from above, and one that neighbours attain."""
    far = 2 if relation is _REPLACE else 1
    match release:
        case _ if (mu := total_mu(release, relation)) is not None:
            if mu == 0:
                return _same(_pure(0.0, 0.0))
            return _normal(mu)
        case Laplace(noise_multiplier=noise):
            return _laplace(far / noise) if noise > 0 else _same(_nothing_hidden())
        case DiscreteLaplace(noise_scale=scale, sensitivity=sensitivity):
            return _same(_discrete_laplace(scale, far * sensitivity) if scale > 0 else _nothing_hidden())
        case DiscreteGaussian(noise_stddev=stddev, sensitivity=sensitivity):
            return _discrete_gaussian(release, stddev, far * sensitivity) if stddev > 0 else _same(_nothing_hidden())
        case RandomizedResponse():
            if relation is not _REPLACE:
                raise UnsupportedMechanismError(release, method=METHOD, reason="its neighbours replace one unit")
            return _same(_randomized_response(release.flip_probability, release.categories))
        case ExponentialMechanism(epsilon=eps, monotone=monotone):
            spread = eps / 2 if monotone else eps
            if spread == 0:
                return _same(_pure(0.0, 0.0))
            tent = Tent(min(spread, _LONGEST), 0.25 / math.sinh(min(spread, _LONGEST) / 2), 0.0)
            return (tent if spread < _LONGEST else _nothing_hidden()), _pure(min(spread, _LONGEST) / 2, 0.0)
        case PureDP(epsilon=eps):
            return _same(_pure(eps, 0.0))
        case ApproximateDP(epsilon=eps, delta=share):
            return _same(_pure(eps, share))
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
    return Normal(max(mu, _NEAREST) * (1 + 8 * UNIT)), Normal(mu * (1 - 8 * UNIT)) if mu > _NEAREST else _pure(0.0, 0.0)


def _nothing_hidden() -> Atoms:
    return Atoms(np.zeros(0), np.zeros(0), only_p=1.0)


def _laplace(epsilon: float) -> tuple[BaseLaw, BaseLaw]:
    """One Laplace with the whole L1 shift dominates the coordinates together (docs, 1.3)."""
    short = min(epsilon, _LONGEST)
    tent = Tent(short, 0.25 * math.exp(-short / 2), 0.5)
    return (tent if epsilon < _LONGEST else _nothing_hidden()), tent


def _pure(epsilon: float, delta: float) -> Atoms:
    """Randomized response, with a chance delta of giving everything away: Kairouz, Oh & Viswanath 2015, Thm 3.1."""
    if epsilon > _LONGEST:
        return _nothing_hidden()
    if epsilon == 0:
        return Atoms(np.zeros(1), np.array([1 - delta]), only_p=delta, step=1.0)
    often = 1 / (1 + math.exp(-epsilon))
    rare = often * math.exp(-epsilon)  # not 1 - often: under Q this is nearly everything, so every digit counts
    return Atoms(np.array([-epsilon, epsilon]), (1 - delta) * np.array([rare, often]), delta, 2 * epsilon)


def _randomized_response(flip: float, categories: int) -> Atoms:
    rare = flip / categories
    if rare == 0:
        return _nothing_hidden()
    often = 1 - (categories - 1) * rare
    epsilon = math.log(often) - math.log(rare)
    if epsilon > _LONGEST:
        return _nothing_hidden()
    if epsilon <= 0:
        return Atoms(np.zeros(1), np.ones(1), step=1.0)
    return Atoms(np.array([-epsilon, 0.0, epsilon]), np.array([rare, (categories - 2) * rare, often]), step=epsilon)


def _discrete_laplace(scale: float, shift: int) -> Atoms:
    """Losses (abs(k) - abs(k - shift)) / scale, one step of 2 / scale apart; beyond the shift they are constant."""
    if shift > _MOST_ATOMS:
        raise UnsupportedMechanismError(DiscreteLaplace(scale, shift), method=METHOD, reason="too many atoms")
    if shift / scale > _LONGEST:
        return _nothing_hidden()
    k = np.arange(shift + 1)
    centre = math.tanh(0.5 / scale)  # mass at the centre: (1 - r) / (1 + r), r = e^(-1/scale)
    p = centre * np.exp(-(shift - k) / scale)
    p[-1] = 1 / (1 + math.exp(-1 / scale))  # the centre and all beyond it
    p[0] = p[-1] * math.exp(-shift / scale)
    return Atoms((2 * k - shift) / scale, p, step=2 / scale)


def _discrete_gaussian(release: Release, stddev: float, shift: int) -> tuple[Atoms, Atoms]:
    """Losses are linear in the outcome; the tails beyond 40 standard deviations (below e^-800) count as lost."""
    far = math.ceil(40 * stddev) + shift
    if 2 * far > _MOST_ATOMS:
        raise UnsupportedMechanismError(release, method=METHOD, reason="too many atoms")
    k = np.arange(-far, far + shift + 1)
    logs = -((k - shift) ** 2) / (2 * stddev**2)
    p = np.exp(logs)
    p = p / p.sum()
    u = shift * (2 * k - shift) / (2 * stddev**2)
    keep = (np.abs(u) < _LONGEST) & (p > 0)
    lost = float(p[~keep].sum()) + 1e-290
    atoms = Atoms(u[keep], p[keep], lost, step=shift / stddev**2, slip=2000 * UNIT)
    return atoms, replace(atoms, only_p=0.0)

"""One question, one interval: picks the tightest method that is proven for a release and a relation, and says which."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from epsilog.accounting import allocation, failures
from epsilog.accounting.assumptions import assumptions
from epsilog.accounting.distributions import DeltaAt, EpsilonAt, Question, bounds, upper_bound
from epsilog.accounting.dominating import Direction, directions, largest_loss, share_of
from epsilog.accounting.exact import pure_loss, rounded
from epsilog.accounting.flatten import flatten, sampled_parts, times, total_mu, unsampled
from epsilog.accounting.gaussian import gaussian_delta, gaussian_epsilon
from epsilog.accounting.many import many_bounds
from epsilog.accounting.renyi import renyi_delta, renyi_epsilon
from epsilog.accounting.spectral import LEAST, spectral_bounds
from epsilog.accounting.waves import OutOfReachError
from epsilog.terms import (
    BallsInBins,
    Composed,
    FixedSizeSampled,
    GaussianDP,
    Interval,
    NeighboringRelation,
    PoissonSampled,
    Release,
    UnsupportedMechanismError,
    ZeroConcentratedDP,
    check,
)
from epsilog.terms.guarantee import RELATION

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_GAUSSIAN = "exact Gaussian (Balle & Wang 2018)"
_NUMERICAL = "privacy loss distribution: dots connected above (Doroshenko et al. 2022), outcomes merged below"
_SPECTRAL = "Laplace inversion, every error bounded (docs: accounting/spectral)"
_UP, _DOWN = 1 + 1e-14, 1 - 1e-14  # what adding up the parts' mu may be off by
_PURE = "pure composition"
_APART = "; stated deltas apart (Kairouz, Oh & Viswanath 2015)"
_NEARLY_ONE = 1 - 2.0**-53
_LOOSE = 0.02  # a relative width from which on Renyi DP may do better above
_RENYI = "Renyi DP above (Mironov 2017; Canonne et al. 2020), privacy loss distribution below"
_UNSAMPLED = (
    "above as if sampling hid nothing (docs: accounting/certified-bounds, 1.5), privacy loss distribution below"
)
_MANY = "central limit theorem, tilted, every error bounded (docs: accounting/many-rounds)"
_CROWD = 0.002  # a relative width from which on the lattice is tried beside the central limit theorem
_TOO_MANY = 10**9  # rounds that no lattice is fine enough for
_MUCH = 0.5  # a share of units in a sample from which on sampling may hide next to nothing
_FEW = 4  # kinds of sampled parts that are unsampled one at a time


def epsilon(
    release: Release, *, delta: float, relation: NeighboringRelation = _ADD_OR_REMOVE, gap: float = 0.002
) -> Interval:
    """Bounds epsilon at ``delta`` from both sides.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbours.
        gap: the relative width to aim for.

    Returns:
        The interval, in nats; its ``upper`` is ``inf`` when nothing can be promised.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        docs/accounting/certified-bounds.md.

    >>> from epsilog.terms import Gaussian, PoissonSampled, Repeated
    >>> epsilon(Gaussian(noise_multiplier=1.0), delta=1e-5).upper  # doctest: +ELLIPSIS
    4.37717...
    >>> sgd = Repeated(PoissonSampled(Gaussian(noise_multiplier=1.0), sampling_probability=0.01), count=1000)
    >>> round(epsilon(sgd, delta=1e-5).lower, 8), round(epsilon(sgd, delta=1e-5).upper, 8)
    (1.82823667, 1.82823667)
    """
    delta = check.half_open(0, 1)(delta=delta)
    relation, gap = _check(release, relation, gap)
    if (apart := failures.apart(release)) is not None:
        return _epsilon_beside(*apart, delta=delta, relation=relation, gap=gap)
    mu = total_mu(release, relation)
    if mu is not None:
        lower, upper = (math.inf if mu > 0 else 0.0,) * 2
        if delta > 0:
            lower, upper = gaussian_epsilon(mu * _DOWN, delta)[0], gaussian_epsilon(mu * _UP, delta)[1]
        method = _GAUSSIAN
    elif delta == 0:
        lower, upper, method = *_largest_losses(release, relation), _PURE
    else:
        lower, upper, method = _numerical(release, relation, EpsilonAt(delta), gap)
        if upper > 0:
            upper = min(upper, _largest_losses(release, relation)[1])
        if method is _RENYI:
            upper = min(upper, renyi_epsilon(release, delta=delta, relation=relation))
    given = (("delta", delta),)
    return Interval(min(lower, upper), upper, method, relation, assumptions=assumptions(release), given=given)


def delta(
    release: Release, *, epsilon: float, relation: NeighboringRelation = _ADD_OR_REMOVE, gap: float = 0.002
) -> Interval:
    """Bounds delta at ``epsilon`` from both sides; arguments and errors as for ``epsilon``.

    >>> from epsilog.terms import Gaussian
    >>> round(delta(Gaussian(noise_multiplier=1.0), epsilon=1.0).upper, 9)
    0.126936738
    """
    epsilon = check.at_least(0)(epsilon=epsilon)
    relation, gap = _check(release, relation, gap)
    if (apart := failures.apart(release)) is not None:
        found = _delta_of(apart[0], epsilon=epsilon, relation=relation, gap=gap)
        lower, upper = apart[1].beside(found.lower, found.upper)
        return replace(found, lower=lower, upper=upper, method=found.method + _APART)
    mu = total_mu(release, relation)
    if mu is not None:
        lower, upper = gaussian_delta(mu * _DOWN, epsilon)[0], gaussian_delta(mu * _UP, epsilon)[1]
        method = _GAUSSIAN
    else:
        lower, upper, method = _numerical(release, relation, DeltaAt(epsilon), gap)
        if method is _RENYI:
            upper = min(upper, renyi_delta(release, epsilon=epsilon, relation=relation))
        if _largest_losses(release, relation)[1] <= epsilon:
            lower, upper = 0.0, 0.0
    given = (("epsilon", epsilon),)
    return Interval(
        min(lower, upper), upper, method, relation, assumptions=assumptions(release), quantity="delta", given=given
    )


_delta_of = delta  # where an argument has its name


def _epsilon_beside(
    rest: Release, failure: failures.Failure, *, delta: float, relation: NeighboringRelation, gap: float
) -> Interval:
    """Bounds epsilon of a mix whose statements' deltas were taken apart from the rest of it."""
    low, high = failure.left(delta)
    found = epsilon(rest, delta=0.0 if low is None else low, relation=relation, gap=gap)
    lower, upper = math.inf, math.inf if low is None else found.upper
    if high is not None:
        more = found if high == low else epsilon(rest, delta=min(high, _NEARLY_ONE), relation=relation, gap=gap)
        lower = min(more.lower, upper)
    return replace(found, lower=lower, upper=upper, method=found.method + _APART, given=(("delta", delta),))


def upper_epsilon(release: Release, *, delta: float, relation: NeighboringRelation, gap: float = 5e-4) -> float:
    """Bounds epsilon from above only, by the same methods; what searches evaluate.

    >>> from epsilog.terms import Laplace
    >>> round(upper_epsilon(Laplace(2.0), delta=0.1, relation=_ADD_OR_REMOVE), 4)
    0.2893
    """
    if delta == 0:
        return epsilon(release, delta=delta, relation=relation).upper
    return _upper(release, relation, EpsilonAt(delta), gap)


def upper_delta(release: Release, *, epsilon: float, relation: NeighboringRelation, gap: float = 5e-4) -> float:
    """Bounds delta from above only, by the same methods.

    >>> from epsilog.terms import Laplace
    >>> round(upper_delta(Laplace(2.0), epsilon=0.0, relation=_ADD_OR_REMOVE), 4)
    0.2212
    """
    return _upper(release, relation, DeltaAt(epsilon), gap)


def _upper(release: Release, relation: NeighboringRelation, question: Question, gap: float) -> float:
    """Bounds an answer from above, and never by more than if nothing were sampled."""
    if (apart := failures.apart(release)) is not None:
        return _upper_beside(*apart, relation, question, gap)
    upper = _upper_by_loss(release, relation, question, gap)
    return min(upper, _upper_unsampled(release, relation, question, gap, loose=not math.isfinite(upper)))


def _upper_beside(
    rest: Release, failure: failures.Failure, relation: NeighboringRelation, question: Question, gap: float
) -> float:
    """Bounds an answer from above for a mix whose statements' deltas were taken apart."""
    if isinstance(question, EpsilonAt):
        left = failure.left(question.delta)[0]
        return math.inf if left is None else upper_epsilon(rest, delta=left, relation=relation, gap=gap)
    assert isinstance(question, DeltaAt)
    return failure.beside(0.0, upper_delta(rest, epsilon=question.epsilon, relation=relation, gap=gap))[1]


def _upper_unsampled(
    release: Release, relation: NeighboringRelation, question: Question, gap: float, *, loose: bool
) -> float:
    """Bounds an answer from above with every unit in every sample: a Gaussian's at once, others where it may help."""
    sampled = sampled_parts(release)
    if not sampled:
        return math.inf
    bins = tuple(part for part in sampled if isinstance(part, BallsInBins))
    gaussian = total_mu(unsampled(release, sampled), relation) is not None
    ways = dict.fromkeys((sampled, bins) if loose or bins or any(map(_much, sampled)) else (sampled,) * gaussian)
    if loose and len(sampled) <= _FEW:
        ways |= dict.fromkeys((part,) for part in sampled)
    least = _renyi(unsampled(release, sampled), relation, question) if loose else math.inf
    for parts in filter(None, ways):
        with suppress(UnsupportedMechanismError):
            least = min(least, _upper_by_loss(unsampled(release, parts), relation, question, gap))
    return least


def _much(part: Release) -> bool:
    return isinstance(part, PoissonSampled | FixedSizeSampled) and share_of(part) >= _MUCH


def _upper_by_loss(release: Release, relation: NeighboringRelation, question: Question, gap: float) -> float:
    """Bounds an answer from above by loss distributions: as ``_by_loss``, without the lattice's lower side."""
    if total_mu(release, relation) is not None or any(map(_concentrated, flatten(release))):
        return _answer(release, relation, question)
    allocated = allocation.whole_release(release, relation)
    if allocated is not None:
        return allocation.bounds(*allocated, question, gap=gap)[1]
    ways = directions(release, relation, lost=_lost(release, question))
    most = question.at_most(_largest_losses(release, relation)[1])
    if sum(count for way in ways[:1] for _, count in way.upper) > 1:
        with suppress(OutOfReachError):
            lower, upper = spectral_bounds(ways, question)
            if upper - lower <= max(gap * upper, LEAST):
                return min(upper, most)
        with suppress(OutOfReachError):
            lower, upper = many_bounds(ways, question)
            if upper - lower <= max(gap, _CROWD) * upper or upper == 0 or _hopeless(ways, upper):
                return min(upper, most)
    upper = min(most, upper_bound(ways, question, gap=gap))
    return upper if math.isfinite(upper) else min(upper, _renyi(release, relation, question))


def _answer(release: Release, relation: NeighboringRelation, question: Question) -> float:
    """Bounds an answer from above by whatever bounds it best."""
    if isinstance(question, EpsilonAt):
        return epsilon(release, delta=question.delta, relation=relation).upper
    assert isinstance(question, DeltaAt)
    return delta(release, epsilon=question.epsilon, relation=relation).upper


def _renyi(release: Release, relation: NeighboringRelation, question: Question) -> float:
    """Bounds an answer from above by Renyi DP; ``inf`` where that has no bound, or numbers that no double holds."""
    with suppress(UnsupportedMechanismError, OverflowError):
        if isinstance(question, EpsilonAt):
            return renyi_epsilon(release, delta=question.delta, relation=relation)
        if isinstance(question, DeltaAt):
            return renyi_delta(release, epsilon=question.epsilon, relation=relation)
    return math.inf


def _check(release: Release, relation: NeighboringRelation, gap: float) -> tuple[NeighboringRelation, float]:
    check.instance(Release)(release=release)
    return RELATION(relation=relation), check.between(0, 1)(gap=gap)


def _numerical(
    release: Release, relation: NeighboringRelation, question: Question, gap: float
) -> tuple[float, float, str]:
    """Bounds an answer from both sides, and never by more than if nothing were sampled."""
    lower, upper, method = _sampled(release, relation, question, gap)
    free = _upper_unsampled(release, relation, question, gap, loose=not _tight(lower, upper))
    if free >= upper:
        return lower, upper, method
    _must_meet((lower, upper), (0.0, free))
    return min(lower, free), free, _UNSAMPLED


def _hopeless(ways: tuple[Direction, ...], upper: float) -> bool:
    """Whether a lattice would be too coarse, or take too long, to improve on an answer."""
    return math.isfinite(upper) and any(sum(count for _, count in way.upper) > _TOO_MANY for way in ways)


def _tight(lower: float, upper: float) -> bool:
    return math.isfinite(upper) and upper - lower <= _LOOSE * upper


def _must_meet(one: tuple[float, float], other: tuple[float, float]) -> None:
    """Both are proven: if they do not meet, one of the programs is wrong."""
    if not (one[0] <= other[1] * (1 + 1e-9) and other[0] <= one[1] * (1 + 1e-9)):
        raise ArithmeticError(f"two proven intervals do not meet: {one} and {other}; please report this")


def _sampled(
    release: Release, relation: NeighboringRelation, question: Question, gap: float
) -> tuple[float, float, str]:
    """Bounds by loss distributions; a rho-zCDP statement has none, but a Gaussian that satisfies it bounds it below."""
    allocated = allocation.whole_release(release, relation)
    if allocated is not None:
        return *allocation.bounds(*allocated, question, gap=gap), allocation.METHOD
    least = attained(release)
    if least is release:
        lower, upper, method = _by_loss(directions(release, relation, lost=_lost(release, question)), question, gap)
        if _tight(lower, upper):
            return lower, upper, method
        rough = _renyi(release, relation, question)
        return (lower, rough, _RENYI) if rough < upper else (lower, upper, method)
    mu = total_mu(least, relation)
    if mu is not None and isinstance(question, EpsilonAt):
        return gaussian_epsilon(mu * _DOWN, question.delta)[0], math.inf, _RENYI
    if mu is not None and isinstance(question, DeltaAt):
        return gaussian_delta(mu * _DOWN, question.epsilon)[0], 1.0, _RENYI
    return bounds(directions(least, relation), question, gap=gap)[0], math.inf, _RENYI


def attained(release: Release) -> Release:
    """The release with a Gaussian that satisfies its rho-zCDP statements in their place; itself if it has none.

    >>> from epsilog.terms import Laplace
    >>> attained(Composed([Laplace(1.0), ZeroConcentratedDP(0.125)]))  # doctest: +ELLIPSIS
    Composed(releases=(Repeated(release=Laplace(...), count=1), GaussianDP(mu=0.4999999999999...)))
    """
    bag = flatten(release)
    rho = math.fsum(part.rho * count for part, count in bag.items() if isinstance(part, ZeroConcentratedDP))
    if not any(map(_concentrated, bag)):
        return release
    rest = [times(part, count) for part, count in bag.items() if not _concentrated(part)]
    return Composed([*rest, GaussianDP(math.sqrt(2 * rho) * (1 - 1e-15))])


def _by_loss(ways: tuple[Direction, ...], question: Question, gap: float) -> tuple[float, float, str]:
    """Inverts the composed transform where that is proven to be close enough, and composes on a lattice elsewhere."""
    lower, upper = 0.0, question.at_most(max((largest_loss(way.upper)[1] for way in ways), default=0.0))
    if sum(count for way in ways[:1] for _, count in way.upper) > 1:
        with suppress(OutOfReachError):
            lower, upper = spectral_bounds(ways, question)
            if lower == upper or upper - lower <= max(gap * upper, LEAST):
                return lower, upper, _SPECTRAL
        with suppress(OutOfReachError):
            normal = many_bounds(ways, question)
            _must_meet((lower, upper), normal)
            lower, upper = max(lower, normal[0]), min(upper, normal[1])
            if lower == upper or upper - lower <= max(gap, _CROWD) * upper or _hopeless(ways, upper):
                return lower, upper, _MANY
    on_lattice = bounds(ways, question, gap=gap)
    _must_meet((lower, upper), on_lattice)
    return max(lower, on_lattice[0]), min(upper, on_lattice[1]), _NUMERICAL


def _lost(release: Release, question: Question) -> float:
    """What one release may lose where its law has to be cut, so that all together lose next to nothing."""
    size = question.delta if isinstance(question, EpsilonAt) else 1e-10
    return 1e-4 * size / max(sum(flatten(release).values()), 1)


def _concentrated(part: Release) -> bool:
    return isinstance(part, ZeroConcentratedDP)


def _largest_losses(release: Release, relation: NeighboringRelation) -> tuple[float, float]:
    """Bounds the largest possible loss: epsilon at delta 0."""
    if (added := pure_loss(release, relation)) is not None:
        return rounded(added, up=False), rounded(added, up=True)
    if any(_concentrated(part) for part in flatten(release)):
        return 0.0, math.inf
    if (allocated := allocation.whole_release(release, relation)) is not None:
        return (math.inf, math.inf) if allocated[1] > 0 else (0.0, 0.0)
    ways = directions(release, relation)
    upper = max((largest_loss(way.upper)[1] for way in ways), default=0.0)
    lower = max((largest_loss(parts)[0] for way in ways for parts in way.lowers), default=0.0)
    return lower, upper

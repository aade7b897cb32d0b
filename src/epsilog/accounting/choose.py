"""One question, one interval: picks the tightest method that is proven for a release and a relation, and says which."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from epsilog.accounting import allocation, failures
from epsilog.accounting.assumptions import assumptions
from epsilog.accounting.bounds import Bounds
from epsilog.accounting.distributions import bounds, upper_bound
from epsilog.accounting.dominating import Direction, directions, largest_loss, share_of
from epsilog.accounting.exact import pure_loss, rounded
from epsilog.accounting.flatten import flatten, sampled_parts, times, total_mu, unsampled
from epsilog.accounting.gaussian import gaussian_delta, gaussian_epsilon
from epsilog.accounting.many import many_bounds
from epsilog.accounting.questions import DeltaAt, EpsilonAt, Question, anything, at_most
from epsilog.accounting.renyi import renyi_delta, renyi_epsilon
from epsilog.accounting.rounding import MU, UNIT, down, up
from epsilog.accounting.spectral import FAINT, spectral_bounds
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

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_GAUSSIAN = "exact Gaussian (Balle & Wang 2018)"
_NUMERICAL = "privacy loss distribution: dots connected above (Doroshenko et al. 2022), outcomes merged below"
_SPECTRAL = "Laplace inversion, every error bounded (docs: accounting/spectral)"
_PURE = "pure composition"
_APART = "; stated deltas apart (Kairouz, Oh & Viswanath 2015)"
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
    if (mu := total_mu(release, relation)) is not None:
        found, method = _gaussian(mu, EpsilonAt(delta)), _GAUSSIAN
    elif delta == 0:
        found, method = _largest_losses(release, relation), _PURE
    else:
        found, method = _numerical(release, relation, EpsilonAt(delta), gap)
        if found.upper > 0:
            found = found.meet(Bounds(0.0, _largest_losses(release, relation).upper))
        if method is _RENYI:
            found = found.meet(Bounds(0.0, renyi_epsilon(release, delta=delta, relation=relation)))
    given = (("delta", delta),)
    return Interval(found.lower, found.upper, method, relation, assumptions=assumptions(release), given=given)


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
        rest = _delta_of(apart[0], epsilon=epsilon, relation=relation, gap=gap)
        beside = apart[1].beside(Bounds(rest.lower, rest.upper))
        return replace(rest, lower=beside.lower, upper=beside.upper, method=rest.method + _APART)
    if (mu := total_mu(release, relation)) is not None:
        found, method = _gaussian(mu, DeltaAt(epsilon)), _GAUSSIAN
    else:
        found, method = _numerical(release, relation, DeltaAt(epsilon), gap)
        if method is _RENYI:
            found = found.meet(Bounds(0.0, renyi_delta(release, epsilon=epsilon, relation=relation)))
        if _largest_losses(release, relation).upper <= epsilon:
            found = found.meet(Bounds(0.0, 0.0))
    given = (("epsilon", epsilon),)
    return Interval(
        found.lower, found.upper, method, relation, assumptions=assumptions(release), quantity="delta", given=given
    )


_delta_of = delta  # where an argument has its name


def _gaussian(mu: float, question: Question) -> Bounds:
    match question:
        case EpsilonAt(delta=0):
            return Bounds(math.inf, math.inf) if mu > 0 else Bounds(0.0, 0.0)
        case EpsilonAt(delta):
            return Bounds(gaussian_epsilon(down(mu, MU), delta)[0], gaussian_epsilon(up(mu, MU), delta)[1])
        case DeltaAt(epsilon):
            return Bounds(gaussian_delta(down(mu, MU), epsilon)[0], gaussian_delta(up(mu, MU), epsilon)[1])


def _epsilon_beside(
    rest: Release, failure: failures.Failure, *, delta: float, relation: NeighboringRelation, gap: float
) -> Interval:
    """Bounds epsilon of a mix whose statements' deltas were taken apart from the rest of it."""
    low, high = failure.left(delta)
    found = epsilon(rest, delta=0.0 if low is None else low, relation=relation, gap=gap)
    lower, upper = math.inf, math.inf if low is None else found.upper
    if high is not None:
        more = found if high == low else epsilon(rest, delta=min(high, 1 - UNIT), relation=relation, gap=gap)
        lower = more.lower
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
    match question:
        case EpsilonAt(delta):
            left = failure.left(delta)[0]
            return math.inf if left is None else upper_epsilon(rest, delta=left, relation=relation, gap=gap)
        case DeltaAt(epsilon):
            return failure.beside(Bounds(0.0, upper_delta(rest, epsilon=epsilon, relation=relation, gap=gap))).upper


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
        return allocation.bounds(*allocated, question, gap=gap).upper
    ways = directions(release, relation, lost=_lost(release, question))
    most = at_most(question, _largest_losses(release, relation).upper)
    if sum(count for way in ways[:1] for _, count in way.upper) > 1:
        with suppress(OutOfReachError):
            found = spectral_bounds(ways, question)
            if found.within(gap, least=FAINT):
                return min(found.upper, most)
        with suppress(OutOfReachError):
            found = many_bounds(ways, question)
            if found.within(max(gap, _CROWD)) or _hopeless(ways, found.upper):
                return min(found.upper, most)
    upper = min(most, upper_bound(ways, question, gap=gap))
    return upper if math.isfinite(upper) else min(upper, _renyi(release, relation, question))


def _answer(release: Release, relation: NeighboringRelation, question: Question) -> float:
    """Bounds an answer from above by whatever bounds it best."""
    match question:
        case EpsilonAt(at):
            return epsilon(release, delta=at, relation=relation).upper
        case DeltaAt(at):
            return delta(release, epsilon=at, relation=relation).upper


def _renyi(release: Release, relation: NeighboringRelation, question: Question) -> float:
    """Bounds an answer from above by Renyi DP; ``inf`` where that has no bound, or numbers that no double holds."""
    with suppress(UnsupportedMechanismError, OverflowError):
        match question:
            case EpsilonAt(at):
                return renyi_epsilon(release, delta=at, relation=relation)
            case DeltaAt(at):
                return renyi_delta(release, epsilon=at, relation=relation)
    return math.inf


def _check(release: Release, relation: NeighboringRelation, gap: float) -> tuple[NeighboringRelation, float]:
    check.instance(Release)(release=release)
    return check.member(NeighboringRelation)(relation=relation), check.between(0, 1)(gap=gap)


def _numerical(release: Release, relation: NeighboringRelation, question: Question, gap: float) -> tuple[Bounds, str]:
    """Bounds the answer, and never by more than if nothing were sampled."""
    found, method = _sampled(release, relation, question, gap)
    free = _upper_unsampled(release, relation, question, gap, loose=not found.within(_LOOSE))
    return (found, method) if free >= found.upper else (found.meet(Bounds(0.0, free)), _UNSAMPLED)


def _hopeless(ways: tuple[Direction, ...], upper: float) -> bool:
    """Whether a lattice would be too coarse, or take too long, to improve on an answer."""
    return math.isfinite(upper) and any(sum(count for _, count in way.upper) > _TOO_MANY for way in ways)


def _sampled(release: Release, relation: NeighboringRelation, question: Question, gap: float) -> tuple[Bounds, str]:
    """Bounds by loss distributions; a rho-zCDP statement has none, but a Gaussian that satisfies it bounds it below."""
    allocated = allocation.whole_release(release, relation)
    if allocated is not None:
        return allocation.bounds(*allocated, question, gap=gap), allocation.METHOD
    least = attained(release)
    if least is release:
        found, method = _by_loss(directions(release, relation, lost=_lost(release, question)), question, gap)
        if found.within(_LOOSE):
            return found, method
        rough = _renyi(release, relation, question)
        return (found.meet(Bounds(0.0, rough)), _RENYI) if rough < found.upper else (found, method)
    mu = total_mu(least, relation)
    below = _gaussian(mu, question) if mu is not None else bounds(directions(least, relation), question, gap=gap)
    return Bounds(below.lower, anything(question).upper), _RENYI


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
    return Composed([*rest, GaussianDP(down(math.sqrt(2 * rho), 3))])


def _by_loss(ways: tuple[Direction, ...], question: Question, gap: float) -> tuple[Bounds, str]:
    """Inverts the composed transform where that is proven to be close enough, and composes on a lattice elsewhere."""
    largest = max((largest_loss(way.upper)[1] for way in ways), default=0.0)
    known = Bounds(0.0, at_most(question, largest))
    if sum(count for way in ways[:1] for _, count in way.upper) > 1:
        with suppress(OutOfReachError):
            known = spectral_bounds(ways, question)
            if known.within(gap, least=FAINT):
                return known, _SPECTRAL
        with suppress(OutOfReachError):
            known = known.meet(many_bounds(ways, question))
            if known.within(max(gap, _CROWD)) or _hopeless(ways, known.upper):
                return known, _MANY
    return known.meet(bounds(ways, question, gap=gap)), _NUMERICAL


def _lost(release: Release, question: Question) -> float:
    """What one release may lose where its law has to be cut, so that all together lose next to nothing."""
    size = question.delta if isinstance(question, EpsilonAt) else 1e-10
    return 1e-4 * size / max(sum(flatten(release).values()), 1)


def _concentrated(part: Release) -> bool:
    return isinstance(part, ZeroConcentratedDP)


def _largest_losses(release: Release, relation: NeighboringRelation) -> Bounds:
    """Bounds the largest possible loss: epsilon at delta 0."""
    if (added := pure_loss(release, relation)) is not None:
        return Bounds(rounded(added, up=False), rounded(added, up=True))
    if any(_concentrated(part) for part in flatten(release)):
        return Bounds(0.0, math.inf)
    if (allocated := allocation.whole_release(release, relation)) is not None:
        return Bounds(math.inf, math.inf) if allocated[1] > 0 else Bounds(0.0, 0.0)
    ways = directions(release, relation)
    upper = max((largest_loss(way.upper)[1] for way in ways), default=0.0)
    lower = max((largest_loss(parts)[0] for way in ways for parts in way.lowers), default=0.0)
    return Bounds(lower, upper)

"""What a group of units loses: exactly where every distance grows with it, by mixtures, or by the general bound.

Proofs: docs/accounting/groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from epsilog.accounting.bounds import Bounds
from epsilog.accounting.exact import rounded
from epsilog.accounting.flatten import Bag
from epsilog.accounting.gaussian import gaussian_bounds
from epsilog.accounting.laws.base import LARGEST_LOSS
from epsilog.accounting.methods.lattice import lattice_bounds
from epsilog.accounting.pairs.groups import group_orderings
from epsilog.accounting.prepared import Prepared
from epsilog.accounting.questions import DeltaAt, EpsilonAt, Question, everything
from epsilog.accounting.roots import proven
from epsilog.accounting.rounding import LEAST, MU, down, up
from epsilog.terms import (
    ApproximateDP,
    BallsInBins,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    MatrixMechanism,
    NeighboringRelation,
    PoissonSampled,
    PureDP,
    Release,
    ReportNoisyMax,
    SparseVector,
    UnsupportedMechanismError,
    ZeroConcentratedDP,
)

Ask = Callable[[Prepared, Question, bool], Bounds]  # bounds an answer about one unit; with True from above only

EXACT = "every distance grows with the group (docs: accounting/groups)"
MIXTURES = "group privacy by mixtures (Ganesh 2024)"
GENERAL = "group privacy (Dwork & Roth 2014)"

_LOOSE = 0.05  # a relative width from which on mixtures of many members are not all that is asked
_FAINT = 1e-12  # an epsilon to begin with where one unit's is 0
_KNOWN = -1.0  # what stands for a curve below its goal at an epsilon that is known to be enough
_NUDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2)  # by which an epsilon is moved until delta there is seen to be low


def bounds(one: Prepared, question: Question, *, units: int, gap: float, above: bool, ask: Ask) -> tuple[Bounds, str]:
    """Bounds the answer for neighbours that differ in up to ``units`` units, and says how.

    Raises:
        UnsupportedMechanismError: one unit has no price under this relation.

    Source:
        For a Gaussian exact (mu grows ``units``-fold), so for other single noises; for Poisson-sampled Gaussians and a
        group that joins or leaves as a whole the mixture of Ganesh 2024 (arXiv:2401.10294); else Dwork & Roth 2014,
        Theorem 2.2, for delta: delta_k(epsilon) <= delta(epsilon / k) (e^epsilon - 1) / (e^(epsilon / k) - 1).
    """
    alone = ask(one, question, False) if not above else Bounds(0.0, ask(one, question, True).upper)
    if units == 1:
        return alone, ""
    if one.mu is not None:
        return gaussian_bounds(units * one.mu, question, roundings=MU + 1), EXACT
    if (further := _further(one.bag, one.relation, units)) is not None:
        with suppress(UnsupportedMechanismError):  # moved so far, a discrete law may have too many atoms
            return _apart(further, question, one.relation, alone, above=above, ask=ask), EXACT
    mixtures = group_orderings(one.bag, one.relation, units=units)
    found, how = alone, GENERAL
    if mixtures is not None and question != EpsilonAt(0):
        found, how = lattice_bounds(mixtures, question, gap=gap), MIXTURES
        if isinstance(question, EpsilonAt) and math.isfinite(found.upper):
            found = _seen(found, question.delta, lambda at: lattice_bounds(mixtures, DeltaAt(at), gap=gap).upper)
        if found.within(_LOOSE):
            return found, how
    upper = _unhidden(one, question, units, ask)
    upper = min(upper, _general(one, question, units, gap, ask, known=upper))
    if how == MIXTURES and found.upper <= upper:
        return found, how
    return Bounds(min(found.lower, upper), upper), GENERAL


_HIDING = (PoissonSampled, FixedSizeSampled, BallsInBins)


def _unhidden(one: Prepared, question: Question, units: int, ask: Ask) -> float:
    """Bounds the answer from above as if sampling hid nothing, where the rest has distances that simply grow."""
    if one.sampled and all(isinstance(part, _HIDING) for part in one.sampled):
        with suppress(UnsupportedMechanismError):
            whole = _further(one.unsampled(one.sampled).bag, one.relation, units)
            if whole is not None:
                return ask(Prepared(whole[0], one.relation), question, True).upper
    return everything(question)


def _apart(
    further: tuple[Bag, Bag], question: Question, relation: NeighboringRelation, alone: Bounds, *, above: bool, ask: Ask
) -> Bounds:
    """Bounds the answer by that of mixes whose distances are as many times as large, rounded up and down."""
    most, least = (Prepared(bag, relation) for bag in further)
    upper = ask(most, question, True).upper
    if above:
        return Bounds(0.0, upper)
    found = ask(least, question, False) if least.bag != most.bag else ask(most, question, False)
    found = Bounds(min(max(found.lower, alone.lower), upper), upper)
    if not isinstance(question, EpsilonAt) or question.delta == 0 or math.isinf(upper):
        return found
    return _seen(found, question.delta, lambda at: ask(most, DeltaAt(at), True).upper)


def _further(bag: Bag, relation: NeighboringRelation, units: int) -> tuple[Bag, Bag] | None:
    """Mixes that bound a group's answer above and below; None if a part has no distance that simply grows."""
    sides = []
    for high in (True, False):
        found: dict[Release, int] = {}
        for part, count in bag.items():
            grown = _grown(part, relation, units, high=high)
            if grown is None:
                return None
            found[grown] = found.get(grown, 0) + count
        sides.append(found)
    return sides[0], sides[1]


def _grown(  # noqa: PLR0912
    part: Release, relation: NeighboringRelation, units: int, *, high: bool
) -> Release | None:
    """A part as a group meets it: a noise that much smaller, or a statement that much weaker; rounded outwards."""

    def times(number: float, factor: int) -> float:
        found = rounded(Fraction(number) * factor, up=high)
        return found if math.isfinite(found) else 1e300

    match part:
        case Gaussian(noise_multiplier=noise):
            return Gaussian(rounded(Fraction(noise) / units, up=not high))
        case MatrixMechanism(noise_stddev=noise):
            return replace(part, noise_stddev=rounded(Fraction(noise) / units, up=not high))
        case Laplace(noise_multiplier=noise):
            return Laplace(rounded(Fraction(noise) / units, up=not high))
        case DiscreteGaussian(noise_stddev=noise, sensitivity=far) if far * units < 2**53:
            return DiscreteGaussian(noise, far * units)
        case DiscreteLaplace(noise_scale=noise, sensitivity=far) if far * units < 2**53:
            return DiscreteLaplace(noise, far * units)
        case ExponentialMechanism(epsilon=epsilon, monotone=monotone):
            return ExponentialMechanism(times(epsilon, units), monotone)
        case ReportNoisyMax(epsilon=epsilon, noise=noise_law, monotone=monotone):
            return ReportNoisyMax(times(epsilon, units), noise_law, monotone)
        case SparseVector(threshold_noise_multiplier=first, query_noise_multiplier=each, positives=most):
            once, often = (rounded(Fraction(noise) / units, up=not high) for noise in (first, each))
            return SparseVector(once, often, most, part.monotone)
        case GaussianDP(mu=mu):
            return GaussianDP(times(mu, units))
        case ZeroConcentratedDP(rho=rho):  # a Gaussian satisfies it; what else does need not grow as fast
            least = GaussianDP(down(units * math.sqrt(2 * rho), 3))
            return ZeroConcentratedDP(times(rho, units**2)) if high else least
        case PureDP(epsilon=epsilon) if high:
            return PureDP(times(epsilon, units))
        case ApproximateDP(epsilon=epsilon, delta=delta) if high:
            return ApproximateDP(times(epsilon, units), _shares(epsilon, delta, units))
        case PureDP(epsilon=epsilon) | ApproximateDP(epsilon=epsilon):  # Laplace noise satisfies what is stated
            far = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
            if epsilon == 0:
                return PureDP(0.0)
            return Laplace(rounded(far / (Fraction(epsilon) * units), up=True))
    return None


def _shares(epsilon: float, delta: float, units: int) -> float:
    """The delta of an (epsilon, delta) statement for a group: delta (1 + e^epsilon + ... + e^((units - 1) epsilon))."""
    return min(1.0, up(delta * _growth(epsilon, units), 2048)) if delta > 0 else 0.0


def _growth(share: float, units: int) -> float:
    """At least 1 + e^share + ... + e^((units - 1) share), but for roundings."""
    whole = units * share
    if share == 0:
        return float(units)
    if whole < 700:
        return math.expm1(whole) / math.expm1(share)
    grown = (units - 1) * share  # units e^((units - 1) share) is no less, and overflows later
    return units * math.exp(grown) if grown < 700 else math.inf


def _general(one: Prepared, question: Question, units: int, gap: float, ask: Ask, *, known: float) -> float:
    """Bounds the answer from above by what any curve of one unit says of a group, or says no less than is ``known``.

    Far beyond a known epsilon the curve of one unit costs seconds, and is not asked.
    """
    match question:
        case DeltaAt(epsilon):
            return _general_delta(one, epsilon, units, ask)
        case EpsilonAt(delta):
            single = ask(one, question, True).upper
            if delta == 0 or math.isinf(single):
                return rounded(Fraction(single) * units, up=True) if math.isfinite(single) else math.inf

            def excess(epsilon: float) -> float:
                if epsilon >= known:
                    return _KNOWN
                return math.log(max(_general_delta(one, epsilon, units, ask), LEAST) / delta)

            guess = max(units * single, _FAINT)
            return 0.0 if excess(0.0) <= 0 else proven(excess, guess, gap=gap, most=LARGEST_LOSS)


def _general_delta(one: Prepared, epsilon: float, units: int, ask: Ask) -> float:
    share = epsilon / units
    if Fraction(share) * units > Fraction(epsilon):  # at a largest loss a hair more hides all that is left
        share = math.nextafter(share, 0.0)
    factor = math.expm1(epsilon) / math.expm1(share) if 0 < epsilon < 700 and share > 0 else float(units)
    if epsilon >= 700:
        factor = _growth(share, units)
    single = ask(one, DeltaAt(share), True).upper
    return min(1.0, up(single * factor, 2048)) if single > 0 else 0.0


def _seen(found: Bounds, delta: float, curve: Callable[[float], float]) -> Bounds:
    """The same with an upper end at which delta itself, asked there, is seen to be low enough."""
    at = found.upper
    for nudge in _NUDGES:
        if curve(at) <= delta:
            return Bounds(found.lower, at)
        at = found.upper * (1 + nudge)
    return found

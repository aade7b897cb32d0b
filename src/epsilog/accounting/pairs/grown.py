"""One release as a group meets it, where every distance grows with the group: docs/accounting/groups.md."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Grouped,
    Laplace,
    MatrixMechanism,
    PureDP,
    Release,
    ReportNoisyMax,
    SparseVector,
    ZeroConcentratedDP,
)
from epsilog.numerics.rounding import down, rounded, up
from epsilog.terms import NeighboringRelation


def further(bag: Bag, relation: NeighboringRelation, units: int) -> tuple[Bag, Bag] | None:
    """Mixes that bound a group's answer above and below; None if a part has no distance that simply grows."""
    sides = []
    for high in (True, False):
        found: dict[Release, int] = {}
        for part, count in bag.items():
            whole = grown(part, relation, units, high=high)
            if whole is None:
                return None
            found[whole] = found.get(whole, 0) + count
        sides.append(found)
    return sides[0], sides[1]


def grown(  # noqa: PLR0912
    part: Release, relation: NeighboringRelation, units: int, *, high: bool
) -> Release | None:
    """A part as a group meets it: a noise that much smaller, or a statement that much weaker; rounded outwards."""

    def times(number: float, factor: int) -> float:
        found = rounded(Fraction(number) * factor, up=high)
        return found if math.isfinite(found) else 1e300

    match part:
        case Grouped(release=inner, units=members):
            return grown(inner, relation, units * members, high=high)
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
            least = GaussianDP(min(down(units * math.sqrt(2.0) * math.sqrt(rho), 8), 1e300))
            return ZeroConcentratedDP(times(rho, units**2)) if high else least
        case PureDP(epsilon=epsilon) if high:
            return PureDP(times(epsilon, units))
        case ApproximateDP(epsilon=epsilon, delta=delta) if high:
            return ApproximateDP(times(epsilon, units), _shares(epsilon, delta, units))
        case PureDP(epsilon=epsilon) | ApproximateDP(epsilon=epsilon):  # Laplace noise satisfies what is stated
            far = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
            if epsilon == 0:
                return PureDP(0.0)
            noise = rounded(far / (Fraction(epsilon) * units), up=True)
            return Laplace(noise) if math.isfinite(noise) else PureDP(0.0)
    return None


def _shares(epsilon: float, delta: float, units: int) -> float:
    """The delta of an (epsilon, delta) statement for a group: delta (1 + e^epsilon + ... + e^((units - 1) epsilon))."""
    return min(1.0, up(delta * growth(epsilon, units), 2048)) if delta > 0 else 0.0


def growth(share: float, units: int) -> float:
    """At least 1 + e^share + ... + e^((units - 1) share), but for roundings."""
    whole = units * share
    if share == 0:
        return float(units)
    if whole < 700:
        return math.expm1(whole) / math.expm1(share)
    grown = (units - 1) * share  # units e^((units - 1) share) is no less, and overflows later
    return units * math.exp(grown) if grown < 700 else math.inf

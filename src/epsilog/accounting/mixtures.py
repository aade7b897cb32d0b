"""Mixtures of Gaussians by their sensitivities, each with its chance: rounded outwards, and told by a plainer name.

docs/accounting/mixtures.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from epsilog.mechanisms import Composed, Gaussian, MixtureOfGaussians, PoissonSampled, Release
from epsilog.numerics.rounding import rounded

MOST_NOISE = 1e300  # of a multiplier above: what overflows is no noise that a double holds
NOTHING = Composed([])


@lru_cache(maxsize=256)
def chances(part: MixtureOfGaussians, *, above: bool) -> tuple[tuple[float, Fraction], ...]:
    """The sensitivities above 0, ascending, each with its chance: together at most 1, and the rest is 0's.

    No tail of the true law exceeds that of the law above; none is below that of the law below.

    >>> chances(MixtureOfGaussians(1.0, [2, 0, 1, 2], [0.25, 0.5, 0.125, 0.125]), above=True)
    ((1.0, Fraction(1, 8)), (2.0, Fraction(3, 8)))
    """
    found: dict[float, Fraction] = {}
    for move, chance in sorted(zip(part.sensitivities, part.sampling_probabilities, strict=True)):
        if chance > 0:
            found[move] = found.get(move, Fraction(0)) + Fraction(chance)
    moves = list(found)
    missing = 1 - sum(found.values())
    if missing > 0:
        found[moves[-1 if above else 0]] += missing
    for move in moves if above else moves[::-1]:
        if missing >= 0:
            break
        taken = min(found[move], -missing)
        found[move] -= taken
        missing += taken
    return tuple((move, chance) for move, chance in found.items() if move > 0 and chance > 0)


def is_plain(part: MixtureOfGaussians) -> bool:
    """Whether it is a Poisson-sampled Gaussian: one sensitivity above 0, none, or no noise.

    >>> is_plain(MixtureOfGaussians(1.0, [0.0, 2.0, 2.0], [0.5, 0.25, 0.25]))
    True
    """
    pairs = zip(part.sensitivities, part.sampling_probabilities, strict=True)
    return part.noise_stddev == 0 or len({move for move, chance in pairs if move > 0 and chance > 0}) <= 1


def thinned(part: MixtureOfGaussians, chance: Fraction, *, above: bool) -> Release:
    """What a unit meets that is in a sample with a ``chance``: a plain release where it is one, rounded outwards.

    >>> thinned(MixtureOfGaussians(1.0, [0.0, 2.0], [0.5, 0.5]), Fraction(1, 2), above=True)
    PoissonSampled(release=Gaussian(noise_multiplier=0.5, sensitivity=1.0), sampling_probability=0.25)
    """
    law = chances(part, above=above)
    if not law or chance == 0:
        return NOTHING
    if is_plain(part):
        total = sum((weight for _, weight in law), Fraction(0))
        return _sampled(part, law[-1 if above else 0][0], chance * total, above=above)
    weights = [rounded(chance * weight, up=above) for _, weight in law]
    rest = max(1 - sum(map(Fraction, weights), Fraction(0)), Fraction(0))
    return MixtureOfGaussians(
        part.noise_stddev, (0.0, *(move for move, _ in law)), (rounded(rest, up=not above), *weights)
    )


def most(part: MixtureOfGaussians) -> Release:
    """A Poisson sample that loses no less: whoever contributes at all contributes the most.

    >>> most(MixtureOfGaussians(3.0, [0.0, 1.0, 3.0], [0.5, 0.25, 0.25]))
    PoissonSampled(release=Gaussian(noise_multiplier=1.0, sensitivity=1.0), sampling_probability=0.5)
    """
    law = chances(part, above=True)
    if not law:
        return NOTHING
    return _sampled(part, law[-1][0], sum((weight for _, weight in law), Fraction(0)), above=True)


def least(part: MixtureOfGaussians) -> Release:
    """A Poisson sample that loses no more: whoever draws less than a certain sensitivity contributes nothing.

    Of all sensitivities the one that is most in the mean: chance times sensitivity.

    >>> least(MixtureOfGaussians(3.0, [0.0, 1.0, 3.0], [0.5, 0.25, 0.25]))
    PoissonSampled(release=Gaussian(noise_multiplier=1.0, sensitivity=1.0), sampling_probability=0.25)
    """
    law, tail, sides = chances(part, above=False), Fraction(0), []
    for move, weight in reversed(law):
        tail += weight
        sides.append((tail * Fraction(move), move, tail))
    if not sides:
        return NOTHING
    _, move, tail = max(sides)
    return _sampled(part, move, tail, above=False)


def unmixed(part: MixtureOfGaussians) -> Release:
    """The same for whoever knows that the unit contributes the most."""
    law = chances(part, above=True)
    return _sampled(part, law[-1][0], Fraction(1), above=True) if law else NOTHING


def named(part: MixtureOfGaussians) -> Release | None:
    """The plainer release that it exactly is; None where it is none, or where doubles do not hold one."""
    if not is_plain(part):
        return None
    above, below = (thinned(part, Fraction(1), above=side) for side in (True, False))
    return above if above == below else None


def _sampled(part: MixtureOfGaussians, move: float, chance: Fraction, *, above: bool) -> Release:
    noise = rounded(Fraction(part.noise_stddev) / Fraction(move), up=not above)
    if above:
        noise = min(noise, MOST_NOISE)
    elif not math.isfinite(noise):
        return NOTHING
    gaussian = Gaussian(noise)
    return gaussian if chance == 1 else PoissonSampled(gaussian, rounded(chance, up=above))

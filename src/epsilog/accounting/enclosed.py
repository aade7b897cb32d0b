"""Parts between two others: one that loses no less, one that loses no more, both of which have a price of their own.

Domination composes, so a mix lies between the mixes of what its parts lie between. A matrix mechanism is the Gaussian
of its sensitivity, which is known from both sides (docs/accounting/matrices.md); a sample of a sample is a sample with
the product of both chances, rounded up and down (certified-bounds, 1.10), and so is one of a mixture of Gaussians
(docs/accounting/mixtures.md).
"""

from __future__ import annotations

import math
from fractions import Fraction

from epsilog.accounting.flatten import Bag
from epsilog.accounting.sensitivity import sensitivity
from epsilog.mechanisms import (
    Composed,
    Gaussian,
    MatrixMechanism,
    MixtureOfGaussians,
    PoissonSampled,
    Release,
    Repeated,
)
from epsilog.numerics.exact import rounded
from epsilog.numerics.rounding import down, up

_MATRICES, _NESTED = "accounting/matrices", "accounting/certified-bounds, 1.10"
_MIXTURES = "accounting/mixtures"


def enclosed(bag: Bag) -> tuple[tuple[Repeated, ...], tuple[Repeated, ...]] | None:
    """Mixes that lose no less, and no more; None where every part is priced as it is.

    Raises:
        UnsupportedMechanismError: a matrix mechanism whose participation is drawn, or has too many ways.

    >>> from epsilog.mechanisms import LimitedParticipation, ToeplitzStrategy
    >>> strategy = ToeplitzStrategy((0.6, 0.8))
    >>> above, below = enclosed({MatrixMechanism(strategy, LimitedParticipation(1), 10, 2.0): 3})
    >>> above[0].release.noise_multiplier < 2.0 < below[0].release.noise_multiplier
    True
    """
    if not any(map(_between, bag)):
        return None
    both = [(_sides(part), count) for part, count in bag.items()]
    above, below = (tuple(Repeated(sides[which], count) for sides, count in both) for which in (0, 1))
    return above, below


def proofs(bag: Bag) -> str:
    """The pages that prove what a mix's parts lie between.

    >>> proofs({PoissonSampled(PoissonSampled(Gaussian(1.0), 0.5), 0.5): 1})
    'accounting/certified-bounds, 1.10'
    """
    pages = {
        _MATRICES: any(isinstance(part, MatrixMechanism) for part in bag),
        _NESTED: any(map(_nested, bag)),
        _MIXTURES: any(map(_is_mixture, bag)),
    }
    return "; ".join(page for page, cited in pages.items() if cited)


def _between(part: Release) -> bool:
    return (
        isinstance(part, MatrixMechanism) or _nested(part) or (isinstance(part, MixtureOfGaussians) and part.is_plain)
    )


def _nested(part: Release) -> bool:
    return isinstance(part, PoissonSampled) and isinstance(part.release, PoissonSampled | MixtureOfGaussians)


def _is_mixture(part: Release) -> bool:
    return isinstance(_unnested(part)[0], MixtureOfGaussians)


def _sides(part: Release) -> tuple[Release, Release]:
    match part:
        case MatrixMechanism(noise_stddev=noise):
            moved = sensitivity(part)
            weak, strong = down(noise / moved.upper, 1), up(noise / moved.lower, 1)
            least = Gaussian(strong) if math.isfinite(strong) and (strong > 0 or noise == 0) else Composed([])
            return Gaussian(min(weak, 1e300)), least
        case PoissonSampled() if _nested(part):
            inner, chance = _unnested(part)
            if isinstance(inner, MixtureOfGaussians):
                return inner.thinned(chance, above=True), inner.thinned(chance, above=False)
            return PoissonSampled(inner, rounded(chance, up=True)), PoissonSampled(inner, rounded(chance, up=False))
        case MixtureOfGaussians() if part.is_plain:
            return part.thinned(Fraction(1), above=True), part.thinned(Fraction(1), above=False)
        case _:
            return part, part


def _unnested(release: Release) -> tuple[Release, Fraction]:
    """What is computed in the end, and the chance that all coins of a unit fall."""
    chance = Fraction(1)
    while isinstance(release, PoissonSampled):
        chance *= Fraction(release.sampling_probability)
        release = release.release
    return release, chance

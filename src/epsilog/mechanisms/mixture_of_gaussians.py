"""Gaussian noise on a sum to which a unit contributes a random amount."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release, sensitivity_factor
from epsilog.mechanisms.composition import Composed
from epsilog.mechanisms.gaussian import MOST_NOISE, Gaussian
from epsilog.mechanisms.poisson_sampled import PoissonSampled
from epsilog.numerics.rounding import round_outward
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.fields import DOWN, UP, Field, term

EMPTY = Composed([])
MOST_COMPONENTS = 4096  # of a mixture; more than any practical description has

_ROUNDED = Fraction(1, 10**12)  # far above what rounding moves a sum of probabilities by


@term("mixture-of-gaussians")
class MixtureOfGaussians(Release):
    """Adds Gaussian noise to a sum to which a unit contributes as much as is drawn at random; the draw stays hidden.

    The unit's contribution is a vector with an L2 norm of at most the drawn sensitivity. The draw is independent of all
    data and all other draws. Without the unit, or with it zeroed out, the contribution is 0. A Poisson-sampled Gaussian
    has the sensitivities 0 and 1.

    What rounding makes the probabilities lack of 1 counts above as the largest sensitivity and below as the smallest;
    what they exceed 1 by is taken above from the smallest and below from the largest.

    Source:
        Ganesh 2024 (arXiv:2401.10294); Choquette-Choo, Ganesh, Steinke & Thakurta 2024 (arXiv:2310.15526).
    """

    noise_stddev: Annotated[
        float,
        Field(
            "standard deviation of the noise; 0 gives no privacy",
            "σ",
            unit="in the unit of the sensitivities",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivities: Annotated[
        tuple[float, ...],
        Field(
            "largest change of the sum by one privacy unit in each case, in L2 norm",
            unit="in the unit of the sum",
            ge=0,
            rounding=UP,
        ),
    ]
    sampling_probabilities: Annotated[
        tuple[float, ...],
        Field("probability of each case, in [0, 1]; they sum to 1 up to rounding", ge=0, le=1, rounding=UP),
    ]

    def __post_init__(self) -> None:
        check.check_fields(self)
        count = len(self.sensitivities)
        if not 1 <= count <= MOST_COMPONENTS:
            raise CheckError("sensitivities", f"1 to {MOST_COMPONENTS} numbers", f"{count}", verb="be")
        if len(self.sampling_probabilities) != count:
            got = f"{len(self.sampling_probabilities)}"
            raise CheckError("sampling_probabilities", f"as many as sensitivities, {count}", got)
        total = sum(map(Fraction, self.sampling_probabilities), Fraction(0))
        if abs(total - 1) > _ROUNDED:
            raise CheckError("sampling_probabilities", "1", f"{float(total)!r}", verb="add up to")

    is_amplified: ClassVar[bool] = True
    proofs: ClassVar[tuple[str, ...]] = ("accounting/groups",)
    assumes: ClassVar[tuple[str, ...]] = ("assumes/drawn-contributions", "assumes/whole-samples")

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Return the plainer release that it exactly is, if there is one that doubles hold."""
        if not self.is_plain:
            return None
        above, below = (self.subsample(Fraction(1), above=side) for side in (True, False))
        return ((above, 1),) if above == below else None

    def without_sampling(self, relation: NeighboringRelation) -> Release:  # noqa: ARG002
        """Return the release if the unit is known to contribute the most; samples keep its draws (``revealed``)."""
        draws = self.chances(above=True)
        return self._sample_moves(draws[-1][0], Fraction(1), above=True) if draws else EMPTY

    def chances(self, *, above: bool) -> tuple[tuple[float, Fraction], ...]:
        """Return the sensitivities above 0, ascending, each with its chance: together at most 1, and the rest is 0's.

        No tail of the true distribution exceeds that of the one above; none is below that of the one below.

        >>> MixtureOfGaussians(1.0, [2, 0, 1, 2], [0.25, 0.5, 0.125, 0.125]).chances(above=True)
        ((1.0, Fraction(1, 8)), (2.0, Fraction(3, 8)))
        """
        return _chances(self, above=above)

    @property
    def is_plain(self) -> bool:
        """Return whether it is a Poisson-sampled Gaussian: one sensitivity above 0, none, or no noise.

        >>> MixtureOfGaussians(1.0, [0.0, 2.0, 2.0], [0.5, 0.25, 0.25]).is_plain
        True
        """
        pairs = zip(self.sensitivities, self.sampling_probabilities, strict=True)
        return self.noise_stddev == 0 or len({move for move, chance in pairs if move > 0 and chance > 0}) <= 1

    def subsample(self, chance: Fraction, *, above: bool) -> Release:
        """What a unit meets that is in a sample with a ``chance``: a plain release where it is one, rounded outwards.

        >>> MixtureOfGaussians(1.0, [0.0, 2.0], [0.5, 0.5]).subsample(Fraction(1, 2), above=True)
        PoissonSampled(release=Gaussian(noise_multiplier=0.5, sensitivity=1.0), sampling_probability=0.25)
        """
        draws = self.chances(above=above)
        if not draws or chance == 0:
            return EMPTY
        if self.is_plain:
            total = sum((weight for _, weight in draws), Fraction(0))
            return self._sample_moves(draws[-1 if above else 0][0], chance * total, above=above)
        weights = [round_outward(chance * weight, up=above) for _, weight in draws]
        rest = max(1 - sum(map(Fraction, weights), Fraction(0)), Fraction(0))
        return MixtureOfGaussians(
            self.noise_stddev, (0.0, *(move for move, _ in draws)), (round_outward(rest, up=not above), *weights)
        )

    def between(self) -> tuple[Release, Release] | None:
        """Return the Poisson-sampled Gaussians that equal it up to rounding."""
        if not self.is_plain:
            return None
        return self.subsample(Fraction(1), above=True), self.subsample(Fraction(1), above=False)

    def most(self) -> Release:
        """Return a Poisson sample that loses no less: each contributing unit contributes the most.

        >>> MixtureOfGaussians(3.0, [0.0, 1.0, 3.0], [0.5, 0.25, 0.25]).most()
        PoissonSampled(release=Gaussian(noise_multiplier=1.0, sensitivity=1.0), sampling_probability=0.5)
        """
        draws = self.chances(above=True)
        if not draws:
            return EMPTY
        return self._sample_moves(draws[-1][0], sum((weight for _, weight in draws), Fraction(0)), above=True)

    def least(self) -> Release:
        """Return a Poisson sample that loses no more: draws below a fixed sensitivity contribute nothing.

        Of all sensitivities the one that is most in the mean: chance times sensitivity.

        >>> MixtureOfGaussians(3.0, [0.0, 1.0, 3.0], [0.5, 0.25, 0.25]).least()
        PoissonSampled(release=Gaussian(noise_multiplier=1.0, sensitivity=1.0), sampling_probability=0.25)
        """
        draws, tail, sides = self.chances(above=False), Fraction(0), []
        for move, weight in reversed(draws):
            tail += weight
            sides.append((tail * Fraction(move), move, tail))
        if not sides:
            return EMPTY
        _, move, tail = max(sides)
        return self._sample_moves(move, tail, above=False)

    def _sample_moves(self, move: float, chance: Fraction, *, above: bool) -> Release:
        noise = round_outward(Fraction(self.noise_stddev) / Fraction(move), up=not above)
        if above:
            noise = min(noise, MOST_NOISE)
        elif not math.isfinite(noise):
            return EMPTY
        gaussian = Gaussian(noise)
        return gaussian if chance == 1 else PoissonSampled(gaussian, round_outward(chance, up=above))

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:  # noqa: ARG002
        """The mixture (Ganesh 2024); beyond its reach, and with units replaced, Poisson samples (docs: mixtures)."""
        return _pairs(self, relation)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """Bound the divergence by revealing the draw, and by a sample that contributes the most."""
        draws = self.chances(above=True)
        if not draws:
            return 0 * orders
        if self.noise_stddev == 0:
            return math.inf * orders
        far = sensitivity_factor(relation)
        reaches = [numerics.renyi.reach(far * move, self.noise_stddev) for move, _ in draws]
        revealed = numerics.renyi.mean_rdp(reaches, [float(chance) for _, chance in draws], orders)
        if relation is NeighboringRelation.REPLACE_ONE:
            return revealed
        return numerics.renyi.least(revealed, self.most().rdp(orders, relation))


@lru_cache(maxsize=256)
def _chances(part: MixtureOfGaussians, *, above: bool) -> tuple[tuple[float, Fraction], ...]:
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


@lru_cache(maxsize=64)
def _pairs(part: MixtureOfGaussians, relation: NeighboringRelation) -> numerics.pairs.Pairs:
    draws = part.chances(above=True), part.chances(above=False)
    samples = [one.pairs(relation, numerics.pairs.Effort()) for one in (part.most(), part.least())]
    replaced = relation is NeighboringRelation.REPLACE_ONE
    return numerics.mixtures.mixture_pairs(draws, part.noise_stddev, (samples[0], samples[1]), replaced=replaced)

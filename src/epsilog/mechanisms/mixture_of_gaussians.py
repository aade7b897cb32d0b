"""Gaussian noise on a sum to which a unit contributes a random amount."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms import CheckError
from epsilog.terms.fields import DOWN, UP, Field, check_fields, term

MOST_COMPONENTS = 4096  # of a mixture: as many as anybody writes down

_ROUNDED = Fraction(1, 10**12)  # far above what rounding moves a sum of probabilities by


@term("mixture-of-gaussians")
class MixtureOfGaussians(Release):
    """Adds Gaussian noise to a sum to which a unit contributes as much as is drawn at random; the draw stays hidden.

    The unit's contribution is a vector whose L2 norm is at most the sensitivity that was drawn, independently of all
    data and of all other draws; without the unit, or with it zeroed out, it is 0. A Poisson-sampled Gaussian has the
    sensitivities 0 and 1.

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
        Field("probability of each case, in [0, 1]; their sum is 1, but for rounding", ge=0, le=1, rounding=UP),
    ]

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.sensitivities)
        if not 1 <= count <= MOST_COMPONENTS:
            raise CheckError("sensitivities", f"1 to {MOST_COMPONENTS} numbers", f"{count}", verb="be")
        if len(self.sampling_probabilities) != count:
            got = f"{len(self.sampling_probabilities)}"
            raise CheckError("sampling_probabilities", f"as many as sensitivities, {count}", got)
        total = sum(map(Fraction, self.sampling_probabilities), Fraction(0))
        if abs(total - 1) > _ROUNDED:
            raise CheckError("sampling_probabilities", "1", f"{float(total)!r}", verb="add up to")

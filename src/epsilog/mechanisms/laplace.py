"""Laplace noise on a sum."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import SENSITIVITY, Release, sensitivity_factor
from epsilog.mechanisms.composition import ReleaseCounts
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import DOWN, UP, Field, term
from epsilog.terms.formatting import format_decimal


@term("laplace")
class Laplace(Release):
    """Adds Laplace noise to every coordinate of a sum."""

    noise_multiplier: Annotated[
        float, Field("noise scale b divided by the sensitivity; 0 gives no privacy", "b", ge=0, rounding=DOWN)
    ]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L1"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0

    attains_rdp: ClassVar[bool] = True

    def pure_loss(self, relation: NeighboringRelation) -> Fraction | None:
        """The distance of the sums over the noise scale, which neighbors a whole sensitivity apart attain."""
        return sensitivity_factor(relation) / Fraction(self.noise_multiplier) if self.noise_multiplier > 0 else None

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Its noise multiplier."""
        return {"type": "laplace", "noise_multiplier": format_decimal(self.noise_multiplier)}

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Laplace:  # noqa: ARG002
        """Divide the noise."""
        return Laplace(round_outward(Fraction(self.noise_multiplier) / units, up=not above))

    def zcdp(self, relation: NeighboringRelation) -> float | None:
        """By the largest loss; infinite without noise."""
        return math.inf if self.pure_loss(relation) is None else Release.zcdp(self, relation)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """One Laplace with the whole L1 shift (certified-bounds, 1.3)."""
        if self.noise_multiplier == 0:
            return numerics.pairs.use_exact_pair(numerics.pairs.build_non_private_pair())
        return numerics.noise.build_laplace_pair(sensitivity_factor(relation) / self.noise_multiplier)

    def replace_one_pairs(self, sample: ReleaseCounts, share: float) -> numerics.pairs.BasePairs | None:
        """Laplace noises on one sample, whatever their sensitivities are."""
        scales: dict[float, int] = {}
        for one, count in sample.items():
            if not isinstance(one, Laplace):
                return None
            scales[one.noise_multiplier] = scales.get(one.noise_multiplier, 0) + count
        return numerics.replace_one.replaced_laplace(scales, share)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """Laplace noise at the neighbors' distance.

        Source:
            Mironov 2017, Prop. 6 (arXiv:1702.07476).
        """
        return numerics.renyi.laplace_rdp(
            numerics.renyi.reach(sensitivity_factor(relation), self.noise_multiplier), orders
        )

"""Gaussian noise on a sum."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import SENSITIVITY, Release, sensitivity_factor
from epsilog.mechanisms.composition import ReleaseCounts, compose_mu
from epsilog.mechanisms.sampling import RandBelow, rounded_gaussian
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import DOWN, UP, Field, term
from epsilog.terms.formatting import format_decimal

MOST_NOISE = 1e300  # of a multiplier above: what overflows is no noise that a double holds
NOISE_MULTIPLIER = "noise standard deviation divided by the sensitivity; 0 gives no privacy"


@term("gaussian")
class Gaussian(Release):
    """Adds Gaussian noise to every coordinate of a sum."""

    noise_multiplier: Annotated[float, Field(NOISE_MULTIPLIER, "σ", ge=0, rounding=DOWN)]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L2"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0

    attains_rdp: ClassVar[bool] = True

    def gaussian_mu(self, relation: NeighboringRelation) -> float:
        """The distance of the neighbors' sums over the noise; without noise ``inf``."""
        return math.inf if self.noise_multiplier == 0 else float(sensitivity_factor(relation)) / self.noise_multiplier

    @property
    def sampled_gaussian(self) -> tuple[float, float]:
        """Of all units."""
        return self.noise_multiplier, 1.0

    @property
    def scale(self) -> float:
        """The standard deviation of its noise, in the unit of the sum."""
        return self.noise_multiplier * self.sensitivity

    def with_scale(self, scale: float) -> Gaussian:
        """The same with noise of another standard deviation."""
        return Gaussian(scale / self.sensitivity, self.sensitivity)

    def sample(self, below: RandBelow = secrets.randbelow) -> int:
        """Draw a normal number, rounded to a whole one; every guarantee holds for what is rounded, too."""
        stddev = Fraction(self.noise_multiplier) * Fraction(self.sensitivity)
        return rounded_gaussian(stddev, below=below) if stddev else 0

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Its noise multiplier."""
        return {"type": "gaussian", "noise_multiplier": format_decimal(self.noise_multiplier)}

    def with_noise(self, noise: float) -> Release:
        """With another ``noise_multiplier``."""
        return Gaussian(noise, self.sensitivity)

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Gaussian:  # noqa: ARG002
        """Divide the noise."""
        return Gaussian(round_outward(Fraction(self.noise_multiplier) / units, up=not above))

    def replace_one_pairs(self, sample: ReleaseCounts, share: float) -> numerics.pairs.BasePairs | None:
        """Gaussians together are one."""
        if not all(isinstance(one, Gaussian) for one in sample):
            return None
        mu = compose_mu(sample, NeighboringRelation.ADD_OR_REMOVE_ONE) or 0.0
        return numerics.replace_one.replaced_gaussian(mu, share)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """Two Gaussians.

        Source:
            Mironov 2017, Prop. 7 (arXiv:1702.07476).
        """
        return numerics.renyi.gaussian_rdp(
            numerics.renyi.reach(sensitivity_factor(relation), self.noise_multiplier), orders
        )

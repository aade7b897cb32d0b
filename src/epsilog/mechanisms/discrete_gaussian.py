"""Discrete Gaussian noise on a count."""

from __future__ import annotations

import math
import secrets
from typing import Annotated

from epsilog import numerics
from epsilog.mechanisms.base import COUNT_SENSITIVITY, Release, half_square, sensitivity_factor
from epsilog.mechanisms.composition import ReleaseCounts
from epsilog.mechanisms.sampling import RandBelow, discrete_gaussian
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import DOWN, Field, term
from epsilog.terms.formatting import format_decimal


@term("discrete-gaussian")
class DiscreteGaussian(Release):
    """Adds discrete Gaussian noise to one integer count.

    Source:
        Canonne, Kamath & Steinke 2020 (arXiv:2004.00010).
    """

    noise_stddev: Annotated[
        float,
        Field(
            "sigma of the distribution exp(-k^2 / (2 sigma^2)) on the integers; 0 gives no privacy",
            "σ",
            unit="in counts",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivity: Annotated[int, COUNT_SENSITIVITY] = 1

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Its noise scale and sensitivity."""
        stddev = format_decimal(self.noise_stddev)
        return {"type": "discrete-gaussian", "noise_scale": stddev, "sensitivity": self.sensitivity}

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> DiscreteGaussian | None:  # noqa: ARG002
        """Scale the sensitivity."""
        return DiscreteGaussian(self.noise_stddev, grown) if (grown := self.sensitivity * units) < 2**53 else None

    @property
    def scale(self) -> float:
        """``noise_stddev``."""
        return self.noise_stddev

    def with_scale(self, scale: float) -> DiscreteGaussian:
        """The same with another ``noise_stddev``."""
        return DiscreteGaussian(scale, self.sensitivity)

    def sample(self, below: RandBelow = secrets.randbelow) -> int:
        """Draw a whole number; 0 without noise."""
        return discrete_gaussian(self.noise_stddev, below=below) if self.noise_stddev else 0

    def zcdp(self, relation: NeighboringRelation) -> float:
        """As much as of a Gaussian.

        Source:
            Canonne, Kamath & Steinke 2020, Theorem 4 (arXiv:2004.00010).
        """
        shift = sensitivity_factor(relation) * self.sensitivity
        return half_square(shift / self.noise_stddev if self.noise_stddev > 0 else math.inf)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Noise on the integers, moved by the sensitivity."""
        if self.noise_stddev == 0:
            return numerics.pairs.use_exact_pair(numerics.pairs.build_non_private_pair())
        found = numerics.noise.build_discrete_gaussian_pair(
            self.noise_stddev, sensitivity_factor(relation) * self.sensitivity
        )
        if found is None:
            reason = "steps that leave the numbers when squared"
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        return found

    def replace_one_pairs(self, sample: ReleaseCounts, share: float) -> numerics.pairs.BasePairs | None:
        """One such noise alone."""
        if sample != {self: 1}:
            return None
        found = numerics.replace_one.replaced_discrete_gaussian(self.noise_stddev, self.sensitivity, share)
        if found is None:
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason="too many atoms")
        return found

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """No more than of two Gaussians.

        Source:
            Canonne et al. 2020, Prop. 5 (arXiv:2004.00010v4).
        """
        shift = sensitivity_factor(relation) * self.sensitivity
        return numerics.renyi.gaussian_rdp(numerics.renyi.reach(shift, self.noise_stddev), orders)

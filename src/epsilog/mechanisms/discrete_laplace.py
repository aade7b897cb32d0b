"""Discrete Laplace noise on a count."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from typing import Annotated

from epsilog import numerics
from epsilog.mechanisms.base import COUNT_SENSITIVITY, Release, sensitivity_factor
from epsilog.mechanisms.composition import ReleaseCounts
from epsilog.mechanisms.sampling import RandBelow, discrete_laplace
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import DOWN, Field, term
from epsilog.terms.formatting import format_decimal


@term("discrete-laplace")
class DiscreteLaplace(Release):
    """Adds discrete Laplace (two-sided geometric) noise to one integer count."""

    noise_scale: Annotated[
        float,
        Field(
            "b of the distribution exp(-abs(k) / b) on the integers; 0 gives no privacy",
            "b",
            unit="in counts",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivity: Annotated[int, COUNT_SENSITIVITY] = 1

    def pure_loss(self, relation: NeighboringRelation) -> Fraction | None:
        """The distance of the counts over the noise scale, which neighbors a whole sensitivity apart attain."""
        if self.noise_scale == 0:
            return None
        return sensitivity_factor(relation) * self.sensitivity / Fraction(self.noise_scale)

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Its noise scale and sensitivity."""
        return {
            "type": "discrete-laplace",
            "noise_scale": format_decimal(self.noise_scale),
            "sensitivity": self.sensitivity,
        }

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> DiscreteLaplace | None:  # noqa: ARG002
        """Scale the sensitivity."""
        return DiscreteLaplace(self.noise_scale, grown) if (grown := self.sensitivity * units) < 2**53 else None

    @property
    def scale(self) -> float:
        """``noise_scale``."""
        return self.noise_scale

    def with_scale(self, scale: float) -> DiscreteLaplace:
        """The same with another ``noise_scale``."""
        return DiscreteLaplace(scale, self.sensitivity)

    def sample(self, below: RandBelow = secrets.randbelow) -> int:
        """Draw a whole number; 0 without noise."""
        return discrete_laplace(self.noise_scale, below=below) if self.noise_scale else 0

    def zcdp(self, relation: NeighboringRelation) -> float | None:
        """By the largest loss; infinite without noise."""
        return math.inf if self.pure_loss(relation) is None else Release.zcdp(self, relation)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Noise on the integers, moved by the sensitivity."""
        if self.noise_scale == 0:
            return numerics.pairs.use_exact_pair(numerics.pairs.build_non_private_pair())
        return numerics.noise.build_discrete_laplace_pair(
            self.noise_scale, sensitivity_factor(relation) * self.sensitivity
        )

    def replace_one_pairs(self, sample: ReleaseCounts, share: float) -> numerics.pairs.BasePairs | None:
        """One such noise alone."""
        if sample != {self: 1}:
            return None
        found = numerics.replace_one.replaced_discrete_laplace(self.noise_scale, self.sensitivity, share)
        if found is None:
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason="too many atoms")
        return found

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """No more than of randomized response with its largest loss."""
        shift = sensitivity_factor(relation) * self.sensitivity
        return numerics.renyi.pure_rdp(numerics.renyi.reach(shift, self.noise_scale), orders)

"""Staircase noise on a number."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

from epsilog import numerics
from epsilog.mechanisms.base import Release, sensitivity_factor
from epsilog.terms import NeighboringRelation, check
from epsilog.terms.fields import UP, Field, term


@term("staircase")
class Staircase(Release):
    """Adds staircase noise to one number.

    With s the sensitivity, the density is constant on abs(x) < gamma s and on each further step of width s. From step
    to step it falls by a factor of exp(epsilon).

    Source:
        Geng, Kairouz, Oh & Viswanath 2015 (IEEE JSTSP 9(7)).
    """

    epsilon: Annotated[float, Field("privacy loss per sensitivity", "ε", unit="in nats", gt=0, rounding=UP)]
    gamma: Annotated[
        float | None,
        Field(
            "share of the sensitivity that the first step takes, in [0, 1]",
            "γ",
            ge=0,
            le=1,
            none_means="1 / (1 + exp(epsilon / 2)), which has the least mean absolute error",
        ),
    ] = None
    sensitivity: Annotated[
        float,
        Field(
            "largest change of the number by one privacy unit: the width of a step",
            "Δ",
            unit="in the unit of the number",
            gt=0,
            rounding=UP,
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.gamma is None:
            object.__setattr__(self, "gamma", math.exp(-self.epsilon / 2) / (1 + math.exp(-self.epsilon / 2)))

    @property
    def first_step(self) -> float:
        """``gamma``, which was blank or not."""
        assert self.gamma is not None
        return self.gamma

    def pure_loss(self, relation: NeighboringRelation) -> Fraction:
        """``epsilon`` for each sensitivity, which neighbors a whole sensitivity apart attain."""
        return sensitivity_factor(relation) * Fraction(self.epsilon)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Noise moved by whole steps (docs/accounting/certified-bounds.md, 1.14)."""
        return numerics.noise.build_staircase_pairs(self.epsilon, self.first_step, sensitivity_factor(relation))

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """Exactly, for neighbors one sensitivity apart; else no more than of randomized response."""
        far = sensitivity_factor(relation)
        if far > 1:
            return numerics.renyi.pure_rdp(far * self.epsilon, orders)
        return numerics.renyi.staircase_rdp(self.epsilon, self.first_step, orders)

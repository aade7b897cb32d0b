"""The exponential mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import MONOTONE, Release, half_square, times
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import UP, Field, term
from epsilog.terms.formatting import format_decimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epsilog.numerics.distributions.base import BasePair


@term("exponential")
class ExponentialMechanism(Release):
    """Picks one candidate with probability proportional to exp(epsilon * score / (2 * sensitivity))."""

    epsilon: Annotated[
        float,
        Field(
            "the mechanism's own parameter, for the relation under which the score's sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    monotone: Annotated[bool, MONOTONE] = False

    states_absence: ClassVar[bool] = False
    assumes: ClassVar[tuple[str, ...]] = ("assumes/score-sensitivity",)

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """The range of its losses."""
        return {"type": "bounded-range", "range": format_decimal(self.spread)}

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> ExponentialMechanism:  # noqa: ARG002
        """Scale the sensitivity."""
        return ExponentialMechanism(times(self.epsilon, units, above=above), self.monotone)

    def zcdp(self, relation: NeighboringRelation) -> float:  # noqa: ARG002
        """Of a bounded range.

        Source:
            Cesar & Rogers 2021, Lemma 3.2 (arXiv:2004.07223).
        """
        return half_square((self.epsilon / 2 if self.monotone else self.epsilon) / 2)

    @property
    def spread(self) -> float:
        """Return how far apart the losses of its outputs lie, at most."""
        return self.epsilon / 2 if self.monotone else self.epsilon

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:  # noqa: ARG002
        """Bounded range."""
        return numerics.selection.build_bounded_range_pairs(self.spread)

    def instances(self, *, alone: bool) -> Sequence[BasePair]:
        """Return the two-output pairs with losses one range apart."""
        return numerics.selection.instances(self.spread, alone=alone)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """Bounded range."""
        spread = numerics.renyi.reach(self.epsilon, 2.0) if self.monotone else self.epsilon
        return numerics.renyi.bounded_range_rdp(spread, orders)

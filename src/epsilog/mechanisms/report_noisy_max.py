"""The candidate with the highest noisy score."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import MONOTONE, Release, times
from epsilog.mechanisms.exponential import ExponentialMechanism
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import UP, Field, term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epsilog.numerics.distributions.base import BasePair

NOISES = {
    "gumbel": "Gumbel noise: the exponential mechanism",
    "exponential": "exponential noise: permute-and-flip",
    "laplace": "Laplace noise",
}


@term("report-noisy-max")
class ReportNoisyMax(Release):
    """Adds noise to the score of every candidate and says which of them is the highest, and nothing else."""

    epsilon: Annotated[
        float,
        Field(
            "2 * sensitivity / noise scale, for the relation under which the scores' sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    noise: Annotated[
        str,
        Field('"gumbel" (the exponential mechanism), "exponential" (permute-and-flip) or "laplace"', choices=NOISES),
    ]
    monotone: Annotated[bool, MONOTONE] = False

    states_absence: ClassVar[bool] = False
    assumes: ClassVar[tuple[str, ...]] = ("assumes/score-sensitivity", "assumes/hidden-scores")

    def canonicalize(self) -> Release:
        """Return the same by its other name: with Gumbel noise it is the exponential mechanism.

        >>> ReportNoisyMax(1.0, "gumbel").canonicalize()
        ExponentialMechanism(epsilon=1.0, monotone=False)
        """
        return ExponentialMechanism(self.epsilon, self.monotone) if self.noise == "gumbel" else self

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Return the exponential mechanism, where it is that."""
        return None if (other := self.canonicalize()) is self else ((other, 1),)

    def pure_loss(self, relation: NeighboringRelation) -> Fraction:  # noqa: ARG002
        """Return what one candidate's noise must make up for, over its scale; neighbors come as close as one likes.

        Source:
            docs/accounting/selection.md.
        """
        return Fraction(self.epsilon) / (2 if self.monotone else 1)

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> ReportNoisyMax:  # noqa: ARG002
        """Scale the sensitivity."""
        return ReportNoisyMax(times(self.epsilon, units, above=above), self.noise, self.monotone)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """A choice with its largest loss, and two candidates that are compared."""
        if (other := self.canonicalize()) is not self:
            return other.base_pairs(relation)
        own = self.pure_loss(relation)
        return numerics.selection.build_selection_pairs(own, half=own / 2, laplace=self.noise == "laplace")

    def instances(self, *, alone: bool) -> Sequence[BasePair]:
        """Of the exponential mechanism, where it is that."""
        return () if (other := self.canonicalize()) is self else other.instances(alone=alone)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """No more than of randomized response with its largest loss."""
        if (other := self.canonicalize()) is not self:
            return other.rdp(orders, relation)
        return numerics.renyi.pure_rdp(round_outward(self.pure_loss(relation), up=True), orders)

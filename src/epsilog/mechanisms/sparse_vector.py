"""The sparse vector technique: comparisons with a noisy threshold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.numerics.rounding import round_outward
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import DOWN, Field, term


@term("sparse-vector")
class SparseVector(Release):
    """Report for each query whether it reaches a threshold, up to noise, until ``positives`` have (AboveThreshold).

    One draw of Laplace noise is added to the threshold for the whole run; each query gets a fresh draw. Only the
    comparisons are released: a query's value is another release with separate noise. A threshold with fresh noise after
    each positive is ``Repeated(SparseVector(..., positives=1), count)``.
    """

    threshold_noise_multiplier: Annotated[
        float,
        Field(
            "noise scale of the threshold divided by the queries' sensitivity; 0 gives no privacy", ge=0, rounding=DOWN
        ),
    ]
    query_noise_multiplier: Annotated[
        float,
        Field("noise scale of each query divided by the queries' sensitivity; 0 gives no privacy", ge=0, rounding=DOWN),
    ]
    positives: Annotated[
        int, Field("number of queries above the threshold before it stops; queries below are free", "c", ge=1)
    ] = 1
    monotone: Annotated[bool, Field("whether no neighbor changes two queries in opposite directions")] = False

    states_absence: ClassVar[bool] = False
    assumes: ClassVar[tuple[str, ...]] = ("assumes/sparse-vector",)

    def pure_loss(self, relation: NeighboringRelation) -> Fraction | None:  # noqa: ARG002
        """Return the loss of the threshold and of each query that reaches it; None without noise.

        Source:
            Lyu, Su & Li 2017 (arXiv:1603.01699), Section 4; the proof is in docs/accounting/selection.md.

        >>> SparseVector(2.0, 4.0, positives=3).pure_loss(NeighboringRelation.ADD_OR_REMOVE_ONE)
        Fraction(2, 1)
        """
        threshold, query = Fraction(self.threshold_noise_multiplier), Fraction(self.query_noise_multiplier)
        if threshold == 0 or query == 0:
            return None
        return 1 / threshold + self.positives * (1 if self.monotone else 2) / query

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> SparseVector:  # noqa: ARG002
        """Divide both noises."""
        noises = (self.threshold_noise_multiplier, self.query_noise_multiplier)
        once, each = (round_outward(Fraction(noise) / units, up=not above) for noise in noises)
        return SparseVector(once, each, self.positives, self.monotone)

    def zcdp(self, relation: NeighboringRelation) -> float | None:
        """By the largest loss; infinite without noise."""
        return math.inf if self.pure_loss(relation) is None else Release.zcdp(self, relation)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """A choice with its largest loss, and two noisy numbers that are compared."""
        loss = self.pure_loss(relation)
        if loss is None:
            return numerics.pairs.build_non_private_pair(), numerics.pairs.pure(0.0, 0.0)
        half = 1 / (2 * max(Fraction(self.threshold_noise_multiplier), Fraction(self.query_noise_multiplier)))
        return numerics.selection.build_selection_pairs(loss, half=half, laplace=True)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """No more than of randomized response with its largest loss."""
        loss = self.pure_loss(relation)
        return numerics.renyi.pure_rdp(math.inf if loss is None else round_outward(loss, up=True), orders)

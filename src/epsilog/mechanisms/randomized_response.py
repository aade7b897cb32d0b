"""Randomized response of one unit."""

from __future__ import annotations

from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import DOWN, Field, term
from epsilog.terms.formatting import format_decimal


@term("randomized-response")
class RandomizedResponse(Release):
    """One unit reports its category, sometimes at random; neighbors differ in the category (replace-one)."""

    flip_probability: Annotated[
        float,
        Field(
            "probability that the answer is uniform over all categories, else it is the truth; 0 gives no privacy",
            ge=0,
            le=1,
            rounding=DOWN,
        ),
    ]
    categories: Annotated[int, Field("number of possible answers", "k", ge=2)] = 2

    attains_rdp: ClassVar[bool] = True

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Its probability of a uniform answer, and the number of answers."""
        flip = format_decimal(self.flip_probability)
        return {"type": "randomized-response", "flip_probability": flip, "categories": self.categories}

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Three answers: against the truth, neither, and the truth."""
        if relation is not NeighboringRelation.REPLACE_ONE:
            reason = "its neighbors replace one unit"
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        return numerics.selection.build_randomized_response_pair(self.flip_probability, self.categories)

    def shuffle_reports(self, units: int, largest: float) -> numerics.shuffling.Reports:
        """The responses themselves."""
        return numerics.shuffling.of_responses(self.flip_probability, self.categories, units, largest=largest)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:
        """Three answers: against the truth, neither, and the truth."""
        if relation is not NeighboringRelation.REPLACE_ONE:
            raise UnsupportedMechanismError(self, method="RDP", reason="its neighbors replace one unit")
        return numerics.renyi.response_rdp(self.flip_probability, self.categories, orders)

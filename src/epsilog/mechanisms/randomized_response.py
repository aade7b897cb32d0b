"""Randomized response of one unit."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms.fields import DOWN, Field, term


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

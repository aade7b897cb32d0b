"""Laplace noise on a sum."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import SENSITIVITY, Release
from epsilog.terms.fields import DOWN, UP, Field, term


@term("laplace")
class Laplace(Release):
    """Adds Laplace noise to every coordinate of a sum."""

    noise_multiplier: Annotated[
        float, Field("noise scale b divided by the sensitivity; 0 gives no privacy", "b", ge=0, rounding=DOWN)
    ]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L1"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0

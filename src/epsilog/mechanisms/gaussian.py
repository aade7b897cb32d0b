"""Gaussian noise on a sum."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import SENSITIVITY, Release
from epsilog.terms.fields import DOWN, UP, Field, term

NOISE_MULTIPLIER = "noise standard deviation divided by the sensitivity; 0 gives no privacy"


@term("gaussian")
class Gaussian(Release):
    """Adds Gaussian noise to every coordinate of a sum."""

    noise_multiplier: Annotated[float, Field(NOISE_MULTIPLIER, "σ", ge=0, rounding=DOWN)]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L2"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0

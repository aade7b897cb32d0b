"""Discrete Laplace noise on a count."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import COUNT_SENSITIVITY, Release
from epsilog.terms.fields import DOWN, Field, term


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

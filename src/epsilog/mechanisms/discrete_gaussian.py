"""Discrete Gaussian noise on a count."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import COUNT_SENSITIVITY, Release
from epsilog.terms.fields import DOWN, Field, term


@term("discrete-gaussian")
class DiscreteGaussian(Release):
    """Adds discrete Gaussian noise to one integer count.

    Source:
        Canonne, Kamath & Steinke 2020 (arXiv:2004.00010).
    """

    noise_stddev: Annotated[
        float,
        Field(
            "sigma of the distribution exp(-k^2 / (2 sigma^2)) on the integers; 0 gives no privacy",
            "σ",
            unit="in counts",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivity: Annotated[int, COUNT_SENSITIVITY] = 1

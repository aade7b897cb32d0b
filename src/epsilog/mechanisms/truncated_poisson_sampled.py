"""A release on a Poisson sample that is cut at a largest size."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.terms.fields import Field, term


@term("truncated-poisson-sampled")
class TruncatedPoissonSampled(Release):
    """As ``PoissonSampled``, but of a sample that is too large the first ``largest_batch`` units are kept.

    First in an order that the units' data have no part in: a random one, say, or that of their places.
    """

    release: Annotated[Release, ON_SAMPLE]
    sampling_probability: Annotated[
        float, Field("probability that a unit takes part before anything is cut, in [0, 1]", "q", ge=0, le=1)
    ]
    population: Annotated[int, Field("largest number of units; public", "N", ge=1)]
    largest_batch: Annotated[int, Field("largest number of units in a sample", ge=1)]

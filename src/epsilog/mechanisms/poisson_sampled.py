"""A release on a Poisson sample."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.terms.fields import UP, Field, term


@term("poisson-sampled")
class PoissonSampled(Release):
    """Each unit takes part independently with the same probability; the sample stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sampling_probability: Annotated[
        float, Field("probability that a unit takes part, in [0, 1]", "q", ge=0, le=1, rounding=UP)
    ]

"""A release on a sample of a fixed size."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.terms.fields import Field, term


@term("fixed-size-sampled")
class FixedSizeSampled(Release):
    """A sample of exactly ``sample_size`` of ``population`` units, drawn without replacement; it stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sample_size: Annotated[int, Field("units in each sample, at most population", "m", ge=0, le_field="population")]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

"""Releases computed on a random part of the data; the sampling that is accounted is the sampling that was run."""

from __future__ import annotations

from typing import Annotated

from epsilog.terms.fields import UP, Field, term
from epsilog.terms.mechanisms import Release

ON_SAMPLE = Field("what is computed on the sample")


@term("poisson-sampled")
class PoissonSampled(Release):
    """Each unit takes part independently with the same probability; the sample stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sampling_probability: Annotated[
        float, Field("probability that a unit takes part, in [0, 1]", "q", ge=0, le=1, rounding=UP)
    ]


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


@term("fixed-size-sampled")
class FixedSizeSampled(Release):
    """A sample of exactly ``sample_size`` of ``population`` units, drawn without replacement; it stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sample_size: Annotated[int, Field("units in each sample, at most population", "m", ge=0, le_field="population")]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]


@term("balls-in-bins")
class BallsInBins(Release):
    """Each unit is put into one of ``bins`` rounds at random and takes part in that round of every epoch."""

    release: Annotated[Release, Field("what is computed in each round")]
    bins: Annotated[int, Field("rounds in an epoch", "b", ge=1)]
    epochs: Annotated[int, Field("number of epochs, all with the same assignment", "E", ge=1)] = 1


@term("shuffled")
class Shuffled(Release):
    """``population`` units each make a local release, and a shuffler hides who sent what."""

    release: Annotated[
        Release, Field("what each unit sends, of what it alone holds; described for neighbors that replace that")
    ]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

"""Releases computed on a random part of the data; the sampling that is accounted is the sampling that was run."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import check, codec
from epsilog.terms.mechanisms import Release


@codec.term("poisson-sampled")
@dataclass(frozen=True, slots=True)
class PoissonSampled(Release):
    """Each unit takes part independently with the same probability; the sample stays hidden.

    Attributes:
        release: what is computed on the sample.
        sampling_probability: the chance that a unit takes part, in [0, 1].
    """

    release: Release
    sampling_probability: float

    def __post_init__(self) -> None:
        check.fields(self, release=check.instance(Release), sampling_probability=check.within(0, 1, check.UP))


@codec.term("truncated-poisson-sampled")
@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampled(Release):
    """As ``PoissonSampled``, but of a sample that is too large the first ``largest_batch`` units are kept.

    First in an order that the units' data have no part in: a random one, say, or that of their places.

    Attributes:
        release: what is computed on the sample.
        sampling_probability: the chance that a unit takes part before anything is cut, in [0, 1].
        population: units in all, at most; public.
        largest_batch: units in a sample, at most.
    """

    release: Release
    sampling_probability: float
    population: int
    largest_batch: int

    def __post_init__(self) -> None:
        check.fields(
            self,
            release=check.instance(Release),
            sampling_probability=check.within(0, 1),
            population=check.integer(1),
            largest_batch=check.integer(1),
        )


@codec.term("fixed-size-sampled")
@dataclass(frozen=True, slots=True)
class FixedSizeSampled(Release):
    """A sample of exactly ``sample_size`` of ``population`` units, drawn without replacement; it stays hidden.

    Attributes:
        release: what is computed on the sample.
        sample_size: units in each sample, at most ``population``.
        population: units in all, public.
    """

    release: Release
    sample_size: int
    population: int

    def __post_init__(self) -> None:
        check.fields(
            self,
            release=check.instance(Release),
            population=check.integer(1),
            sample_size=check.integer(0, self.population),
        )


@codec.term("balls-in-bins")
@dataclass(frozen=True, slots=True)
class BallsInBins(Release):
    """Each unit is put into one of ``bins`` rounds at random and takes part in that round of every epoch.

    Attributes:
        release: what is computed in each round.
        bins: rounds in an epoch.
        epochs: how often the same assignment is gone through.
    """

    release: Release
    bins: int
    epochs: int = 1

    def __post_init__(self) -> None:
        check.fields(self, release=check.instance(Release), bins=check.integer(1), epochs=check.integer(1))


@codec.term("shuffled")
@dataclass(frozen=True, slots=True)
class Shuffled(Release):
    """``population`` units each make a local release, and a shuffler hides who sent what.

    Attributes:
        release: what each unit sends, of what it alone holds; described for neighbours that replace that.
        population: units in all, public.
    """

    release: Release
    population: int

    def __post_init__(self) -> None:
        check.fields(self, release=check.instance(Release), population=check.integer(1))

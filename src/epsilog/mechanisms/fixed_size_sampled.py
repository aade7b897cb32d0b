"""A release on a sample of a fixed size."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog.mechanisms.base import ON_SAMPLE, Release
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import Field, term


@term("fixed-size-sampled")
class FixedSizeSampled(Release):
    """A sample of exactly ``sample_size`` of ``population`` units, drawn without replacement; it stays hidden."""

    release: Annotated[Release, ON_SAMPLE]
    sample_size: Annotated[int, Field("units in each sample, at most population", "m", ge=0, le_field="population")]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

    is_sample: ClassVar[bool] = True
    is_amplified: ClassVar[bool] = True
    fixes_population: ClassVar[bool] = True

    @property
    def inner(self) -> tuple[Release, ...]:
        """What is computed on the sample."""
        return (self.release,)

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Nothing, of a sample without units."""
        return () if self.sample_size == 0 else None

    @property
    def exact_share(self) -> Fraction:
        """The size of the sample over that of the population."""
        return Fraction(self.sample_size, self.population)

    def revealed(self, relation: NeighboringRelation) -> Release:
        """What is computed on the sample, for whoever sees the sample."""
        return self.release.revealed(relation)

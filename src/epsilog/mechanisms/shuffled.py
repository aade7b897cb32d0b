"""Local releases of many units, shuffled."""

from __future__ import annotations

from typing import Annotated, ClassVar

from epsilog.mechanisms.base import Release
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import Field, term


@term("shuffled")
class Shuffled(Release):
    """``population`` units each make a local release, and a shuffler hides who sent what."""

    release: Annotated[
        Release, Field("what each unit sends, of what it alone holds; described for neighbors that replace that")
    ]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

    is_sample: ClassVar[bool] = True
    fixes_population: ClassVar[bool] = True

    @property
    def inner(self) -> tuple[Release, ...]:
        """What is computed by each unit."""
        return (self.release,)

    def revealed(self, relation: NeighboringRelation) -> Release:
        """The unit's own report, for whoever sees who sent what."""
        return self.release.revealed(relation)

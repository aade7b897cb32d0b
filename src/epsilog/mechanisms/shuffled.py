"""Local releases of many units, shuffled."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.composition import Composition
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import Field, term


@term("shuffled")
class Shuffled(Release):
    """``population`` units each make a local release, and a shuffler hides who sent what."""

    release: Annotated[Release, Field("local randomizer of each unit, under replace-one")]
    population: Annotated[int, Field("number of units; public", "N", ge=1)]

    is_sample: ClassVar[bool] = True
    is_shuffled: ClassVar[bool] = True
    fixes_population: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/shuffled-reports",)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Above by what a report can lose at most, below by what is known of it (docs/accounting/shuffling.md)."""
        inner = Composition.of(self.release, relation)
        if relation is not NeighboringRelation.REPLACE_ONE:
            raise self._refusal(f"how many report is public, so that neighbors replace one unit: not {relation}")
        if any(one.is_sample for one in inner.counts):
            raise self._refusal("one unit's report is neither sampled nor shuffled")
        epsilon = inner.largest_loss.upper
        if math.isinf(epsilon):
            raise self._refusal("only reports that have a largest loss (pure DP) are amplified")
        reports = numerics.shuffling.Reports()
        if inner.rounds == 1:
            reports = next(iter(inner.counts)).shuffle_reports(self.population, epsilon)
        return numerics.shuffling.build_shuffled_pairs(epsilon, self.population, reports)

    def _refusal(self, reason: str) -> UnsupportedMechanismError:
        return UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)

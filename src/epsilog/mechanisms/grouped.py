"""Group privacy: the cost of a release for a holder of several privacy units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from epsilog import numerics
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.composition import flatten
from epsilog.terms import NeighboringRelation
from epsilog.terms.fields import Field, term
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from epsilog.mechanisms.tuned import TrialDistribution

GROUPED = 2048
"""Roundings of a delta times ``group_factor``: docs/accounting/rounding.md, 4."""


@term("grouped")
class Grouped(Release):
    """The same release for neighbors that differ in up to ``units`` units: everything that one person holds.

    A budget with persons as privacy units is charged this for training on examples, if no person has more of them.
    """

    release: Annotated[Release, Field("what is released, described for one unit")]
    units: Annotated[
        int, Field("largest number of units that one person holds; enforced before the release, public", "k", ge=1)
    ]

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Return the release itself, for a group of one."""
        return ((self.release, 1),) if self.units == 1 else None

    def assumptions(self) -> tuple[Message, ...]:
        """Return how many units one person holds; and that they stay together, where participation is random."""
        found = [Message.of("assumes/group-size", units=self.units)]
        if any(one.is_amplified for one in self.release.singles()):
            found.append(Message("assumes/joint-group"))
        return (*found, *Release.assumptions(self))

    @property
    def group(self) -> tuple[Release, int]:
        """Return both of its fields."""
        return self.release, self.units

    @property
    def one_trial(self) -> tuple[Release, TrialDistribution] | None:
        """Return what a trial costs a group, the best of several costs it; a group of groups is left to ``group``."""
        found = None if self.release.group else self.release.one_trial
        return None if found is None else (Grouped(found[0], self.units), found[1])

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Release | None:
        """A group of groups."""
        return self.release.for_group(relation, units * self.units, above=above)

    def pairs(self, relation: NeighboringRelation, effort: numerics.pairs.Effort) -> numerics.pairs.Pairs:  # noqa: ARG002
        """Those of each of its parts, for the group."""
        parts = flatten(self.release).items()
        return numerics.pairs.compose_pairs((one.group_pairs(relation, self.units), count) for one, count in parts)


def group_factor(share: float, units: int) -> float:
    """Return the group factor of delta: 1 + e^share + ... + e^((units - 1) share), rounded up."""
    exponent = units * share
    if share == 0:
        return float(units)
    if exponent < 700:
        return math.expm1(exponent) / math.expm1(share)
    grown = (units - 1) * share  # units e^((units - 1) share) is no less, and overflows later
    return units * math.exp(grown) if grown < 700 else math.inf

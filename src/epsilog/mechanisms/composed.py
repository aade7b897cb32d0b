"""How releases add up: a mix, and a repetition. Parameters are fixed in advance; outputs may steer later queries."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms import NeighboringRelation, check, codec
from epsilog.terms.fields import Field, term

if TYPE_CHECKING:
    from epsilog.mechanisms.matrix import MatrixMechanism


@codec.term("composed")
@dataclass(frozen=True, slots=True)
class Composed(Release):
    """All of several releases, in any order; none at all costs nothing.

    Attributes:
        releases: the parts.
    """

    releases: tuple[Release, ...]

    def __init__(self, releases: Iterable[Release]) -> None:
        listed = tuple(releases) if isinstance(releases, Set) else releases  # their order is of no account
        object.__setattr__(self, "releases", check.each(check.instance(Release))(releases=listed))

    @property
    def inner(self) -> tuple[Release, ...]:
        """The parts."""
        return self.releases

    def parts(self) -> tuple[tuple[Release, int], ...]:
        """Its parts."""
        return tuple((one, 1) for one in self.releases)

    def revealed(self, relation: NeighboringRelation) -> Release:
        """Of each part."""
        return Composed([one.revealed(relation) for one in self.releases])


@term("repeated")
class Repeated(Release):
    """The same release, several times on the same data, with fresh noise and fresh sampling each time."""

    release: Annotated[Release, Field("what is repeated")]
    count: Annotated[int, Field("number of repetitions", ge=1)]

    @property
    def repeats(self) -> int:
        """``count`` times."""
        return self.count

    def parts(self) -> tuple[tuple[Release, int], ...]:
        """What is repeated, as often."""
        return ((self.release, self.count),)

    def batches(self) -> list[tuple[float, int]] | None:
        """As often."""
        once = self.release.batches()
        return None if once is None else [(chance, self.count * often) for chance, often in once]

    def as_matrix(self, count: int = 1) -> MatrixMechanism | None:
        """Of what is repeated."""
        return self.release.as_matrix(count * self.count)

    def renoised(self, noise: float) -> Release:
        """With another noise inside."""
        return replace(self, release=self.release.renoised(noise))

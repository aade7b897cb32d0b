"""Groups: what a release costs somebody who holds several of the units that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import check, codec
from epsilog.terms.mechanisms import Release


@codec.term("grouped")
@dataclass(frozen=True, slots=True)
class Grouped(Release):
    """The same release, priced for neighbours that differ in up to ``units`` units: all that one person holds.

    A budget whose privacy unit is a person is charged this for training on examples, of which nobody has more.

    Attributes:
        release: what is released, described for one unit.
        units: the most that anybody holds; enforced before the release, public.
    """

    release: Release
    units: int

    def __post_init__(self) -> None:
        check.fields(self, release=check.instance(Release), units=check.integer(1))

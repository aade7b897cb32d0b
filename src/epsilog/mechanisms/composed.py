"""How releases add up: a mix, and a repetition. Parameters are fixed in advance; outputs may steer later queries."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms import check, codec
from epsilog.terms.fields import Field, term


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


@term("repeated")
class Repeated(Release):
    """The same release, several times on the same data, with fresh noise and fresh sampling each time."""

    release: Annotated[Release, Field("what is repeated")]
    count: Annotated[int, Field("number of repetitions", ge=1)]

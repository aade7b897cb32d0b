"""What can be asked of a data frame: frozen questions that say all of it that is public.

Every row adds to one or several sums, in whole steps of a grid, and nothing else is ever learnt of the data. What a row
adds is bounded here; a row that adds nothing stays out, whatever the reason, so 0 is always within the bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any

from epsilog.terms import CheckError, check

__all__ = ["Count", "CountAbove", "FirstCategoryAbove", "Histogram", "Mean", "MostCommonCategory", "Query", "Sum"]

_FINE = 20  # a bound is 2^20 to 2^21 steps: what rounding to the grid moves is far below the noise
_LEAST, _LARGEST = 1e-100, 1e100  # of a bound, so that steps and sums stay within what a double holds
_MOST_CELLS = 100_000
_LARGEST_THRESHOLD = 10**15
_WHOLE = check.integer(-check.LARGEST_INTEGER)


class Query:
    """A question about a data frame. Abstract; every subclass is final."""

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the question as it is kept."""
        said: dict[str, Any] = {name: _plain(value) for name, value in asdict(self).items()}  # type: ignore[call-overload]
        return {"query": re.sub(r"(?<=.)(?=[A-Z])", "-", type(self).__name__).lower(), **said}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Count(Query):
    """How many rows there are; of a column, how many have a value there.

    Attributes:
        column: only rows that have a value here; None counts all.
    """

    column: Annotated[str | None, check.optional(check.text())] = None

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return () if self.column is None else (self.column,)


@dataclass(frozen=True, slots=True)
class CountAbove(Query):
    """Whether a count reaches a threshold: yes or no, and nothing else is shown.

    Attributes:
        threshold: yes from here on.
        column: only rows that have a value here; None counts all.
    """

    threshold: Annotated[int, check.integer(-_LARGEST_THRESHOLD, _LARGEST_THRESHOLD)]
    column: Annotated[str | None, check.optional(check.text())] = None

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return () if self.column is None else (self.column,)


@dataclass(frozen=True, slots=True)
class Sum(Query):
    """The sum of a column whose values are clamped to bounds.

    Attributes:
        column: of numbers.
        bounds: the least and the largest value that a row adds; chosen without looking at the data.
    """

    column: Annotated[str, check.text()]
    bounds: Annotated[tuple[float, float], check.pair_of(check.finite(), check.finite())]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _check_bounds(self.bounds)

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Mean(Query):
    """The mean of a column whose values are clamped to bounds, over the rows that have one.

    Attributes:
        column: of numbers.
        bounds: the least and the largest value that counts; chosen without looking at the data.
        population: how many rows there are, if that is public; the sum is then divided by it, and a row without a value
            counts as the middle of the bounds. None divides by a noisy count, which takes half of the price.
    """

    column: Annotated[str, check.text()]
    bounds: Annotated[tuple[float, float], check.pair_of(check.finite(), check.finite())]
    population: Annotated[int | None, check.optional(check.integer(1))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        _check_bounds(self.bounds)

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Histogram(Query):
    """How many rows fall into each of several cells that are stated beforehand; all other rows stay out.

    Cells that were found in the data would show who is in it: a category that only one person has would appear.

    Attributes:
        column: of categories, or of numbers.
        categories: texts or whole numbers, each a cell; or
        edges: of cells of numbers, rising: each holds its lower edge, and the last one both.
    """

    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...] | None = None
    edges: Annotated[tuple[float, ...] | None, check.optional(check.sequence_of(check.finite()))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        if (self.categories is None) == (self.edges is None):
            raise CheckError("categories", "given, or else edges, and not both", repr(self.categories))
        if self.edges is not None:
            _check_edges(self.edges)
        else:
            object.__setattr__(self, "categories", _categories(self.categories))

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return (self.column,)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the cells are called, in order.

        >>> Histogram("age", edges=(0, 18, 65)).labels
        ('[0, 18)', '[18, 65]')
        """
        if self.categories is not None:
            return tuple(str(name) for name in self.categories)
        assert self.edges is not None, "a histogram has categories or edges"
        told = [repr(edge).removesuffix(".0") for edge in self.edges]
        return tuple(
            f"[{low}, {high}{']' if place == len(told) - 2 else ')'}"
            for place, (low, high) in enumerate(pairwise(told))
        )


@dataclass(frozen=True, slots=True)
class MostCommonCategory(Query):
    """Which of several categories most rows have; the category alone is shown, and no count.

    Attributes:
        column: of categories.
        categories: texts or whole numbers, stated beforehand; rows of another one stay out.
    """

    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...]

    def __post_init__(self) -> None:
        check.check_fields(self)
        object.__setattr__(self, "categories", _categories(self.categories))

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return (self.column,)


@dataclass(frozen=True, slots=True)
class FirstCategoryAbove(Query):
    """The first of several categories that as many rows have as a threshold says, or none of them.

    They are looked at in the order in which they are stated, and the price is the same however many are passed over.

    Attributes:
        threshold: of how many rows.
        column: of categories.
        categories: texts or whole numbers, stated beforehand; rows of another one stay out.
    """

    threshold: Annotated[int, check.integer(-_LARGEST_THRESHOLD, _LARGEST_THRESHOLD)]
    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...]

    def __post_init__(self) -> None:
        check.check_fields(self)
        object.__setattr__(self, "categories", _categories(self.categories))

    @property
    def columns(self) -> tuple[str, ...]:
        """As ``Query`` says."""
        return (self.column,)


def build_value_grid(bounds: tuple[float, float]) -> tuple[Fraction, int, int]:
    """The step of a column's grid, a power of two, and its bounds in steps.

    >>> build_value_grid((0.0, 120.0))
    (Fraction(1, 16384), 0, 1966080)
    """
    _, exponent = math.frexp(max(abs(side) for side in bounds))
    step = Fraction(2) ** (exponent - 1 - _FINE)
    low, high = (round(Fraction(side) / step) for side in bounds)
    return step, low, high


def _check_bounds(bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low < high:
        raise CheckError("bounds", "the least and the largest value, one below the other", repr(bounds))
    if not _LEAST <= max(-low, high) <= _LARGEST:
        raise CheckError("bounds", f"such that the larger is in [{_LEAST:g}, {_LARGEST:g}]", repr(bounds))
    step, least, largest = build_value_grid(bounds)
    if least == largest:
        raise CheckError("bounds", f"at least {float(step):g} apart: values are rounded to that", repr(bounds))


def _check_edges(edges: Sequence[float]) -> None:
    if not 2 <= len(edges) <= _MOST_CELLS + 1 or any(not low < high for low, high in pairwise(edges)):
        raise CheckError("edges", f"2 to {_MOST_CELLS + 1} rising numbers", f"{len(edges)} of them")


def _categories(given: Any) -> tuple[str | int, ...]:
    """Texts or whole numbers, none twice, and none that is shown as another one is."""
    listed = check.sequence_of(check.Validator(lambda _, value: value))(categories=given)
    names = tuple(name if isinstance(name, str) else _WHOLE(categories=name) for name in listed)
    if not 1 <= len(names) <= _MOST_CELLS or len({str(name) for name in names}) < len(names):
        raise CheckError("categories", f"1 to {_MOST_CELLS} names, none twice", f"{len(names)} of them")
    return names

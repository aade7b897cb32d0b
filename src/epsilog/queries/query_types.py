"""The queries on a data frame; each holds every public parameter.

Every row adds to one or several sums, in whole steps of a grid, and only these sums are computed from the data. The
query bounds what a row adds. A row that adds nothing is left out for any reason, so 0 is always within the bounds.
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

_GRID_BITS = 20  # a bound is 2^20 to 2^21 steps, so that rounding to the grid is far below the noise
_MIN_BOUND, _MAX_BOUND = 1e-100, 1e100  # so that steps and sums are doubles
_MAX_CELLS = 100_000
_MAX_THRESHOLD = 10**15
_WHOLE = check.integer(-check.LARGEST_INTEGER)


class Query:
    """A query on a data frame. Abstract; every subclass is final."""

    __slots__ = ()

    column: str | None

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it reads."""
        return () if self.column is None else (self.column,)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as they are stored."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"query": re.sub(r"(?<=.)(?=[A-Z])", "-", type(self).__name__).lower(), **plain}


@dataclass(frozen=True, slots=True)
class Count(Query):
    """The number of rows, or of rows with a value in a column.

    Attributes:
        column: counts only rows with a value here; None counts all rows.
    """

    column: Annotated[str | None, check.optional(check.text())] = None


@dataclass(frozen=True, slots=True)
class CountAbove(Query):
    """Whether a count reaches a threshold; the count is not released.

    Attributes:
        threshold: the least count with the answer True.
        column: counts only rows with a value here; None counts all rows.
    """

    threshold: Annotated[int, check.integer(-_MAX_THRESHOLD, _MAX_THRESHOLD)]
    column: Annotated[str | None, check.optional(check.text())] = None


@dataclass(frozen=True, slots=True)
class Sum(Query):
    """The sum of a column, with values clamped to bounds.

    Attributes:
        column: a column of numbers.
        bounds: the least and the largest contribution of a row; chosen without looking at the data.
    """

    column: Annotated[str, check.text()]
    bounds: Annotated[tuple[float, float], check.pair_of(check.finite(), check.finite())]

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        _check_bounds(self.bounds)


@dataclass(frozen=True, slots=True)
class Mean(Query):
    """The mean of a column over the rows with a value, clamped to bounds.

    Attributes:
        column: a column of numbers.
        bounds: the least and the largest value; chosen without looking at the data.
        population: the number of rows, if it is public. It divides the sum, and a row without a value counts as the
            middle of the bounds. None divides by a noisy count, which takes half of the cost.
    """

    column: Annotated[str, check.text()]
    bounds: Annotated[tuple[float, float], check.pair_of(check.finite(), check.finite())]
    population: Annotated[int | None, check.optional(check.integer(1))] = None

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        _check_bounds(self.bounds)


@dataclass(frozen=True, slots=True)
class Histogram(Query):
    """The number of rows in each of several stated cells; all other rows are left out.

    Cells taken from the data would reveal who is in it, since a category of one person alone would appear.

    Attributes:
        column: a column of categories or numbers.
        categories: texts or whole numbers, each a cell; or
        edges: rising edges of cells of numbers. A cell contains its lower edge, and the last cell both.
    """

    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...] | None = None
    edges: Annotated[tuple[float, ...] | None, check.optional(check.sequence_of(check.finite()))] = None

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        if (self.categories is None) == (self.edges is None):
            raise CheckError("categories", "given, or else edges, and not both", repr(self.categories))
        if self.edges is not None:
            _check_edges(self.edges)
        else:
            object.__setattr__(self, "categories", _check_categories(self.categories))

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the cells, in order.

        >>> Histogram("age", edges=(0, 18, 65)).labels
        ('[0, 18)', '[18, 65]')
        """
        if self.categories is not None:
            return tuple(str(name) for name in self.categories)
        assert self.edges is not None, "a histogram has categories or edges"
        names = [repr(edge).removesuffix(".0") for edge in self.edges]
        cells = [f"[{low}, {high})" for low, high in pairwise(names)]
        return (*cells[:-1], cells[-1].removesuffix(")") + "]")


@dataclass(frozen=True, slots=True)
class MostCommonCategory(Query):
    """The most common of several categories; no count is released.

    Attributes:
        column: a column of categories.
        categories: stated texts or whole numbers; rows of other categories are left out.
    """

    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...]

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        object.__setattr__(self, "categories", _check_categories(self.categories))


@dataclass(frozen=True, slots=True)
class FirstCategoryAbove(Query):
    """The first of several categories with a number of rows that reaches a threshold, or None.

    The categories are visited in the stated order; the cost is the same however many are visited.

    Attributes:
        threshold: the least number of rows.
        column: a column of categories.
        categories: stated texts or whole numbers; rows of other categories are left out.
    """

    threshold: Annotated[int, check.integer(-_MAX_THRESHOLD, _MAX_THRESHOLD)]
    column: Annotated[str, check.text()]
    categories: tuple[str | int, ...]

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        object.__setattr__(self, "categories", _check_categories(self.categories))


def build_value_grid(bounds: tuple[float, float]) -> tuple[Fraction, int, int]:
    """Return the step of a column's grid, a power of two, and the bounds in steps.

    >>> build_value_grid((0.0, 120.0))
    (Fraction(1, 16384), 0, 1966080)
    """
    _, exponent = math.frexp(max(abs(side) for side in bounds))
    step = Fraction(2) ** (exponent - 1 - _GRID_BITS)
    low, high = (round(Fraction(side) / step) for side in bounds)
    return step, low, high


def _check_bounds(bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low < high:
        raise CheckError("bounds", "the least and the largest value, one below the other", repr(bounds))
    if not _MIN_BOUND <= max(-low, high) <= _MAX_BOUND:
        raise CheckError("bounds", f"such that the larger is in [{_MIN_BOUND:g}, {_MAX_BOUND:g}]", repr(bounds))
    step, least, largest = build_value_grid(bounds)
    if least == largest:
        raise CheckError("bounds", f"at least {float(step):g} apart: values are rounded to that", repr(bounds))


def _check_edges(edges: Sequence[float]) -> None:
    if not 2 <= len(edges) <= _MAX_CELLS + 1 or any(not low < high for low, high in pairwise(edges)):
        raise CheckError("edges", f"2 to {_MAX_CELLS + 1} rising numbers", f"{len(edges)} of them")


def _check_categories(given: Any) -> tuple[str | int, ...]:
    """Return categories as texts or whole numbers; refuse two with one label."""
    listed = check.sequence_of(check.Validator(lambda _, value: value))(categories=given)
    names = tuple(name if isinstance(name, str) else _WHOLE(categories=name) for name in listed)
    if not 1 <= len(names) <= _MAX_CELLS or len({str(name) for name in names}) < len(names):
        raise CheckError("categories", f"1 to {_MAX_CELLS} names, none twice", f"{len(names)} of them")
    return names

"""The public meaning of a table, stated before the data are read: columns, ranges, categories.

A stated range scales numbers, never a statistic of the data: a mean or a maximum of private rows would be a release
without a charge. A number outside the range is clipped to it. A missing, infinite or unlisted value becomes a stated
constant, or makes the row unusable: training treats it as absent. The content of a row is never an error, since an
error would show that the row exists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any

from epsilog.terms import CheckError, check

_DATE = re.compile(r"\s*\d{1,4}([-./])\d{1,2}\1\d{1,4}(?![-./\d])", re.ASCII)  # 2024-01-31, 31.1.2024, 1/31/2024


@dataclass(frozen=True, slots=True)
class RangeColumn:
    """Numbers or dates in a public range, which is scaled to -1 .. 1.

    Attributes:
        low: the lower end, a number or a date.
        high: the upper end, of the same type.
        missing: replacement for a missing or infinite value; None makes the row unusable.

    >>> RangeColumn(0, 110).high
    110.0
    """

    low: Any
    high: Any
    missing: Any = None

    def __post_init__(self) -> None:
        ends = ("low", "high") if self.missing is None else ("low", "high", "missing")
        rule = _day() if self.is_dates else check.finite()
        for name in ends:
            object.__setattr__(self, name, rule.apply(name, getattr(self, name)))
        low, high = self.bounds
        if not low < high or not math.isfinite(high - low):
            raise CheckError("range", "[low, high] with low below high", f"[{self.low}, {self.high}]")
        if self.missing is not None and not low <= _number(self.missing) <= high:
            raise CheckError("missing", f"in its range [{self.low}, {self.high}]", f"{self.missing}")

    @property
    def is_dates(self) -> bool:
        """Return whether the range is one of dates."""
        return isinstance(self.low, date)

    @property
    def values_are(self) -> str:
        """Return the content of such a column, for a message."""
        return "dates, such as 2026-01-31" if self.is_dates else "numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """Return both ends as numbers; dates are days since 1970."""
        low, high = (_number(end) for end in (self.low, self.high))
        return low, high

    def describe(self, predicted: float) -> Any:
        """Return the number or date of a prediction between -1 and 1."""
        low, high = self.bounds
        found = low + (min(max(predicted, -1.0), 1.0) + 1.0) / 2.0 * (high - low)
        return date.fromordinal(round(found) + date(1970, 1, 1).toordinal()) if self.is_dates else found

    @property
    def substitute(self) -> float:
        """Return the replacement for a missing value as a number; NaN for none."""
        return math.nan if self.missing is None else _number(self.missing)

    def to_json(self) -> Any:
        """Plain JSON values."""
        low, high, missing = (
            str(each) if isinstance(each, date) else each for each in (self.low, self.high, self.missing)
        )
        return [low, high] if missing is None else {"range": [low, high], "missing": missing}


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """Categories of a public list; a feature becomes one column of 0 and 1 for each.

    Attributes:
        names: the list.
        missing: replacement for a missing or unlisted value; None makes the row unusable.
    """

    names: Annotated[tuple[str, ...], check.sequence_of(check.text())]
    missing: str | None = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.names or len(set(self.names)) != len(self.names):
            raise CheckError("categories", "a list of different words, at least one", repr(list(self.names)))
        if self.missing is not None:
            check.one_of(self.names)(missing=self.missing)

    @property
    def values_are(self) -> str:
        """Return the content of such a column, for a message."""
        return f"words of the list {list(self.names)}"

    def describe(self, predicted: int) -> str:
        """Return the category of a prediction."""
        return self.names[predicted]

    @property
    def substitute(self) -> int:
        """Return the position of the replacement for a missing value; -1 for none."""
        return -1 if self.missing is None else self.names.index(self.missing)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return list(self.names) if self.missing is None else {"categories": list(self.names), "missing": self.missing}


@dataclass(frozen=True, slots=True)
class ClassTarget:
    """A target of whole numbers 0, 1, ... below a public count.

    Attributes:
        count: number of classes.
    """

    count: Annotated[int, check.integer(2)]

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def values_are(self) -> str:
        """Return the content of such a column, for a message."""
        return f"class numbers from 0 to {self.count - 1}"

    def describe(self, predicted: int) -> int:
        """Return the number of a class."""
        return int(predicted)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return self.count


@dataclass(frozen=True, slots=True)
class UnscaledColumn:
    """Unscaled numbers; the caller has scaled them by public constants."""

    @property
    def values_are(self) -> str:
        """Return the content of such a column, for a message."""
        return "numbers"

    def describe(self, predicted: float) -> float:
        """Return the prediction."""
        return float(predicted)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return "as it is"


Feature = RangeColumn | CategoryColumn | UnscaledColumn
Target = RangeColumn | CategoryColumn | ClassTarget | UnscaledColumn


@dataclass(frozen=True, slots=True)
class DataSchema:
    """The columns of a table and their meaning.

    Attributes:
        client: the column with the client of each row; a row with a blank one is left out.
        features: the features of the model by column, in this order.
        target: the column to predict.
        goal: the meaning of the target.
        id: a column that names each row, by which rows are held out.
    """

    client: Annotated[str, check.text()]
    features: Mapping[str, Feature]
    target: Annotated[str, check.text()]
    goal: Target
    id: Annotated[str | None, check.optional(check.text())] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.features:
            raise CheckError("features", "at least one column", "none", verb="name")
        for name in self.features:
            check.text()(features=name)
        if self.target in self.features or self.target == self.client:
            raise CheckError("target", "neither a feature nor the client", repr(self.target))
        if isinstance(self.goal, CategoryColumn) and self.classes == 1:
            raise CheckError("classes", "at least two", repr(list(self.goal.names)), verb="name")

    @property
    def classes(self) -> int | None:
        """Return the number of classes; None if targets are real numbers."""
        if isinstance(self.goal, CategoryColumn):
            return len(self.goal.names)
        return self.goal.count if isinstance(self.goal, ClassTarget) else None

    @property
    def columns(self) -> dict[str, str]:
        """Return all columns to read, by field of the schema."""
        people = {"client": self.client} | ({} if self.id is None else {"id": self.id})
        return people | self.learned_columns

    @property
    def learned_columns(self) -> dict[str, str]:
        """Return the columns of features and target, by field of the schema."""
        return {"target": self.target} | {f"features.{name}": name for name in self.features}

    def to_json(self) -> dict[str, Any]:
        """Return the schema for a report; all of it is public."""
        return {
            "client": self.client,
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "target": self.target,
            "classes" if self.classes else "target_range": self.goal.to_json(),
        }


def parse_feature(given: Any, missing: Any = None) -> Feature:
    """Return a feature from its description: a range of two numbers or dates, or a list of categories.

    Two strings that look like dates are refused, since they could mean a range; ``{"categories": [...]}`` states that
    they are categories.

    Raises:
        CheckError: the description is anything else.

    >>> parse_feature([0, 110])
    RangeColumn(low=0.0, high=110.0, missing=None)
    >>> parse_feature(["a", "b"]).names
    ('a', 'b')
    >>> parse_feature({"categories": ["2024-01-01", "2025-12-31"]}).names
    ('2024-01-01', '2025-12-31')
    """
    if isinstance(given, RangeColumn | CategoryColumn | UnscaledColumn):
        return given
    if isinstance(given, Mapping) and set(given) == {"categories"}:
        return CategoryColumn(_words(given["categories"]), missing)
    series = isinstance(given, Sequence) and not isinstance(given, str)
    if series and given and all(isinstance(each, str) for each in given):
        if len(given) == 2 and all(_DATE.match(each) for each in given):
            bound = (
                "a range of two dates without quotes ([2024-01-01, 2025-12-31] in a run config, two datetime.date "
                'in Python), or { categories = ["...", "..."] } where two categories look like dates'
            )
            raise CheckError("feature", bound, repr(list(given)))
        return CategoryColumn(tuple(given), missing)
    if series and len(given) == 2:
        return RangeColumn(given[0], given[1], missing)
    raise CheckError(
        "feature", 'a range of two numbers or dates ([0, 110]), or a list of words (["a", "b"])', repr(given)
    )


def _words(given: Any) -> tuple[str, ...]:
    return tuple(check.sequence_of(check.text())(categories=given))


def parse_target(classes: Any = None, target_range: Any = None) -> Target:
    """Return the target from its description: its classes, or the range of its numbers."""
    if (classes is None) == (target_range is None):
        both = "neither" if classes is None else "both"
        raise CheckError("classes", "given as labels or a number, or else target_range", both)
    if classes is None:
        try:
            found = parse_feature(target_range)
        except CheckError as error:
            raise CheckError("target_range", error.bound, repr(target_range)) from None
        if not isinstance(found, RangeColumn):
            raise CheckError("target_range", "[low, high], two numbers or two dates", repr(target_range))
        return found
    if isinstance(classes, int) and not isinstance(classes, bool):
        return ClassTarget(check.integer(2)(classes=classes))
    try:
        return CategoryColumn(check.sequence_of(check.text())(classes=classes))
    except CheckError as error:
        if error.field == "categories":  # words, and not all different
            raise
        bound = 'a list of labels as text (["no", "yes"], ["1", "2"], ["false", "true"]), or the number of classes'
        raise CheckError("classes", bound, repr(classes)) from None


def _day() -> check.Validator[date]:
    def read(name: str, value: Any) -> date:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise CheckError(name, "a date without a time", repr(value))
        return value

    return check.Validator(read)


def _number(end: Any) -> float:
    return float(end.toordinal() - date(1970, 1, 1).toordinal()) if isinstance(end, date) else float(end)

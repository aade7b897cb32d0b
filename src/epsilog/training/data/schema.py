"""The meaning of a table, stated in public before the data are read: columns, ranges, categories.

Numbers are scaled by the ends of a stated range, never by a statistic of the data. A mean or a maximum of people's rows
would be a release without a charge. A number outside the range is moved to its end. A missing, infinite or unlisted
value becomes a stated constant, or makes the row unusable: training leaves it out, as if it were absent. No content of
a row is ever an error, since the error would show that the row exists.
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
    """Numbers or dates between two public ends; they become -1 at the low one and +1 at the high one.

    Attributes:
        low: a number, or a date.
        high: of the same kind, above it.
        missing: what stands where there is no finite number; None makes the row unusable.

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
        """Whether the ends are dates."""
        return isinstance(self.low, date)

    @property
    def values_are(self) -> str:
        """What a column of these holds, for a message."""
        return "dates, such as 2026-01-31" if self.is_dates else "numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """Both ends as numbers; dates count days."""
        low, high = (_number(end) for end in (self.low, self.high))
        return low, high

    def describe(self, predicted: float) -> Any:
        """A prediction between -1 and 1 in the range's own terms; a number, or a date."""
        low, high = self.bounds
        found = low + (min(max(predicted, -1.0), 1.0) + 1.0) / 2.0 * (high - low)
        return date.fromordinal(round(found) + date(1970, 1, 1).toordinal()) if self.is_dates else found

    @property
    def substitute(self) -> float:
        """What stands where there is no number; NaN for nothing."""
        return math.nan if self.missing is None else _number(self.missing)

    def to_json(self) -> Any:
        """Plain JSON values."""
        low, high, missing = (
            str(each) if isinstance(each, date) else each for each in (self.low, self.high, self.missing)
        )
        return [low, high] if missing is None else {"range": [low, high], "missing": missing}


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """Words of a public list; as a feature each is a column of its own, 1 where it stands and 0 elsewhere.

    Attributes:
        names: the list.
        missing: the one that stands where there is none of them; None makes the row unusable.
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
        """What a column of these holds, for a message."""
        return f"words of the list {list(self.names)}"

    def describe(self, predicted: int) -> str:
        """The word at a place."""
        return self.names[predicted]

    @property
    def substitute(self) -> int:
        """The place of what stands where there is none of them; -1 for nothing."""
        return -1 if self.missing is None else self.names.index(self.missing)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return list(self.names) if self.missing is None else {"categories": list(self.names), "missing": self.missing}


@dataclass(frozen=True, slots=True)
class ClassTarget:
    """A target of whole numbers 0, 1, ... below a public count.

    Attributes:
        count: how many classes there are.
    """

    count: Annotated[int, check.integer(2)]

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def values_are(self) -> str:
        """What a column of these holds, for a message."""
        return f"class numbers from 0 to {self.count - 1}"

    def describe(self, predicted: int) -> int:
        """A class is its number."""
        return int(predicted)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return self.count


@dataclass(frozen=True, slots=True)
class UnscaledColumn:
    """Numbers that are taken as they are: whoever brings them has scaled them by public constants."""

    @property
    def values_are(self) -> str:
        """What a column of these holds, for a message."""
        return "numbers"

    def describe(self, predicted: float) -> float:
        """A prediction is what it is."""
        return float(predicted)

    def to_json(self) -> Any:
        """Plain JSON values."""
        return "as it is"


Feature = RangeColumn | CategoryColumn | UnscaledColumn
Target = RangeColumn | CategoryColumn | ClassTarget | UnscaledColumn


@dataclass(frozen=True, slots=True)
class DataSchema:
    """Which columns there are and what they hold.

    Attributes:
        client: the column that says whose a row is; a row where it is blank is nobody's and left out.
        features: what goes into the model, by column, in this order.
        target: the column to predict.
        goal: what the target holds.
        id: a column that names each row; only to hold rows out by.
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
        """How many classes there are to tell apart; None where targets are real numbers."""
        if isinstance(self.goal, CategoryColumn):
            return len(self.goal.names)
        return self.goal.count if isinstance(self.goal, ClassTarget) else None

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is read, by its place in the schema."""
        people = {"client": self.client} | ({} if self.id is None else {"id": self.id})
        return people | self.learnt

    @property
    def learnt(self) -> dict[str, str]:
        """The columns that a model is learnt from, by their place in the schema."""
        return {"target": self.target} | {f"features.{name}": name for name in self.features}

    def to_json(self) -> dict[str, Any]:
        """What a report may print: all of it is public."""
        return {
            "client": self.client,
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "target": self.target,
            "classes" if self.classes else "target_range": self.goal.to_json(),
        }


def parse_feature(given: Any, missing: Any = None) -> Feature:
    """Read what a file or a call says of a feature: two numbers or two dates, or a list of words.

    Two words that look like dates are refused, since they may be meant as a range; ``{"categories": [...]}`` says that
    they are words.

    Raises:
        CheckError: anything else.

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
                "a range of two dates without quotes ([2024-01-01, 2025-12-31] in a programme file, two datetime.date "
                'in Python), or { categories = ["...", "..."] } where two words that look like dates are meant'
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
    """Read what a file or a call says of the target: its classes, or the range of its numbers."""
    if (classes is None) == (target_range is None):
        both = "neither" if classes is None else "both"
        raise CheckError("classes", "given (labels or how many), or target_range, and not both", both)
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
        bound = 'a list of labels as text (["no", "yes"], ["1", "2"], ["false", "true"]), or how many numbers 0, 1, ...'
        raise CheckError("classes", f"{bound} there are", repr(classes)) from None


def _day() -> check.Validator[date]:
    def read(name: str, value: Any) -> date:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise CheckError(name, "a date without a time", repr(value))
        return value

    return check.Validator(read)


def _number(end: Any) -> float:
    return float(end.toordinal() - date(1970, 1, 1).toordinal()) if isinstance(end, date) else float(end)

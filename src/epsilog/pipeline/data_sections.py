"""The [data] section: a bundled data set, or the user's own file with all public facts about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from epsilog.terms import CheckError
from epsilog.toml_sections import ConfigSection, Flag, Text
from epsilog.training import Dataset
from epsilog.training.data import CustomData, DataSchema, Feature, Target, load_dataset, parse_feature, parse_target

NO_TEST = "none"
KINDS_OF_DATA = ("shipped-data", "own-data")


class BundledDataSection(ConfigSection):
    """[data] of a bundled data set."""

    name: Text
    withdrawn: Text | None = None

    @property
    def is_public(self) -> bool:
        """Return whether the data are public."""
        return True

    def load(self, unit: str, base: Path, *, counts_are_public: bool) -> Dataset:  # noqa: ARG002
        """Load the data for a privacy unit."""
        return load_dataset(self.name, unit=unit)


def _check_spelling(read: Callable[[Any], object], given: Any) -> Any:
    """Return the given value as written, after ``read`` accepts it."""
    try:
        read(given)
    except CheckError as error:
        raise ValueError(f"must be {error.bound}") from None
    return given


class CustomDataSection(ConfigSection):
    """[data] of the user's own file."""

    path: Text
    client: Text
    row: Text
    target: Text
    features: Annotated[
        dict[str, Annotated[Any, AfterValidator(partial(_check_spelling, parse_feature))]], Field(min_length=1)
    ]
    classes: Annotated[Any, AfterValidator(lambda given: _check_spelling(parse_target, given))] = None
    target_range: Annotated[Any, AfterValidator(lambda given: _check_spelling(partial(parse_target, None), given))] = (
        None
    )
    missing: dict[str, Any] = Field(default_factory=dict)
    test: Text | None = None
    test_share: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    id: Text | None = None
    decimal: str = "."
    public: Flag = False
    withdrawn: Text | None = None

    @model_validator(mode="after")
    def _check_data(self) -> CustomDataSection:
        if (self.test is None) == (self.test_share is None):
            bound = f'given (a public file, or "{NO_TEST}" for no scores), or test_share, and not both'
            raise CheckError("test", bound, "neither" if self.test is None else "both")
        self.to_custom_data(Path(), counts_are_public=False)
        return self

    @property
    def is_public(self) -> bool:
        """Return whether the data are public."""
        return self.public

    def load(self, unit: str, base: Path, *, counts_are_public: bool) -> Dataset:
        """Load the data for a privacy unit; paths are relative to ``base``."""
        return self.to_custom_data(base, counts_are_public=counts_are_public).load(unit)

    def to_custom_data(self, base: Path, *, counts_are_public: bool) -> CustomData:
        """Return the location of the data with the public facts about it."""
        return CustomData(
            base / self.path,
            DataSchema(self.client, self._features(), self.target, self._goal(), self.id),
            row=self.row,
            test=None if self.test in (None, NO_TEST) else base / str(self.test),
            test_share=self.test_share,
            decimal=self.decimal,
            counts_are_public=counts_are_public,
            public=self.public,
        )

    def _features(self) -> dict[str, Feature]:
        for name in self.missing:
            if name not in self.features:
                raise CheckError(f"missing.{name}", "absent, as there is no such feature", repr(self.missing[name]))
        found = {}
        for name, given in self.features.items():
            try:
                found[name] = parse_feature(given, self.missing.get(name))
            except CheckError as error:
                raise CheckError(f"missing.{name}", error.bound, error.value) from None
        return found

    def _goal(self) -> Target:
        return parse_target(self.classes, self.target_range)


@dataclass(frozen=True, slots=True, eq=False)
class WithdrawalList:
    """A file of clients that have withdrawn, one name a line; each call reads it again.

    Attributes:
        file: its path.
        dataset: maps names to places.
    """

    file: Path
    dataset: Dataset

    def __call__(self) -> frozenset[int]:
        """Return the places of these clients; a name that is not in the data is ignored silently.

        Raises:
            CheckError: the file cannot be read.
        """
        try:
            lines = self.file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            raise CheckError("withdrawn", "a file that can be read, one client a line", self.file.name) from None
        return self.dataset.places(line.strip() for line in lines)


def _kind(given: Any) -> str:
    return KINDS_OF_DATA[0 if isinstance(given, dict | BundledDataSection) and "name" in _keys(given) else 1]


def _keys(given: Any) -> Any:
    return given if isinstance(given, dict) else type(given).model_fields


Data = Annotated[
    Annotated[BundledDataSection, Tag(KINDS_OF_DATA[0])] | Annotated[CustomDataSection, Tag(KINDS_OF_DATA[1])],
    Discriminator(_kind),
]

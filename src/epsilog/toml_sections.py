"""The parts of a TOML section, for run configs and for mappings of logs."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from epsilog.terms import CheckError, check

__all__ = [
    "BLANK",
    "LARGEST",
    "Amount",
    "ConfigSection",
    "Flag",
    "Positive",
    "PositiveInteger",
    "Text",
    "decimal_between",
]


class ConfigSection(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


BLANK = "?"
"""The placeholder that `epsilog init` leaves for a value that the user has to supply."""


def _require_text(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a string that is not blank")
    if value.strip() == BLANK:
        raise ValueError("must be filled in")
    return value


_DECIMAL = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,3})?|\.\d+([eE][+-]?\d{1,3})?", re.ASCII)  # as in the ledger


def decimal_between(least: str, below: str) -> BeforeValidator:
    """Return the validator of a decimal string; a TOML number is accepted by its shortest text."""

    def read(value: Any) -> Decimal:
        try:
            text = value if isinstance(value, str) else repr(check.exact("amount", value))
        except CheckError:
            text = ""
        if not (_DECIMAL.fullmatch(text) and Decimal(least) <= Decimal(text) < Decimal(below)):
            raise ValueError(f'must be a decimal number such as "0.5", at least {least} and below {below}')
        return Decimal(text)

    return BeforeValidator(read)


LARGEST = 2**53  # larger whole numbers are not exact in every JSON reader
Text = Annotated[str, AfterValidator(_require_text)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
PositiveInteger = Annotated[int, Field(ge=1, lt=LARGEST, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Amount = Annotated[Decimal, decimal_between("1e-9", "1e9")]

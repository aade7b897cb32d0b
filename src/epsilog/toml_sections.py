"""What the sections of a TOML file are made of: a programme, or a mapping of logs."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = ["BLANK", "LARGEST", "ConfigSection", "Count", "Positive", "Text"]


class ConfigSection(BaseModel):
    """A section: unknown keys are refused, and what was read stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)


BLANK = "?"
"""What `epsilog init` leaves where somebody has to say something."""


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a string that is not blank")
    if value.strip() == BLANK:
        raise ValueError("must be filled in")
    return value


LARGEST = 2**53  # whole numbers above it are not the same in everybody's JSON
Text = Annotated[str, AfterValidator(_not_blank)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, lt=LARGEST, strict=True)]

"""Amounts of a programme file: decimal strings, as the ledger reads them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,3})?|\.\d+([eE][+-]?\d{1,3})?", re.ASCII)  # as the ledger reads them


def decimal(least: str, below: str) -> BeforeValidator:
    """Amounts are decimal strings; a bare TOML number is accepted through its shortest form."""

    def read(value: Any) -> Decimal:
        value = value.item() if isinstance(value, np.generic) else value
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        text = repr(value) if plain else value
        if not (isinstance(text, str) and _NUMBER.fullmatch(text) and Decimal(least) <= Decimal(text) < Decimal(below)):
            raise ValueError(f'must be a decimal number such as "0.5", at least {least} and below {below}')
        return Decimal(text)

    return BeforeValidator(read)


Amount = Annotated[Decimal, decimal("1e-9", "1e9")]

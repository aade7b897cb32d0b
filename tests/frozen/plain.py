"""Values of the program as plain JSON, and what a call answers or refuses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from epsilog.terms import EpsilogError


def plain(value: Any) -> Any:
    """A value as JSON: its own ``to_json`` where it has one, else its fields; no number is rounded."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else float(value).hex()
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    return [plain(each) for each in value]


def told(call: Callable[[], Any]) -> Any:
    """What a call answers, as JSON; a refusal by its class and message, no other error."""
    try:
        return plain(call())
    except (EpsilogError, ValueError) as error:
        return {"error": type(error).__name__, "says": str(error)}

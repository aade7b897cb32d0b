"""A series of numbers of any library as an array of doubles: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from epsilog.terms.check import NUMPY_KINDS, double, format_value
from epsilog.terms.errors import CheckError


def doubles(name: str, values: Any) -> Any:
    """Return an array of doubles that hold each number of a series, in the shape of an array; a list has one axis.

    Raises:
        CheckError: no series, or one with a mask; an item that is no number, or that no double holds.
    """
    import numpy as np

    if isinstance(values, np.ndarray) and type(values) is not np.ndarray:
        raise CheckError(name, "an array of numbers, without a mask or a unit", f"a {type(values).__name__}")
    try:
        table = np.asarray(convert_tensor(values)) if hasattr(values, "__array__") else None
    except Exception:  # noqa: BLE001 - theirs: traced, deleted, without data
        raise CheckError(name, "numbers that can be read now", f"a {type(values).__name__}") from None
    if table is None:
        if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
            raise CheckError(name, "a series, such as a list", format_value(values))
        return np.array([double(f"{name}[{i}]", item) for i, item in enumerate(values)], dtype=np.float64)
    kind, size = table.dtype.kind, table.dtype.itemsize
    if kind in NUMPY_KINDS and not issubclass(table.dtype.type, np.void):
        found = table.astype(np.float64)
        held = size < found.itemsize or (size == found.itemsize and kind == "f")
        if held or not found.size or (kind in "iu" and np.abs(found).max() < 2.0**53):
            return found
    items = [double(f"{name}[{', '.join(map(str, at))}]", table[at]) for at in np.ndindex(table.shape)]
    return np.array(items, dtype=np.float64).reshape(table.shape)


def convert_tensor(values: Any) -> Any:
    """Convert a PyTorch tensor to one that NumPy reads, without rounding; return other values unchanged."""
    if "torch" not in {base.__module__.partition(".")[0] for base in type(values).__mro__}:
        return values
    values = values.detach().cpu()
    return values.double() if values.is_floating_point() else values  # NumPy has no bfloat16

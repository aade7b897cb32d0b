"""Serialize states canonically, and copy states with changed fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from epsilog.ledger.amounts import Amounts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
FOLLOW_UP_VERBS = {
    "later": True
}  # a field that states of the first ledgers did not have: stored once it says something


def serialize_state(state: DataclassInstance) -> str:
    """Return the JSON of a dataclass, equal for equal states, to compare a stored state with a replayed one."""
    read, fields_ = _fields(type(state))
    written = [
        start + _write(value)
        for value, (start, late) in zip(read(state), fields_, strict=True)
        if not (late and value is None)
    ]
    return "{" + ", ".join(written) + "}"


@cache
def _fields(kind: type[DataclassInstance]) -> tuple[Callable[[Any], tuple[Any, ...]], list[tuple[str, bool]]]:
    """Return a reader of all fields in order; and the spelling of each, and whether it is left out while it is None."""
    ordered = sorted(fields(kind), key=attrgetter("name"))
    return attrgetter(*(one.name for one in ordered)), [(f'"{one.name}": ', "later" in one.metadata) for one in ordered]


def _write(value: Any) -> str:
    """Write a value as ``json.dumps`` does with sorted names, in a fourth of the time for the common types."""
    kind = type(value)
    if kind is str or isinstance(value, str):  # of an enum too
        return encode_basestring_ascii(value)
    if value is None or kind is bool:
        return _WORDS[value]
    if kind is int:
        return str(value)
    if kind is dict:
        return (
            "{" + ", ".join([f"{encode_basestring_ascii(name)}: {_write(value[name])}" for name in sorted(value)]) + "}"
        )
    if isinstance(value, Amounts):
        return value.json_text()
    if (written := getattr(value, "to_json", None)) is not None:
        return _write(written())
    return json.dumps(value, sort_keys=True)


_WORDS = {None: "null", True: "true", False: "false"}


def replace_fields(state: T, /, **changes: Any) -> T:
    """Replace fields in a third of the time of ``dataclasses.replace``; all of two or more fields must be arguments."""
    places, read = _parts(type(state))  # type: ignore[arg-type]  # classes are hashable
    values = list(read(state))
    for name, value in changes.items():
        values[places[name]] = value
    return type(state)(*values)


@cache
def _parts(kind: type[Any]) -> tuple[Mapping[str, int], Callable[[Any], tuple[Any, ...]]]:
    """Return the position of each field, and a reader of all of them."""
    names = [one.name for one in fields(kind)]
    return {name: place for place, name in enumerate(names)}, attrgetter(*names)

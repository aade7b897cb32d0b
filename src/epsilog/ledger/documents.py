"""How a state that is kept beside the entries is spelled: equal states alike, so that they can be compared as text."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LATER = {"later": True}  # a field that states of the first ledgers did not have: stored once it says something


def spelled(state: DataclassInstance) -> str:
    """The JSON of a dataclass: one for equal states, so that a stored one can be compared with a refolded one."""
    early, late = _fields(type(state))
    said = {name: getattr(state, name) for name in early}
    return _WRITER.encode(said | {name: value for name in late if (value := getattr(state, name)) is not None})


@cache
def _fields(kind: type[DataclassInstance]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields that are always stored, and of those that are once they say something."""
    late = tuple(one.name for one in fields(kind) if "later" in one.metadata)
    return tuple(one.name for one in fields(kind) if one.name not in late), late


_WRITER = json.JSONEncoder(default=dict, sort_keys=True)  # one for all: to make one costs as much as to use it

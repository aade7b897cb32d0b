"""What a release is, in plain words: sentences of the catalogue, one for each mechanism, with the values of its fields.

A sentence names the fields that it shows. It says nothing of what the release costs.
"""

from __future__ import annotations

import math
from string import Formatter
from typing import Any

from epsilog.mechanisms.base import Release
from epsilog.terms import check, codec
from epsilog.terms.messages import Message, catalogue

__all__ = ["describe_release"]

_DEEPEST = 4  # releases in one another that are described
_MOST = 4  # releases side by side that are described


def describe_release(release: Release) -> Message:
    """Return what a release is, as a noun phrase; parts of a large composition are counted.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> str(describe_release(Repeated(Gaussian(2.0), 10)))
    '10 times a sum with Gaussian noise, of standard deviation 2 times the sensitivity'
    """
    return _describe(codec.encode(check.instance_of(Release)(release=release)), _DEEPEST)


def _describe(term: dict[str, Any], depth: int) -> Message:
    if not depth:
        return Message("release/nested")
    name = f"release/{term['type']}"
    shown = [field for _, field, _, _ in Formatter().parse(catalogue()[name]) if field is not None]
    return Message.of(name, **{field: _read(term[field], depth - 1) for field in shown})


def _read(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _describe(value, depth)
    if not isinstance(value, list):
        return math.inf if value == "inf" else value
    described = [_describe(one, depth) for one in value[:_MOST]]
    return (*described, *([Message.of("release/further", count=len(value) - _MOST)] if value[_MOST:] else []))

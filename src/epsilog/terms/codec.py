"""Terms to JSON and back, and the canonical bytes that are hashed.

A stored document is an envelope ``{"v": 1, "term": {...}}``; inside, every term is an object with its ``type`` and its
fields. Canonical JSON is RFC 8785; a hash is the SHA-256 of those bytes. Version 1 may change until 0.1.0 is tagged.
Tags are never reused and fields never change their meaning: a new meaning is a new tag.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import math
from collections.abc import Callable
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import rfc8785

from epsilog.terms.check import LARGEST_INTEGER, instance_of
from epsilog.terms.disclosed import Private
from epsilog.terms.errors import CheckError, EpsilogError
from epsilog.terms.messages import Message

__all__ = ["from_json", "to_json"]

VERSION = 1
UNREADABLE = (EpsilogError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)

type_of: dict[str, type] = {}
"""Every term by its tag."""

_tag_of: dict[type, str] = {}
K = TypeVar("K", bound=type)
T = TypeVar("T")


def register_term(tag: str) -> Callable[[K], K]:
    """Decorates a frozen dataclass that is stored under ``tag``, as an object of its fields."""

    def keep(kind: K) -> K:
        if tag in type_of:
            raise CheckError("tag", "one that is not taken", repr(tag))
        type_of[tag] = kind
        _tag_of[kind] = tag
        return kind

    return keep


def encode(value: Any) -> Any:
    """Turns a term (or a tuple, an enum, a number, text, None) into plain JSON values; ``inf`` becomes "inf"."""
    if value is None or type(value) in (int, str, bool):  # what most are
        return value
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, Private):
        raise TypeError(f"{type(value).__name__} is private: it has no JSON")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, float):
        return "inf" if value == float("inf") else float(value)
    return value


def plain(value: Any) -> Any:
    """Turns an answer into plain JSON values: by its own ``to_json``, by its fields, or as ``encode`` does a term."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Private) or type(value) in _tag_of or not dataclasses.is_dataclass(value):
        return encode(value)
    return value.to_json() if hasattr(value, "to_json") else plain_fields(value)


def plain_fields(answer: Any) -> dict[str, Any]:
    """Return the fields of an answer as plain JSON values, for its ``to_json``."""
    return {each.name: plain(getattr(answer, each.name)) for each in dataclasses.fields(answer)}


def _fields(term: Any) -> dict[str, Any]:
    tag = _tag_of.get(type(term))
    if tag is None:
        raise CheckError("term", f"one of {', '.join(sorted(type_of))}", repr(term))
    return {"type": tag} | {f.name: encode(getattr(term, f.name)) for f in dataclasses.fields(term)}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decode(data: Any) -> Any:
    """Turns what ``encode`` made back into the term; unknown types, unknown or missing fields are errors."""
    if not isinstance(data, dict):
        raise CheckError("term", "a JSON object", repr(data))
    tag = data.get("type")
    if isinstance(tag, str) and tag not in type_of:
        importlib.import_module("epsilog.schemes")  # mechanisms and schemes register themselves when they are imported
    kind = type_of.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise CheckError("type", f"one of {', '.join(sorted(type_of))}", repr(data.get("type")))
    fields = {f.name: f for f in dataclasses.fields(kind)}
    unknown = set(data) - set(fields) - {"type"}
    required = {
        n for n, f in fields.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if unknown or required - set(data):
        raise ValueError(
            f"{data['type']}: unknown fields {sorted(unknown)}, missing fields {sorted(required - set(data))}"
        )
    return kind(**{name: _restore(data[name], _hints(kind)[name]) for name in fields if name in data})


def _restore(value: Any, hint: Any) -> Any:
    if hint is Message:
        return Message.from_json(value)
    if isinstance(value, dict):
        return decode(value)
    if isinstance(value, list):
        inner = (get_args(hint) or (Any,))[0] if get_origin(hint) is tuple else Any
        if get_args(hint) and get_args(hint)[-1] is not Ellipsis and get_origin(hint) is tuple:
            return tuple(_restore(item, part) for item, part in zip(value, get_args(hint), strict=True))
        return tuple(_restore(item, inner) for item in value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if value == "inf" and hint is not str:
        return float("inf")
    return value


def to_json(term: Any) -> dict[str, Any]:
    """Wraps a term in a versioned envelope."""
    return {"v": VERSION, "term": encode(term)}


def private_json(term: Private) -> dict[str, Any]:
    """``to_json`` of what is private, for a file that only its curator reads."""
    return {"v": VERSION, "term": _fields(term)}


def from_json(document: Any) -> Any:
    """Read a versioned envelope; a version this release does not know is an error."""
    if not isinstance(document, dict) or set(document) != {"v", "term"}:
        raise ValueError('document must be {"v": ..., "term": ...}, got ' + repr(document)[:80])
    if type(document["v"]) is not int or document["v"] != VERSION:
        raise CheckError("v", f"{VERSION}", repr(document["v"]))
    try:
        return decode(document["term"])
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_term(kind: type[T], document: Any, name: str) -> T:
    """Read a versioned envelope of a term of this kind.

    Raises:
        CheckError: it is none; the error begins with ``name``.
    """
    try:
        found: T = instance_of(kind).apply(name, from_json(document))
    except CheckError as error:
        raise error if error.field == name else error.under(name) from None
    except UNREADABLE as error:
        raise CheckError(name, "one that is known here", str(error)[:200]) from None
    return found


def encode_canonical(document: Any) -> bytes:
    """Return the RFC 8785 bytes of plain JSON values."""
    try:
        return _plain(document).encode()
    except (TypeError, RecursionError, UnicodeEncodeError):
        return rfc8785.dumps(document)


def _plain(value: Any) -> str:
    """Return the same of what ledgers are full of, in a fifth of the time; anything else is a ``TypeError``."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is dict:
        return "{" + ",".join([spelled + _plain(value[name]) for name, spelled in _order_names(tuple(value))]) + "}"
    if kind is int and abs(value) <= LARGEST_INTEGER:
        return str(value)
    if value is None or kind is bool:
        return _WORDS[value]
    if kind is list or kind is tuple:
        return "[" + ",".join(map(_plain, value)) + "]"
    if kind is float:
        if 1e-4 <= abs(value) < 1e16 and not value.is_integer():  # where Python writes no exponent: ECMAScript's digits
            return repr(value)
        return rfc8785.dumps(value).decode()
    raise TypeError


@lru_cache(64)
def _order_names(names: tuple[Any, ...]) -> tuple[tuple[str, str], ...]:
    """Return the names of an object in their canonical order, each with its spelling."""
    if not all(type(name) is str and name.isascii() for name in names):  # RFC 8785 orders names by their UTF-16 units
        raise TypeError
    return tuple((name, f"{_quoted(name)}:") for name in sorted(names))


_quoted = json.encoder.encode_basestring  # escapes as RFC 8785 does, 3.2.2.2
_WORDS = {None: "null", True: "true", False: "false"}


def hash_canonical(document: Any) -> str:
    """SHA-256 of the canonical bytes, 64 hex digits."""
    return hashlib.sha256(encode_canonical(document)).hexdigest()


def parse_json(content: bytes) -> Any:
    """Read JSON that can be read in one way only.

    Raises:
        ValueError: not UTF-8, not JSON, nested too deeply, a name twice in one object, NaN or an infinity, or a number
            that a double does not hold.

    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the name 'a' comes twice in one object
    """
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_without_twins,
            parse_constant=_no_number,
            parse_float=_double,
            parse_int=_parse_integer,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise ValueError(f"the name {name[:80]!r} comes twice in one object")
        seen[name] = value
    return seen


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _double(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:80]} is beyond every double")
    return value


def _parse_integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > LARGEST_INTEGER:
        raise ValueError(f"{text[:80]} is beyond the whole numbers that a double holds")
    return int(text)


def quote_toml(text: str) -> str:
    """A text as TOML writes it, between quotes.

    Raises:
        CheckError: no text of Unicode, such as a file's name in another encoding.

    >>> print(quote_toml("a name"))
    "a name"
    """
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise CheckError("text", "of Unicode", ascii(text))
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

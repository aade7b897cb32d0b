"""Messages: identifiers with parameters that are computed, compared, stored and hashed; sentences only when shown.

``en.json`` holds the sentence of each identifier, ``en-hazards.json`` and ``en-ledger.json`` those that no page needs.
A parameter in one has a kind: ``upper`` and ``lower`` are bounds and round outward, ``estimate`` rounds to the nearest,
``exact`` is a number as it is, ``message`` is nested, ``text`` is foreign text and becomes legible. The number after
"@" is the version of a proof: it rises when the proof changes.

>>> curves = Message("method/parts-by-curves@1")
>>> curves.to_json(), str(curves).partition(" (")[0]
('method/parts-by-curves@1', 'privacy profiles of parts without dominating pairs')
>>> Message.of("assumes/group-size", units=3).to_json()
['assumes/group-size', {'units': 3}]
>>> str(Message.read('["method/each-side@1",{"above":"method/renyi@1","below":"method/lattice@1"}]'))[:24]
'upper bound: Renyi DP (M'
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from string import Formatter
from typing import Any, Union

from epsilog.terms.check import Validator, instance_of
from epsilog.terms.errors import CheckError
from epsilog.terms.formatting import count_of_thousand, format_lower, format_upper
from epsilog.terms.legible import legible

__all__ = ["KINDS", "Message", "catalogue", "message", "sentence"]

Parameter = Union[float, int, str, "Message", tuple["Message", ...]]

_FOREIGN = "text"  # the identifier of a foreign sentence
_DEEPEST = 16  # messages in one another
_MAX_LOG = 700.0  # of a factor that is shown

KINDS: Mapping[str, Callable[[Any], str]] = {
    "upper": format_upper,
    "lower": format_lower,
    "percent": lambda share: f"{format_upper(100 * share, 3)}%",
    "per_thousand": lambda share: f"{count_of_thousand(share):,}",
    "factor": lambda log: format_upper(math.exp(log), 3) if log < _MAX_LOG else "more than 1e300",
    "estimate": lambda value: f"{value:.4g}",
    "exact": lambda value: str(value).removesuffix(".0"),
    "count": lambda value: f"{value:,}",
    "message": lambda value: "; ".join(map(str, value)) if isinstance(value, tuple) else f"{value}",
    "text": legible,
}
"""How a parameter of each kind is shown."""


@dataclass(frozen=True, slots=True)
class Message:
    """An identifier of the catalogue with its parameters, or a foreign sentence.

    Attributes:
        id: "what/name", with "@version" for a method.
        params: names and values, in the order of their names.
    """

    id: str
    params: tuple[tuple[str, Parameter], ...] = ()

    def __post_init__(self) -> None:
        expected = _parameters(self.id)
        if expected is None:
            raise CheckError("id", "of a message in the catalogue", repr(self.id)[:80])
        object.__setattr__(self, "params", tuple(sorted(self.params, key=itemgetter(0))))
        if [name for name, _ in self.params] != sorted(expected):
            given = ", ".join(name for name, _ in self.params)
            raise CheckError("params", f"those of {self.id}: {', '.join(sorted(expected)) or 'none'}", given or "none")

    @classmethod
    def of(cls, id: str, **params: Parameter) -> Message:  # noqa: A002 - what it is called everywhere
        """Return the message with an identifier and parameters by name."""
        return cls(id, tuple(params.items()))

    @classmethod
    def read(cls, text: str) -> Message:
        """Return the message with ``code`` equal to ``text``; any other text is a foreign sentence."""
        if text.startswith("["):
            try:
                return cls.from_json(json.loads(text))
            except (ValueError, RecursionError):
                pass
        return cls(text) if _parameters(text) == {} else cls.of(_FOREIGN, says=text)

    @classmethod
    def from_json(cls, value: Any, depth: int = _DEEPEST) -> Message:
        """Return the message that ``to_json`` made plain.

        Raises:
            CheckError: neither text nor an identifier of the catalogue with its parameters.
        """
        match value:
            case str():
                return cls.read(value) if not value.startswith("[") else cls.of(_FOREIGN, says=value)
            case [str(id), dict(params)] if depth and (kinds := _parameters(id)) is not None:
                return cls(id, tuple((name, _parameter(one, kinds.get(name), depth)) for name, one in params.items()))
        raise CheckError("message", "text, or an identifier with parameters", repr(value)[:80])

    def to_json(self) -> Any:
        """Return the identifier, in a list with the parameters if it has some; a foreign sentence as it is."""
        if not self.params:
            return self.id
        if self.id == _FOREIGN:
            return self.params[0][1]
        return [self.id, {name: _plain(value) for name, value in self.params}]

    @property
    def code(self) -> str:
        """Return ``to_json`` as one text, for text fields of documents; ``read`` reads it."""
        plain = self.to_json()
        return plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"), ensure_ascii=False)

    def __str__(self) -> str:
        """Return the sentence, for people."""
        return _SENTENCES.vformat(catalogue()[self.id], (), dict(self.params))


def sentence(document: Any) -> str:
    """Return the sentence of a message in a foreign document; return other values unchanged."""
    try:
        return str(Message.from_json(document))
    except (CheckError, RecursionError):
        return legible(str(document))


def message() -> Validator[Message]:
    """A message; text is read as one."""

    def parse(name: str, value: Any) -> Message:
        if isinstance(value, str) and value.strip():
            return Message.read(value)
        raise CheckError(name, "a message, or text that is not blank", repr(value)[:80])

    return instance_of(Message, parse)


@cache
def catalogue() -> Mapping[str, str]:
    """Return the sentence of each identifier."""
    found: dict[str, str] = {}
    for name in ("en.json", "en-hazards.json", "en-ledger.json"):
        found |= json.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return found


def _parameters(identifier: str) -> Mapping[str, str] | None:
    """Return the parameters of a sentence, each with its kind; None of what is not in the catalogue."""
    found = catalogue().get(identifier)
    return None if found is None else _kinds(found)


@cache  # of sentences of the catalogue only: foreign text is not kept
def _kinds(sentence: str) -> Mapping[str, str]:
    return {name: kind or "" for _, name, kind, _ in Formatter().parse(sentence) if name is not None}


def _parameter(value: Any, kind: str | None, depth: int) -> Parameter:
    if kind == "message":
        if isinstance(value, list) and not (len(value) == 2 and isinstance(value[1], dict)):
            return tuple(Message.from_json(one, depth - 1) for one in value)
        return Message.from_json(value, depth - 1)
    if value == "inf" and kind not in ("text", None):
        return math.inf
    expected = str if kind == "text" else int | float
    if not isinstance(value, expected) or isinstance(value, bool):
        raise CheckError("message", f"with a parameter that is {kind}", repr(value)[:80])
    found: Parameter = value
    return found


def _plain(value: Parameter) -> Any:
    if isinstance(value, tuple):
        return [one.to_json() for one in value]
    if isinstance(value, Message):
        return value.to_json()
    return "inf" if value == math.inf else value


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return KINDS[format_spec](value)


_SENTENCES = _Sentences()

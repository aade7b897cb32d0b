"""A field described once: what it means, its unit and symbol, and its bounds.

The annotation of a field carries the description. Construction checks the value against it; docstring, signature, run
config, command line, API and forms read it.

>>> from epsilog.mechanisms import Gaussian

>>> from epsilog.schemes import ClientLevelCentral
>>> list_fields(ClientLevelCentral)["rounds"].help
'training rounds'
>>> Gaussian(noise_multiplier=-1)
Traceback (most recent call last):
epsilog.terms.errors.CheckError: noise_multiplier must be finite and at least 0, got -1
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin

from epsilog.terms import check, codec
from epsilog.terms.check import DOWN, UP
from epsilog.terms.errors import CheckError

__all__ = [
    "DOWN",
    "REQUIRED",
    "UP",
    "Field",
    "document_fields",
    "field_type",
    "is_flat",
    "is_list",
    "list_fields",
    "parse_fields",
    "term",
    "write_fields",
]

REQUIRED: Any = object()
"""The default of a field that has none."""


@dataclass(frozen=True, slots=True)
class Field:
    """The description of one field.

    Attributes:
        help: what it means, as a phrase.
        symbol: how papers write it; "" if they do not.
        unit: what it is measured in, as "in nats"; "" for a number without a unit.
        ge: the smallest number that is allowed.
        gt: a number that it must be above.
        lt: a number that it must be below.
        le: the largest number that is allowed.
        le_field: the name of another field that it must not exceed; "" for none.
        choices: the words that are allowed, each with what it means.
        default: the value if none is given; ``REQUIRED`` for none. A dataclass states its own.
        none_means: what leaving it out means; "" where it cannot be left out.
        rounding: the side to which a number between two doubles is rounded, ``UP`` or ``DOWN``; None where neither is
            safe, and such a number is refused.
        min_length: the fewest items of a list.
        max_length: the most items of a list, or characters of a text.
        example: what a form holds at first, where there is no default.
    """

    help: str
    symbol: str = ""
    unit: str = ""
    ge: float | None = None
    gt: float | None = None
    lt: float | None = None
    le: float | None = None
    le_field: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    default: Any = REQUIRED
    none_means: str = ""
    rounding: float | None = None
    min_length: int = 0
    max_length: int | None = None
    example: Any = None

    @property
    def bounds(self) -> dict[str, float]:
        """Return the bounds that are stated, by name."""
        named = {"ge": self.ge, "gt": self.gt, "lt": self.lt, "le": self.le}
        return {name: bound for name, bound in named.items() if bound is not None}

    def rule(self, kind: Any, most: float | None = None) -> check.Validator[Any]:
        """Return the rule for a value of ``kind``; ``most`` is the value of the field that it must not be above.

        ``kind`` is a type, one of several, an optional one, or a tuple of any number of one.
        """
        if get_origin(kind) is tuple:
            return self._check_size(check.sequence_of(self.rule(get_args(kind)[0], most)), "items")
        if get_origin(kind) is dict:
            return check.instance_of(dict)
        if get_origin(kind) in (Union, UnionType):
            stated = tuple(part for part in get_args(kind) if part is not NoneType)
            rule = self.rule(stated[0], most) if len(stated) == 1 else check.instance_of(stated)
            return check.optional(rule) if NoneType in get_args(kind) else rule
        if kind is bool:
            return check.boolean()
        if issubclass(kind, Enum):
            return check.enum_member(kind)
        if kind is str:
            return check.one_of(tuple(self.choices)) if self.choices else self._check_size(check.text(), "characters")
        if kind is int:
            least, most = int(self.ge or 0), self.le if most is None else most
            return check.integer(least) if most is None else check.integer(least, int(most))
        if kind is float:
            return check.finite(self.rounding, **self.bounds)
        return check.instance_of(kind, partial(_parse_instance, kind))

    def _check_size(self, rule: check.Validator[Any], of: str) -> check.Validator[Any]:
        """A list of items, or a text, of a length that is allowed."""
        return rule if self.max_length is None else check.with_length(rule, self.min_length, self.max_length, of)


K = TypeVar("K", bound=type[Any])
T = TypeVar("T")


def _list_annotated(kind: Any) -> dict[str, tuple[Any, Field]]:
    """Return each described field of a dataclass with its type."""
    return {name: found for name, found in check.list_annotations(kind).items() if isinstance(found[1], Field)}


def list_fields(kind: type) -> dict[str, Field]:
    """Return the described fields of a dataclass by name, in their order."""
    return {name: one for name, (_, one) in _list_annotated(kind).items()}


def field_type(kind: type, name: str) -> type:
    """Return the type of one value of a described field: of a list that of an item, and without None."""
    return _item_type(_list_annotated(kind)[name][0])


def is_list(kind: type, name: str) -> bool:
    """Return whether a described field holds a list."""
    stated = _list_annotated(kind)[name][0]
    return any(get_origin(part) is tuple for part in (stated, *get_args(stated)))


def is_flat(kind: type) -> bool:
    """Return whether all fields are described, and each holds one number, word or flag."""
    known = _list_annotated(kind)
    one_value = (
        name for name in known if field_type(kind, name) in (bool, float, int, str) and not is_list(kind, name)
    )
    return 0 < len(known) == len(dataclasses.fields(kind)) == len(list(one_value))


def _item_type(kind: Any) -> type:
    if get_origin(kind) is dict:
        return dict
    parts = [part for part in get_args(kind) if part is not NoneType]
    found: type = _item_type(parts[0]) if parts else kind
    return found


def parse_fields(kind: Callable[..., T], document: Any) -> T:
    """Read a dataclass from its described fields by name, as JSON and TOML have them; a part of it likewise.

    Raises:
        CheckError: a field that is unknown, missing or out of bounds.
    """
    known = _list_annotated(kind)
    for name in check.instance_of(Mapping)(document=document):
        check.one_of(tuple(known))(field=name)
    for each in dataclasses.fields(_as_type(kind)):
        if each.name in known and each.name not in document and each.default is dataclasses.MISSING:
            raise CheckError(each.name, "given", "None")
    return kind(**document)


def _parse_instance(kind: type, name: str, value: Any) -> Any:
    """Return an instance of ``kind`` from its described fields by name."""
    if not isinstance(value, Mapping) or not dataclasses.is_dataclass(kind):
        return check.instance_of(kind).apply(name, value)
    try:
        return parse_fields(kind, value)
    except CheckError as error:
        raise error.under(name) from error


def write_fields(instance: Any) -> dict[str, Any]:
    """Write the described fields of a dataclass as plain JSON values, which ``parse_fields`` reads."""
    return {name: _plain(getattr(instance, name)) for name in list_fields(type(instance))}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return write_fields(value) if dataclasses.is_dataclass(value) else value


def document_fields(kind: K) -> K:
    """Write the descriptions of a dataclass's fields into its docstring, and plain types into its signature."""
    fields = _list_annotated(_as_type(kind))
    if kind.__doc__:  # Python may have stripped it
        lines = "\n".join(f"    {name}: {_sentence(one)}." for name, (_, one) in fields.items())
        summary, source, rest = cleandoc(kind.__doc__).partition("\nSource:\n")
        kind.__doc__ = f"{summary.rstrip()}\n\nAttributes:\n{lines}\n" + (
            f"\n{source.lstrip()}{rest}\n" if source else ""
        )
    kind.__init__.__annotations__ |= {name: _type_name(stated) for name, (stated, _) in fields.items()}
    return kind


def _as_type(kind: Any) -> type:
    found: type = kind
    return found


def _sentence(one: Field) -> str:
    more = f", {one.unit}" if one.unit else ""
    return one.help + more + (f"; None: {one.none_means}" if one.none_means else "")


def _type_name(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"tuple[{_type_name(get_args(kind)[0])}, ...]"
    if get_origin(kind) in (Union, UnionType):
        return " | ".join("None" if part is NoneType else _type_name(part) for part in get_args(kind))
    return str(kind.__name__)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def term(tag: str) -> Callable[[K], K]:
    """Decorate a class that is stored under ``tag``: a frozen dataclass of described fields."""

    def make(kind: K) -> K:
        made: Any = dataclass(frozen=True, slots=True)(kind)
        found: K = codec.register_term(tag)(document_fields(made))
        return found

    return make

"""What a strict model refuses, in the voice of ``terms.check``: programme files and API questions speak alike.

pydantic finds all that is wrong with a document at once. Each of its findings becomes the ``CheckError`` that the
library itself would raise: the path of the field, what it must be, and what it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from epsilog.terms import CheckError

__all__ = ["convert_validation_errors"]

_LONGEST = 200  # characters of a value that are repeated
_BRANCH = re.compile(r"(constrained|function|literal)[-\[].*")  # how pydantic names an alternative of a field
_KINDS = {
    "bool": "true or false",
    "dict": "an object",
    "finite_number": "finite",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "missing": "given",
    "model_attributes": "an object",
    "model": "an object",
    "string": "a string",
    "tuple": "a list",
}
_BOUNDS = {
    "enum": "{expected}",
    "extra_forbidden": "absent (an unknown key)",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "of the form {pattern}",
    "string_too_long": "of at most {max_length} characters",
    "too_long": "of at most {max_length} items",
    "too_short": "of at least {min_length} items",
    "union_tag_invalid": "one of {expected_tags}",
}


def convert_validation_errors(
    found: Iterable[Mapping[str, Any]], *, hidden: Collection[str] = ()
) -> tuple[CheckError, ...]:
    """What ``ValidationError.errors()`` found, one for each field.

    Args:
        found: pydantic's findings.
        hidden: steps of a path that a reader does not see, such as the kinds of a tagged union.
    """
    by_field: dict[str, CheckError] = {}
    for error in (_refusal(item, hidden) for item in found):
        before = by_field.get(error.field)
        by_field[error.field] = error if before is None else _either(before, error)
    return tuple(by_field.values())


def _either(one: CheckError, other: CheckError) -> CheckError:
    """A field with alternatives must be one of them."""
    return CheckError(one.field, f"{one.bound}, or {other.bound}", one.value, one.verb)


def _refusal(item: Mapping[str, Any], hidden: Collection[str]) -> CheckError:
    kind, said = str(item["type"]), item.get("ctx", {})
    at = _path([step for step in item["loc"] if step not in hidden and not _BRANCH.fullmatch(str(step))])
    inner = said.get("error")
    if isinstance(inner, CheckError):
        return inner.under(at)
    if kind.startswith("union_tag"):
        at = f"{at}.{said['discriminator'].strip(chr(39))}"
        value = repr(said["tag"]) if "tag" in said else "nothing"
        return CheckError(at, _BOUNDS["union_tag_invalid"].format(**said) if "tag" in said else "given", _short(value))
    value = "nothing" if kind == "missing" else _short(repr(item.get("input")))
    return CheckError(at, _bound(kind, said, str(item["msg"])), value)


def _bound(kind: str, said: Mapping[str, Any], message: str) -> str:
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**{name: _round(value) for name, value in said.items()})
    plain = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    return _KINDS.get(plain) or message.removeprefix("Value error, must be ").removeprefix("Input should be ")


def _round(value: Any) -> Any:
    """1.0 as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _path(steps: Iterable[Any]) -> str:
    """``parts[0].count``, as ``check.each`` names what is inside a series."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

"""Convert errors of pydantic to ``CheckError``, so that run configs and API requests have the errors of the library.

pydantic reports all errors of a document at once. Each becomes the ``CheckError`` that the library would raise, with
the path of the field, its bound and its value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from epsilog.terms import CheckError

__all__ = ["convert_validation_errors"]

_MAX_CHARACTERS = 200  # of a value in an error
_ALTERNATIVE = re.compile(r"(constrained|function|literal)[-\[].*")  # pydantic's name of an alternative of a field
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
    """Return one error per field from ``ValidationError.errors()``.

    Args:
        found: the errors of pydantic.
        hidden: steps of a path that messages omit, such as the tags of a union.
    """
    by_field: dict[str, CheckError] = {}
    for error in (_convert_error(item, hidden) for item in found):
        before = by_field.get(error.field)
        by_field[error.field] = error if before is None else _merge_alternatives(before, error)
    return tuple(by_field.values())


def _merge_alternatives(one: CheckError, other: CheckError) -> CheckError:
    """Merge the errors of two alternatives of a field."""
    return CheckError(one.field, f"{one.bound}, or {other.bound}", one.value, one.verb)


def _convert_error(item: Mapping[str, Any], hidden: Collection[str]) -> CheckError:
    kind, context = str(item["type"]), item.get("ctx", {})
    at = _path([step for step in item["loc"] if step not in hidden and not _ALTERNATIVE.fullmatch(str(step))])
    inner = context.get("error")
    if isinstance(inner, CheckError):
        return inner.under(at)
    if kind.startswith("union_tag"):
        at = f"{at}.{context['discriminator'].strip(chr(39))}"
        value = repr(context["tag"]) if "tag" in context else "nothing"
        return CheckError(
            at, _BOUNDS["union_tag_invalid"].format(**context) if "tag" in context else "given", _shorten(value)
        )
    value = "nothing" if kind == "missing" else _shorten(repr(item.get("input")))
    return CheckError(at, _describe_bound(kind, context, str(item["msg"])), value)


def _describe_bound(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**{name: _round(value) for name, value in context.items()})
    plain = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    return _KINDS.get(plain) or message.removeprefix("Value error, must be ").removeprefix("Input should be ")


def _round(value: Any) -> Any:
    """Return 1.0 as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _path(steps: Iterable[Any]) -> str:
    """Return a path such as ``parts[0].count``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."

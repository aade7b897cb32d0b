"""Accept only lazy frames that no value can make fail.

A step that fails for the value of one person, such as a strict cast, reveals that value, and no charge covers it. So
the plan is read before the charge. Accepted steps look at each row alone, and give null instead of failing. Every other
step is refused by name.

Source: the plan that polars shows to engines (``LazyFrame._ldf.visit``). Unknown steps are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from epsilog.terms import CheckError

__all__ = ["require_total"]

_NODES = frozenset({"Cache", "DataFrameScan", "Filter", "HStack", "Select", "SimpleProjection", "Union"})
_NUMBERS = frozenset(
    {*(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "Float32", "Float64", "Boolean"}
)
_COMPARED = _NUMBERS | {"Null", "String", "Date", "Time", "Datetime", "Duration"}
_ARITHMETIC = frozenset({"Plus", "Minus", "Multiply", "TrueDivide", "FloorDivide", "Modulus"})  # none fails; some wrap
_COMPARISONS = frozenset(
    {"Eq", "EqValidity", "NotEq", "NotEqValidity", "Lt", "LtEq", "Gt", "GtEq", "And", "Or", "Xor", "LogicalAnd"}
    | {"LogicalOr"}
)
_FUNCTIONS = frozenset(
    {
        *("fill_null", "coalesce", "abs", "floor", "ceil"),
        *(f"BooleanFunction.{name}" for name in ("IsNull", "IsNotNull", "IsNan", "IsNotNan", "IsFinite", "IsInfinite")),
        *(f"BooleanFunction.{name}" for name in ("IsIn", "IsBetween", "Not")),
        *(f"StringFunction.{name}" for name in ("Lowercase", "Uppercase", "LenBytes", "LenChars", "StripChars")),
        *(f"StringFunction.{name}" for name in ("StartsWith", "EndsWith", "Contains", "Strptime")),
        *(f"TemporalFunction.{name}" for name in ("Year", "Month", "Day")),
    }
)


class _RefusedError(Exception):
    """A step is not accepted."""


def require_total(frame: Any) -> None:
    """Require a plan that no value can make fail and that mixes no rows; read no value.

    Args:
        frame: a lazy frame of polars.

    Raises:
        CheckError: the plan has another step, which the error names.
    """
    try:
        plan = frame._ldf.visit()
        for step in _steps(plan):
            _require_step(plan, step)
    except _RefusedError as refused:
        given = str(refused)
    except Exception:  # noqa: BLE001 - polars does not show the plan (a user's function) or shows it in another form
        given = "one that polars does not show"
    else:
        return
    bound = (
        "a lazy frame with steps that cannot fail because of a value and look at each row by itself "
        "(cast(..., strict=False) for a cast; epsilog.queries.scan_file for a CSV file), or a frame in memory"
    )
    raise CheckError("frame", bound, f"a step that is not: {given}")


def _steps(plan: Any) -> Iterator[Any]:
    """Yield every node of a plan, from the last one on, with the plan positioned at it."""
    waiting = [plan.get_node()]
    while waiting:
        place = waiting.pop()
        plan.set_node(place)
        inputs = list(plan.get_inputs())
        yield plan.view_current_node()
        waiting += inputs


def _require_step(plan: Any, step: Any) -> None:
    name = type(step).__name__
    if name == "Scan":
        _require_file(plan, step)
    elif name not in _NODES:
        raise _RefusedError(name)
    if name == "Union" and step.slice is not None:
        raise _RefusedError("Slice")
    listed = [*(getattr(step, "exprs", None) or ()), *(getattr(step, "expr", None) or ())]
    inputs = list(plan.get_inputs())
    if inputs and name != "Union":
        plan.set_node(inputs[0])  # expressions refer to the input
    for each in (*listed, getattr(step, "predicate", None), getattr(step, "selection", None)):
        if each is not None:
            _require_expression(plan, each.node)


def _require_file(plan: Any, step: Any) -> None:
    """Accept a file with types, or a CSV file without quotes in which all columns are text."""
    kind = step.scan_type[0]
    if kind in ("parquet", "ipc"):
        return
    if kind == "csv":
        stated = json.loads(step.scan_type[1])
        parsed = stated["parse_options"]
        texts = all(str(each) == "String" for each in plan.get_schema().values())
        lossy = parsed["encoding"] == "LossyUtf8" and parsed["truncate_ragged_lines"] and not stated["fields_to_cast"]
        if texts and lossy and parsed["quote_char"] is None and stated["infer_schema_length"] == 0:
            return
    raise _RefusedError(f"a scan of {kind}")


def _require_expression(plan: Any, place: int) -> None:
    one = plan.view_expression(place)
    name = type(one).__name__
    match name:
        case "Column":
            return
        case "Literal":
            if hasattr(one.value, "dtype") or type(one.value).__name__ == "PySeries":
                raise _RefusedError("a series in an expression")
            return
        case "Alias" | "Cast":
            inner = [one.expr]
            if name == "Cast":
                _require_cast(one, _get_type_name(plan, one.expr))
        case "BinaryExpr":
            inner = [one.left, one.right]
            _require_operator(
                _name_step(one.op).removeprefix("Operator."), {_get_type_name(plan, each) for each in inner}
            )
        case "Ternary":
            inner = [one.predicate, one.truthy, one.falsy]
        case "Function":
            inner = list(one.input)
            _require_function(plan, one)
        case _:
            raise _RefusedError(name)
    for each in inner:
        _require_expression(plan, each)


def _require_cast(one: Any, kind: str) -> None:
    """Accept casts between numbers and text that give null instead of failing; a date may fail as text."""
    target = str(one.dtype)
    if one.options != 1:
        raise _RefusedError("a strict cast")
    if not {kind, target} <= _NUMBERS | {"String", "Null"}:
        raise _RefusedError(f"a cast from {kind} to {target}")


def _require_operator(name: str, kinds: set[str]) -> None:
    allowed = _NUMBERS if name in _ARITHMETIC else _COMPARED if name in _COMPARISONS else frozenset()
    if not kinds <= allowed:
        raise _RefusedError(f"{name} of {' and '.join(sorted(kinds))}")


def _require_function(plan: Any, one: Any) -> None:
    name, *options = one.function_data
    name = _name_step(name)
    if name not in _FUNCTIONS:
        raise _RefusedError(name)
    rest = [plan.view_expression(each) for each in one.input[1:]]
    kinds = {_get_type_name(plan, each) for each in one.input}
    if name == "StringFunction.Strptime" and (options[0] is None or options[1]):
        raise _RefusedError("a date read without a format, or strictly")
    if name.startswith("StringFunction.") and any(type(each).__name__ != "Literal" for each in rest):
        raise _RefusedError(f"{name} with more than constants")
    if name == "BooleanFunction.IsIn":
        if type(rest[0]).__name__ != "Literal":
            raise _RefusedError(f"{name} with more than constants")
        kinds = {_get_type_name(plan, one.input[0])}
    if not kinds <= _COMPARED:
        raise _RefusedError(f"{name} of {' and '.join(sorted(kinds))}")


def _name_step(one: Any) -> str:
    return one if isinstance(one, str) else repr(one)


def _get_type_name(plan: Any, place: int) -> str:
    """Return the name of an expression's type without its unit; with a time zone, so that it is not accepted."""
    kind = plan.get_dtype(place)
    if getattr(kind, "time_zone", None) is not None:
        return str(kind)
    return str(kind).partition("(")[0]

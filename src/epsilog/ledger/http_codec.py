"""How what a ledger says and refuses travels between a server and a client: the same classes, with the same fields.

A refusal is a problem document (RFC 9457); its ``code`` names its class. A problem with an unknown code stays readable
in ``detail``, and raises ``EpsilogError`` in the client.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from epsilog.ledger.amounts import Number
from epsilog.ledger.commands.base import BUDGET, CHARGE, Command
from epsilog.ledger.cost import Cost
from epsilog.ledger.execute import Done
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    PermissionDeniedError,
    StorageError,
    UnsupportedMechanismError,
)
from epsilog.terms.codec import UNREADABLE, decode, encode
from epsilog.terms.messages import Message

PREFIX = "/api/v1/ledger"

_WORDS: dict[str, type[Exception]] = {  # failures that are all in their words
    "conflict": ConflictError,
    "access": PermissionDeniedError,
    "unanswered": OutcomeUnknownError,
    "storage": StorageError,
    "value": ValueError,
    "failed": EpsilogError,
}


def error_to_json(error: Exception) -> dict[str, Any]:
    """Return the members of a problem document that a client raises the same error from."""
    match error:
        case CheckError():
            return {"code": "check", "check": [error.field, error.bound, error.value[:1000], error.verb]}
        case BatchRefusedError():
            return {"code": "batch-refused", "index": error.index, "key": error.key} | {
                "refusal": error_to_json(error.refusal)
            }
        case BudgetExceededError():
            return {"code": "budget-exceeded", "refusal": error.to_json()}
        case LedgerIntegrityError():
            message = str(error).removeprefix(f"entry {error.index}: ")
            return {"code": "integrity", "message": message, "index": error.index}
        case UnsupportedMechanismError():
            return {"code": "unsupported", "method": error.method, "reason": error.reason} | _term(error.term)
    code = next((code for code, kind in _WORDS.items() if isinstance(error, kind)), None)
    return {} if code is None else {"code": code, "message": str(error)[:5000]}


def _term(term: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(term) and not isinstance(term, type):
        try:
            return {"term": encode(term)}
        except UNREADABLE:
            pass
    return {"term": repr(term)[:1000]}


def error_from_json(problem: Mapping[str, Any]) -> Exception:
    """Return the error of a problem document."""
    detail = str(problem.get("detail") or problem.get("title") or "the server refuses")
    try:
        return _RAISED[str(problem.get("code"))](problem)
    except (*UNREADABLE, IndexError):
        return EpsilogError(detail)


def _read_unsupported(problem: Mapping[str, Any]) -> Exception:
    term, method, reason = problem["term"], str(problem["method"]), str(problem["reason"])
    return UnsupportedMechanismError(decode(term) if isinstance(term, dict) else term, method=method, reason=reason)


def _read_words(kind: type[Exception]) -> Callable[[Mapping[str, Any]], Exception]:
    return lambda problem: kind(str(problem["message"]))


_RAISED: dict[str, Callable[[Mapping[str, Any]], Exception]] = {
    "check": lambda problem: CheckError(*map(str, problem["check"])),
    "batch-refused": lambda problem: BatchRefusedError(
        int(problem["index"]), str(problem["key"]), error_from_json(problem["refusal"])
    ),
    "budget-exceeded": lambda problem: BudgetExceededError(
        **dict(problem["refusal"]) | {"owners": tuple(problem["refusal"]["owners"])}
    ),
    "integrity": lambda problem: LedgerIntegrityError(str(problem["message"]), index=problem["index"]),
    "unsupported": _read_unsupported,
} | {code: _read_words(kind) for code, kind in _WORDS.items()}
TRANSMITTED_ERRORS = frozenset(_RAISED)


def done_to_json(command: Command, done: Done) -> dict[str, Any]:
    """Return what a server answers to a command: where things stand afterwards."""
    if command.subject == BUDGET and done.balance is not None:
        return {"budget": json.loads(done.balance.document())}
    if done.reserved is not None:
        entry = done.reserved
        amounts = {kind: dict(amount) for kind, amount in entry.amounts.items()}
        document = {"key": entry.key, "scope": entry.scope, "amounts": amounts}
        return document | {"replayed": done.replayed, "entry": done.document or entry.document()}
    if command.subject == CHARGE and done.charge is not None:
        return {"charge": json.loads(done.charge.document())}
    return {"accepted": done.accepted}


def cost_to_json(cost: Cost) -> dict[str, Any]:
    """Return a cost as plain JSON values, to the last bit."""
    return {"values": {name: _write_number(value) for name, value in cost.values.items()}, "method": cost.method.code}


def cost_from_json(data: Mapping[str, Any]) -> Cost:
    """Return the cost that ``cost_to_json`` wrote.

    >>> values = {"epsilon": math.inf, "rho": Fraction(1, 3), "delta": "1e-6"}
    >>> cost_from_json(cost_to_json(Cost(values, Message("method/stated-cost@1")))).values
    {'epsilon': inf, 'rho': Fraction(1, 3), 'delta': '1e-6'}
    """
    values = {name: _read_number(value) for name, value in data["values"].items()}
    return Cost(values, Message.read(data["method"]))


def _write_number(value: Number) -> float | str:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else "inf"


def _read_number(value: float | str) -> Number:
    if not isinstance(value, str):
        return value
    return Fraction(value) if "/" in value else math.inf if value == "inf" else value

"""Every error as an RFC 9457 problem document, which names the field, its bound and the value that was given."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from epsilog.ledger.http_codec import error_to_json
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CalibrationError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    PermissionDeniedError,
    StorageError,
    UnsupportedMechanismError,
)
from epsilog.validation_errors import convert_validation_errors

JSON = "application/problem+json"
FAILURE = "epsilog.failure"  # the key of an error's class in an ASGI scope
_MAX_VALUE_LENGTH = 200  # characters of a given value that are repeated
_MAX_DETAIL_LENGTH = 500


class _Problem(NamedTuple):
    """The response to an error class: status, type, title, and a detail that replaces the error's own text."""

    status: int
    kind: str
    title: str
    detail: str | None = None


_PROBLEMS: dict[type[Exception], _Problem] = {
    ValueError: _Problem(422, "invalid-input", "Invalid value"),
    ArithmeticError: _Problem(
        422, "out-of-reach", "Values too extreme", "Double precision cannot bound the result for these values."
    ),
    UnsupportedMechanismError: _Problem(422, "unsupported", "Unsupported"),
    CalibrationError: _Problem(422, "no-answer", "Calibration failed"),
    PermissionDeniedError: _Problem(403, "forbidden", "Permission denied"),
    BatchRefusedError: _Problem(409, "batch-refused", "Batch of charges refused"),
    BudgetExceededError: _Problem(409, "budget-exceeded", "Budget exceeded"),
    ConflictError: _Problem(409, "conflict", "Conflict with the ledger"),
    LedgerIntegrityError: _Problem(500, "integrity", "Ledger integrity error"),
    StorageError: _Problem(503, "storage", "Ledger unavailable"),
    EpsilogError: _Problem(422, "refused", "Request refused"),
    Exception: _Problem(500, "internal", "Internal error", "The server failed; see its log. No result was computed."),
}


class ProblemError(EpsilogError):
    """An error with a finished problem document."""

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__(str(json.loads(bytes(response.body)).get("detail")))


def make_problem_response(
    status: int,
    kind: str,
    title: str,
    detail: str,
    errors: list[dict[str, Any]] | None = None,
    *,
    more: Mapping[str, Any] | None = None,
    retry_after: float | None = None,
) -> JSONResponse:
    """Return a problem document as a response; ``more`` are members that clients of the ledger read."""
    body: dict[str, Any] = {"type": f"/problems/{kind}", "title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = errors
    headers = None if retry_after is None else {"Retry-After": str(math.ceil(retry_after))}
    return JSONResponse(body | dict(more or {"code": kind}), status, headers, media_type=JSON)


def too_many_requests(wait: float) -> Response:
    """Return a refusal until ``wait`` seconds have passed."""
    detail = "Retry after the time in the Retry-After header."
    return make_problem_response(429, "too-often", "Too many requests", detail, retry_after=wait)


def map_error_to_problem(error: Exception) -> Response:
    """Return the problem document of an error: that of the nearest class which has one."""
    if isinstance(error, ProblemError):
        return error.response
    if isinstance(error, RequestValidationError):
        return _make_shape_problem(error)
    if isinstance(error, HTTPException):
        return make_problem_response(error.status_code, "http", str(error.detail), str(error.detail))
    found = next(_PROBLEMS[kind] for kind in type(error).__mro__ if issubclass(kind, Exception) and kind in _PROBLEMS)
    longest = (
        4 * _MAX_DETAIL_LENGTH if isinstance(error, BudgetExceededError | BatchRefusedError) else _MAX_DETAIL_LENGTH
    )
    text = shorten_unsupported(error) if isinstance(error, UnsupportedMechanismError) else str(error)[:longest]
    errors = None
    if found is _PROBLEMS[ValueError]:  # a form marks the field; a rule on several fields names none
        member = error.to_json() if isinstance(error, CheckError) else {"field": None, "message": str(error)}
        errors = [_shorten(member)]
    more = None if isinstance(error, CalibrationError) else error_to_json(error)
    return make_problem_response(found.status, found.kind, found.title, found.detail or text, errors, more=more)


def _make_shape_problem(error: RequestValidationError) -> Response:
    """Return the errors of a strict model as ``terms.check`` states them."""
    found = [item | {"loc": item["loc"][1:]} for item in error.errors()[:50]]  # the first step is "body" or "query"
    if any(item["type"] == "json_invalid" for item in found):
        detail = f"Invalid JSON: {found[0]['ctx']['error']}"
        return make_problem_response(422, "invalid-input", "Invalid JSON", detail)
    wrong = convert_validation_errors(found)
    errors = [_shorten(each.to_json() | {"field": each.field or None}) for each in wrong]
    detail = "; ".join(str(each) if each.field else f"the body {each.requirement}" for each in wrong)
    return make_problem_response(
        422,
        "invalid-input",
        "Invalid request body",
        detail[:_MAX_DETAIL_LENGTH],
        errors,
        more=error_to_json(wrong[0]),
    )


def _shorten(member: dict[str, Any]) -> dict[str, Any]:
    return {name: text[:_MAX_VALUE_LENGTH] if isinstance(text, str) else text for name, text in member.items()}


def shorten_unsupported(error: UnsupportedMechanismError) -> str:
    """Return which method has no proof for which mechanism, in a short sentence."""
    reason = f": {error.reason}" if error.reason else ""
    kind = type(error.term).__name__
    return f"{error.method} has no proven bound for {kind}{reason}. epsilog does not substitute an approximation."


def install_error_handlers(app: FastAPI) -> None:
    """Give every error of ``app`` a problem document."""

    def respond(request: Request, error: Exception) -> Response:
        request.scope[FAILURE] = type(error).__name__
        return map_error_to_problem(error)

    for kind in (*_PROBLEMS, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, respond)

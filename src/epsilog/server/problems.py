"""Errors as RFC 9457 problem documents that name the field, its bound and the value that was given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from epsilog.ledger import error_to_json
from epsilog.terms import (
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

_LONGEST = 200  # characters of a given value that are echoed

JSON = "application/problem+json"
FAILURE = "epsilog.failure"  # where the class of what was raised is noted, in an ASGI scope


class ProblemError(EpsilogError):
    """A refusal that is a problem document already."""

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
) -> JSONResponse:
    """One problem document as a response; ``more`` are members that clients of the ledger read."""
    body: dict[str, Any] = {"type": f"/problems/{kind}", "title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = errors
    body |= more or {"code": kind}
    return JSONResponse(body, status_code=status, media_type=JSON)


def _bad_value(error: Exception) -> JSONResponse:
    """What a form marks; a rule that joins several fields belongs to none, and says so in words."""
    told = error.to_json() if isinstance(error, CheckError) else {"field": None, "message": str(error)[:_LONGEST]}
    return make_problem_response(
        422,
        "invalid-input",
        "A value is out of its bounds",
        str(error)[:500],
        [_short(told)],
        more=error_to_json(error),
    )


def _bad_request(error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [item | {"loc": item["loc"][1:]} for item in error.errors()[:50]]  # the first step is "body" or "query"
    if any(item["type"] == "json_invalid" for item in found):
        return make_problem_response(
            422, "invalid-input", "The body is not JSON", f"It cannot be read: {found[0]['ctx']['error']}"
        )
    wrong = convert_validation_errors(found)
    errors = [_short(each.to_json() | {"field": each.field or None}) for each in wrong]
    detail = "; ".join(str(each) if each.field else f"the body {each.requirement}" for each in wrong)
    return make_problem_response(
        422, "invalid-input", "A value has the wrong shape", detail[:500], errors, more=error_to_json(wrong[0])
    )


def _short(told: dict[str, Any]) -> dict[str, Any]:
    return {name: text[:_LONGEST] if isinstance(text, str) else text for name, text in told.items()}


def _unsupported_response(error: Exception) -> JSONResponse:
    assert isinstance(error, UnsupportedMechanismError)
    return make_problem_response(
        422, "unsupported", "No proof covers this", shorten_unsupported(error), more=error_to_json(error)
    )


def shorten_unsupported(error: UnsupportedMechanismError) -> str:
    """Which method has no proof for what, in words short enough for a page."""
    reason = f": {error.reason}" if error.reason else ""
    kind = type(error.term).__name__
    return f"{error.method} has no proven bound for {kind}{reason}. No nearby formula is used instead."


def _no_answer(error: Exception) -> JSONResponse:
    return make_problem_response(422, "no-answer", "No value meets the goal", str(error)[:500])


def _out_of_reach(error: Exception) -> JSONResponse:  # noqa: ARG001
    detail = "These values are beyond what double precision can bound; nothing is claimed for them."
    return make_problem_response(422, "out-of-reach", "Too extreme to compute", detail)


def _refused_response(error: Exception) -> JSONResponse:
    return make_problem_response(422, "refused", "The library refuses", str(error)[:500], more=error_to_json(error))


def _conflict(error: Exception) -> JSONResponse:
    return make_problem_response(
        409, "conflict", "The ledger stands otherwise", str(error)[:500], more=error_to_json(error)
    )


def _exceeded_response(error: Exception) -> JSONResponse:
    return make_problem_response(
        409, "budget-exceeded", "A budget cannot bear it", str(error)[:2000], more=error_to_json(error)
    )


def _broken_response(error: Exception) -> JSONResponse:
    return make_problem_response(
        500, "integrity", "The ledger does not hold", str(error)[:500], more=error_to_json(error)
    )


def _unusable(error: Exception) -> JSONResponse:
    return make_problem_response(
        503, "storage", "The ledger cannot be used now", str(error)[:500], more=error_to_json(error)
    )


def _finished_response(error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.response


def _forbidden(error: Exception) -> JSONResponse:
    return make_problem_response(403, "forbidden", "Not allowed", str(error)[:500], more=error_to_json(error))


def _http(error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return make_problem_response(error.status_code, "http", str(error.detail), str(error.detail))


def _unexpected_response(error: Exception) -> JSONResponse:  # noqa: ARG001
    return make_problem_response(
        500, "internal", "An error of ours", "The server failed; its log says how. No number was computed."
    )


_HANDLERS: dict[type[Exception], Callable[[Exception], Response]] = {
    ValueError: _bad_value,
    ArithmeticError: _out_of_reach,
    RequestValidationError: _bad_request,
    UnsupportedMechanismError: _unsupported_response,
    CalibrationError: _no_answer,
    PermissionDeniedError: _forbidden,
    BudgetExceededError: _exceeded_response,
    ConflictError: _conflict,
    LedgerIntegrityError: _broken_response,
    StorageError: _unusable,
    ProblemError: _finished_response,
    EpsilogError: _refused_response,
    HTTPException: _http,
    Exception: _unexpected_response,
}


def map_error_to_problem(error: Exception) -> Response:
    """The problem document of a failure: that of the nearest class which has one."""
    return next(_HANDLERS[kind] for kind in type(error).__mro__ if issubclass(kind, Exception) and kind in _HANDLERS)(
        error
    )


def install_error_handlers(app: FastAPI) -> None:
    """Gives every failure of ``app`` a problem document."""

    def respond(request: Request, error: Exception) -> Response:
        request.scope[FAILURE] = type(error).__name__
        return map_error_to_problem(error)

    for kind in _HANDLERS:
        app.add_exception_handler(kind, respond)


def too_many_requests(wait: float) -> Response:
    """A refusal for so many seconds."""
    refusal = make_problem_response(429, "too-often", "Too often", "Ask again after the seconds that Retry-After says.")
    refusal.headers["Retry-After"] = str(math.ceil(wait))
    return refusal

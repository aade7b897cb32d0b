"""Routes of questions that cost work and change nothing: strict JSON in, plain JSON out, answered by the worker pool.

The calculators' questions are described in ``epsilog.plan``; route, strict model and description are derived from that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields as fields_of, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from epsilog import reports
from epsilog.plan import QUESTIONS, Question
from epsilog.server import responses
from epsilog.server.middleware import get_client_address
from epsilog.server.responses import ResponseModel
from epsilog.terms import CheckError, fields

PREFIX = "/api/v1"
LONG = 5.0  # seconds of work of a question that only goes to the processes for long ones
Relation = Literal["add-or-remove-one", "replace-one", "zero-out"]
Answer = Callable[[Any], dict[str, Any]]


class RequestModel(BaseModel):
    """Unknown fields, NaN and text for numbers are errors; the library enforces bounds, and its errors name fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


@dataclass(frozen=True, slots=True)
class Route:
    """One path that a question is posted to."""

    path: str  # below ``PREFIX``; also the question's name between processes
    summary: str
    request: type[RequestModel]
    response: type[ResponseModel]
    answer: Answer
    work: Callable[[Any], float]  # a rough bound on the CPU seconds of the answer
    description: str | None = None


class Routes:
    """The question routes of one part of the API, by path."""

    def __init__(self, tag: str, *found: Route) -> None:
        self.by_path = {route.path: route for route in found}
        self._tag = tag

    def add(
        self, path: str, response: type[ResponseModel], *, summary: str, work: float = LONG
    ) -> Callable[[Answer], Answer]:
        """Decorate the function that answers; the type of its first argument gives the body."""

        def register(answer: Answer) -> Answer:
            kind = get_type_hints(answer)[next(iter(inspect.signature(answer).parameters))]
            model, compute = kind, answer
            if issubclass(kind, Question):
                model, compute = build_request_model(kind), lambda ask: answer(kind.parse(ask.model_dump()))
            self.by_path[path] = Route(path, summary, model, response, compute, lambda _: work, inspect.getdoc(answer))
            return answer

        return register

    def router(self) -> APIRouter:
        """Return the routes for an application; its worker pool does the work."""
        router = APIRouter(tags=[self._tag])
        for route in self.by_path.values():
            router.add_api_route(
                route.path,
                _make_endpoint(route),
                methods=["POST"],
                summary=route.summary,
                description=route.description,
                response_model=None,
                responses={200: {"model": route.response}},
            )
        return router


def _make_endpoint(route: Route) -> Callable[..., Any]:
    async def endpoint(ask: RequestModel, request: Request) -> Response:
        client = get_client_address(request.scope, trust_proxy=request.app.state.access.trust_proxy)
        response: Response = await request.app.state.workers.answer(route, ask, client=client)
        return response

    endpoint.__name__ = route.path.strip("/").replace("/", "_")
    endpoint.__annotations__ = {"ask": route.request, "request": Request, "return": Response}
    return endpoint


def build_request_model(kind: type[Any]) -> type[RequestModel]:
    """Return the strict model of described fields: shapes and types; the fields themselves hold the bounds."""
    described: Any = kind.body if issubclass(kind, Question) else kind
    return _model(described)


@cache
def _model(kind: Any) -> type[RequestModel]:
    hints, defaults = get_type_hints(kind), {each.name: each.default for each in fields_of(kind)}
    members: dict[str, Any] = {
        name: (_shape(hints[name], one), _describe_field(one, ... if defaults[name] is MISSING else defaults[name]))
        for name, one in fields.list_fields(kind).items()
    }
    name = kind.schema if issubclass(kind, Question) else kind.__name__
    doc = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    model: type[RequestModel] = create_model(name, __base__=RequestModel, __doc__=doc, **members)
    return model


def _shape(kind: Any, one: fields.Field) -> Any:
    """Return a field's type, as strict JSON has it."""
    parts = get_args(kind)
    if type(None) in parts:
        return _shape(parts[0], one) | None
    if get_origin(kind) is tuple:
        return Annotated[
            list[_shape(parts[0], one)],  # type: ignore[misc]
            Field(min_length=one.min_length or None, max_length=one.max_length),
        ]
    if get_origin(kind) is dict:
        return kind
    if is_dataclass(kind):
        return _model(kind)  # type: ignore[arg-type]
    if issubclass(kind, Enum):
        return Literal[tuple(each.value for each in kind)]
    if kind is str and one.choices:
        return Literal[tuple(one.choices)]
    return Annotated[str, Field(max_length=one.max_length)] if kind is str and one.max_length else kind


def _describe_field(one: fields.Field, default: Any) -> Any:
    """Return a field for a description: its words and bounds; the library enforces them."""
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "le": "maximum"}
    more: dict[str, Any] = {
        **{names[name]: bound for name, bound in one.bounds.items()},
        **({"x-symbol": one.symbol} if one.symbol else {}),
        **({"x-at-most": one.le_field} if one.le_field else {}),
        **({"x-blank": one.none_means} if one.none_means else {}),
        **({"x-choices": dict(one.choices)} if one.choices else {}),
    }
    examples = None if one.example is None else [one.example]
    initial = default.value if isinstance(default, Enum) else default
    return Field(initial, description=one.help, examples=examples, json_schema_extra=more)


class FileReferenceModel(RequestModel):
    """A file that a calculation refers to, by its hash."""

    what: Literal["model", "data", "playbook", "other"]
    name: Annotated[str, Field(description="the owner's name for the file; not a path", max_length=120)]
    sha256: Annotated[str, Field(description="SHA-256 of its bytes, 64 hex digits", max_length=64)]


class OwnerFields(RequestModel):
    """What the owner of a calculation says in its record; no number is read from it."""

    delta_reason: Annotated[str | None, Field(description="the reason for this delta", max_length=1000)] = None
    references: Annotated[list[FileReferenceModel], Field(max_length=20)] = []


def _make_question_route(kind: type[Question]) -> Route:
    """The route of a question of ``plan``."""
    summary = (inspect.getdoc(kind) or "").partition("\n")[0].removesuffix(".")
    response = responses.build_response_model(kind.answer)

    def call(method: str) -> Callable[[Any], Any]:
        return lambda ask: getattr(kind.parse(ask.model_dump()), method)()

    description = inspect.getdoc(kind.answer)
    return Route(kind.path, summary, build_request_model(kind), response, call("answer"), call("work"), description)


def _make_record_route(path: str, summary: str) -> Route:
    """The question, its answer and the owner's fields, with the SHA-256 of their canonical JSON (RFC 8785)."""
    kind = QUESTIONS[path]
    base = build_request_model(kind)
    doc = f"{(base.__doc__ or '').rstrip('.')}, with what its owner says in the record."
    name = f"{base.__name__.removesuffix('Request')}RecordRequest"
    model = create_model(name, __base__=(base, OwnerFields), __doc__=doc)

    def parse(ask: Any) -> Question:
        return kind.parse(ask.model_dump(exclude=set(OwnerFields.model_fields)))

    def answer(ask: Any) -> dict[str, Any]:
        references = []
        for i, one in enumerate(ask.references):
            try:
                references.append(reports.FileReference(**one.model_dump()))
            except CheckError as error:
                raise error.under(f"references[{i}]") from error
        return reports.stamp_calculation(parse(ask), delta_reason=ask.delta_reason, references=references)

    response, description = responses.StampedCalculationModel, _make_record_route.__doc__
    return Route(f"{path}/record", summary, model, response, answer, lambda ask: parse(ask).work(), description)


_QUESTION_ROUTES = [_make_question_route(kind) for kind in QUESTIONS.values()]
playground = Routes("playground", *(one for one in _QUESTION_ROUTES if one.path.startswith("/account")))
calculators = Routes(
    "calculators",
    *(one for one in _QUESTION_ROUTES if not one.path.startswith("/account")),
    _make_record_route("/federated", "Stamp a calculation"),
    _make_record_route("/queries", "Stamp a query plan"),
)

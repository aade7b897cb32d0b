"""Addresses of questions that cost work and change nothing: strict JSON in, plain JSON out, answered elsewhere.

What a calculator is asked is described in ``plan``; its strict model is derived from that description here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, is_dataclass
from dataclasses import fields as fields_of
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, create_model

from epsilog.plan import Question
from epsilog.server.answers import ResponseModel
from epsilog.server.asks import RequestModel
from epsilog.server.peers import get_client_address
from epsilog.terms import fields

PREFIX = "/api/v1"
LONG = 5.0  # seconds of work of a question that only goes to the processes for long ones


@dataclass(frozen=True, slots=True)
class Route:
    """One address to post a question to.

    Attributes:
        path: below ``PREFIX``; also its name between processes.
        summary: a line for the API's description.
        model: what is asked.
        answers: what is answered.
        answer: works it out.
        work: CPU seconds that it takes at most, about.
        says: more about the answer.
    """

    path: str
    summary: str
    model: type[RequestModel]
    answers: type[ResponseModel]
    answer: Callable[[Any], dict[str, Any]]
    work: Callable[[Any], float]
    says: str | None = None


class Routes:
    """The addresses of one part of the API, by path."""

    def __init__(self, tag: str) -> None:
        self.by_path: dict[str, Route] = {}
        self._tag = tag

    def add(
        self, path: str, answers: type[ResponseModel], *, summary: str, work: float = LONG
    ) -> Callable[[Callable[[Any], dict[str, Any]]], Callable[[Any], dict[str, Any]]]:
        """Decorates the function that answers; its first argument's type is what may be asked."""

        def keep(answer: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
            asked = get_type_hints(answer)[next(iter(inspect.signature(answer).parameters))]
            model, made = asked, answer
            if issubclass(asked, Question):
                model, made = model_of(asked), lambda ask: answer(asked.parse(ask.model_dump()))
            self.add_route(Route(path, summary, model, answers, made, lambda _: work, inspect.getdoc(answer)))
            return answer

        return keep

    def add_question(self, kind: type[Question], answers: type[ResponseModel], summary: str) -> None:
        """Adds a question of ``plan`` at its address, with what it is answered with, and in one line."""

        def calling(method: str) -> Callable[[Any], Any]:
            return lambda ask: getattr(kind.parse(ask.model_dump()), method)()

        says = inspect.getdoc(kind.answer)
        made = Route(kind.path, summary, model_of(kind), answers, calling("answer"), calling("work"), says)
        self.add_route(made)

    def add_route(self, route: Route) -> None:
        """Adds one that was made."""
        self.by_path[route.path] = route

    def router(self) -> APIRouter:
        """The addresses; the work is done at the application's desk."""
        router = APIRouter(tags=[self._tag])
        for route in self.by_path.values():
            router.add_api_route(
                route.path,
                _endpoint(route),
                methods=["POST"],
                summary=route.summary,
                description=route.says,
                response_model=None,
                responses={200: {"model": route.answers}},
            )
        return router


def _endpoint(route: Route) -> Callable[..., Any]:
    async def endpoint(ask: RequestModel, request: Request) -> Response:
        asker = get_client_address(request.scope, behind_proxy=request.app.state.entrance.behind_proxy)
        answered: Response = await request.app.state.desk.answer(route, ask, asker=asker)
        return answered

    endpoint.__name__ = route.path.strip("/").replace("/", "_")
    endpoint.__annotations__ = {"ask": route.model, "request": Request, "return": Response}
    return endpoint


def model_of(kind: type[Any]) -> type[RequestModel]:
    """The strict model of described fields: shapes and types; the fields themselves hold the bounds."""
    shown: Any = kind.body if issubclass(kind, Question) else kind
    return _model(shown)


@cache
def _model(kind: Any) -> type[RequestModel]:
    hints, defaults = get_type_hints(kind), {each.name: each.default for each in fields_of(kind)}
    made: dict[str, Any] = {
        name: (_shape(hints[name], one), _describe_field(one, ... if defaults[name] is MISSING else defaults[name]))
        for name, one in fields.list_fields(kind).items()
    }
    name = kind.schema if issubclass(kind, Question) else kind.__name__
    says = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    model: type[RequestModel] = create_model(name, __base__=RequestModel, __doc__=says, **made)
    return model


def _shape(kind: Any, one: fields.Field) -> Any:
    """A field's type, as strict JSON has it."""
    parts = get_args(kind)
    if type(None) in parts:
        return _shape(parts[0], one) | None
    if get_origin(kind) is tuple:
        return Annotated[
            list[_shape(parts[0], one)],  # type: ignore[misc]
            Field(min_length=one.min_length or None, max_length=one.max_length),
        ]
    if is_dataclass(kind):
        return _model(kind)  # type: ignore[arg-type]
    if issubclass(kind, Enum):
        return Literal[tuple(each.value for each in kind)]
    if kind is str and one.choices:
        return Literal[tuple(one.choices)]
    return Annotated[str, Field(max_length=one.max_length)] if kind is str and one.max_length else kind


def _describe_field(one: fields.Field, default: Any) -> Any:
    """A field for a description: its words and bounds stand in the API; the library enforces them, by name."""
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "le": "maximum"}
    more: dict[str, Any] = {
        **{names[name]: bound for name, bound in one.bounds.items()},
        **({"x-symbol": one.symbol} if one.symbol else {}),
        **({"x-at-most": one.le_field} if one.le_field else {}),
        **({"x-blank": one.none_means} if one.none_means else {}),
        **({"x-choices": dict(one.choices)} if one.choices else {}),
    }
    examples = None if one.example is None else [one.example]
    stated = default.value if isinstance(default, Enum) else default
    return Field(stated, description=one.help, examples=examples, json_schema_extra=more)

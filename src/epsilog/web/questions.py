"""Questions that cost work and change nothing: each a strict model in, plain JSON out, answered in another process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from fastapi import APIRouter, Request
from fastapi.responses import Response

from epsilog.web.answers import Answer
from epsilog.web.asks import Ask
from epsilog.web.peers import peer_of

Given = TypeVar("Given", bound=Ask)
Function = Callable[[Given], dict[str, Any]]

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Question:
    """One address to post a question to.

    Attributes:
        path: below ``PREFIX``; also its name between processes.
        summary: a line for the API's description.
        model: what is asked.
        answers: what is answered.
        answer: works it out.
        heavy: whether it may take many seconds, and must leave room for others.
    """

    path: str
    summary: str
    model: type[Ask]
    answers: type[Answer]
    answer: Callable[[Any], dict[str, Any]]
    heavy: bool


class Questions:
    """The questions of one part of the API, by path."""

    def __init__(self, tag: str, *, heavy: bool = False) -> None:
        self.by_path: dict[str, Question] = {}
        self._tag, self._heavy = tag, heavy

    def add(self, path: str, answers: type[Answer], *, summary: str) -> Callable[[Function[Given]], Function[Given]]:
        """Decorates the function that answers; its first argument's type is what may be asked."""

        def keep(answer: Function[Given]) -> Function[Given]:
            model = get_type_hints(answer)[next(iter(inspect.signature(answer).parameters))]
            self.by_path[path] = Question(path, summary, model, answers, answer, self._heavy)
            return answer

        return keep

    def router(self) -> APIRouter:
        """Their addresses; the work is done at the application's desk."""
        router = APIRouter(tags=[self._tag])
        for question in self.by_path.values():
            router.add_api_route(
                question.path,
                _endpoint(question),
                methods=["POST"],
                summary=question.summary,
                description=inspect.getdoc(question.answer),
                response_model=None,
                responses={200: {"model": question.answers}},
            )
        return router


def _endpoint(question: Question) -> Callable[..., Any]:
    async def endpoint(ask: Ask, request: Request) -> Response:
        asker = peer_of(request.scope, behind_proxy=request.app.state.entrance.behind_proxy)
        answered: Response = await request.app.state.desk.answer(question, ask, asker=asker)
        return answered

    endpoint.__name__ = question.path.strip("/").replace("/", "_")
    endpoint.__annotations__ = {"ask": question.model, "request": Request, "return": Response}
    return endpoint

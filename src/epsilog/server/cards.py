"""A verdict card for other sites: the page with its link preview, a preview image and a badge.

All of them are functions of the address, which has the fields of ``/api/v1/verdict`` as the page writes them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections import OrderedDict
from html import escape
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from epsilog.plan.questions import VerdictQuestion
from epsilog.server import card_images, pages, routes
from epsilog.server.rate_limits import get_client_address
from epsilog.server.workers import QUICK_SECONDS
from epsilog.terms import CheckError, fields
from epsilog.terms.messages import sentence
from epsilog.terms.numerals import read_number

router = APIRouter(include_in_schema=False)

PATH = "/verdict"
IMAGE, BADGE = "/embed/verdict.png", "/embed/verdict.svg"
MAX_QUERY = 8000  # characters of an address's inputs
MAX_KEPT = 256  # cards that are kept
_CACHED = {"Cache-Control": "public, max-age=3600"}
_TITLE = "What does this epsilon mean?"
_ABOUT = "What a differential-privacy epsilon means, out of 1,000 people, beside what a blind guess finds."


class CardCache:
    """The last cards and images by their questions: they are fetched several times, and never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str) -> Any:
        """Return what is kept; None for nothing."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: str, found: Any) -> None:
        """Keep something, instead of what was not asked for longest."""
        self._kept[key] = found
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


def parse_card_query(query: QueryParams) -> routes.RequestModel:
    """Return the question of an address; other names, such as a theme's, are ignored.

    Raises:
        CheckError: a value that cannot be read, or too many characters.
    """
    if len(str(query)) > MAX_QUERY:
        raise CheckError("address", f"at most {MAX_QUERY} characters long", f"{len(str(query))}")
    kinds = {name: fields.field_type(VerdictQuestion, name) for name in fields.list_fields(VerdictQuestion)}
    given = {name: _read(name, kind, text) for name, kind in kinds.items() if (text := query.get(name, "").strip())}
    given.setdefault("date", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}")
    try:
        return routes.build_request_model(VerdictQuestion).model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise CheckError(".".join(map(str, first["loc"])), first["msg"], repr(first["input"])[:80]) from error


def _read(name: str, kind: type, text: str) -> Any:
    if kind is float:
        return float(read_number(name, text))
    if kind is bool:
        return text == "yes"
    if kind is not dict:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckError(name, "a release as tagged JSON", repr(text)[:80]) from error


async def _find_card(request: Request, ask: routes.RequestModel) -> dict[str, Any] | Response:
    """Return the card of a question, or the problem document of a refusal."""
    kept: CardCache = request.app.state.cards
    key = ask.model_dump_json()
    if (card := kept.get(key)) is not None:
        return dict(card)
    client = get_client_address(request.scope, trust_proxy=request.app.state.access.trust_proxy)
    response: Response = await request.app.state.workers.answer(routes.calculators.by_path[PATH], ask, client=client)
    if response.status_code != 200:
        return response
    found: dict[str, Any] = json.loads(bytes(response.body))
    kept.put(key, found)
    return found


async def _find_quick_card(request: Request, ask: routes.RequestModel) -> dict[str, Any] | None:
    """Return the card of a pair, for which a page can wait; None of a curve and of a refusal."""
    if routes.calculators.by_path[PATH].work(ask) > QUICK_SECONDS:
        return None
    card = await _find_card(request, ask)
    return None if isinstance(card, Response) else card


@router.get(IMAGE)
async def serve_card_image_route(request: Request) -> Response:
    """The preview of a card, 1200 by 630 pixels."""
    card = await _find_card(request, parse_card_query(request.query_params))
    if isinstance(card, Response):
        return card
    kept, key = request.app.state.cards, f"image {card['sha256']}"  # of all that the image shows
    image = kept.get(key)
    if image is None:
        image = await to_thread.run_sync(card_images.draw_preview, card)
        kept.put(key, image)
    return Response(image, media_type="image/png", headers=_CACHED)


@router.get(BADGE)
async def serve_badge_route(request: Request) -> Response:
    """The card in one line, as a badge."""
    card = await _find_card(request, parse_card_query(request.query_params))
    if isinstance(card, Response):
        return card
    return Response(card_images.draw_badge(card), media_type="image/svg+xml", headers=_CACHED)


@router.get(PATH)
async def serve_verdict_page_route(request: Request) -> Response:
    """The page, with what a link preview shows; the numbers of a pair stand in it, a curve's only on the image."""
    title, about, image = _TITLE, _ABOUT, ""
    if any(name in request.query_params for name in ("epsilon", "release")):
        image = f"{_find_origin(request)}{IMAGE}?{request.url.query}"
        with contextlib.suppress(ValueError):  # a value that cannot be read: the page marks its field
            card = await _find_quick_card(request, parse_card_query(request.query_params))
            if card is not None:
                title = " ".join(map(sentence, (*card["banner"][:1], card["headline"])))
                about = " ".join(map(sentence, (card["notes"][0], card["claim"])))
    return pages.serve_page("index.html", *pages.PAGES["verdict"], head=_write_tags(title, about, image))


def _find_origin(request: Request) -> str:
    """Return scheme and host as a visitor sees them; the host is one of this server's own."""
    secure = request.app.state.access.trust_proxy and request.headers.get("x-forwarded-proto") == "https"
    return f"{'https' if secure else request.url.scheme}://{request.headers['host']}"


def _write_tags(title: str, about: str, image: str) -> str:
    found = {"og:type": "website", "og:site_name": "epsilog", "og:title": title, "og:description": about}
    if image:
        found |= {"og:image": image, "og:image:width": "1200", "og:image:height": "630", "og:image:alt": title}
        found |= {"twitter:card": "summary_large_image"}
    return "".join(f'<meta property="{name}" content="{escape(text)}">\n    ' for name, text in found.items())

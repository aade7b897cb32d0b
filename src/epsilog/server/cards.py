"""A verdict card for other sites: the page with its link preview, a preview image and a badge.

All of them are functions of the address, which has the fields of ``/api/v1/verdict`` as the page writes them. The
images need no graphics library: letters come from ``glyphs.bin`` (``scripts/glyphs.py``), and the same card gives the
same bytes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from epsilog.plan.questions import VerdictQuestion
from epsilog.server import pages, routes
from epsilog.server.middleware import get_client_address
from epsilog.server.workers import QUICK_SECONDS
from epsilog.terms import CheckError, fields
from epsilog.terms.messages import sentence
from epsilog.terms.numerals import read_number

router = APIRouter(include_in_schema=False)

WIDTH, HEIGHT = 1200, 630
MARGIN, COLUMNS, SPACING, RADIUS = 48, 50, 14, 5.3
PAPER, INK, SOFT, LINE, RISK = (250, 248, 244), (29, 35, 38), (86, 96, 102), (223, 219, 210), (163, 72, 12)
CLAIM, BAD = (11, 93, 90), (168, 32, 26)
LEVELS = 15  # of a letter's mask
NEARLY_ALL, HARDLY_ANY = 990, 11
_CHARACTER, _PAD = 6.7, 10  # pixels of a badge's letter, on average, and beside a text

PATH = "/verdict"
IMAGE, BADGE = "/embed/verdict.png", "/embed/verdict.svg"
MAX_QUERY = 8000  # characters of an address's inputs
MAX_KEPT = 256  # cards that are kept
_CACHED = {"Cache-Control": "public, max-age=3600"}
_TITLE = "What does this epsilon mean?"
_ABOUT = "What a differential-privacy epsilon means, out of 1,000 people, beside what a blind guess finds."
Color = tuple[int, int, int]


class Glyph(NamedTuple):
    """One letter: its mask, where it stands from the pen, and how far the pen moves."""

    width: int
    height: int
    left: int
    top: int
    advance: float
    mask: bytes


@cache
def load_glyphs() -> Mapping[str, Mapping[str, Glyph]]:
    """Return the letters of each size."""
    data = zlib.decompress(Path(__file__).with_name("glyphs.bin").read_bytes())
    head, _, masks = data.partition(b"\n")
    found: dict[str, dict[str, Glyph]] = {}
    at = 0
    for size, told in json.loads(head).items():
        found[size] = {}
        for letter, (width, height, left, top, advance) in told["letters"].items():
            found[size][letter] = Glyph(width, height, left, top, advance, masks[at : at + width * height])
            at += width * height
    return found


class Canvas:
    """An image of one background color, row by row."""

    def __init__(self) -> None:
        self.rows = [bytearray(bytes(PAPER) * WIDTH) for _ in range(HEIGHT)]

    def _put(self, x: int, y: int, glyph: Glyph, color: Color) -> None:
        """Lay a color over a part of the background, as strongly as a letter's mask says."""
        shades, (width, height, *_, mask) = _mix(color), glyph
        for row in range(max(0, -y), min(height, HEIGHT - y)):
            line = self.rows[y + row]
            for column in range(max(0, -x), min(width, WIDTH - x)):
                if level := mask[row * width + column]:
                    line[3 * (x + column) : 3 * (x + column) + 3] = shades[level]

    def write(self, x: float, baseline: int, text: str, size: str, color: Color) -> None:
        """Write one line; a letter without a glyph becomes a question mark."""
        letters = load_glyphs()[size]
        for letter in text:
            glyph = letters.get(letter, letters["?"])
            self._put(round(x) + glyph.left, baseline - glyph.top, glyph, color)
            x += glyph.advance

    def draw_dot(self, x: int, y: int, color: Color) -> None:
        """Draw one unit."""
        for row, pixels in enumerate(_draw_disc(color)):
            self.rows[y + row][3 * x : 3 * x + len(pixels)] = pixels

    def encode(self) -> bytes:
        """Return the image as PNG."""
        raw = b"".join(b"\0" + row for row in self.rows)
        head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw, 6)), (b"IEND", b""))
        chunks = [
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in parts
        ]
        return bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


@cache
def _mix(color: Color) -> tuple[bytes, ...]:
    """Return the color over the background at each level of a mask."""
    pairs = tuple(zip(PAPER, color, strict=True))
    return tuple(bytes(round(a + (b - a) * level / LEVELS) for a, b in pairs) for level in range(LEVELS + 1))


@cache
def _draw_disc(color: Color) -> tuple[bytes, ...]:
    """Return the rows of a dot on the background."""
    center, shades = (SPACING - 1) / 2, _mix(color)

    def shade(x: int, y: int) -> bytes:
        distance: float = ((x - center) ** 2 + (y - center) ** 2) ** 0.5
        strength: float = min(1.0, max(0.0, RADIUS + 0.5 - distance))
        return shades[round(LEVELS * strength)]

    return tuple(b"".join(shade(x, y) for x in range(SPACING)) for y in range(SPACING))


def measure(text: str, size: str) -> float:
    """Return how many pixels wide a line is."""
    letters = load_glyphs()[size]
    return sum(letters.get(letter, letters["?"]).advance for letter in text)


def wrap(text: str, size: str, width: float) -> Iterator[str]:
    """Break a text at words, and a word that is too wide at letters."""
    line = ""
    for word in text.split():
        if line and measure(f"{line} {word}", size) > width:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while measure(line, size) > width:
            fits = next(n for n in range(len(line), 0, -1) if n == 1 or measure(line[:n], size) <= width)
            yield line[:fits]
            line = line[fits:]
    yield from (line,) if line else ()


def draw_preview(card: Mapping[str, Any]) -> bytes:
    """Return the preview of a card as PNG, 1200 by 630 pixels."""
    canvas, y = Canvas(), MARGIN
    if card["banner"]:
        canvas.write(MARGIN, y + 24, " ".join(map(sentence, card["banner"])), "small", RISK)
        y += 46
    color = CLAIM if card["found"] <= HARDLY_ANY else INK
    for line in list(wrap(sentence(card["headline"]), "large", WIDTH - 2 * MARGIN))[:2]:
        canvas.write(MARGIN, y + 44, line, "large", color)
        y += 62
    top = y + 12
    counts = (card["guessed"], card["found"] - card["guessed"], 1000 - card["found"])
    colors = [color for count, color in zip(counts, (INK, RISK, LINE), strict=True) for _ in range(count)]
    for i, one in enumerate(colors):
        canvas.draw_dot(MARGIN + i % COLUMNS * SPACING, top + i // COLUMNS * SPACING, one)
    _write_key(canvas, MARGIN + COLUMNS * SPACING + 30, top, counts)
    words = (sentence(card["claim"]), f"{card['date']} · {card['engine']} · SHA-256 {card['sha256'][:16]}…")
    for i, line in enumerate(words):
        canvas.write(MARGIN, HEIGHT - MARGIN - 36 + 36 * i, line, "small", (INK, SOFT)[i])
    return canvas.encode()


def _write_key(canvas: Canvas, x: int, top: int, counts: tuple[int, int, int]) -> None:
    words = ("by guessing", "more through the release", "not found")
    for i, (count, says, color) in enumerate(zip(counts, words, (INK, RISK, SOFT), strict=True)):
        canvas.write(x, top + 44 + 100 * i, f"{count:,}", "large", color)
        canvas.write(x, top + 78 + 100 * i, says, "small", SOFT)


def draw_badge(card: Mapping[str, Any]) -> bytes:
    """Return the card in one line as SVG."""
    found = card["found"]
    says, color = f"at most {found:,} of 1,000", RISK
    if found >= NEARLY_ALL:
        says, color = "nearly everybody", BAD
    elif found <= HARDLY_ANY:
        says, color = "hardly better than guessing", CLAIM
    label = "would be picked out (rehearsal)" if card["banner"] else "could be picked out"
    left, right = (round(len(text) * _CHARACTER) + 2 * _PAD for text in (label, says))
    name = escape(f"{sentence(card['headline'])} {sentence(card['claim'])}")
    parts = ((0, left, (68, 75, 80), label), (left, right, color, says))
    body = "".join(
        f'<rect x="{x}" width="{width}" height="20" fill="#{bytes(fill).hex()}"/>'
        f'<text x="{x + _PAD}" y="14" textLength="{width - 2 * _PAD}">{escape(text)}</text>'
        for x, width, fill, text in parts
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{name}">'
        f'<title>{name}</title><clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)" fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{body}</g>'
        "</svg>\n"
    ).encode()


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
    """Return the question of an address; other names, such as a theme's, are ignored."""
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
        image = await to_thread.run_sync(draw_preview, card)
        kept.put(key, image)
    return Response(image, media_type="image/png", headers=_CACHED)


@router.get(BADGE)
async def serve_badge_route(request: Request) -> Response:
    """The card in one line, as a badge."""
    card = await _find_card(request, parse_card_query(request.query_params))
    if isinstance(card, Response):
        return card
    return Response(draw_badge(card), media_type="image/svg+xml", headers=_CACHED)


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

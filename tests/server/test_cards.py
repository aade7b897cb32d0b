"""What other sites show of a verdict card: link preview, image and badge are functions of the address, and escaped."""

import hashlib
import json
import struct
import zlib
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from starlette.requests import Request

from epsilog.mechanisms import Gaussian
from epsilog.server import cards, pages
from epsilog.server.cards import MAX_KEPT, CardCache
from epsilog.terms import codec

EVIL = '"><script>alert(1)</script>&amp;'
PAIR = {"v": "1", "epsilon": "4", "delta": "1e-5", "date": "2026-11-28"}


class Tags(HTMLParser):
    """The meta tags and the scripts of a page."""

    def __init__(self, text):
        super().__init__()
        self.meta, self.scripts = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "meta" and "property" in found:
            self.meta[found["property"]] = found["content"]
        if tag == "script":
            self.scripts.append(found)


def page_of(site, given):
    reply = site.ask("GET", f"/verdict?{urlencode(given)}")
    assert reply.status == 200
    return Tags(reply.body.decode())


@pytest.fixture
def built(site):
    if pages.find_static_file(pages.STATIC, "index.html") is None:
        pytest.skip("the front end is not built")
    return site


@pytest.mark.slow
def test_a_link_preview_has_the_cards_number_and_its_image(built):
    meta = page_of(built, PAIR).meta
    assert meta["og:title"] == "The best attack could pick out at most 546 of 1,000 people."
    assert meta["og:description"].startswith("Guessing finds 10.")
    assert meta["og:image"] == f"{built.url}/embed/verdict.png?{urlencode(PAIR)}"
    assert (meta["og:image:width"], meta["og:image:height"]) == ("1200", "630")
    rehearsal = page_of(built, PAIR | {"simulation": "yes"}).meta
    assert rehearsal["og:title"].startswith("Rehearsal.")
    assert "og:image" not in page_of(built, {}).meta


def test_nothing_in_an_address_becomes_markup(built):
    found = page_of(built, PAIR | {"privacy_unit": EVIL, "name": EVIL})
    assert EVIL in found.meta["og:title"]
    assert [one.get("type") for one in found.scripts] == ["module"], "only the page's own"
    badge = built.ask("GET", f"/embed/verdict.svg?{urlencode(PAIR | {'privacy_unit': EVIL})}")
    tree = ET.fromstring(badge.body)  # noqa: S314 - of our own server
    assert EVIL in tree.attrib["aria-label"]
    assert not [one for one in tree.iter() if one.tag.endswith("script")]


def test_a_page_whose_address_cannot_be_read_is_served_all_the_same(built):
    for wrong in ({"epsilon": "many"}, {"release": "{"}, {"epsilon": "4", "delta": "2"}, {"epsilon": "1", "date": "x"}):
        assert "og:title" in page_of(built, wrong).meta


def read_png(data):
    """Width, height and rows of pixels of a PNG without filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, body = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", chunk[:8])
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    rows = zlib.decompress(body)
    return width, height, [rows[i * (3 * width + 1) + 1 : (i + 1) * (3 * width + 1)] for i in range(height)]


def count_dots(rows, top, color):
    """How many dots of the picture have a color, by the pixel in their middle."""
    middle = cards.SPACING // 2
    found = 0
    for i in range(1000):
        x = cards.MARGIN + i % cards.COLUMNS * cards.SPACING + middle
        row = rows[top + i // cards.COLUMNS * cards.SPACING + middle]
        found += row[3 * x : 3 * x + 3] == bytes(color)
    return found


def test_the_image_shows_as_many_dots_as_the_card_says(site):
    reply = site.ask("GET", f"/embed/verdict.png?{urlencode(PAIR)}")
    assert (reply.status, reply.headers["content-type"]) == (200, "image/png")
    assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "max-age" in reply.headers["cache-control"]
    width, height, rows = read_png(reply.body)
    assert (width, height) == (1200, 630)
    card = site.post("verdict", {"epsilon": 4.0, "delta": 1e-5, "date": "2026-11-28"}).json()
    lines = len(list(cards.wrap("The best attack could pick out at most 546 of 1,000 people.", "large", 1088)))
    top = cards.MARGIN + 62 * lines + 12
    assert count_dots(rows, top, cards.RISK) == card["found"] - card["guessed"] == 536
    assert count_dots(rows, top, cards.INK) == 10
    assert count_dots(rows, top, cards.LINE) == 1000 - 546
    again = site.ask("GET", f"/embed/verdict.png?{urlencode(PAIR)}")
    assert hashlib.sha256(again.body).digest() == hashlib.sha256(reply.body).digest()


def test_a_badge_says_it_in_a_line(site):
    for changes, says in (
        ({}, "at most 546 of 1,000"),
        ({"epsilon": "0.05"}, "hardly better than guessing"),
        ({"epsilon": "30"}, "nearly everybody"),
        ({"simulation": "yes"}, "rehearsal"),
    ):
        reply = site.ask("GET", f"/embed/verdict.svg?{urlencode(PAIR | changes)}")
        assert reply.headers["content-type"].startswith("image/svg+xml")
        tree = ET.fromstring(reply.body)  # noqa: S314 - of our own server
        assert says in " ".join(one.text or "" for one in tree.iter() if one.tag.endswith("}text"))
        assert "<script" not in reply.body.decode()
        assert site.ask("GET", f"/embed/verdict.svg?{urlencode(PAIR | changes)}").body == reply.body
    curve = {"release": json.dumps(codec.to_json(Gaussian(2.0))), "delta": "1e-5"}
    assert site.ask("GET", f"/embed/verdict.svg?{urlencode(curve)}").status == 200


def test_what_cannot_be_read_has_no_badge_and_no_image(site):
    one = {"epsilon": "1"}
    wrong = [{"epsilon": text} for text in ("-1", "NaN", "1,5")]
    wrong += [one | {"privacy_unit": "x" * 81}, one | {"verdict": "Certified by all"}, one | {"report": "0" * 63}]
    wrong += [{"release": "[]"}, one | {"name": "x" * 9000}, {}]
    for given in wrong:
        for kind in ("svg", "png"):
            reply = site.ask("GET", f"/embed/verdict.{kind}?{urlencode(given)}")
            assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json"), given


def test_long_and_foreign_text_fits_the_image():
    card = {
        "banner": ["page/rehearsal", "page/rehearsal-note"],
        "headline": "W" * 300 + " Ünïcode 漢字",
        "found": 500,
        "guessed": 10,
        "claim": "x" * 500,
        "date": "2026-11-28",
        "engine": "epsilog 0",
        "sha256": "0" * 64,
    }
    width, height, _ = read_png(cards.draw_preview(card))
    assert (width, height) == (1200, 630)
    assert all(cards.measure(line, "large") <= 600 for line in cards.wrap("a bb " * 90 + "W" * 90, "large", 600))


def test_the_cache_keeps_the_last_cards_only():
    cache = CardCache()
    for i in range(MAX_KEPT + 1):
        cache.put(str(i), {"i": i})
        cache.get("1")
    assert cache.get("0") is None
    assert cache.get("1") == {"i": 1}
    assert cache.get(str(MAX_KEPT)) == {"i": MAX_KEPT}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(("told", "scheme"), [("https", "https"), ("http", "http"), (None, "http")])
def test_a_forwarded_scheme_counts_from_a_trusted_proxy_alone(trusted, told, scheme):
    app = SimpleNamespace(state=SimpleNamespace(access=SimpleNamespace(trust_proxy=trusted)))
    headers = [(b"host", b"dp.example")] + ([(b"x-forwarded-proto", told.encode())] if told else [])
    asked = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": headers, "app": app}
    assert cards._find_origin(Request(asked)) == f"{scheme if trusted else 'http'}://dp.example"

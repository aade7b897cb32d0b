"""A verdict card as a picture: a PNG for link previews and an SVG badge, both without a graphics library.

Letters come from ``glyphs.bin`` (``scripts/glyphs.py``). The same card gives the same bytes.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from epsilog.terms.messages import sentence

WIDTH, HEIGHT = 1200, 630
MARGIN, COLUMNS, SPACING, RADIUS = 48, 50, 14, 5.3
PAPER, INK, SOFT, LINE, RISK = (250, 248, 244), (29, 35, 38), (86, 96, 102), (223, 219, 210), (163, 72, 12)
CLAIM, BAD = (11, 93, 90), (168, 32, 26)
LEVELS = 15  # of a letter's mask
NEARLY_ALL, HARDLY_ANY = 990, 11
_CHARACTER, _PAD = 6.7, 10  # pixels of a badge's letter, on average, and beside a text

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
    """Return the preview of a card as PNG, 1200 by 630 pixels.

    Args:
        card: the answer of a ``VerdictQuestion``.
    """
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
    """Return the card in one line as SVG.

    Args:
        card: the answer of a ``VerdictQuestion``.
    """
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

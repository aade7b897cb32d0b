"""Draws the letters of the preview image of a verdict card: ``src/epsilog/server/glyphs.bin``.

    python scripts/glyphs.py

From DejaVu Sans, which matplotlib carries and whose license permits it. Each letter is a mask of 16 gray levels. The
file is zlib over one line of JSON (sizes, then width and height of each letter) and the masks in that order.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font, LoadFlags

TARGET = Path(__file__).parents[1] / "src/epsilog/server/glyphs.bin"
LETTERS = "".join(map(chr, range(32, 127))) + "’≤–…εδ·"
SIZES = {"large": ("DejaVuSans-Bold.ttf", 50), "small": ("DejaVuSans.ttf", 26)}


def draw() -> bytes:
    """Return the file's bytes."""
    sizes: dict[str, Any] = {}
    masks = bytearray()
    for name, (file, pixels) in SIZES.items():
        font = FT2Font(str(Path(get_data_path()) / "fonts/ttf" / file))
        font.set_size(pixels, 72)
        sizes[name] = {"line": pixels, "letters": {}}
        for letter in LETTERS:
            glyph = font.load_char(ord(letter), flags=LoadFlags.NO_HINTING)
            font.clear()
            font.set_text(letter, 0, flags=LoadFlags.NO_HINTING)
            font.draw_glyphs_to_bitmap(antialiased=True)
            mask = font.get_image()
            height, width = mask.shape
            left, _, _, top = (each / 64 for each in glyph.bbox)
            advance = glyph.linearHoriAdvance / 65536
            sizes[name]["letters"][letter] = [width, height, round(left), round(top), round(advance, 2)]
            masks += bytes((int(value) + 8) // 17 for value in mask.ravel())
    return zlib.compress(json.dumps(sizes).encode() + b"\n" + masks, 9)


if __name__ == "__main__":
    TARGET.write_bytes(draw())

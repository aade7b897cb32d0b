"""Foreign text for people: a character that is invisible, or that a terminal or browser acts upon, becomes its escape.

Documents keep the text that was signed and hashed; only what is shown passes through here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache

__all__ = ["legible"]

_ORDINARY = re.compile(r"[\x20-\x7e]*")
_OTHERS = re.compile(r"[^\x20-\x7e]")
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, directions, zero widths, surrogates, line ends
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")  # letters without a glyph


def legible(text: str, *, keep: str = "") -> str:
    r"""Return text with every character that has no glyph replaced by its JSON escape.

    Within JSON the escapes mean what they stand for, so the text of a whole JSON document keeps its values.

    Args:
        text: any text.
        keep: characters to leave as they are, such as line ends in text of several lines.

    >>> legible("as agreed\x1b[2J \u202eevol"), legible("café 日本")
    ('as agreed\\u001b[2J \\u202eevol', 'café 日本')
    """
    if _ORDINARY.fullmatch(text):
        return text
    return _OTHERS.sub(lambda found: found[0] if found[0] in keep else _escape_character(found[0]), text)


@lru_cache(maxsize=4096)
def _escape_character(character: str) -> str:
    hidden = unicodedata.category(character) in _HIDDEN or _BLANK.fullmatch(character)
    return json.dumps(character)[1:-1] if hidden else character

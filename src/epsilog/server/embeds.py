"""A calculator or card as one HTML file that needs no server: the custom element's script inside, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from epsilog.terms import CheckError, EpsilogError, check

_FIELD = re.compile(r"[a-z]+(?:_[a-z]+)*")
CALCULATORS = ("federated", "queries", "verdict")
_SCRIPT = Path(__file__).parent / "static" / "embed" / "epsilog-embed.js"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{hash}'">
<title>epsilog: {name}</title>
</head>
<body>
<main><epsilog-{name}{values}></epsilog-{name}></main>
<script>{script}</script>
</body>
</html>
"""


def build_embed_html(name: str, values: Mapping[str, str] | None = None) -> str:
    """One HTML file with a calculator, or a card of epsilon and delta, that computes in the browser.

    Args:
        name: "federated", "queries" or "verdict".
        values: what its fields hold at first, by their names in the API; all else is as on the page.

    Raises:
        EpsilogError: the front end is not built.
    """
    name = check.one_of(CALCULATORS)(name=name)
    for field in values or ():
        if not _FIELD.fullmatch(field):
            raise CheckError("values", "named like noise_multiplier", repr(field))
    attributes = "".join(f' {field.replace("_", "-")}="{escape(text)}"' for field, text in (values or {}).items())
    if not _SCRIPT.is_file():
        raise EpsilogError("the front end is not built: run python hatch_build.py")
    script = _SCRIPT.read_text(encoding="utf-8").replace("</script", "<\\/script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(hash=f"sha256-{digest}", name=name, values=attributes, script=script)

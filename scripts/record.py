"""Draw what commands print as terminals. ``python scripts/record.py`` writes docs/images/terminal-*.svg.

Each picture shows commands that were really run. It types them once. Where a reader wants less motion, it stands still.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 80
REFUSED = 3  # the exit code of a refused charge
RECORDINGS: dict[str, Sequence[str]] = {
    "plan": ["epsilog plan federated -N 50000 -m 500 -T 200 -z 1.2 --privacy-unit person"],
    "certificate": [
        "epsilog certify docs/examples/sgd.json -d 1e-5 -o certificate.json",
        "epsilog check certificate.json",
    ],
    "budget": [
        "epsilog ledger create acme --kind pure --epsilon 0.4 -l acme.db",
        "epsilog ledger charge acme --key q1 --release docs/examples/laplace.json -l acme.db",
        "epsilog ledger charge acme --key q2 --release docs/examples/laplace.json -l acme.db",
    ],
}
_WIDTH, _LINE, _LEFT, _TOP = 8.0, 19, 14, 44  # of a character and a line; the margins
_KEY, _PAUSE = 0.03, 0.6  # seconds to type a character, and before and after an answer
_STYLE = """
svg { color-scheme: light dark }
rect { fill: #fff; stroke: #dfdbd2 } circle { fill: #c9c4b8 }
text { font: 13.3px ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace; white-space: pre;
  fill: #1d2326 }
.typed { fill: #0b5d5a; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  rect { fill: #1b2024; stroke: #333b41 } circle { fill: #4a5359 } text { fill: #e9ecec } .typed { fill: #6fd0c8 }
}
@media (prefers-reduced-motion: no-preference) {
  text { animation: show 1ms both }
  @keyframes show { from { opacity: 0 } }
}
@media print { text { animation: none } }
"""


def record(commands: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Run commands one after the other beside the examples, and return each with the lines that it printed."""
    found = []
    settings = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "docs" / "examples", Path(folder) / "docs" / "examples")
        for command in commands:
            words = [sys.executable, "-m", "epsilog", *shlex.split(command)[1:]]
            done = subprocess.run(
                words, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, REFUSED):
                raise RuntimeError(f"{command}: {done.stderr}")
            lines = (done.stdout + done.stderr).strip("\n").split("\n")
            found.append((command, [part for line in lines for part in _fold(line.rstrip())]))
    return found


def _fold(line: str) -> list[str]:
    """Return a line as a terminal of this width shows it."""
    return textwrap.wrap(line, COLUMNS, break_on_hyphens=False, drop_whitespace=False) or [""]


def draw(session: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the picture of a session."""
    texts, at = [], _PAUSE
    for command, lines in session:
        shown = [(f"$ {command}", ' class="typed"'), *((line, "") for line in lines)]
        for place, (line, kind) in enumerate(shown):
            if line.strip():
                y = _TOP + _LINE * len(texts)
                texts.append(f'<text x="{_LEFT}" y="{y}"{kind} style="animation-delay:{at:.2f}s">{escape(line)}</text>')
            else:
                texts.append("")
            at += _KEY * len(command) + _PAUSE if place == 0 else _KEY
        at += 2 * _PAUSE
    width, height = round(2 * _LEFT + _WIDTH * COLUMNS), _TOP + _LINE * len(texts) - 4
    dots = "".join(f'<circle cx="{20 + 16 * one}" cy="16" r="5"/>' for one in range(3))
    body = "\n".join(filter(None, texts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{_STYLE}</style><rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>{dots}\n'
        f"{body}\n</svg>\n"
    )


def main() -> None:
    """Write every picture."""
    for name, commands in RECORDINGS.items():
        (IMAGES / f"terminal-{name}.svg").write_text(draw(record(commands)), encoding="utf-8")


if __name__ == "__main__":
    main()

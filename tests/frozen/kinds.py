"""The kinds of frozen records: how each is loaded, made today, written and summarized."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.frozen import intervals, ledgers, plans, records, surface, verification
from tests.frozen.platforms import is_same_platform, save_platform


@dataclass(frozen=True)
class Kind:
    """One kind of records.

    Attributes:
        load: reads the stored records.
        make: makes today's.
        save: writes them.
    """

    load: Callable[[], Mapping[str, Any]]
    make: Callable[[], Mapping[str, Any]]
    save: Callable[[Mapping[str, Any]], None]


def _in(file: str, make: Callable[[], Mapping[str, Any]]) -> Kind:
    return Kind(partial(records.load, file), make, partial(records.save, file))


KINDS = {
    "intervals": Kind(intervals.load, lambda: intervals.answers(intervals.questions()), intervals.save),
    "ledgers": _in(ledgers.FILE, ledgers.answers),
    "plans": _in(plans.FILE, plans.answers),
    "verification": _in(verification.FILE, verification.answers),
    "surface": Kind(surface.load, surface.answers, surface.save),
}


def run(names: list[str], *, write: bool) -> int:
    """Prints what changes in these kinds, and writes it if asked to; 1 if something changes and was not written."""
    if write and set(names) != set(KINDS) and not is_same_platform():
        raise SystemExit("records of several platforms cannot be mixed: write all kinds here")
    changed = False
    for name in names:
        kind = KINDS[name]
        try:
            stored = kind.load()
        except FileNotFoundError:
            stored = {}
        found = kind.make()
        changed |= bool(records.compare(stored, found, exact=True))
        print(records.summary(name, stored, found), flush=True)  # noqa: T201 - a command's output
        if write:
            kind.save(found)
    if write:
        save_platform()
    return int(changed and not write)


def draw() -> None:
    """Draws the questions about intervals anew."""
    from tests.frozen.questions import draw_questions

    intervals.save_questions(draw_questions())

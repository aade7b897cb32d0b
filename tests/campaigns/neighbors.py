"""Neighboring data sets, run with coupled randomness: every published byte must be the same.

Each pair of data sets differs in one unit with the same clipped contribution. For example, a client that sends nothing
is added, an unusable cell holds something else, or a row is repeated. Both data sets are run by `epsilog run` with the
same random bytes. Everything published is compared: public files with sizes and times, ledger entries, renderings, exit
codes and printed lines.

Each round of the second data set takes a second longer. A commitment is replaced by its ideal, a constant: without the
key the real one looks random, as far as HMAC is pseudorandom.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import io
import logging
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import typer
from tests.campaigns.neighboring import Pair

from epsilog.cli.app import load
from epsilog.ledger import open_ledger, read_ledger
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.terms.disclosed import Commitment

if TYPE_CHECKING:
    from epsilog.training.rounds import RoundResult

ledger, noise, training = (
    import_module(f"epsilog.{name}") for name in ("ledger.ledger", "training.noise", "training.run")
)
Leak = Callable[[], contextlib.AbstractContextManager[object]]
Seen = dict[str, str]


# ---- one run, and all that is seen of it -----------------------------------------------------------------------------


def _run(pair: Pair, second: int, work: Path, leak: Leak) -> tuple[Seen, Seen]:
    """Runs one data set of a pair in a new folder; returns what is published, and what is private, by name."""
    work.mkdir(parents=True)
    with contextlib.chdir(work), use_common_randomness(pace=second, leak=leak):
        for name, content in pair.files(second).items():
            Path(name).write_bytes(content)
        with open_ledger(Path("ledger.db")) as books:
            facts: dict[str, Any] = {"relation": pair.relation, "privacy_unit": pair.unit}
            books.create_budget("neighbors", kind="approximate", epsilon="1000", delta="1e-3", **facts)
        printed = {}
        for command in pair.commands:
            (folder,) = [str(one) for one in Path("runs").glob("neighbors-*")] or [""]
            words = [word.format(folder=folder) for word in command]
            printed[" ".join(command)] = said = _invoke(words)
            if command[0] in ("run", "query") and not said.startswith("exit code 0\n"):
                raise RuntimeError(f"{pair.name}: {said}")
        with read_ledger(Path("ledger.db")) as books:
            entries = "\n".join(entry.document() for entry in books.history())
        public, private = _files(Path("runs"))
        made = [*map(Path, pair.written), *Path("answers").glob("*")]
        public |= {str(file): file.read_text(encoding="utf-8") for file in made}
    return {**printed, "the ledger's entries": entries, **public}, private


def _invoke(words: list[str]) -> str:
    """The exit code of a command, all that it printed, and all that it logged."""
    from epsilog.cli import app

    lines, printed = _Lines(), io.StringIO()
    logging.getLogger().addHandler(lines)
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        mock.patch.object(sys, "argv", ["epsilog", *words]),
        mock.patch.object(app, "load", _build_commands),
    ):
        code: object = 0
        try:
            app.main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            logging.getLogger().removeHandler(lines)
    return f"exit code {code}\n{printed.getvalue()}\n" + "\n".join(lines.lines)


_COMMANDS = cache(lambda: typer.main.get_command(load()))


def _build_commands(*_: str) -> Any:
    """Return the command line, built once: that takes longer than a small run."""
    return _COMMANDS()


class _Lines(logging.Handler):
    """Keeps logged lines."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line."""
        if record.name.startswith("epsilog"):
            self.lines.append(f"{record.levelname} {record.getMessage()}")


def _files(runs: Path) -> tuple[Seen, Seen]:
    """Files of a run: contents, sizes, and times after the plan's; apart, those that their owner alone may read."""
    public, private = Seen(), Seen()
    (began,) = [plan.stat().st_mtime_ns for plan in runs.glob("*/plan.json")] or [0]
    for file in sorted(runs.rglob("*")):
        within = [one for one in (file, *file.parents) if one.is_relative_to(runs)]
        hidden = any(one.stat().st_mode & 0o077 == 0 for one in within)
        found = private if hidden else public
        if not hidden:
            found[f"time of {file}"] = str(file.stat().st_mtime_ns - began)
        if file.is_file():
            found[str(file)] = file.read_bytes().hex()
    return public, private


@contextlib.contextmanager
def use_common_randomness(*, pace: int, leak: Leak = contextlib.nullcontext) -> Iterator[None]:
    """The same random bytes for every run, a clock that advances ``pace`` more in each round, and ideal commitments."""
    clock, computed, drawn = _Clock(), training.compute_next_round, random.Random(1)  # noqa: S311 on purpose: replayed

    def slower(*args: Any, **given: Any) -> Any:
        clock.time += dt.timedelta(seconds=1 + pace)
        return computed(*args, **given)

    replaced = (
        (noise, "_secure", cache(_make_replayed_stream)),
        (secrets, "randbelow", drawn.randrange),
        (secrets, "token_hex", lambda count: drawn.randbytes(count).hex()),
        (ledger, "datetime", clock),
        (training, "compute_next_round", slower),
        (Commitment, "to", classmethod(lambda kind, *_: kind("c0" * 32))),
    )
    with contextlib.ExitStack() as patched:
        for target, name, value in replaced:
            patched.enter_context(mock.patch.object(target, name, value))
        patched.enter_context(leak())
        yield


def _make_replayed_stream(_: int, purpose: str, round: int) -> Any:  # noqa: A002 the field's word
    """What a run draws from, as it would from the operating system: one stream for each purpose of each round."""
    return noise.Randomness.from_seed(1).stream(purpose, round)


class _Clock:
    """Replaces ``datetime`` as the clock of a ledger."""

    def __init__(self) -> None:
        self.time = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def now(self, _: dt.tzinfo) -> dt.datetime:
        """A microsecond after it was asked last."""
        self.time += dt.timedelta(microseconds=1)
        return self.time


# ---- leaks that must be found ----------------------------------------------------------------------------------------


def _plain_hash() -> contextlib.AbstractContextManager[object]:
    """What a commit used to name."""
    plain = classmethod(lambda kind, content, _: kind(hashlib.sha256(content).hexdigest()))
    return mock.patch.object(Commitment, "to", plain)


def _round_times() -> contextlib.AbstractContextManager[object]:
    """What entries used to carry."""
    return mock.patch.dict(TRANSITIONS, {verb: replace(rule, untimed=False) for verb, rule in TRANSITIONS.items()})


def _in_every_round(change: Callable[[RoundResult], RoundResult]) -> contextlib.AbstractContextManager[object]:
    computed = training.compute_next_round
    return mock.patch.object(training, "compute_next_round", lambda *args, **given: change(computed(*args, **given)))


def _count_in_a_record() -> contextlib.AbstractContextManager[object]:
    def add_leak(outcome: RoundResult) -> RoundResult:
        first, *rest = outcome.record.padding
        return replace(outcome, record=replace(outcome.record, padding=(first + outcome.custody.unusable_rows, *rest)))

    return _in_every_round(add_leak)


def _count_in_a_log() -> contextlib.AbstractContextManager[object]:
    def add_leak(outcome: RoundResult) -> RoundResult:
        logging.getLogger("epsilog.training").warning("%d rows cannot be used", outcome.custody.unusable_rows)
        return outcome

    return _in_every_round(add_leak)


CONTROLS: Mapping[str, Leak] = {
    "a plain hash of private records": _plain_hash,
    "times of rounds": _round_times,
    "a count in a public record": _count_in_a_record,
    "a count in a log": _count_in_a_log,
}


def compare(pair: Pair, work: Path, *, leak: Leak = contextlib.nullcontext) -> tuple[int, list[str], int]:
    """Runs both data sets of a pair: how many published things were compared, which differ, and how many private do."""
    (one, hidden), (other, hidden_too) = (_run(pair, second, work / f"{second}", leak) for second in (0, 1))
    names = sorted(one.keys() | other.keys())
    differing = [name for name in names if one.get(name) != other.get(name)]
    private = sum(hidden.get(name) != hidden_too.get(name) for name in hidden.keys() | hidden_too.keys())
    return len(names), differing, private

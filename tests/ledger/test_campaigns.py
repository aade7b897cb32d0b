import os
import random
from dataclasses import replace

import pytest

from epsilog.ledger import open_ledger, selftest
from epsilog.ledger.selftest import (
    KillReport,
    RaceReport,
    find_last_steps,
    list_lost_charges,
    run_kill_campaign,
    run_race_campaign,
    write_steps,
)


@pytest.mark.slow
def test_nothing_confirmed_is_lost_to_kill_9_and_no_retry_charges_twice(tmp_path):
    report = run_kill_campaign(tmp_path, seed=1, kills=41)
    assert report.passed, report
    assert report.kills == 42
    assert report.acknowledged > 40


@pytest.mark.slow
def test_eight_processes_are_granted_exactly_the_cap(tmp_path):
    report = run_race_campaign(tmp_path, processes=8, attempts=40, cap=150)
    assert report.passed, report
    assert (report.accepted, report.refused, report.entries) == (150, 170, 151)


def test_reports_pass_when_every_promise_is_kept_and_fail_when_one_is_broken():
    kept = KillReport(kills=1, acknowledged=5, lost=0, unacknowledged=2, doubled=0, entries=9)
    assert kept.passed
    for broken in ({"lost": 1}, {"doubled": 1}, {"acknowledged": 0}):
        assert not replace(kept, **broken).passed
    kept = RaceReport(attempts=10, cap=5, accepted=5, refused=5, entries=9)
    assert kept.passed
    assert replace(kept, cap=12, accepted=10, refused=0).passed
    for accepted in (4, 6):
        assert not replace(kept, accepted=accepted, refused=10 - accepted).passed


@pytest.mark.slow
def test_a_writer_that_ends_by_itself_is_no_kill(tmp_path):
    with pytest.raises(RuntimeError, match="ended by itself, with 1"):
        selftest._kill_writers(tmp_path / "no-budget.db", [tmp_path / "writer.acks"], random.Random(1))  # noqa: S311


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize("notes", [0, 1, 2, 3, 4, 5, 6, 10, 13])
def test_a_writer_takes_every_path_and_its_notes_are_kept(tmp_path, monkeypatch, notes):
    told, original = iter(range(notes)), os.write

    def write(descriptor, line):
        if next(told, None) is None:
            raise KilledError
        os.truncate(descriptor, os.fstat(descriptor).st_size)
        return original(descriptor, line)

    with open_ledger(tmp_path / "killed.db") as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1000000")
    monkeypatch.setattr(selftest.os, "write", write)
    with pytest.raises(KilledError):
        write_steps(tmp_path / "killed.db", tmp_path / "writer.acks", "writer")
    monkeypatch.undo()
    seen = [tuple(line.split()) for line in (tmp_path / "writer.acks").read_text().splitlines()]
    steps = ["reserved", "started", "round-released", "committed"]
    assert [step for _, step in seen] == [*steps, "committed", *steps, "committed", *steps][:notes]
    with open_ledger(tmp_path / "killed.db") as ledger:
        found = find_last_steps(ledger)
    assert list_lost_charges(found, seen) == 0
    assert list_lost_charges(found, [*seen, ("writer-7", "committed"), ("writer-8", "started")]) == 2


def test_a_campaign_counts_what_the_ledger_lacks_and_reads_no_note_that_was_cut(tmp_path, monkeypatch):
    def ended(path, notes, _):
        write_steps(path, notes[0], notes[0].stem, charges=2)
        with notes[0].open("a") as more:
            more.write("writer-7 committed\nwriter-9 comm")

    monkeypatch.setattr(selftest, "_kill_writers", ended)
    report = run_kill_campaign(tmp_path, seed=1, kills=3, writers=3)
    assert report == KillReport(kills=3, acknowledged=6, lost=1, unacknowledged=0, doubled=0, entries=7)


def test_a_race_whose_ledger_tells_otherwise_is_an_error(tmp_path, monkeypatch):
    class Pool:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def starmap(self, work, given, **_):
            return [work(*one) + self.extra for one in given]

    Pool.extra = 0
    monkeypatch.setattr(selftest.multiprocessing, "get_context", lambda _: type("Context", (), {"Pool": Pool}))
    assert run_race_campaign(tmp_path, processes=3, attempts=4, cap=5).accepted == 5
    Pool.extra = 1
    (tmp_path / "other").mkdir()
    with pytest.raises(RuntimeError, match="2 charges for 4 that were accepted"):
        run_race_campaign(tmp_path / "other", processes=2, attempts=2, cap=2)

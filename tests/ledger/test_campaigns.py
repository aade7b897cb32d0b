import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from epsilog.ledger import open_ledger, selftest
from epsilog.ledger.selftest import (
    KillReport,
    RaceReport,
    _charge_until_done,
    _process,
    ended,
    kill_campaign,
    race_campaign,
)


@pytest.mark.slow
def test_nothing_confirmed_is_lost_to_kill_9_and_no_retry_charges_twice(tmp_path):
    report = kill_campaign(tmp_path, seed=1, kills=40)
    assert report.passed, report
    assert report.kills == 40
    assert report.acknowledged > 40


@pytest.mark.slow
def test_eight_processes_are_granted_exactly_the_cap(tmp_path):
    report = race_campaign(tmp_path, processes=8, attempts=40, cap=150)
    assert report.passed, report
    assert (report.accepted, report.refused) == (150, 170)


def test_reports_pass_when_every_promise_is_kept_and_fail_when_one_is_broken():
    kept = KillReport(kills=1, acknowledged=5, lost=0, unacknowledged=2, doubled=0, entries=9)
    assert kept.passed
    for broken in ({"lost": 1}, {"doubled": 1}, {"acknowledged": 0}):
        assert not replace(kept, **broken).passed
    kept = RaceReport(attempts=10, cap=5, accepted=5, refused=5, entries=9)
    assert kept.passed
    for broken in ({"accepted": 6, "refused": 4}, {"accepted": 4, "refused": 6}, {"refused": 4}, {"refused": 6}):
        assert not replace(kept, **broken).passed


@pytest.mark.slow
def test_a_campaign_whose_processes_fail_by_themselves_is_no_campaign(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 1, not 0"):
        ended(_process(_charge_until_done, tmp_path / "no-budget.db", tmp_path / "acks", "runner", 1), 0)


class KilledError(Exception):
    """Stands for a kill."""


def written(folder, monkeypatch, notes):
    """A writer in this process, ended after so many notes."""
    told = iter(range(notes))

    def write(descriptor, line):
        if next(told, None) is None:
            raise KilledError
        os.truncate(descriptor, os.fstat(descriptor).st_size)
        return original(descriptor, line)

    original = os.write
    monkeypatch.setattr(selftest.os, "write", write)
    with open_ledger(folder / "killed.db") as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1000000")
    with pytest.raises(KilledError):
        selftest._write_until_killed(folder / "killed.db", folder / "writer.acks", "writer")
    monkeypatch.undo()
    return (folder / "writer.acks").read_text().splitlines()


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize("notes", [0, 1, 2, 3, 4, 5, 6, 10, 13])
def test_a_writer_takes_every_path_and_its_notes_are_kept(tmp_path, monkeypatch, notes):
    lines = written(tmp_path, monkeypatch, notes)
    steps = ["reserved", "started", "round-released", "committed"]
    assert [line.split()[1] for line in lines] == [*steps, "committed", *steps, "committed", *steps][:notes]
    report = selftest._judge(tmp_path / "killed.db", tmp_path, 1)
    assert (report.kills, report.acknowledged, report.lost, report.doubled) == (1, notes, 0, 0)
    assert report.passed == (notes > 0)


def test_what_a_ledger_does_not_hold_is_lost(tmp_path, monkeypatch):
    written(tmp_path, monkeypatch, 5)
    with (tmp_path / "writer.acks").open("a") as notes:
        notes.write("writer-7 committed\nwriter-9 comm")  # the second was not finished
    report = selftest._judge(tmp_path / "killed.db", tmp_path, 1)
    assert (report.acknowledged, report.lost) == (6, 1)
    assert not report.passed


@pytest.mark.parametrize(("kills", "writers", "ended"), [(1, 1, 1), (4, 2, 4), (5, 2, 6), (7, 3, 9)])
def test_at_least_as_many_are_killed_as_were_asked_for(tmp_path, monkeypatch, kills, writers, ended):
    process = SimpleNamespace(kill=lambda: None, is_alive=lambda: False)
    monkeypatch.setattr(selftest, "_process", lambda *_: process)
    seen = []
    monkeypatch.setattr(selftest, "ended", lambda _, code: seen.append(code))
    monkeypatch.setattr(selftest.time, "sleep", lambda _: None)
    assert kill_campaign(tmp_path, seed=1, kills=kills, writers=writers).kills == ended == len(seen)
    assert set(seen) == {-9}


def test_writers_share_a_ledger_and_each_has_its_own_notes(tmp_path, monkeypatch):
    begun = []

    def process(target, *args):
        begun.append((target, *args))
        return SimpleNamespace(kill=lambda: None, is_alive=lambda: False)

    monkeypatch.setattr(selftest, "_process", process)
    monkeypatch.setattr(selftest, "ended", lambda *_: None)
    monkeypatch.setattr(selftest.time, "sleep", lambda _: None)
    kill_campaign(tmp_path, seed=1, kills=5, writers=2)
    names = [f"writer-{writer}-life-{life}" for life in range(3) for writer in range(2)]
    written = selftest._write_until_killed
    assert begun == [(written, tmp_path / "killed.db", tmp_path / f"{name}.acks", name) for name in names]


def test_a_kill_waits_for_a_first_note_of_who_is_alive(tmp_path, monkeypatch):
    note, looks = tmp_path / "acks", []

    def slept(_):
        looks.append(1)
        if len(looks) == 3:
            note.write_text("")
        if len(looks) == 5:
            note.write_text("a step")

    monkeypatch.setattr(selftest.time, "sleep", slept)
    selftest._wait_for(note, SimpleNamespace(is_alive=lambda: True))
    assert len(looks) == 5
    note.unlink()
    selftest._wait_for(note, SimpleNamespace(is_alive=lambda: len(looks) < 8))
    assert len(looks) == 8  # it died by itself


@pytest.mark.parametrize(("processes", "attempts", "cap"), [(3, 4, 5), (2, 3, 6), (2, 2, 9), (1, 4, 1)])
def test_a_race_in_this_process_is_counted_as_itended(tmp_path, monkeypatch, processes, attempts, cap):
    monkeypatch.setattr(selftest, "_process", lambda target, *args: target(*args))
    codes = []
    monkeypatch.setattr(selftest, "ended", lambda _, code: codes.append(code))
    report = race_campaign(tmp_path, processes=processes, attempts=attempts, cap=cap)
    accepted = min(cap, processes * attempts)
    assert (report.attempts, report.cap) == (processes * attempts, cap)
    assert (report.accepted, report.refused) == (accepted, processes * attempts - accepted)
    assert report.entries == 1 + 3 * accepted
    assert report.passed
    assert codes == [0] * processes


def test_a_race_whose_ledger_tells_otherwise_is_an_error(tmp_path, monkeypatch):
    def lies(path, acks, name, attempts):
        selftest_charge(path, acks, name, attempts)
        acks.write_text(acks.read_text().replace("refused", "accepted", 1))

    selftest_charge = selftest._charge_until_done
    monkeypatch.setattr(selftest, "_charge_until_done", lies)
    monkeypatch.setattr(selftest, "_process", lambda target, *args: target(*args))
    monkeypatch.setattr(selftest, "ended", lambda *_: None)
    with pytest.raises(RuntimeError, match="2 charges for 3 that were accepted"):
        race_campaign(tmp_path, processes=2, attempts=2, cap=2)

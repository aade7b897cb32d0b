"""Simulated power cuts: what was synced stays, what was not may go in any part, and a disk that lies is found out."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from tests.campaigns import powercuts
from tests.campaigns.powercuts import CutReport, Disk, Event, judged, parsed, power_cut_campaign, recorded

from epsilog.terms import EpsilogError

PLACE = Path("/p")
SEEDS = st.integers(0, 2**32)


def chance(seed):
    return random.Random(seed)  # noqa: S311 no secrets here


def escaped(text):
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


CONFIRMED = escaped("k reserved\nk started\n")


def test_a_trace_is_read_as_what_was_done_to_one_folder():
    file = f"3<{escaped('/p/a.db')}>"
    lines = [
        f'7 openat(AT_FDCWD<{escaped("/")}>, "{escaped("/p/a.db")}", O_RDWR|O_CREAT, 0644) = {file}',
        f'7 openat(AT_FDCWD<{escaped("/")}>, "{escaped("/p/a.db")}", O_RDONLY) = {file}',
        f'7 openat(AT_FDCWD<{escaped("/")}>, "{escaped("/p/b.db")}", O_RDONLY) = -1 ENOENT (No such file or directory)',
        f'7 pwrite64({file}, "{escaped("hello")}", 5, 4096) = 5',
        f'7 pwrite64(4<{escaped("/elsewhere")}>, "{escaped("hello")}", 5, 0) = 5',
        f"7 ftruncate({file}, 12) = 0",
        f"7 fdatasync({file}) = 0",
        f"7 fsync(5<{escaped('/p')}>) = 0",
        f'7 unlink("{escaped("/p/a.db")}") = 0',
        f'7 write(6<{escaped("/p/confirmed")}>, "{CONFIRMED}", 20) = 20',
        "7 +++ exited with 0 +++",
    ]
    assert list(parsed(lines, PLACE)) == [
        Event("made", "a.db"),
        Event("written", "a.db", 4096, b"hello"),
        Event("resized", "a.db", 12),
        Event("synced", "a.db"),
        Event("synced", ""),
        Event("removed", "a.db"),
        Event("confirmed", "k reserved"),
        Event("confirmed", "k started"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        f'7 rename("{escaped("/p/a")}", "{escaped("/p/b")}") = 0',
        f"7 fallocate(3<{escaped('/p/a')}>, 0, 0, 9) = 0",
        f'7 write(3<{escaped("/p/a.db")}>, "\\x61", 1) = 1',
        f'7 pwrite64(3<{escaped("/p/a.db")}>, "\\x61", 1, 0 <unfinished ...>',
    ],
)
def test_what_the_simulation_knows_nothing_of_is_an_error(line):
    with pytest.raises(EpsilogError, match="power cuts are not simulated"):
        list(parsed([line], PLACE))


def on(*events):
    disk = Disk()
    for event in events:
        disk.do(event)
    return disk


@settings(deadline=None)
@given(SEEDS)
def test_what_was_synced_in_a_synced_folder_is_there_whatever_chance_says(seed):
    disk = on(
        *(Event("made", "a"), Event("written", "a", 0, b"x" * 1500), Event("synced", "a"), Event("synced", "")),
        *(Event("written", "a", 1500, b"y" * 100), Event("made", "b")),
    )
    found = disk.cut(chance(seed))
    assert found["a"][:1500] == b"x" * 1500
    assert set(found["a"][1500:]) <= set(b"y\0")


def cuts(disk, name="a"):
    return {disk.cut(chance(seed)).get(name) for seed in range(200)}


def test_what_was_not_synced_may_be_there_or_not_or_torn_at_sectors_in_any_order():
    base = (Event("made", "a"), Event("written", "a", 0, b"0" * 1024), Event("synced", "a"), Event("synced", ""))
    assert cuts(on(*base)) == {b"0" * 1024}
    one = cuts(on(*base, Event("written", "a", 0, b"1" * 1024)))
    assert one == {first * 512 + second * 512 for first in (b"0", b"1") for second in (b"0", b"1")}
    two = cuts(on(*base, Event("written", "a", 0, b"1"), Event("written", "a", 512, b"1")))
    assert {(content[0:1], content[512:513]) for content in two} == {(a, b) for a in (b"0", b"1") for b in (b"0", b"1")}
    assert {len(content) for content in cuts(on(*base, Event("resized", "a", 5)))} == {1024, 5}
    assert cuts(on(*base, Event("resized", "a", 1025), Event("synced", "a"))) == {b"0" * 1024 + b"\0"}


def test_a_name_is_there_or_not_until_its_folder_is_synced():
    made = (Event("made", "a"), Event("written", "a", 0, b"1"), Event("synced", "a"))
    assert cuts(on(*made)) == {None, b"1"}
    assert cuts(on(*made, Event("synced", ""))) == {b"1"}
    assert cuts(on(*made, Event("synced", ""), Event("removed", "a"))) == {None, b"1"}
    assert cuts(on(*made, Event("synced", ""), Event("removed", "a"), Event("synced", ""))) == {None}
    again = on(*made, Event("synced", ""), Event("removed", "a"), Event("made", "a"))
    assert cuts(again) == {None, b"1", b""}


def test_a_report_passes_when_every_promise_is_kept_and_fails_when_one_is_broken():
    kept = CutReport(cuts=3, confirmed=9, lost=0, broken=0, overspent=0)
    assert kept.passed
    for changes in ({"lost": 1}, {"broken": 1}, {"overspent": 1}, {"confirmed": 0}):
        assert not replace(kept, **changes).passed


def test_a_ledger_that_does_not_open_is_broken_and_one_without_its_steps_has_lost_them(tmp_path):
    torn = [Event("made", "cut.db"), Event("written", "cut.db", 0, b"x" * 5000), Event("synced", "cut.db")]
    events = [*torn, Event("synced", ""), Event("confirmed", "k reserved")]
    report = judged(events, tmp_path / "disk", seed=1, cuts=5)
    assert (report.broken, report.lost) == (4, 0)  # and one came before everything
    report = judged([Event("confirmed", "k started")] * 3, tmp_path / "disk", seed=1, cuts=5)
    assert (report.broken, report.lost == report.confirmed > 0) == (0, True)


def test_without_strace_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EpsilogError, match="need strace, and there is none here"):
        power_cut_campaign(tmp_path, seed=1, cuts=1)


def test_a_writer_that_fails_is_no_campaign(tmp_path, monkeypatch):
    strace = tmp_path / "bin" / "strace"
    strace.parent.mkdir()
    strace.write_text("#!/bin/sh\necho not allowed >&2\nexit 1\n")
    strace.chmod(0o755)
    monkeypatch.setenv("PATH", f"{strace.parent}:/bin:/usr/bin")
    with pytest.raises(EpsilogError, match="ended with 1: not allowed"):
        power_cut_campaign(tmp_path, seed=1, cuts=1)


def test_the_writer_takes_every_step_and_is_refused_at_the_end(tmp_path):
    powercuts._write(tmp_path, 12)
    steps = [line.split()[1] for line in (tmp_path / "confirmed").read_text().splitlines()]
    assert len(set(steps)) == 4
    found, over = powercuts._opened(tmp_path / "cut.db")
    assert (len(found), over) == (10, False)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here: power cuts are not simulated")
def test_nothing_confirmed_is_lost_to_a_power_cut_and_a_disk_that_lies_is_found_out(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    events = recorded(place, tmp_path / "trace", charges=10)
    report = judged(events, place, seed=1, cuts=15)
    assert report.passed, report
    lying = [
        event for event in events if event.what != "synced" or not event.name.endswith(("-wal", "-journal", ".db"))
    ]
    assert len(lying) < len(events)
    assert judged(lying, place, seed=1, cuts=15).lost > 0

"""Faults of a disk: nothing confirmed is lost or made twice, and a disk that only says that it wrote is found out."""

import shutil
from dataclasses import replace

import pytest
from tests.campaigns import faults
from tests.campaigns.faults import Fault, FaultReport, Met, fault_campaign, judged, met, possible, prepared
from tests.extent import amount

from epsilog.terms import CheckError, EpsilogError

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="no strace here: faults are not simulated")


def test_a_report_passes_when_every_promise_is_kept_and_fails_when_one_is_broken():
    kept = FaultReport(3, 900, 9, lost=0, broken=0, doubled=0, overspent=0, untold=0)
    assert kept.passed
    for name in ("lost", "broken", "doubled", "overspent", "untold"):
        assert not replace(kept, **{name: 1}).passed
    for name in ("runs", "confirmed"):
        assert not replace(kept, **{name: 0}).passed


def test_a_fault_is_spelled_as_strace_takes_it():
    once, on = Fault("pread64", "error=EIO", 3), Fault("fsync", "error=ENOSPC", 1, ever_after=True)
    assert once.options == ["-e", "trace=pread64", "-e", "inject=pread64:error=EIO:when=3"]
    assert on.options[-1] == "inject=fsync:error=ENOSPC:when=1+"
    assert not any("inject" in option for option in Fault("", "", 4000).options)


def test_what_a_writer_was_told_is_held_against_what_is_there(tmp_path):
    place = prepared(tmp_path)
    nothing = Met({}, fault=True, confirmed=(), untold=())
    assert judged(place, nothing) == FaultReport(1, 0, 0, lost=0, broken=0, doubled=0, overspent=0, untold=0)
    told = replace(nothing, confirmed=(("before", "committed"), ("writer-0", "reserved")), untold=("OSError: 5",))
    found = judged(place, told)
    assert (found.confirmed, found.lost, found.untold, found.passed) == (2, 1, 1, False)
    (place / "disk" / "faulty.db").write_bytes(b"no ledger" * 600)
    assert judged(place, nothing).broken == 1


@pytest.mark.slow
def test_what_cannot_be_simulated_says_so(tmp_path, monkeypatch):
    with pytest.raises(CheckError, match="runs must be"):
        fault_campaign(tmp_path, seed=1, runs=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EpsilogError, match="need strace, and there is none here"):
        fault_campaign(tmp_path, seed=1, runs=1)


@pytest.mark.slow
def test_who_may_not_look_simulates_nothing(tmp_path, monkeypatch):
    strace = tmp_path / "bin" / "strace"
    strace.parent.mkdir()
    strace.write_text("#!/bin/sh\necho Operation not permitted >&2\nexit 1\n")
    strace.chmod(0o755)
    monkeypatch.setenv("PATH", f"{strace.parent}:/bin:/usr/bin")
    with pytest.raises(EpsilogError, match="may not watch a process here: Operation not permitted"):
        fault_campaign(tmp_path, seed=1, runs=1)


@pytest.mark.slow
@needs_strace
def test_a_disk_that_fails_loses_nothing_confirmed_and_one_that_lies_is_found_out(tmp_path):
    place = prepared(tmp_path)
    every = possible(place)
    assert {fault.call for fault in every} == {"", "pread64", "pwrite64", "fsync", "ftruncate", "unlink"}
    assert len(every) == len(set(every)) > 500
    picked = [every[i] for i in range(7, len(every), len(every) // amount(4, 10))] + every[-1:]
    total = FaultReport(0, 0, 0, 0, 0, 0, 0, 0)
    for fault in picked:
        total = faults._added(total, judged(place, met(place, fault)))
    assert total.passed, total
    assert total.runs >= len(picked) - 2  # how many calls a writer makes is not quite the same every time
    lie = Fault("pwrite64", "retval=1000000", 60, ever_after=True)  # says that all is written, and writes nothing
    told = met(place, lie)
    assert told.fault
    assert judged(place, told).passed  # the log is shorter than its index says: nothing is confirmed from there on
    writes = met(place, None).calls["pwrite64"]  # of a run that meets none
    late = met(
        place, Fault("pwrite64", "retval=1000000", writes - 6, ever_after=True)
    )  # when the log moves to the file
    assert late.fault
    found = judged(place, late)
    assert found.lost or found.broken

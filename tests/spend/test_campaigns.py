from dataclasses import replace

import pytest

from epsilog.spend.selftest import (
    KillReport,
    RaceReport,
    _charge_until_done,
    _ended,
    _process,
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


def test_a_campaign_whose_processes_fail_by_themselves_is_no_campaign(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 1, not 0"):
        _ended(_process(_charge_until_done, tmp_path / "no-budget.db", tmp_path / "acks", "runner", 1), 0)

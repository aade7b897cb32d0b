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


def test_reports_fail_when_a_promise_is_broken():
    assert not KillReport(kills=1, acknowledged=5, lost=1, unacknowledged=0, doubled=0, entries=9).passed
    assert not KillReport(kills=1, acknowledged=0, lost=0, unacknowledged=0, doubled=0, entries=9).passed
    assert not RaceReport(attempts=10, cap=5, accepted=6, refused=4, entries=9).passed


def test_a_campaign_whose_processes_fail_by_themselves_is_no_campaign(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 1, not 0"):
        _ended(_process(_charge_until_done, tmp_path / "no-budget.db", tmp_path / "acks", "runner", 1), 0)

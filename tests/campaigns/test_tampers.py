"""Changed rows: all that the proof binds is found, and a proof that binds less is found out."""

from dataclasses import replace

import pytest
from tests.campaigns import tampers
from tests.campaigns.tampers import TamperReport, tamper_campaign
from tests.extent import amount

from epsilog.terms import CheckError


def test_a_report_passes_when_every_change_was_found():
    kept = TamperReport(4, 4, {"flip": 4})
    assert kept.passed
    assert not replace(kept, found=3).passed
    assert not TamperReport(0, 0).passed


def test_a_campaign_changes_something(tmp_path):
    with pytest.raises(CheckError, match="changes must be"):
        tamper_campaign(tmp_path, seed=1, changes=0)


@pytest.mark.slow
def test_every_changed_row_is_found_and_the_control_is_not(tmp_path, monkeypatch):
    found = tamper_campaign(tmp_path, seed=1, changes=amount(40, 80))
    assert found.passed, found
    assert set(found.ways) == {"flip", "swap", "copy", "delete", "insert"}
    monkeypatch.setattr(tampers, "check_by_replay", lambda _: None)  # a proof that binds nothing
    blind = tamper_campaign(tmp_path, seed=1, changes=15, url=tmp_path / "blind.db")
    assert (blind.found, len(blind.missed), blind.passed) == (0, 10, False)

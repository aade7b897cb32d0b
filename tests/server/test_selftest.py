"""The campaign against a server: what it finds, and that it finds what is wrong."""

import json

import pytest
from tests.extent import amount
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.server import selftest
from epsilog.server.selftest import ServerReport, run_server_campaign


@pytest.mark.extended
def test_no_acknowledged_charge_is_lost_when_servers_are_killed(tmp_path):
    """Up to the cap, which repeated charges meet too."""
    found = run_server_campaign(tmp_path, seed=3, kills=amount(2, 20), clients=4, cap=150)
    assert found.passed
    assert (found.lost, found.doubled, found.overspent) == (0, 0, False)
    assert found.repeated > 0
    assert found.requests > found.acknowledged


def report(path, **changes):
    client = selftest._Client("", "anna", None, **{"acknowledged": ["a", "b"], "requests": 3, "repeated": 1} | changes)
    return selftest._report(path, [client], kills=1)


def test_what_is_wrong_is_reported(tmp_path):
    path = tmp_path / "l.db"
    with open_ledger(path) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1")
        for key in "abc":
            ledger.charge(selftest.SCOPE, PureDP(0.125), key=key)
    assert report(path) == ServerReport(1, 3, 1, 2, lost=0, doubled=0, overspent=False, entries=4)
    assert report(path).passed
    lost = report(path, acknowledged=["a", "x", "y"])
    assert (lost.lost, lost.passed) == (2, False)
    assert not report(path, repeated=0).passed
    assert not report(path, acknowledged=[]).passed
    with pytest.raises(RuntimeError, match="a repeated charge was refused"):
        report(path, trouble="a repeated charge was refused")
    with open_ledger(path) as ledger:
        ledger.set_cap("selftest", epsilon="0.25", actor="dora", reason="less")
    assert (report(path).overspent, report(path).passed) == (True, False)


def test_a_server_that_does_not_start_ends_the_campaign(tmp_path, monkeypatch):
    monkeypatch.setattr(selftest.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="did not listen"):
        run_server_campaign(tmp_path, seed=1, kills=1, clients=1)


@pytest.mark.slow
def test_the_command_runs_it_when_asked(tmp_path, monkeypatch):
    from epsilog.ledger import selftest as of_ledger

    good = of_ledger.KillReport(1, 1, 0, 0, 0, 1), of_ledger.RaceReport(2, 1, 1, 1, 2)
    monkeypatch.setattr(of_ledger, "run_kill_campaign", lambda *_, **__: good[0])
    monkeypatch.setattr(of_ledger, "run_race_campaign", lambda *_, **__: good[1])
    bad = ServerReport(7, 9, 1, 8, lost=1, doubled=0, overspent=False, entries=9)
    monkeypatch.setattr(selftest, "run_server_campaign", lambda *_, kills, **__: (kills == 7) and bad)
    assert "server" not in json.loads(CliRunner().invoke(load(), ["selftest", "--json"]).output)
    found = CliRunner().invoke(load(), ["selftest", "--server", "7", "--json"])
    assert (found.exit_code, json.loads(found.output)["server"]["lost"]) == (4, 1)

"""The owner's commands, what they refuse, and how a command ends that cannot go on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.commands import run as epsilog

import epsilog as ep
from epsilog.ledger import open_ledger, verify_ledger

pytestmark = pytest.mark.slow


def test_an_owner_makes_a_budget_once(tmp_path):
    create = ("ledger", "create", "acme/claims", "--kind", "approximate", "--epsilon", "3", "--privacy-unit", "person")
    made = epsilog(*create, "--delta", "1e-5", "--json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["caps"] == {"epsilon": "3", "delta": "0.00001"}
    assert epsilog(*create, "--delta", "1e-5", cwd=tmp_path).returncode == 0
    other = epsilog(*create, "--delta", "1e-6", cwd=tmp_path)
    assert (other.returncode, "exists already" in other.stderr) == (2, True)
    assert "caps of a approximate" in epsilog(*create, cwd=tmp_path).stderr
    (budget,) = verify_ledger(tmp_path / "runs" / "ledger.db").balances.values()
    assert (budget.privacy_unit, budget.simulation) == ("person", False)


def test_an_owner_allows_a_price_and_the_books_say_so(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="pure", epsilon="3")
    (tmp_path / "r.json").write_text('{"type": "laplace", "noise_multiplier": 0.1}')
    allow = (
        "ledger",
        "override-cost",
        "acme",
        "--key",
        "v",
        "--release",
        "r.json",
        "-l",
        "b.db",
        "--reason",
        "proof 12",
    )
    assert epsilog(*allow, "--amount", "0.5", cwd=tmp_path).returncode == 2
    assert epsilog(*allow, "--amount", "epsilon=0.5", cwd=tmp_path).returncode == 0
    with open_ledger(tmp_path / "b.db") as books:
        books.charge("acme", ep.Laplace(0.1), key="v", amount={"epsilon": "0.5"})
    shown = epsilog("ledger", "show", "-l", "b.db", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["overridden"] == [{"scope": "acme", "key": "v"}]
    assert "attested by the owner" in epsilog("ledger", "show", "-l", "b.db", cwd=tmp_path).stdout


def test_a_key_is_shown_with_its_scope_where_there_are_several(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        for scope in ("acme/a", "acme/b"):
            books.create_budget(scope, kind="pure", epsilon="3")
            books.charge(scope, ep.PureDP(0.5), key="v")
    told = epsilog("ledger", "show", "-l", "b.db", cwd=tmp_path).stdout
    assert "v at acme/a" in told
    assert "v at acme/b" in told
    assert "v at" not in epsilog("ledger", "show", "acme/a", "-l", "b.db", cwd=tmp_path).stdout


def test_a_ledger_that_cannot_be_used_ends_a_command_in_words(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="pure", epsilon="3")
    os.link(tmp_path / "b.db", tmp_path / "c.db")
    (tmp_path / "file").write_text("")
    for command in (
        ("ledger", "show", "-l", "b.db"),
        ("ledger", "create", "x", "--kind", "pure", "--epsilon", "1", "-l", "c.db"),
        ("ledger", "create", "x", "--kind", "pure", "--epsilon", "1", "-l", "file/b.db"),
        ("ledger", "create", "x", "--kind", "pure", "--epsilon", "1", "-l", "."),
    ):
        done = epsilog(*command, cwd=tmp_path)
        assert done.returncode == 6, (command, done.stderr)
        assert done.stderr.startswith("epsilog: ")
        assert "Traceback" not in done.stderr


def test_a_scope_that_no_budget_has_is_said_to_be_unknown(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme/claims", kind="pure", epsilon="3")
    for typo in ("acme/claim", "acme/claims/2", "Acme"):
        shown = epsilog("ledger", "show", typo, "-l", "b.db", cwd=tmp_path)
        assert (shown.returncode, "it has 'acme/claims'" in shown.stderr) == (2, True)
    assert epsilog("ledger", "show", "acme", "-l", "b.db", cwd=tmp_path).returncode == 0


def test_ctrl_c_ends_a_command_in_words(tmp_path):
    command = [sys.executable, "-m", "epsilog", "selftest", "--folder", "."]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while not list(tmp_path.glob("*/*.acks")):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert said.strip().endswith("epsilog: stopped; completed writes are kept")

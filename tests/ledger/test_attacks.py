"""Sixteen ways in which a faster ledger was once broken, each tried on every database that keeps one.

What has tests of its own elsewhere: 5 (isolation, lost connections) in ``postgres/test_postgres``, 8 (interrupts) in
``sqlite/test_interrupts``, 9 (forks) in ``sqlite/test_alone``, 10 (groups) in ``server/test_command_route`` and
``server/test_group_commit``, 14 (formats) in ``sqlite/test_schema``, and of 16 the protocol in ``server/test_server``.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.ledger.stores import AVAILABLE, STORES, InFile
from tests.server.conftest import serving

from epsilog.ledger import Ledger, open_ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.sqlite.version import sqlite
from epsilog.mechanisms import PureDP, ZeroConcentratedDP
from epsilog.server import create_app
from epsilog.terms import (
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    StorageError,
)

PURE = {"kind": "pure", "epsilon": "0.01", "privacy_unit": "person"}
COST = PureDP(0.001)
DORA = {"actor": "dora", "reason": "agreed"}


@pytest.fixture(params=[name for name in STORES if name != "memory"])
def place(request, tmp_path):
    if request.param not in AVAILABLE:
        pytest.skip(f"no server or driver for {request.param}: run scripts/system-packages")
    return STORES[request.param](tmp_path)


@pytest.fixture
def ledger(place):
    with Ledger(place.open()) as opened:
        opened.create_budget("acme", **PURE)
        yield opened


def test_1_an_acknowledged_charge_is_answered_again_at_a_full_cap_and_after_a_restart(place, ledger):
    for number in range(10):
        ledger.charge("acme/x", COST, key=f"k{number}")
    ledger.create_budget("other", **PURE)
    with Ledger(place.open()) as later:
        for one in (ledger, later):
            assert all(one.charge("acme/x", COST, key=f"k{number}").replayed for number in range(10))
            with pytest.raises(BudgetExceededError):
                one.charge("acme/x", COST, key="k10")
        later.verify()


def test_2_a_history_that_was_seen_is_required_for_ever(place, ledger):
    """An older state is put in place: the second call is refused as the first."""
    ledger.charge("acme/x", COST, key="a")
    with Ledger(place.open()) as other, other._store.reading() as session:
        old, entries = session.head(), len(list(session.rows()))
        balance = session.balances(["acme"])[0].document()
    for key in ("b", "c"):
        ledger.charge("acme/x", COST, key=key)
    remove(place, entries, "bc")
    place.edit("head", 1, count=old[0], hash=old[1])
    place.edit("balances", "acme", document=balance)
    for key in ("b", "c", "d"):
        with pytest.raises(LedgerIntegrityError, match="not the one that this process has seen"):
            ledger.charge("acme/x", COST, key=key)


def remove(place, entries, keys):
    """Deletes the entries after one, and charges, behind the back of who has the ledger open."""
    mark = "?" if isinstance(place, InFile) else "%s"
    statements = [(f"DELETE FROM entries WHERE position > {mark}", entries)]  # noqa: S608
    statements += [(f"DELETE FROM charges WHERE key = {mark}", key) for key in keys]  # noqa: S608
    for statement, value in statements:
        if isinstance(place, InFile):
            with closing(sqlite.connect(place.path)) as connection, connection:
                assert connection.execute(statement, [value]).rowcount
        else:
            assert place.run(statement, value)


def test_3_a_budget_is_created_once_and_before_its_charges(place, ledger):
    ledger.charge("acme/x/y", COST, key="k")
    with Ledger(place.open()) as other:
        for scope, caps in (("acme", {"epsilon": "5"}), ("acme/x", {}), ("acme/x/y", {})):
            with pytest.raises(ConflictError, match=r"exists already|must be created before any charge"):
                other.create_budget(scope, **(PURE | caps))
        assert other.balance("acme").spent == {"epsilon": "0.001"}


def test_4_a_budget_in_which_one_order_is_enough_counts_each_charge(ledger):
    ledger.create_budget("renyi", kind="rdp", orders=[8, 64], epsilon="4", delta="1e-6")
    for made in range(1000):
        try:
            ledger.charge("renyi", ZeroConcentratedDP(0.01), key=f"k{made}")
        except BudgetExceededError:
            break
    assert ledger.balance("renyi").spent == {
        "rdp_8": f"{0.08 * made:.2f}".rstrip("0"),
        "rdp_64": f"{0.64 * made:.2f}".rstrip("0"),
    }
    ledger.verify()


@pytest.mark.parametrize(
    "changes",
    [{"simulation": True}, {"relation": "replace-one"}, {"privacy_unit": "visit"}, {"amount": {"epsilon": "0.0001"}}],
)
def test_7_no_field_of_a_request_is_ignored(ledger, changes):
    ledger.charge("acme/x", COST, key="first")
    asked = ChargeAtOnce.from_json(ChargeAtOnce("acme/x", COST, key="second").to_json() | changes)
    with pytest.raises((ConflictError, CheckError)):
        ledger.execute(asked)
    with pytest.raises((ConflictError, CheckError)):  # the key of one charge with another request
        ledger.execute(ChargeAtOnce.from_json(asked.to_json() | {"key": "first"}))
    ledger.mark_restored(**DORA)
    with pytest.raises(ConflictError, match="was restored from a backup"):
        ledger.charge("acme/x", COST, key="third")
    assert ledger.balance("acme").spent == {"epsilon": "0.001"}


def test_11_one_bad_line_fails_alone(ledger):
    ledger.charge("acme/x", COST, key="first")
    bad = [ChargeAtOnce("nowhere", COST, key="n"), ChargeAtOnce("acme/x", PureDP(9.0), key="much")]
    good = [ChargeAtOnce("acme/x", COST, key=f"k{number}") for number in range(4)]
    found = ledger.charge_many([good[0], bad[0], good[1], bad[1], *good[2:]], atomic=False)
    assert [isinstance(one, EpsilogError | ValueError) for one in found] == [False, True, False, True, False, False]
    assert ledger.balance("acme").spent == {"epsilon": "0.005"}


def test_12_keys_and_scopes_beyond_ascii_are_stored_canonically(place, ledger):
    for key in ("k\u00e9", "\u4e2d", "\U0001f511", 'q"\\'):
        for scope in ("acme/\u00e9", "acme/x"):
            ledger.charge(scope, COST, key=key)
    for key in ("", "\x7f", "a\u0301", "k\u200b", "x" * 501, "\ud800"):
        with pytest.raises(CheckError, match="key must"):
            ledger.charge("acme/x", COST, key=key)
    with Ledger(place.open()) as other:
        assert other.verify().count == 9


@pytest.mark.parametrize("column", ["document", "hash", "scope"])
def test_15_an_edited_row_is_found(place, ledger, column):
    for number in range(4):
        ledger.charge("acme/x", COST, key=f"k{number}")
    place.edit("entries", 4, **{column: "acme/y" if column == "scope" else "0" * 64})
    with pytest.raises(LedgerIntegrityError, match="entry 4"), Ledger(place.open()) as other:
        other.verify()


def test_15_an_edited_balance_is_found(place, ledger):
    for number in range(4):
        ledger.charge("acme/x", COST, key=f"k{number}")
    less = ledger.balance("acme").document().replace('"0.004"', '"0.003"')
    place.edit("balances", "acme", document=less)
    with pytest.raises(LedgerIntegrityError, match="stored balance 'acme'"), Ledger(place.open()) as other:
        other.verify()


@pytest.fixture
def file(tmp_path):
    with open_ledger(tmp_path / "l.db") as opened:
        opened.create_budget("acme", **PURE)
        opened.charge("acme/x", COST, key="first")
        yield opened, tmp_path / "l.db"


@pytest.mark.parametrize("table", ["entries", "charges", "balances"])
def test_6_a_trigger_that_drops_rows_is_refused(file, table):
    ledger, path = file
    with closing(sqlite.connect(path)) as other, other:
        other.execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
    for key in "ab":
        with pytest.raises((LedgerIntegrityError, StorageError)):
            ledger.charge("acme/x", COST, key=key)
    assert ledger.head()[0] == 2


def test_13_whoever_empties_the_log_breaks_nothing(file):
    ledger, path = file
    for number in range(3):
        with closing(sqlite.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.charge("acme/x", COST, key=f"k{number}")
    assert ledger.verify().count == 5


def test_16_a_second_name_is_refused_before_anything_is_written(file, tmp_path):
    ledger, path = file
    os.link(path, tmp_path / "other.db")
    for key in "abc":
        with pytest.raises(StorageError, match="2 names"):
            ledger.charge("acme/x", COST, key=key)
    (tmp_path / "other.db").unlink()
    assert ledger.head()[0] == 2


def test_16_a_server_answers_its_probe_while_another_process_holds_the_file(file):
    ledger, path = file
    ledger.close()
    body = {"scope": "acme/x", "release": {"v": 1, "term": {"type": "pure", "epsilon": 0.001}}}
    with serving(create_app(ledger=str(path))) as site, ThreadPoolExecutor(3) as pool:
        assert site.post("ledger/charge", body | {"key": "k0"}).status == 200
        with closing(sqlite.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [pool.submit(site.post, "ledger/charge", body | {"key": f"k{number}"}) for number in (1, 2, 3)]
            while len(site.asked) < 4:
                time.sleep(0.01)
            assert site.ask("GET", "/healthz").status == 200
            assert not any(one.done() for one in waiting)
            other.execute("ROLLBACK")
        assert {one.result().status for one in waiting} == {200}

import re
import sqlite3
from contextlib import closing

import pytest

from epsilog.ledger import Ledger, open_ledger, read_ledger, verify_ledger
from epsilog.ledger.commands import COMMANDS, Start
from epsilog.ledger.sqlite import SqliteStore, is_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError, ConflictError, LedgerIntegrityError, NeighboringRelation, StorageError

HASH = "ab" * 32
OTHER = "cd" * 32
PURE = {"v": 1, "term": {"type": "pure", "epsilon": 0.1}}


@pytest.fixture
def charge(ledger: Ledger):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    return ledger.reserve("acme/claims", PureDP(0.25), key="run-1", rounds=3)


def test_every_budget_on_the_path_must_bear_it_and_nothing_is_written_otherwise(ledger):
    ledger.create_budget("acme", kind="approximate", epsilon="1", delta="1e-6")
    ledger.create_budget("acme/claims", kind="pure", epsilon="0.6")
    ledger.create_budget("acme/claims/anna", kind="pure", epsilon="0.5")
    ledger.charge("acme/claims/anna", PureDP(0.5), key="q-1")
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.reserve("acme/claims/berta", PureDP(0.2), key="q-2")
    assert (refusal.value.scope, refusal.value.requested, refusal.value.available) == (
        "acme/claims",
        {"epsilon": "0.2"},
        {"epsilon": "0.1"},
    )
    assert "at most epsilon 0.1" in refusal.value.hint
    assert ledger.verify().count == 4
    assert ledger.find("q-2") is None
    ledger.charge("acme/claims/berta", PureDP(0.1), key="q-2")
    ledger.charge("acme/other", PureDP(0.4), key="q-3")
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.charge("acme", PureDP(1e-9), key="q-4")
    assert (refusal.value.scope, refusal.value.available) == ("acme", {"epsilon": "0", "delta": "0.000001"})


def test_simulations_and_real_runs_never_share_a_budget(ledger):
    ledger.create_budget("real", kind="pure", epsilon="1")
    ledger.create_budget("toy", kind="pure", epsilon="1", simulation=True)
    ledger.charge("toy", PureDP(0.1), key="1", simulation=True)
    for scope, simulation in (("real", True), ("toy", False)):
        with pytest.raises(ConflictError, match="simulation must be that of the budget"):
            ledger.reserve(scope, PureDP(0.1), key="2", simulation=simulation)


def test_relations_and_units_never_mix(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="1", privacy_unit="school")
    with pytest.raises(ConflictError, match="relation must be that of the budget"):
        ledger.reserve("acme", PureDP(0.1), key="1", relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(ConflictError, match="privacy_unit must be that of the budget"):
        ledger.reserve("acme", PureDP(0.1), key="1", privacy_unit="pupil")
    stated = ledger.reserve("acme", PureDP(0.1), key="1", privacy_unit="school")
    assert ledger.reserve("acme", PureDP(0.1), key="2").request == stated.request
    ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    ledger.create_budget("other", kind="pure", epsilon="1")
    for scope, unit in (("acme/claims", None), ("acme/claims", "school"), ("other", "school")):
        with pytest.raises(ConflictError, match="privacy_unit must be that of the budget"):
            ledger.reserve(scope, PureDP(0.1), key="3", privacy_unit=unit)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "pld", "epsilon": "1"}, "kind must be one of pure"),
        ({"kind": "pure"}, "caps of a pure budget must be epsilon, got none"),
        ({"kind": "pure", "epsilon": "1", "delta": "0"}, "caps of a pure budget must be epsilon, got"),
        ({"kind": "pure", "epsilon": "-1"}, "epsilon must be"),
        ({"kind": "pure", "epsilon": float("inf")}, "epsilon must be finite"),
        ({"kind": "approximate", "epsilon": "1", "delta": "1e-19"}, "delta must be 0 or at least one unit"),
        ({"kind": "pure", "epsilon": "1", "privacy_unit": " "}, "privacy_unit must be"),
        ({"kind": "pure", "epsilon": "1", "relation": "replace"}, "relation must be one of"),
    ],
)
def test_bad_budgets_are_refused_by_name(ledger, arguments, message):
    with pytest.raises(ValueError, match=message):
        ledger.create_budget("acme", **arguments)
    assert ledger.verify().count == 0


@pytest.mark.parametrize("scope", ["", "/", "a//b", "/a", "a/", "a/ b", "a\nb", "e\u0301", "\ud800", "x" * 501])
def test_bad_scopes_are_refused(ledger, scope):
    with pytest.raises(ValueError, match="scope must be"):
        ledger.create_budget(scope, kind="pure", epsilon="1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": " "}, "key must be"),
        ({"key": "a\0b"}, "key must be"),
        ({"plan_hash": "abc"}, "plan_hash must be a SHA-256"),
        ({"rounds": 0}, "rounds must be"),
        ({"simulation": 1}, "simulation must be True or False"),
        ({"delta": "1"}, r"delta must be in \(0, 1\)"),
        ({"delta": "0"}, r"delta must be in \(0, 1\)"),
        ({"delta": "nan"}, "delta must be a decimal"),
        ({"release": "gaussian"}, "release must be a Release"),
        ({"amount": {"rho": "1"}}, "amount must name epsilon"),
        ({"amount": {1: "1"}}, "quantity must be one of epsilon, delta, rho, mu_squared and rdp_ORDER, got 1"),
        ({"amount": "1"}, "amount must be a Mapping, got '1'"),
        ({"amount": {"epsilon": "1", "delta": "1e-9"}}, "amount must have delta 0 under a pure budget"),
        ({"amount": {"epsilon": "1"}, "delta": "1e-9"}, "delta must be left out where amount is given"),
        ({"scope": "other"}, "scope must lie at or under a budget, got 'other'"),
    ],
)
def test_bad_requests_are_refused_by_name(ledger, changes, message):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    arguments = {"scope": "acme", "release": PureDP(0.1), "key": "1"} | changes
    with pytest.raises(ValueError, match=message):
        ledger.reserve(arguments.pop("scope"), arguments.pop("release"), **arguments)
    assert ledger.verify().count == 1


def traced(ledger):
    """The statements of the connection that whoever comes next is given, with their values."""
    statements = []
    with ledger._store._borrow_connection() as connection:
        connection.set_trace_callback(statements.append)
    return statements


@pytest.mark.slow
def test_a_charge_costs_the_same_however_long_the_history_is(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="100")
    statements = traced(ledger)

    def counted(key):
        statements.clear()
        ledger.charge("acme/claims/anna", PureDP(0.01), key=key)
        return [re.sub(r"'[^']*'|\b\d+\b", "?", sql) for sql in statements]

    ledger.charge("acme/claims/anna", PureDP(0.01), key="before")
    first = counted("first")
    for number in range(100):
        ledger.charge("acme/claims/anna", PureDP(0.01), key=f"q-{number}")
    assert counted("last") == first
    assert len(first) >= 9
    assert not [
        sql for sql in first if "SELECT" in sql and "WHERE" not in sql and "LIMIT" not in sql and "head" not in sql
    ]


def test_a_ledger_is_told_by_its_content_and_read_without_being_changed(ledger, path, charge, tmp_path):
    ledger.close()
    before = path.read_bytes()
    assert is_ledger(path)
    assert verify_ledger(path).count == 2
    with read_ledger(path) as reader:
        assert reader.balance("acme").reserved == {"epsilon": "0.25"}
        assert not {"reserve", "charge", "create_budget"} & set(dir(reader))
        assert (reader.find("run-1").state, reader.find("2")) == ("reserved", None)
        assert not {"start", "commit", "cancel"} & set(dir(reader.find("run-1")))
    looking = Ledger(SqliteStore(path, read_only=True))
    with looking, pytest.raises(StorageError, match="open for reading only"):
        looking.reserve("acme", PureDP(0.1), key="2")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    text = tmp_path / "report.json"
    text.write_text("{}" * 100)
    assert not is_ledger(text)
    with pytest.raises(LedgerIntegrityError, match="not a database"):
        open_ledger(text)
    assert text.read_text() == "{}" * 100


def test_another_program_s_database_is_left_alone(tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = other.read_bytes()
    for opened in (open_ledger, read_ledger, verify_ledger):
        with pytest.raises(LedgerIntegrityError, match="not an epsilog ledger"):
            opened(other)
    assert other.read_bytes() == before


def test_a_missing_ledger_is_made_to_write_and_missed_to_read(path):
    with pytest.raises(ValueError, match="must be a file that exists"):
        read_ledger(path)
    assert not path.parent.exists()
    open_ledger(f"sqlite:///{path}").close()
    assert verify_ledger(path).count == 0


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("round-release", {"round": 1, "output_hash": "zz"}),
        ("round-release", {"round": 1}),
        ("round-release", {"round": "1", "output_hash": HASH}),
        ("round-start", {"round": 1, "more": 2}),
        ("round-start", {"round": 2**63}),  # more than a database holds
        ("commit", {"evidence": {"rounds": "zz"}}),
        ("commit", {"evidence": {1: HASH}}),
        ("commit", {"evidence": None}),
        ("commit", {"scope": "acme//x"}),
        ("reserve", {"scope": "acme"}),
        ("override-cost", {"scope": "acme", "release": PURE, "amount": None, "reason": "none"}),
        ("override-cost", {"scope": "acme", "release": PURE, "amount": {"epsilon": "1"}, "reason": " "}),
    ],
)
def test_no_entry_is_written_that_verify_would_not_read(tmp_path, name, fields):
    with open_ledger(tmp_path / "ledger.db") as books:
        books.create_budget("acme", kind="pure", epsilon="1")
        charge = books.reserve("acme", PureDP(0.1), key="one")
        charge.start()
        charge.round_started(1)
        before = books.head()
        with pytest.raises(ValueError, match="must"):
            books.execute(COMMANDS[name].from_json({"key": "one", **fields}))
        assert books.head() == before
        books.verify()


@pytest.mark.parametrize("key", [None, 1, {}, "", "a\0b", "x" * 501])
@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger, key: ledger.find(key),
        lambda ledger, key: ledger.execute(Start(key=key)),
        lambda ledger, key: ledger.charge("acme", PureDP(0.1), key=key),
    ],
    ids=["find", "start", "charge"],
)
def test_what_is_no_key_is_refused_by_name(ledger, ask, key):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    with pytest.raises(ValueError, match="key must be"):
        ask(ledger, key)
    assert ledger.head()[0] == 1

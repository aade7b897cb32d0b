"""Pages of the chain, newest first, are the history read backwards; and a check that tells how far it is."""

from contextlib import closing

import pytest
from tests.ledger.stores import charge_in_steps

from epsilog.ledger import replay
from epsilog.ledger.sqlite.version import sqlite
from epsilog.ledger.store import parse_row
from epsilog.mechanisms import PureDP
from epsilog.terms import LedgerIntegrityError


@pytest.fixture
def scopes(ledger):
    for top in ("acme", "acme2", "lab"):
        ledger.create_budget(top, kind="pure", epsilon="100")
    for i in range(12):
        scope = ("acme", "acme/anna", "acme2/ben", "lab/x")[i % 4]
        charge_in_steps(ledger, scope, PureDP(0.25), key=f"k{i}")
    return (None, "acme", "acme/anna", "acme2", "lab", "nobody")


@pytest.mark.parametrize("limit", [1, 4])
def test_pages_joined_are_the_history_backwards(ledger, scopes, limit):
    for scope in scopes:
        found, before = [], None
        while page := ledger.page(scope, before=before, limit=limit):
            assert len(page) <= limit
            found, before = found + page, page[-1].index
        assert found == list(ledger.history(scope))[::-1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        *(({"before": before}, "before must be") for before in (0, 1.5, "x")),
        *(({"limit": limit}, "limit must be") for limit in (0, None, 10**30)),
        *(({"verb": verb}, "verb must be one of") for verb in ("spent",)),
    ],
)
def test_a_page_of_what_is_no_index_number_or_verb_is_refused_by_name(ledger, scopes, asked, message):
    with pytest.raises(ValueError, match=message):
        ledger.page("acme", **asked)


def test_a_check_tells_how_far_it_is_and_can_be_ended(ledger, scopes, monkeypatch):
    monkeypatch.setattr(replay, "REPORT_EVERY", 10)
    seen = []
    assert ledger.verify(progress=seen.append).count == 39
    assert seen == [10, 20, 30]

    def enough(count):
        raise InterruptedError(count)

    with pytest.raises(InterruptedError):
        ledger.verify(progress=enough)
    assert ledger.verify().count == 39


def test_spending_adds_up_to_the_balance_to_the_last_unit(ledger, scopes):
    ledger.create_budget("small", kind="approximate", epsilon="1", delta="1e-6")
    for i, (epsilon, delta) in enumerate((("0.1", "1e-9"), ("0.2", "0"), ("0.000000001", "1e-18"))):
        ledger.charge("small/a", PureDP(i * 5e-10), key=f"s{i}", amount={"epsilon": epsilon, "delta": delta})
    ledger.reserve("small/a", PureDP(0.01), key="waits")
    found = ledger.spending("small")
    assert [dict(sums) for _, sums in found] == [
        {"epsilon": "0.1", "delta": "0.000000001"},
        {"epsilon": "0.3", "delta": "0.000000001"},
        {"epsilon": "0.300000001", "delta": "0.000000001000000001"},
    ]
    assert found[-1][1] == ledger.balance("small").spent
    assert ledger.spending("small", limit=2) == found[1:]
    everything = ledger.spending("acme")
    assert [entry.key for entry, _ in everything] == ["k0", "k1", "k4", "k5", "k8", "k9"]
    assert everything[0][1] == everything[0][0].amounts["pure"]
    assert ledger.spending("lab", limit=100)[-1][1]["epsilon"] == "0.75"
    with pytest.raises(ValueError, match="scope must have a budget"):
        ledger.spending("lab/x")


def test_a_balance_that_does_not_bear_its_charges_is_no_sum(ledger, path, scopes):
    document = ledger.balance("lab").document()
    with closing(sqlite.connect(path)) as raw, raw:
        raw.execute("update balances set document = ? where scope = 'lab'", (document.replace('"0.75"', '"0.25"'),))
    with pytest.raises(LedgerIntegrityError, match="is not in the balance"):
        ledger.spending("lab")


# --- a history is told as it is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [3, 500])
def test_a_history_is_all_entries_in_order_however_many_are_read_at_once(ledger, scopes, monkeypatch, at_once):
    for name in ("_AT_FIRST", "_AT_ONCE"):
        monkeypatch.setattr(f"epsilog.ledger.view.{name}", at_once)
    everything = list(ledger.history())
    assert [entry.index for entry in everything] == list(range(1, 40))
    for scope in scopes[1:]:
        chosen = [entry for entry in everything if f"{entry.scope}/".startswith(f"{scope}/")]
        assert list(ledger.history(scope)) == chosen
        assert list(ledger.history(scope, after=20)) == [entry for entry in chosen if entry.index > 20]
    assert list(ledger.history(after=39)) == list(ledger.history(after=99)) == []
    with pytest.raises(ValueError, match="after must be at least 0"):
        ledger.history(after=-1)


def test_the_first_entries_of_a_history_are_read_without_the_rest(ledger, scopes, monkeypatch):
    for name in ("_AT_FIRST", "_AT_ONCE"):
        monkeypatch.setattr(f"epsilog.ledger.view.{name}", 5)
    told = ledger.history()
    read = []
    monkeypatch.setattr("epsilog.ledger.view.parse_row", lambda row: read.append(row) or parse_row(row))
    first = [next(told) for _ in range(3)]
    assert [entry.index for entry in first] == [1, 2, 3]
    assert len(read) == 3


def test_who_reads_a_history_stands_in_nobodys_way_and_hears_of_nothing_later(ledger, scopes, monkeypatch):
    for name in ("_AT_FIRST", "_AT_ONCE"):
        monkeypatch.setattr(f"epsilog.ledger.view.{name}", 5)
    indexes = []
    for entry in ledger.history("acme"):
        ledger.charge("acme", PureDP(0.25), key=f"later {entry.index}")
        indexes.append(entry.index)
    assert indexes[-1] <= 39
    assert ledger.head()[0] == 39 + len(indexes)


def test_an_entry_that_was_changed_ends_a_history_with_its_index(ledger, path, scopes):
    with closing(sqlite.connect(path)) as raw, raw:
        raw.execute("update entries set document = replace(document, '\"0.25\"', '\"0.24\"') where position = 20")
    told = ledger.history()
    with pytest.raises(LedgerIntegrityError, match="entry 20:"):
        list(told)

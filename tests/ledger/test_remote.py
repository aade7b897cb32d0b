"""What a reader of a server's ledger believes: nothing that does not follow from the entries."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest
from tests.ledger.conftest import Clock
from tests.ledger.test_replay import every_verb

from epsilog.ledger import Ledger, replay
from epsilog.ledger.remote import RemoteStore
from epsilog.ledger.remote.connection import Connection
from epsilog.ledger.remote.store import RemoteSession
from epsilog.terms import LedgerIntegrityError, PermissionDeniedError, StorageError


@pytest.fixture(scope="module")
def rows():
    return every_verb(Clock())[0]


def verify(rows, head, balances, later=None):
    """The check of a server that says so; ``later`` is its head after it was asked for the balances."""
    heads = iter((head, later or head))
    session = SimpleNamespace(head=lambda: next(heads), balances=lambda _: balances, rows=lambda: iter(rows))

    @contextmanager
    def reading():
        yield session

    store = SimpleNamespace(reading=reading)
    return RemoteStore.verify(store, progress=None, seconds=60.0, since=None)


def test_a_server_is_held_to_its_entries(rows):
    known = replay.replay_entries(iter(rows))
    head, balances = (known.count, known.head), list(known.balances.values())
    assert (verify(rows, head, balances).count, verify(rows, head, balances).head) == head
    for wrong in ((known.count + 1, known.head), (known.count, "ab" * 32), (known.count - 1, known.head)):
        with pytest.raises(LedgerIntegrityError, match="head that the server states"):
            verify(rows, wrong, balances)


@pytest.mark.parametrize("limit", [None, 1, 3, 7, 10_000])
@pytest.mark.parametrize("start", [None, 1, 5])
def test_rows_are_asked_for_until_there_are_enough(rows, start, limit):
    """A server that tells three entries at a time, and refuses to be asked for none."""

    def get(path, *, scope, after, limit):
        assert (path, scope) == ("/rows", None)
        assert limit >= 1
        told = [row.document for row in rows if row.position > after]
        return {"documents": told[: min(limit, 3)], "more": len(told) > min(limit, 3)}

    found = RemoteSession(SimpleNamespace(get=get)).rows(start=start, limit=limit)
    expected = [row.document for row in rows[(start or 1) - 1 :][:limit]]
    assert [row.document for row in found] == expected


@pytest.mark.parametrize("limit", [1, 3, 7, 10_000])
@pytest.mark.parametrize("before", [1, 2, 9, 10**6])
def test_a_page_is_asked_for_in_parts_that_join(rows, monkeypatch, before, limit):
    monkeypatch.setattr("epsilog.ledger.remote.store._AT_ONCE", 4)

    def get(path, *, before, limit, scope, verb):
        assert (path, scope, verb) == ("/page", "acme", "spend")
        assert 1 <= limit <= 4
        return {"documents": [row.document for row in rows[::-1] if row.position < before][:limit]}

    found = RemoteSession(SimpleNamespace(get=get)).page(before=before, limit=limit, scope="acme", verb="spend")
    expected = [row.position for row in rows[::-1] if row.position < before][:limit]
    assert [entry.index for entry in found] == expected


def test_a_server_that_tells_an_entry_again_is_found_out(rows):
    told = {"documents": [rows[0].document], "more": True}
    found = RemoteSession(SimpleNamespace(get=lambda *_, **__: told)).rows()
    with pytest.raises(LedgerIntegrityError, match="entry 1: is out of order"):
        list(islice(found, 3))


def test_balances_are_compared_where_nothing_came_between(rows):
    known = replay.replay_entries(iter(rows))
    head = known.count, known.head
    wrong = [replace(one, scope=f"{one.scope}-other") for one in known.balances.values()]
    with pytest.raises(LedgerIntegrityError, match="balances of the server"):
        verify(rows, head, wrong)
    assert verify(rows, head, wrong, later=(known.count + 1, "ab" * 32)).count == known.count


def test_a_closed_connection_hangs_up_and_asks_nothing():
    hung_up = []
    first, late = (SimpleNamespace(close=lambda name=name: hung_up.append(name)) for name in ("first", "late"))
    connection = Connection("http://127.0.0.1:9")
    connection._return_idle(first, closing=False)
    assert hung_up == []
    connection.close()
    assert hung_up == ["first"]
    connection._return_idle(late, closing=False)
    assert hung_up == ["first", "late"]
    with pytest.raises(StorageError, match="is closed"):
        connection.get("/head")


def test_nobody_speaks_for_others_through_a_server():
    store = object.__new__(RemoteStore)
    with pytest.raises(PermissionDeniedError, match="by their token"):
        Ledger(store).on_behalf_of("sam")

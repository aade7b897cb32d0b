"""What every store keeps of its word: the contract of ``spend.store``, on each store that we have."""

import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from tests.ledger.stores import AVAILABLE, STORES, everything

from epsilog.ledger import Amounts, ChargeState, Verb, replay, tables
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord, RoundState
from epsilog.ledger.entries import GENESIS, Entry, hash_entry
from epsilog.ledger.store import StoredRow
from epsilog.terms import LedgerIntegrityError, NeighboringRelation, StorageError

NOTHING = Amounts.zero(["epsilon"])
SCOPES = ["acme", "acme/x", "acme/x/y", "acme-2", "acme0", "acme/x", "ac", "z"]
NAME = ("acme", "key")
VERBS = [Verb.RESERVED, Verb.STARTED, Verb.ROUND_STARTED]


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    if request.param not in AVAILABLE:
        pytest.skip(f"no server or driver for {request.param}: run scripts/system-packages")
    return STORES[request.param](tmp_path)


@pytest.fixture
def store(place):
    opened = place.open()
    yield opened
    opened.close()


def append(session, *, scope="acme", verb=Verb.STARTED, body=None):
    """Adds an entry that follows; whether it keeps the ledger's rules is not the store's business."""
    count, head = session.head()
    entry = Entry(count + 1, head, "2026-01-01T00:00:00+00:00", verb, scope, "key", body=body or {})
    session.append(StoredRow.of(entry))
    return entry


def budget(scope, committed="0"):
    spent = Amounts.from_charge({"epsilon": committed})
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    caps = Amounts.from_cap({"epsilon": "1"})
    return Balance(scope, "pure", relation, None, False, caps, NOTHING, NOTHING, spent)


def charge(key, scope, state=ChargeState.RESERVED):
    return ChargeRecord(key, scope, state, {"pure": NOTHING}, rounds=None, opened=1)


def test_a_new_store_is_empty_and_sound(store):
    with store.reading() as session:
        session.check()
        assert session.head() == (0, GENESIS)
        assert list(session.rows()) == session.page(before=9, limit=9) == session.balances(None) == []
        assert session.charge(NAME) is session.round(NAME, 1) is session.last_round(NAME) is None
        assert session.find_charges("key") == []
        assert not session.has_charges("acme")
        assert session.below("acme") == []
        replay.compare_stored_state(replay.replay_entries(session.rows()), session.read_stored_state())
        with pytest.raises(LedgerIntegrityError, match="entry 1: is missing"):
            session.entry(1)


def test_what_is_written_is_read_by_whoever_opens_it_later(place, store):
    with store.writing() as session:
        written = [append(session, scope=scope) for scope in ("acme", "acme/x")]
        session.put_balances([budget("acme"), budget("acme/x")])
        session.put_balances([budget("acme", committed="0.5")])
        session.put_charge(charge("key", "acme/x"))
        session.put_charge(charge("key", "acme/x", ChargeState.STARTED))
        session.put_charge(charge("key", "acme"))
        for state in (RoundState(1, 1), RoundState(1, 2, "ab" * 32), RoundState(2, 1)):
            session.put_round(NAME, state)
        session.put_round(("acme/x", "key"), RoundState(1, 7))
    store.close()
    later = place.open(read_only=True)
    with later.reading() as session:
        session.check()
        assert session.head() == (2, hash_entry(written[1].document()))
        assert [row.document for row in session.rows()] == [entry.document() for entry in written]
        assert [session.entry(index) for index in (1, 2)] == written
        assert session.balances(None) == [budget("acme", committed="0.5"), budget("acme/x")]
        assert session.balances(["acme/x", "acme", "nobody"]) == session.balances(None)
        assert session.balances(["acme/x"]) == [budget("acme/x")]
        assert session.charge(("acme/x", "key")) == charge("key", "acme/x", ChargeState.STARTED)
        rounds = [RoundState(1, 2, "ab" * 32), RoundState(2, 1)]
        assert (session.rounds(NAME), session.rounds(("acme/x", "key"))) == (rounds, [RoundState(1, 7)])
        assert [session.round(NAME, number) for number in (1, 2, 3)] == [*rounds, None]
        assert (session.last_round(NAME), session.rounds(("ac", "key"))) == (rounds[1], [])
        stored = everything(session)[1]
        assert stored.head == session.head()
        assert stored.balances == {one.scope: one.document() for one in session.balances(None)}
        under = charge("key", "acme/x", ChargeState.STARTED)
        assert stored.charges == {NAME: charge("key", "acme").document(), under.id: under.document()}
        assert session.find_charges("key") == [charge("key", "acme"), under]
        assert stored.rounds == {(NAME, 1): rounds[0], (NAME, 2): rounds[1], (under.id, 1): RoundState(1, 7)}
    later.close()


def test_tables_longer_than_a_page_are_read_whole(store, monkeypatch):
    monkeypatch.setattr(tables, "_PAGE_ROWS", 2)
    with store.writing() as session:
        written = [append(session, scope=scope) for scope in ("a", "b", "c", "d", "e")]
        for scope in ("a", "b", "c"):
            session.put_charge(charge("key", scope))
            for number in (1, 2, 3):
                session.put_round((scope, "key"), RoundState(number, 1))
    with store.reading() as session:
        assert [row.document for row in session.rows()] == [entry.document() for entry in written]
        assert [row.position for row in session.rows(start=2)] == [2, 3, 4, 5]
        stored = everything(session)[1]
        assert [*stored.charges] == [(scope, "key") for scope in ("a", "b", "c")]
        assert [*stored.rounds] == [((scope, "key"), number) for scope in ("a", "b", "c") for number in (1, 2, 3)]


def test_a_transaction_sees_its_own_writes_and_leaves_nothing_when_it_fails(store):
    with store.writing() as session:
        append(session)
    with store.reading() as session:
        before = everything(session)
    with suppress(ZeroDivisionError), store.writing() as session:
        entry = append(session)
        session.put_balances([budget("acme")])
        session.put_charge(charge("key", "acme"))
        session.put_round(NAME, RoundState(1, 1))
        assert session.head() == (2, hash_entry(entry.document()))
        assert session.entry(2) == entry
        assert session.has_charges("acme")
        assert (session.charge(NAME), session.last_round(NAME)) == (charge("key", "acme"), RoundState(1, 1))
        assert session.balances(["acme"]) == [budget("acme")]
        raise ZeroDivisionError
    with store.reading() as session:
        assert everything(session) == before
        assert session.head()[0] == 1


def test_what_lies_below_a_scope_is_told_apart_from_its_neighbors(store):
    with store.writing() as session:
        session.put_balances([budget(scope) for scope in dict.fromkeys(SCOPES)])
    with store.reading() as session:
        found = {scope: [one.scope for one in session.below(scope)] for scope in ("acme", "acme/x", "acme/x/y", "a")}
    assert found == {"acme": ["acme/x", "acme/x/y"], "acme/x": ["acme/x/y"], "acme/x/y": [], "a": []}


@pytest.mark.parametrize("reads", [False, True])
def test_a_part_is_undone_by_itself(store, reads):
    with store.writing() as session:
        append(session, scope="first")
        with session.part():
            append(session, scope="second")
            session.put_balances([budget("second")])
        with suppress(ZeroDivisionError), session.part():
            append(session, scope="third")
            session.put_balances([budget("second", "0.5"), budget("third")])
            session.put_charge(charge("k", "third"))
            if reads:  # what reads the table has the moved balances and the head written first
                assert len(session.balances(None)) == 2
                assert session.read_stored_state().head[0] == 3
            raise ZeroDivisionError
        assert session.balances(["second", "third"]) == [budget("second")]
        assert session.intact
        append(session, scope="fourth")
    with store.reading() as session:
        assert [row.scope for row in session.rows()] == ["first", "second", "fourth"]
        assert session.balances(None) == [budget("second")]
        assert (session.charge(("third", "k")), session.head()[0]) == (None, 3)
        session.check()


def test_a_view_does_not_change_while_others_write(place, store):
    other = place.open()

    def write():
        with other.writing() as session:
            append(session)
            session.put_charge(charge("key", "acme"))

    with store.reading() as session:
        assert session.head() == (0, GENESIS)
        writer = threading.Thread(target=write)
        writer.start()
        writer.join(0.2)  # some stores let it write now, others when the view is given back
        assert list(session.rows()) == []
        assert session.charge(NAME) is None
    writer.join()
    with store.reading() as session:
        assert session.head()[0] == 1
        assert session.charge(NAME) is not None
    other.close()


def test_there_is_one_writer_at_a_time_and_the_next_builds_on_what_it_wrote(place, store):
    other, begun = place.open(), threading.Event()

    def write():
        with other.writing() as session:
            begun.set()
            append(session, scope="second")

    with store.writing() as session:
        writer = threading.Thread(target=write)
        writer.start()
        assert not begun.wait(0.2)
        append(session, scope="first")
    writer.join()
    assert begun.is_set()
    with store.reading() as session:
        assert [row.scope for row in session.rows()] == ["first", "second"]
        assert session.entry(2).previous == hash_entry(session.entry(1).document())
    other.close()


@pytest.fixture
def filled(store):
    with store.writing() as session:
        written = [
            append(session, scope=SCOPES[number % len(SCOPES)], verb=VERBS[number % 3], body={"n": number})
            for number in range(40)
        ]
        for number, scope in enumerate(["acme/x/y", "acme0"]):
            session.put_charge(charge(str(number), scope))
    return written


def under(entry, scope):
    return scope is None or f"{entry.scope}/".startswith(f"{scope}/")


@pytest.mark.parametrize("scope", [None, "acme", "acme/x", "acme-2", "a", "nobody"])
def test_entries_are_told_from_any_index_of_any_subtree_forwards_and_backwards(store, filled, scope):
    chosen = [entry for entry in filled if under(entry, scope)]
    with store.reading() as session:
        for start in (None, 0, 1, 17, 40, 41):
            later = [entry.index for entry in chosen if entry.index >= (start or 0)]
            assert [row.position for row in session.rows(start=start, scope=scope)] == later
            for limit in (1, 3, 100):
                assert [row.position for row in session.rows(start=start, scope=scope, limit=limit)] == later[:limit]
        for before, limit, verb in ((41, 3, None), (20, 100, None), (1, 5, None), (41, 4, VERBS[1]), (9, 2, VERBS[2])):
            if verb is None or scope is not None:
                page = [entry for entry in chosen if entry.index < before and verb in (None, entry.verb)]
                assert session.page(before=before, limit=limit, scope=scope, verb=verb) == page[::-1][:limit]


def test_a_scope_has_the_charges_at_and_under_it(store, filled):
    with store.reading() as session:
        found = {scope: session.has_charges(scope) for scope in ("acme", "acme/x", "acme/x/y", "acme0", "acme-2", "a")}
    assert [scope for scope, there in found.items() if there] == ["acme", "acme/x", "acme/x/y", "acme0"]


def test_a_store_for_reading_or_that_is_closed_takes_nothing(place, store):
    reader = place.open(read_only=True)
    with pytest.raises(StorageError, match="for reading only"), reader.writing():
        pass
    reader.close()
    reader.close()
    for view in (reader.reading, store.reading):
        store.close()
        with pytest.raises(StorageError, match="is closed"), view():
            pass


@pytest.mark.slow_beyond(24)
@pytest.mark.parametrize("document", ["", "[]", "{}", '{"scope": 1}'])
@pytest.mark.parametrize(
    ("row", "ask"),
    [
        (("balances", "acme"), lambda session: session.balances(["acme"])),
        (("balances", "acme"), lambda session: session.balances(None)),
        (("charges", NAME), lambda session: session.charge(NAME)),
        (("entries", 2), lambda session: session.entry(2)),
        (("entries", 2), lambda session: session.page(before=9, limit=9)),
        (("entries", 3), lambda session: session.head()),
    ],
)
def test_what_was_edited_is_refused_by_whoever_reads_it(place, store, row, ask, document):
    with store.writing() as session:
        for scope in ("acme", "acme/x", "acme"):
            append(session, scope=scope)
        session.put_balances([budget("acme")])
        session.put_charge(charge("key", "acme"))
        ask(session)
    store.close()
    place.edit(*row, document=document)
    with pytest.raises(LedgerIntegrityError), opened(place) as session:
        ask(session)


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (("head", 1), {"count": 2}),
        (("head", 1), {"count": 4}),
        (("head", 1), {"hash": "ab" * 32}),
        (("entries", 3), {"position": 4}),
        (("balances", "acme"), {"document": budget("acme/x").document()}),
        (("charges", NAME), {"document": charge("other", "acme").document()}),
        (("charges", NAME), {"document": charge("key", "acme/x").document()}),
    ],
)
def test_what_was_put_in_the_place_of_another_is_refused(place, store, row, changes):
    def ask(session):
        return session.head(), session.balances(["acme"]), session.charge(NAME)

    with store.writing() as session:
        for _ in range(3):
            append(session)
        session.put_balances([budget("acme")])
        session.put_charge(charge("key", "acme"))
        ask(session)
    store.close()
    place.edit(*row, **changes)
    with pytest.raises(LedgerIntegrityError), opened(place) as session:
        ask(session)


@contextmanager
def opened(place):
    """A view by somebody who opens the store now."""
    store = place.open(read_only=True)
    try:
        with store.reading() as session:
            yield session
    finally:
        store.close()


def test_there_are_as_many_views_as_are_asked_for(store):
    with store.writing() as session:
        append(session)
    with ExitStack() as views:
        assert {views.enter_context(store.reading()).head()[0] for _ in range(40)} == {1}
    with store.writing() as session:
        assert session.head()[0] == 1


def test_threads_of_one_store_write_one_chain(store):
    def write(name):
        for _ in range(5):
            with store.writing() as session:
                append(session, scope=name)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("one", "two", "three")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with store.reading() as session:
        entries = [session.entry(index) for index in range(1, 16)]
        assert session.head() == (15, hash_entry(entries[-1].document()))
    assert sorted(entry.scope for entry in entries) == ["one"] * 5 + ["three"] * 5 + ["two"] * 5
    assert [entry.previous for entry in entries] == [GENESIS, *(hash_entry(entry.document()) for entry in entries[:-1])]

"""Whatever is changed in the rows of a ledger, or in the bytes of its file, is noticed."""

import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.extent import amount
from tests.ledger.stores import charge_in_steps, everything

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.entries import GENESIS, hash_entry
from epsilog.ledger.sqlite import SqliteStore
from epsilog.ledger.sqlite.version import sqlite
from epsilog.ledger.view import check_by_replay
from epsilog.mechanisms import PureDP
from epsilog.terms import LedgerIntegrityError

HASH = "ab" * 32
TABLES = {
    "head": ("format", "count", "hash"),
    "entries": ("position", "scope", "document", "hash"),
    "balances": ("scope", "document"),
    "charges": ("key", "scope", "document"),
    "rounds": ("key", "number", "attempts", "output_hash"),
}


@pytest.fixture
def store(path, clock):
    with open_ledger(path, clock=clock) as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="2", delta="1e-5")
        ledger.create_budget("acme/claims", kind="pure", epsilon="1")
        charge_in_steps(ledger, "acme/claims/anna", PureDP(0.25), key="q-1")
        ledger.reserve("acme", PureDP(0.125), key="q-2").cancel("not needed")
        run = ledger.reserve("acme/claims", PureDP(0.5), key="run", rounds=2, plan_hash=HASH)
        run.start()
        run.round_started(1)
        run.round_released(1, output_hash=HASH)
        run.round_started(2)
        run.round_started(2)
    store = SqliteStore(path)
    yield store
    store.close()


def tampered(store, *changes):
    """Verifies after some SQL, in a transaction that is rolled back."""
    with store.writing() as session:
        for sql, *parameters in changes:
            assert session._raw.execute(sql, tuple(parameters)).rowcount == 1
        check_by_replay(session)
        raise AssertionError(f"not noticed: {changes}")


def cells(store):
    """Every cell of every row, as (table, column, rowid, value, bytes)."""
    with store.reading() as session:
        for table, columns in TABLES.items():
            for column in columns:
                sql = f"SELECT rowid, {column}, CAST({column} AS BLOB) FROM {table}"  # noqa: S608
                for rowid, value, raw in session._raw.execute(sql).fetchall():
                    yield table, column, rowid, value, raw


def flips(store, every, bits):
    """Changes of one bit in one byte of one cell: bits of integers, and one bit of every so many bytes of texts."""
    count = 0
    for table, column, rowid, value, raw in cells(store):
        if isinstance(value, int):
            for bit in range(0, 48, 1 if every < 10 else 7):
                yield f"UPDATE {table} SET {column} = ? WHERE rowid = ?", value ^ (1 << bit), rowid  # noqa: S608
        elif raw is not None:
            for place in range(len(raw)):
                count += 1
                if count % every == 0:
                    changed = raw[:place] + bytes([raw[place] ^ (1 << (place % bits))]) + raw[place + 1 :]
                    yield f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", changed, rowid  # noqa: S608


def proven(session):
    """What the proof is made from, or why it cannot be read."""
    try:
        return everything(session)
    except LedgerIntegrityError as error:
        return str(error)


@pytest.mark.slow
def test_flipped_bytes_all_over_every_row_reach_the_proof(store):
    """Every third byte, and so bytes of every field; that the proof then refuses each one, ``test_chain`` holds."""
    chosen, tried = list(flips(store, every=amount(9, 3), bits=7)), 0
    with store.writing() as session:
        execute = session._raw.execute
        whole = proven(session)
        for sql, *parameters in chosen:
            execute("SAVEPOINT whole")
            try:
                assert execute(sql, tuple(parameters)).rowcount == 1
                assert proven(session) != whole, f"not read: {sql} with {parameters}"
                tried += 1
            except sqlite.IntegrityError:
                pass  # as above
            execute("ROLLBACK TO whole")
        assert proven(session) == whole
    assert tried > amount(800, 2400)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2**60)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "0.5", "acme", HASH]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["pure", "epsilon", "round"]), inner),
    max_leaves=4,
)


def nodes(document, path=()):
    """Every place in a JSON document, as a path."""
    yield path
    for name, inner in document.items() if isinstance(document, dict) else ():
        yield from nodes(inner, (*path, name))


@pytest.mark.slow
@settings(max_examples=amount(12, 36), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_rewritten_entry_with_right_hashes_is_judged_and_never_crashes(store, data):
    """A forger with a calculator: the rules and the stored balances are then all that speaks against it."""
    with store.reading() as session:
        originals = [row.document for row in session.rows()]
        head = session.head()[1]
    documents = [json.loads(original) for original in originals]
    chosen = data.draw(st.sampled_from(documents))
    *path, name = data.draw(st.sampled_from([path for path in nodes(chosen) if path]))
    place = chosen
    for step in path:
        place = place[step]
    place[name] = data.draw(JSON)
    previous, changes, texts = GENESIS, [], []
    for position, document in enumerate(documents, 1):
        document["previous"] = previous
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        previous = hash_entry(text)
        texts.append(text)
        changes.append(("UPDATE entries SET document = ?, hash = ? WHERE position = ?", text, previous, position))
    try:
        tampered(store, *changes, ("UPDATE head SET hash = ?", previous))
    except LedgerIntegrityError:
        return
    except AssertionError:  # it passed: then a head kept elsewhere is what shows it
        assert (previous == head) == (texts == originals)


def test_a_damaged_index_is_noticed_though_every_entry_is_whole(store):
    with store.reading() as session:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_entries_scope'"
        page = session._raw.execute(sql).fetchone()[0]
        size = session._raw.execute("PRAGMA page_size").fetchone()[0]
    store.close()
    raw = bytearray(store.path.read_bytes())
    place = raw.rindex(b"acme/claims", (page - 1) * size, page * size)
    raw[place] ^= 1
    store.path.write_bytes(raw)
    with pytest.raises(LedgerIntegrityError, match="SQLite finds the file damaged"):
        verify_ledger(store.path)


def told(ledger):
    """What a ledger says, by table and by index."""
    history = list(ledger.history()), list(ledger.history("acme"))
    charge = ledger.find("run")
    return *history, ledger.budgets(), charge.state, charge.rounds_started, charge.request


def flip_file(path, copy, place, story):
    """Flips one bit of the file; either that is noticed, or nothing that the ledger says has changed."""
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1 << (place % 8)
    copy.write_bytes(raw)
    try:
        verify_ledger(copy)
        with read_ledger(copy) as ledger:
            assert told(ledger) == story, f"byte {place} changed the story unnoticed"
    except LedgerIntegrityError:
        return True
    return False


@pytest.mark.parametrize("every", [amount(2503, 293)])
def test_flipped_bytes_of_the_file_are_noticed_or_mean_nothing(store, tmp_path, every):
    store.close()
    with read_ledger(store.path) as ledger:
        story = told(ledger)
    places = range(0, store.path.stat().st_size, every)
    noticed = sum(flip_file(store.path, tmp_path / "copy.db", place, story) for place in places)
    assert noticed > len(places) // 8

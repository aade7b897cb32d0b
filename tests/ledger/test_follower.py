"""A copy that follows its ledger has what the ledger has, and never what breaks a rule or replaces what was copied."""

import json
import random
import sqlite3
from contextlib import closing, contextmanager, nullcontext
from functools import partial

import pytest
from tests.extent import amount
from tests.ledger.conftest import Clock
from tests.ledger.stores import AVAILABLE, STORES
from tests.ledger.test_replay import every_verb, rehashed
from tests.ledger.test_templates import live
from tests.server.conftest import serving

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
from epsilog.ledger.backups import copy_ledger, restore_backup
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.follower import LedgerFollower
from epsilog.ledger.sqlite import SqliteStore, is_backup
from epsilog.ledger.tables import SqlSession
from epsilog.mechanisms import ApproximateDP, PureDP
from epsilog.server import create_app
from epsilog.terms import BatchRefusedError, ConflictError, LedgerIntegrityError, StorageError

DORA = {"actor": "dora", "reason": "as agreed"}


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
        yield ledger


@pytest.fixture
def follower(tmp_path, ledger):
    with LedgerFollower(tmp_path / "l.db", tmp_path / "copy.db") as follower:
        yield follower


def content(path):
    """All that is stored in a ledger or a copy."""
    with closing(SqliteStore(path, read_only=True)) as store, store.reading() as session:
        stored = session.read_stored_state()
        rows = [*session.rows()]
        return rows, stored.head, stored.balances, dict(stored.charges.items()), dict(stored.rounds.items())


class Part:
    """A store that ends at an entry, and may have other rows."""

    address = "a part"

    def __init__(self, rows):
        self.rows_given = rows

    @contextmanager
    def reading(self):
        yield self

    def close(self):
        pass

    def head(self):
        last = self.rows_given[-1]
        return last.position, last.hash

    def rows(self, *, start, limit):
        return iter(self.rows_given[start - 1 : start - 1 + limit])


@pytest.mark.parametrize("seed", range(amount(2, 20)))
def test_a_copy_of_a_life_has_all_of_it_whatever_the_steps(tmp_path, monkeypatch, seed):
    live(tmp_path / "l.db", seed, amount(150, 400))
    rows, *state = content(tmp_path / "l.db")
    draws = random.Random(seed)  # noqa: S311
    monkeypatch.setattr("epsilog.ledger.follower._MAX_ROWS", draws.choice([1, 3, 50]))
    copy, count, follower = tmp_path / "copy.db", 0, None
    while count < len(rows):
        if follower is None or draws.random() < 0.2:
            if follower is not None:
                follower.close()
            follower = LedgerFollower(tmp_path / "l.db", copy)
        follower._open_source = partial(Part, rows[: min(len(rows), count + draws.randint(1, 40))])
        found = follower.update()
        assert found.added == found.count - count
        count = found.count
        assert verify_ledger(copy).head == found.head == rows[count - 1].hash
    follower.close()
    assert content(copy) == (rows, *state)


def test_it_copies_what_is_new_and_counts_costs(ledger, follower, tmp_path):
    assert (follower.update().count, follower.update().added) == (1, 0)
    for number in range(3):
        ledger.charge("acme/anna", PureDP(0.1), key=f"k-{number}")
    found = follower.update()
    assert (found.count, found.added, found.rechecked, found.unchecked) == (4, 3, 3, 0)
    assert found.head == ledger.head()[1]
    with read_ledger(tmp_path / "copy.db") as copy:
        assert dict(copy.balance("acme").available) == dict(ledger.balance("acme").available)
        assert copy.find("k-2").state == "committed"


def test_a_cost_is_rechecked_once_and_later_if_time_was_short(ledger, follower, monkeypatch):
    ledger.charge("acme", ApproximateDP(0.1, 0.0), key="one")
    found = follower.update(seconds=-1)
    assert (found.rechecked, found.unchecked) == (0, 1)
    asked, bound = [], follower._replay.costs.judge.__globals__["bound_cost_below"]
    monkeypatch.setattr("epsilog.ledger.cost.bound_cost_below", lambda *given: asked.append(given) or bound(*given))
    assert follower.update().rechecked == follower.update().rechecked == len(asked) == 1


def test_a_copy_takes_no_charge_and_is_restored_like_a_backup(ledger, follower, tmp_path):
    ledger.charge("acme", PureDP(0.5), key="one")
    follower.update()
    copy = tmp_path / "copy.db"
    assert is_backup(copy)
    with pytest.raises(StorageError, match="backup"):
        open_ledger(copy)
    with closing(SqliteStore(copy, read_only=True)) as store, pytest.raises(ConflictError, match="copy of a ledger"):
        store.writing().__enter__()
    with pytest.raises(StorageError, match="may still be at"):
        restore_backup(copy, tmp_path / "again.db", **DORA)
    ledger.close()
    (tmp_path / "l.db").rename(tmp_path / "l.away")
    assert restore_backup(copy, tmp_path / "again.db", **DORA).count == 3
    with open_ledger(tmp_path / "again.db") as again:
        assert again.balance("acme").available["epsilon"] == "9.5"


def test_a_backup_goes_on_as_a_copy(ledger, tmp_path):
    ledger.charge("acme", PureDP(0.5), key="one")
    copy_ledger(tmp_path / "l.db", tmp_path / "saved.db")
    ledger.charge("acme", PureDP(0.5), key="two")
    with LedgerFollower(tmp_path / "l.db", tmp_path / "saved.db") as follower:
        assert follower.update().added == 1
    assert content(tmp_path / "saved.db") == content(tmp_path / "l.db")


def test_what_is_no_copy_of_this_ledger_is_refused(ledger, follower, tmp_path):
    follower.update()
    with pytest.raises(StorageError, match="no copy of a ledger"):
        LedgerFollower(tmp_path / "l.db", tmp_path / "l.db")
    with open_ledger(tmp_path / "other.db") as other:
        other.create_budget("acme", kind="pure", epsilon="10")
    with pytest.raises(StorageError, match="no copy of a ledger"):
        LedgerFollower(tmp_path / "l.db", tmp_path / "other.db")
    with pytest.raises(StorageError, match="copy of another ledger"):
        LedgerFollower(tmp_path / "other.db", tmp_path / "copy.db")
    (tmp_path / "text.db").write_text("text")
    with pytest.raises(StorageError, match="no copy of a ledger"):
        LedgerFollower(tmp_path / "l.db", tmp_path / "text.db")
    with pytest.raises(ValueError, match="exists"):
        LedgerFollower(tmp_path / "none.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_every_verb_is_copied_one_entry_at_a_time_or_all_at_once(ledger, tmp_path, monkeypatch):
    rows, stored = every_verb(Clock())
    for most in (1, 1000):
        monkeypatch.setattr("epsilog.ledger.follower._MAX_ROWS", most)
        copy = tmp_path / f"{most}.db"
        with LedgerFollower(tmp_path / "l.db", copy) as follower:
            follower._open_source = partial(Part, rows)
            assert follower.update().added == len(rows)
        state = [stored.head, dict(stored.balances), dict(stored.charges.items()), dict(stored.rounds.items())]
        assert content(copy) == (rows, *state)


def charged(ledger, count):
    for number in range(count):
        ledger.charge("acme/anna", PureDP(0.1), key=f"k-{number}")
    with ledger._store.reading() as session:
        return [*session.rows()]


def rewritten(rows, start, **changed):
    """A forger's rows with right hashes: the entry at an index has other fields, and all later ones follow it."""
    documents = [json.loads(row.document) for row in rows]
    documents[start - 1] |= changed
    return rehashed(documents)


def test_a_ledger_that_was_cut_or_rewritten_is_refused_and_the_copy_stays(ledger, follower, tmp_path):
    rows = charged(ledger, 5)
    follower.update()
    kept = content(tmp_path / "copy.db")
    more = charged(ledger, 8)  # the first five are there already
    for other, index in (
        (rows[:5], "entry 6: was copied, but the ledger has only 5 entries now"),
        (rewritten(rows, 6, key="k-x"), "entry 6: was copied, and is another one in the ledger now"),
        (rewritten(more, 6, key="k-x"), "entry 7: does not follow from the entry before it"),
        (rewritten(more, 2, time="2020-01-01T00:00:00+00:00"), "entry 7: does not follow"),
    ):
        follower._open_source = partial(Part, other)
        for _ in range(2):
            with pytest.raises(LedgerIntegrityError, match=index):
                follower.update()
    assert content(tmp_path / "copy.db") == kept
    follower._open_source = partial(Part, more)
    assert follower.update().added == 3


def test_a_copy_ends_before_the_first_entry_that_breaks_a_rule(ledger, follower, tmp_path):
    rows = charged(ledger, 9)
    cheap = json.loads(rows[6].document)["amounts"]
    overspent = json.loads(json.dumps(cheap).replace("0.1", "99"))
    forged = rewritten(rows, 7, amounts=overspent)
    for _ in range(2):
        follower._open_source = partial(Part, forged)
        with pytest.raises(LedgerIntegrityError, match="entry 7: breaks a rule"):
            follower.update()
        assert verify_ledger(tmp_path / "copy.db").count == 6
    follower._open_source = partial(Part, rows)
    assert follower.update().added == 4


def test_a_charge_that_costs_more_than_it_says_is_told_at_each_update(ledger, follower, tmp_path):
    rows = charged(ledger, 3)
    cheap = json.loads(rows[3].document)["amounts"]
    forged = rewritten(rows, 4, amounts=json.loads(json.dumps(cheap).replace("0.1", "0.01")))
    for _ in range(2):
        follower._open_source = partial(Part, forged)
        with pytest.raises(LedgerIntegrityError, match=r"entry 4: charged .* costs at least"):
            follower.update()
    with LedgerFollower(tmp_path / "l.db", tmp_path / "again.db") as again:
        again._open_source = partial(Part, rows)
        assert again.update().rechecked == 3


def test_a_failed_write_is_tried_again_from_what_the_file_holds(ledger, follower, tmp_path, monkeypatch):
    charged(ledger, 3)
    for failing in ("append", "put_charge", "write_moved"):
        ledger.charge("acme", PureDP(0.1), key=failing)
        with monkeypatch.context() as broken:
            broken.setattr(SqlSession, failing, lambda *_: raised(StorageError("the disk is full")))
            with pytest.raises(StorageError, match="disk is full"):
                follower.update()
        assert follower.update().head == ledger.head()[1]
        assert content(tmp_path / "copy.db") == content(tmp_path / "l.db")


def raised(error):
    raise error


def test_of_two_followers_of_one_copy_each_goes_on_after_the_other(ledger, follower, tmp_path):
    with LedgerFollower(tmp_path / "l.db", tmp_path / "copy.db") as other:
        charged(ledger, 2)
        assert other.update().added == 3
        with pytest.raises(StorageError, match="another process writes to the copy"):
            follower.update()
        assert (follower.update().added, follower.update().count) == (0, 3)
    assert content(tmp_path / "copy.db") == content(tmp_path / "l.db")


def test_a_copy_that_was_changed_is_not_followed_into(ledger, follower, tmp_path):
    charged(ledger, 2)
    follower.update()
    follower.close()
    with closing(sqlite3.connect(tmp_path / "copy.db")) as opened, opened:
        opened.execute("UPDATE balances SET document = replace(document, '0.2', '0.1')")
    with pytest.raises(LedgerIntegrityError, match="balance 'acme' does not match"):
        LedgerFollower(tmp_path / "l.db", tmp_path / "copy.db")


def test_a_ledger_that_is_replaced_under_its_name_is_noticed(ledger, follower, tmp_path):
    """An open file would be read for ever, wherever it was moved."""
    charged(ledger, 3)
    follower.update()
    (tmp_path / "l.db").rename(tmp_path / "away.db")
    with pytest.raises(StorageError, match="cannot be opened"):
        follower.update()
    with open_ledger(tmp_path / "l.db") as other:
        other.create_budget("acme", kind="pure", epsilon="20")
        with pytest.raises(LedgerIntegrityError, match="entry 4: was copied, but the ledger has only 1 entries"):
            follower.update()


def test_readers_of_a_copy_see_it_grow(ledger, follower, tmp_path):
    follower.update()
    with read_ledger(tmp_path / "copy.db") as reader:
        assert reader.head()[0] == 1
        charged(ledger, 3)
        follower.update()
        assert reader.head() == ledger.head()
        assert reader.verify().count == 4


@pytest.mark.slow
@pytest.mark.parametrize("where", ["server", "postgres"])
def test_a_ledger_elsewhere_is_followed(where, tmp_path):
    if where == "postgres" and "postgres" not in AVAILABLE:
        pytest.skip("no server or driver for postgres: run scripts/system-packages")
    path = tmp_path / "l.db" if where == "server" else STORES[where](tmp_path).url
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
        with serving(create_app(ledger=str(path))) if where == "server" else nullcontext() as site:
            url = site.url if site else path
            with LedgerFollower(url, tmp_path / "copy.db") as follower:
                assert follower.update().count == 1
                charged(ledger, 3)
                assert (follower.update().added, follower.update().head) == (3, ledger.head()[1])
    with LedgerFollower(tmp_path / "copy.db", tmp_path / "second.db") as again:  # a copy is followed like a ledger
        assert again.update().count == 4
    assert content(tmp_path / "second.db") == content(tmp_path / "copy.db")


@pytest.mark.slow
def test_a_copy_is_served_for_reading_and_refuses_each_command(ledger, follower, tmp_path):
    charged(ledger, 2)
    follower.update()
    with serving(create_app(ledger=str(tmp_path / "copy.db"))) as site, open_ledger(site.url) as copy:
        assert (copy.head(), copy.verify().count) == (ledger.head(), 3)
        assert dict(copy.balance("acme").available) == {"epsilon": "9.8"}
        assert copy.get_headroom("acme", PureDP(0.1)).charges == 98
        for key in ("k-1", "new"):  # also what was charged before
            with pytest.raises(ConflictError, match="copy of a ledger, which takes no charge"):
                copy.charge("acme/anna", PureDP(0.1), key=key)
        with pytest.raises(ConflictError, match="copy of a ledger"):
            copy.set_cap("acme", epsilon="11", **DORA)
        with pytest.raises((ConflictError, BatchRefusedError), match="copy of a ledger"):
            copy.charge_many([ChargeAtOnce("acme", PureDP(0.1), key="many")])
        charged(ledger, 4)
        follower.update()
        assert copy.head() == ledger.head()
        assert site.ask("GET", "/readyz").status == 200
        assert dict(copy.balance("acme").available) == {"epsilon": "9.6"}
    assert content(tmp_path / "copy.db") == content(tmp_path / "l.db")

"""A ledger that was verified up to a mark: what is new is worked out, and whatever was done to the rest is found."""

import dataclasses
import json
import threading

import pytest
from tests.spend.stores import AVAILABLE, STORES, InMemory, State, everything
from tests.spend.test_chain import HASH, RUN, owners_acts, rehashed

from epsilog.spend import Amounts, Ledger, LedgerView, Mark, chain
from epsilog.spend.lives import Seals, seal_of
from epsilog.spend.records import RoundState
from epsilog.spend.rows import Stored
from epsilog.terms import CheckError, Gaussian, LedgerIntegrityError, PureDP


def story(ledger, clock):
    """Every verb, with charges open and rounds half done on the way."""
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-5")
    ledger.create_budget("acme/x", kind="pure", epsilon="5")
    ledger.charge("acme/x", PureDP(0.25), key="one")
    run = ledger.reserve("acme", PureDP(1.0), key="run", rounds=4)
    run.start()
    run.round_started(1)
    run.round_released(1, output_hash=HASH)
    run.round_started(2)
    run.round_started(2)
    run.round_released(2, output_hash="cd" * 32)
    run.round_started(3)
    run.round_released(3, output_hash=HASH)
    run.commit({"model": HASH})
    ledger.reserve("acme", PureDP(0.125), key="no").cancel("not needed")
    ledger.override_price("acme", Gaussian(1.0), key="cheap", amount={"epsilon": "0.5"}, reason="as agreed")
    ledger.reserve("acme", Gaussian(1.0), key="cheap", amount={"epsilon": "0.5"})
    owners_acts(ledger, clock)
    ledger.decommission("run", by="dora", reason="an old one")


class Told:
    """The rows of a ledger and what is stored beside them, as a store in memory that can be changed."""

    def __init__(self, rows, stored):
        self.rows, self.stored = rows, stored

    def view(self, **changes):
        memory = InMemory(None)
        rows = changes.pop("rows", self.rows)
        memory.memory.state = State(tuple(rows), dataclasses.replace(self.stored, **changes))
        return LedgerView(memory.open(read_only=True))

    def upto(self, count):
        """The same ledger when it had so many entries."""
        books = chain.fold(self.rows[:count])
        rows = {name: books.charges.document(name) for name in books.charges}
        rounds = {}
        for row in self.rows[:count]:
            entry = json.loads(row.document)
            if entry["verb"].startswith("round-"):
                at = ((entry["scope"], entry["key"]), entry["body"]["round"])
                was = rounds.get(at, chain.records.RoundState(at[1], 0))
                if entry["verb"] == "round-started":
                    rounds[at] = dataclasses.replace(was, attempts=was.attempts + 1)
                else:
                    rounds[at] = dataclasses.replace(was, output_hash=entry["body"]["output_hash"])
        balances = {scope: balance.document() for scope, balance in books.balances.items()}
        return Told(self.rows[:count], Stored((books.count, books.head), balances, rows, rounds))

    def mark(self, count):
        """A mark at an entry, as it comes out of a file."""
        return Mark.parse(self.upto(count).view().verify().mark.document())


@pytest.fixture(scope="module")
def told():
    from tests.spend.conftest import Clock

    clock, memory = Clock(), InMemory(None)
    story(Ledger(memory.open(), clock=clock), clock)
    with memory.open().reading() as session:
        return Told(*everything(session))


@pytest.fixture(scope="module")
def marks(told):
    return [told.mark(count) for count in range(len(told.rows) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("only_new", [False, True])
def test_from_every_mark_on_it_amounts_to_the_same(told, marks, only_new):
    whole = told.view().verify()
    for count, mark in enumerate(marks):
        found = told.view().verify(since=mark, only_new=only_new)
        assert found.mark.document() == whole.mark.document()
        assert (found.since, found.looked_back) == (count, not only_new)
        assert (found.count, found.head, found.balances) == (whole.count, whole.head, whole.balances)
        assert (found.priced, found.unpriced, found.restored) == (8, 0, whole.restored)
        assert found.overridden == (("acme", "cheap"),)


@pytest.mark.slow
def test_marks_lead_from_one_to_the_next_in_a_file_or_not(told, marks):
    at, beside = marks[0], chain.reprice(chain.fold([])).mark
    for count in range(1, len(marks)):
        at = Mark.parse(told.upto(count).view().verify(since=at, only_new=True).mark.document())
        beside = told.upto(count).view().verify(since=beside).mark
        assert at.document() == beside.document() == marks[count].document()


@pytest.mark.parametrize("only_new", [False, True])
def test_a_ledger_that_was_cut_is_found(told, marks, only_new):
    for count in range(len(marks) - 1):
        with pytest.raises(LedgerIntegrityError, match=rf"was cut.* of {count + 1} entries, and {count} are") as found:
            told.upto(count).view().verify(since=marks[count + 1], only_new=only_new)
        assert found.value.index == count


@pytest.mark.parametrize("only_new", [False, True])
def test_a_ledger_that_was_rewritten_before_the_mark_is_found(told, marks, only_new):
    documents = [json.loads(row.document) for row in told.rows]
    documents[3]["time"] = "2031-01-01T00:00:00+00:00"
    other = rehashed(documents)
    view = Told(other, dataclasses.replace(told.stored, head=other[-1].head)).view
    assert view().verify().count == len(other)
    assert view().verify(since=marks[3], only_new=only_new).since == 3
    for count in (4, 10, len(other)):
        with pytest.raises(LedgerIntegrityError, match=f"entry {count}: is not the one of the mark"):
            view().verify(since=marks[count], only_new=only_new)


def changed(told, at, **columns):
    """Its rows, one of them changed."""
    rows = list(told.rows)
    rows[at - 1] = rows[at - 1]._replace(**columns)
    return rows


def test_each_changed_row_before_a_mark_is_found_by_its_index(told, marks):
    at, count = marks[20], 20
    for position in range(1, count + 1):
        row = told.rows[position - 1]
        for columns in (
            {"document": row.document.replace("2026", "2027")},
            {"hash": HASH},
            {"scope": "acme/none"},
            {"scope": 3},
            {"scope": "\ud800"},
            {"position": position + 100},
            {"document": b"{}"},
        ):
            with pytest.raises(LedgerIntegrityError) as found:
                told.view(rows=changed(told, position, **columns)).verify(since=at)
            assert found.value.index in (position, *(columns.get("position", position),))
    for rows in (told.rows[:4] + told.rows[5:], [*told.rows[:4], told.rows[5], told.rows[4], *told.rows[6:]]):
        with pytest.raises(LedgerIntegrityError, match="entry 5: is missing or out of order"):
            told.view(rows=rows).verify(since=at)


def test_only_new_does_not_see_what_lies_before_the_mark_and_says_so(told, marks):
    """The control: what the documentation says is not found."""
    rows = changed(told, 3, document="{}")
    assert not told.view(rows=rows).verify(since=marks[20], only_new=True).looked_back
    charges = {**told.stored.charges, ("acme", "no"): "{}"}
    assert not told.view(charges=charges).verify(since=marks[20], only_new=True).looked_back
    for what in ({"rows": rows}, {"charges": charges}):
        with pytest.raises(LedgerIntegrityError):
            told.view(**what).verify(since=marks[20])


@pytest.mark.parametrize("only_new", [False, True])
def test_each_changed_row_after_a_mark_is_found_by_its_index(told, marks, only_new):
    for position in range(21, len(told.rows) + 1):
        for columns in ({"hash": HASH}, {"scope": "acme/none"}):
            with pytest.raises(LedgerIntegrityError) as found:
                told.view(rows=changed(told, position, **columns)).verify(since=marks[20], only_new=only_new)
            assert found.value.index in (position, len(told.rows))  # of the last the head says so too


def without(rows, name):
    return {key: row for key, row in rows.items() if key != name}


@pytest.mark.slow
def test_whatever_is_stored_of_a_charge_is_held_against_the_mark(told, marks):
    """At the mark some charges are closed, some open, some of them with rounds; and some come later."""
    for mark in (marks[9], marks[22]):
        for name, document in told.stored.charges.items():
            for row in (f"{document} ", None):
                with pytest.raises(LedgerIntegrityError):
                    told.view(charges={**told.stored.charges, name: row}).verify(since=mark)
            rest = without(told.stored.charges, name)
            for elsewhere in ({}, {("acme/none", name[1]): document}, {(b"a", name[1]): document}):
                with pytest.raises(LedgerIntegrityError, match="stored"):
                    told.view(charges=rest | elsewhere).verify(since=mark)
        for name, state in told.stored.rounds.items():
            for changed_state in (
                dataclasses.replace(state, attempts=9),
                dataclasses.replace(state, output_hash="ef" * 32),
                dataclasses.replace(state, number=7),
            ):
                with pytest.raises(LedgerIntegrityError, match="stored"):
                    told.view(rounds={**told.stored.rounds, name: changed_state}).verify(since=mark)
            with pytest.raises(LedgerIntegrityError, match="stored"):
                told.view(rounds=without(told.stored.rounds, name)).verify(since=mark)
        for key in ("more", b"more"):  # a database that was tampered with may hold anything
            name, other = ("acme", key), ("acme", "other")
            with pytest.raises(LedgerIntegrityError, match=r"stored charge b?'more' at 'acme'"):
                told.view(charges={**told.stored.charges, name: told.stored.charges["acme", "no"]}).verify(since=mark)
            rounds = {**told.stored.rounds, (other, 1): RoundState(1, 1), (name, 1): RoundState(1, 1)}
            with pytest.raises(LedgerIntegrityError, match="stored of the rounds of charge 'other'"):
                told.view(rounds=rounds).verify(since=marks[-1])


@pytest.mark.parametrize("table", ["balances", "charges", "rounds", "head"])
def test_what_is_stored_of_what_changed_is_held_even_if_only_that_is_looked_at(told, marks, table):
    mark = marks[9]  # in which "run" is open, between two rounds
    if table == "head":
        changes = [(told.stored.head[0], HASH), (told.stored.head[0] + 1, told.stored.head[1])]
    else:
        rows = getattr(told.stored, table)
        touched = [name for name in rows if table == "balances" or ("acme/x", "one") not in (name, name[0])]
        changes = [without(rows, name) for name in touched]
    for change in changes:
        with pytest.raises(LedgerIntegrityError):
            told.view(**{table: change}).verify(since=mark, only_new=True)


@pytest.mark.parametrize("only_new", [False, True])
def test_the_key_of_a_charge_that_was_closed_before_the_mark_does_not_come_again(told, marks, only_new):
    """A forger takes it out of what is stored, so that nothing in the ledger but its entries knows it."""
    documents = [json.loads(row.document) for row in told.rows[:20]]
    again = next(one for one in documents if (one["key"], one["verb"]) == ("one", "reserved"))
    forged = rehashed([*documents, again | {"index": 21}])
    charges = without(told.upto(20).stored.charges, ("acme/x", "one"))
    view = Told(forged, dataclasses.replace(told.upto(20).stored, head=forged[-1].head, charges=charges)).view
    for mark in (None, marks[20]):
        with pytest.raises(
            LedgerIntegrityError, match=r"entry 21: breaks a rule.*(reserved once|closed, since before)"
        ):
            view().verify(since=mark, only_new=only_new and mark is not None)


@pytest.mark.parametrize("only_new", [False, True])
def test_what_is_stored_of_a_closed_charge_is_not_believed_when_it_goes_on(told, marks, only_new):
    """The last entry decommissions a charge that was closed before the mark: its amounts are those that were spent."""
    mark, last = marks[-2], json.loads(told.rows[-1].document)
    assert (last["verb"], last["key"], RUN in mark.charges) == ("decommissioned", "run", False)
    cheaper = {"approximate": Amounts.charged({"epsilon": "0.5", "delta": "0"})}
    forged = last | {"amounts": {kind: dict(amount) for kind, amount in cheaper.items()}}
    rows = [*told.rows[:-1], *rehashed([*(json.loads(row.document) for row in told.rows[:-1]), forged])[-1:]]
    lie = dataclasses.replace(chain.records.ChargeRecord.parse(told.stored.charges[RUN]), amounts=cheaper).document()
    for charges in (
        told.stored.charges,
        {**told.stored.charges, RUN: lie},
        without(told.stored.charges, RUN),
    ):
        with pytest.raises(LedgerIntegrityError, match=f"entry {len(rows)}: breaks a rule"):
            told.view(rows=rows, charges=charges, head=rows[-1].head).verify(since=mark, only_new=only_new)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text.replace('"count":20', '"count":19'),
        lambda text: text.replace("a", "b", 1),
        lambda text: text.replace("0.25", "0.20"),
        lambda _: "",
        lambda _: "[]",
        lambda _: '{"mark":{},"sha256":""}',
        lambda _: "[" * 100_000,
    ],
)
def test_a_mark_that_was_damaged_is_refused(marks, damage):
    text = marks[20].document()
    assert damage(text) != text
    with pytest.raises(CheckError, match="mark must be a mark as this release writes it"):
        Mark.parse(damage(text))


def test_a_mark_is_a_file_that_is_replaced_at_once(marks, tmp_path):
    for mark in marks[::10]:
        mark.write(tmp_path / "m.mark")
        assert Mark.read(tmp_path / "m.mark").document() == mark.document()
    assert [one.name for one in tmp_path.iterdir()] == ["m.mark"]
    (tmp_path / "m.mark").write_bytes(b"\xff")
    with pytest.raises(CheckError, match="mark must be text"):
        Mark.read(tmp_path / "m.mark")


def test_a_mark_knows_all_that_the_books_know(marks):
    """Whoever gives the books more to remember gives it to the mark: else it is forgotten from there on."""
    of_what_is_new = {"prices", "promised", "since", "touched", "ask", "_reader", "_shapes"}
    apart = of_what_is_new | {"above"}  # which follows from the balances
    assert {one.name for one in dataclasses.fields(chain.Books)} - apart == {
        one.name for one in dataclasses.fields(Mark)
    } - {"priced", "unpriced"}


def test_only_new_needs_a_mark(told):
    with pytest.raises(CheckError, match="only_new must be"):
        told.view().verify(only_new=True)


def test_seals_are_found_and_replaced():
    rows = {(f"acme/{number % 3}", f"key-{number // 3}"): (f"{number}", b"") for number in range(100)}
    seals = Seals().with_charges(dict(list(rows.items())[:60])).with_charges(dict(list(rows.items())[40:]))
    assert seals == Seals().with_charges(rows)
    assert len(seals) == 100
    assert all(seals.find(name) == seal_of(*row) for name, row in rows.items())
    assert seals.find(("acme/2", "key-33")) is Seals().find(("acme/1", "key-1")) is None
    seven = "acme/1", "key-7"
    other = seals.with_charges({seven: ("other", b"")})
    assert (len(other), other.find(seven)) == (100, seal_of("other", b""))
    with pytest.raises(ValueError, match="32 bytes"):
        Seals(b"1")


@pytest.mark.parametrize("name", STORES)
def test_every_store_is_verified_from_a_mark_on(name, tmp_path, clock):
    if name not in AVAILABLE:
        pytest.skip(f"no server or driver for {name}: run scripts/system-packages")
    place = STORES[name](tmp_path)
    with Ledger(place.open(), clock=clock) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="9")
        ledger.charge("acme", PureDP(0.25), key="one")
        run = ledger.reserve("acme", PureDP(0.25), key="run")
        run.start()
        run.round_started(1)
        mark = Mark.parse(ledger.verify().mark.document())
        run.round_released(1, output_hash=HASH)
        run.commit({})
        ledger.decommission("one", by="dora", reason="old")
        whole = ledger.verify()
        for only_new in (False, True):
            assert ledger.verify(since=mark, only_new=only_new).mark.document() == whole.mark.document()
        mark = whole.mark
        place.edit("charges", RUN, document=json.dumps({}))
        assert ledger.verify(since=mark, only_new=True).since == mark.count  # nothing happened to it since
        with pytest.raises(LedgerIntegrityError, match="stored charge 'run'"):
            ledger.verify(since=mark)
        ledger.charge("acme", PureDP(0.25), key="two")
        place.edit("charges", ("acme", "two"), document=json.dumps({}))
        with pytest.raises(LedgerIntegrityError, match="stored charge 'two'"):
            ledger.verify(since=mark, only_new=True)


def test_a_writer_meanwhile_is_in_no_ones_way(path):
    from epsilog.spend import open_ledger

    with open_ledger(path) as ours, open_ledger(path) as theirs:
        ours.create_budget("acme", kind="pure", epsilon="9")
        mark, done = ours.verify().mark, threading.Event()

        def write():
            for number in range(20):
                theirs.charge("acme", PureDP(0.01), key=f"{number}")
            done.set()

        writer, rounds = threading.Thread(target=write), 0
        writer.start()
        while not done.is_set() or rounds < 2:
            mark = Mark.parse(ours.verify(since=mark, only_new=rounds % 2 == 0).mark.document())
            rounds += 1
        writer.join()
        assert ours.verify(since=mark).mark.document() == ours.verify().mark.document()
        assert ours.verify().count == 61

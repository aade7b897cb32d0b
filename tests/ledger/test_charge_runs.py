"""A chain replayed by runs of repeated charges is the one replayed by the full rules: in state, and in each refusal."""

import json
import random
from dataclasses import replace

import pytest
from tests.extent import amount
from tests.ledger.test_replay import flips, rehashed
from tests.ledger.test_templates import live

from epsilog.ledger import LedgerView, open_ledger, replay
from epsilog.ledger.charge_runs import ChargeRuns
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.entries import Entry, hash_entry
from epsilog.mechanisms import ApproximateDP, Laplace, PureDP, ZeroConcentratedDP
from epsilog.terms import BudgetExceededError, LedgerIntegrityError


@pytest.fixture
def slowly(monkeypatch):
    """Replay by the full rules alone."""

    def replayed(rows, **how):
        with monkeypatch.context() as patched:
            patched.setattr(ChargeRuns, "read", lambda *_, **__: False)
            return replay.replay_entries(rows, **how)

    return replayed


def tell(books):
    """All that a replay amounts to."""
    return {
        **{name: getattr(books, name) for name in ("count", "head", "balances", "overridden", "restored", "rounds")},
        "charges": {name: (record, books.charges.document(name)) for name, record in books.charges.items()},
        "kept": (len(books.charges), books.has_budgets, books.above, books.restore_state, books.promised),
        "costs": [replace(one) for one in books.costs._identical.values()],
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(2, 30)))
def test_a_life_is_replayed_alike(tmp_path, slowly, monkeypatch, seed):
    taken, read = [], ChargeRuns.read
    live(tmp_path / "l.db", seed, amount(200, 400))
    with open_ledger(tmp_path / "l.db") as ledger, ledger._store.reading() as session:
        rows, stored = [*session.rows()], session.read_stored_state()
        monkeypatch.setattr(ChargeRuns, "read", lambda *given, **how: taken.append(read(*given, **how)) or taken[-1])
        books = replay.replay_entries(rows)
        assert tell(books) == tell(slowly(rows))
        replay.compare_stored_state(books, stored)
    assert taken.count(True) >= 5
    for since in (0, len(rows) // 2):  # costs of the entries of a checkpoint are not counted
        found = [replay.LedgerReplay(since=since) for _ in range(2)]
        for row in rows:
            found[0].read(row)
        with monkeypatch.context() as patched:
            patched.setattr(ChargeRuns, "read", lambda *_, **__: False)
            for row in rows:
                found[1].read(row)
        assert tell(found[0]) == tell(found[1])


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Charges of two kinds, that come again and again, up to the cap to the unit."""
    with open_ledger(tmp_path_factory.mktemp("runs") / "l.db") as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="1", delta="1e-5")
        kinds = ("acme/x", PureDP(0.125)), ("acme", ApproximateDP(0.125, 1e-6))
        for number in range(8):
            ledger.execute(ChargeAtOnce(*kinds[number % 2], key=f"key {number}"))
        with ledger._store.reading() as session:
            return [*session.rows()]


def refusal(replayed, rows):
    """Why a chain is refused; None where it is not."""
    try:
        replayed(rows)
    except LedgerIntegrityError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_no_byte_of_a_repeated_charge_can_be_flipped(rows, slowly):
    assert refusal(replay.replay_entries, rows) is None
    for place in (5, len(rows) - 1):
        for column in ("scope", "document", "hash"):
            for changed in flips(getattr(rows[place], column), amount(7, 1)):
                forged = [*rows[:place], rows[place]._replace(**{column: changed}), *rows[place + 1 :]]
                said = refusal(replay.replay_entries, forged)
                assert said is not None
                assert said == refusal(slowly, forged)


CHANGES = (
    {"key": "key 1"}, {"key": "key 0"}, {"key": ""}, {"key": None}, {"key": " k"}, {"key": "k "}, {"key": "a\u0301"},
    {"key": "\u00e9"}, {"key": 'k"'}, {"key": "k\u200b"}, {"key": "\x7f"}, {"key": "k" * 501},
    {"key": "k" * 500}, {"key": 5},
    {"time": "2026-13-01T00:00:00+00:00"}, {"time": "2026-01-01T00:00:00"}, {"time": "now"}, {"time": ""}, {"time": 5},
    {"time": "2026-01-01T00:00:00Z"}, {"time": "2026-01-01T00:00:00+01:00"}, {"index": 7.0},
    {"index": 9}, {"index": "7"},
    {"index": True}, {"v": 2}, {"v": 1.0}, {"scope": "acme/y"}, {"scope": "other"}, {"scope": ""}, {"verb": "reserved"},
    {"verb": "committed"}, {"amounts": {"approximate": {"epsilon": "0.125", "delta": "0.0"}}}, {"amounts": {}},
    {"amounts": {"approximate": {"epsilon": "0.124", "delta": "0"}}}, {"body": {}}, {"more": 1},
    {"amounts": {"approximate": {"epsilon": "0.125000001", "delta": "0"}}},
    {"time": '2026-01-01"00:00:00+00:00'}, {"time": "2026-02-30T00:00:00+00:00"}, {"time": "2026-01-01 00:00:00+00:00"},
    {"time": "2026-01-01T00:00:00.5+00:00"}, {"time": "2026-01-01T23:59:60+00:00"},
    {"time": "2026-01-01T24:00:00+00:00"}, {"time": "2026-01-01T24:00:00.000001+00:00"},
    {"time": "2026-01-01T00:00:00+00:01"}, {"time": '2026-01-01T00:00:00"+00:00'},
    {"time": "\u0662026-01-01T00:00:00+00:00"}, {"time": "2026-01-01T00:00:00.000000+00:00\n"},
    {"key": 'k","previous":"' + "0" * 64}, {"key": "k\\"}, {"key": ',"index":8'}, {"key": "k\n"}, {"key": "KEY 1"},
    {"key": "k" * 100}, {"key": "k" * 101}, {"previous": "0" * 64}, {"previous": None},
)  # fmt: skip


@pytest.mark.parametrize("place", [6, 8])
def test_right_hashes_do_not_make_a_rule(rows, slowly, place):
    """A chain that is hashed anew around a changed entry is refused, or accepted, by both for the same reason."""
    said = []
    for changes in CHANGES:
        documents = [json.loads(row.document) for row in rows]
        documents[place] = documents[place] | changes
        said.append(refusal(replay.replay_entries, rehashed(documents)))
        assert said[-1] == refusal(slowly, rehashed(documents)), changes
    assert 0 < said.count(None) < len(said) / 2


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text.replace(',"key":', ', "key":'),
        lambda text: text.replace('"key":"key 7"', '"key":"\\u006bey 7"'),
        lambda text: text.replace('"key":"key 7"', '"key":"key 6","key":"key 7"'),
        lambda text: text.replace('"index":9', '"index":9.0'),
        lambda text: text.replace('"index":9', '"index":09'),
        lambda text: text.replace('"0.125"', '"0.1250"'),
        lambda text: text + " ",
        lambda text: text.replace('{"amounts"', ' {"amounts"'),
    ],
)
def test_another_spelling_is_refused_alike(rows, slowly, spell):
    document = spell(rows[-1].document)
    assert document != rows[-1].document
    forged = [*rows[:-1], rows[-1]._replace(document=document, hash=hash_entry(document))]
    said = refusal(replay.replay_entries, forged)
    assert said is not None
    assert said == refusal(slowly, forged)


def test_one_more_charge_than_fits_is_refused(rows, slowly):
    documents = [json.loads(row.document) for row in rows]
    more = {**documents[-1], "index": len(rows) + 1, "key": "one more"}
    forged = rehashed([*documents, more])
    assert "breaks a rule of the ledger: " in refusal(replay.replay_entries, forged)
    assert refusal(replay.replay_entries, forged) == refusal(slowly, forged)


def write_then(tmp_path, act):
    """The rows after four charges and an act."""
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        ledger.create_budget("acme/share", kind="pure", epsilon="0.5", quota=True)
        for number in range(4):
            ledger.charge("acme/share/x", PureDP(0.1), key=f"key {number}")
            ledger.charge("acme/x", PureDP(0.1), key=f"key {number}")
        act(ledger)
        with ledger._store.reading() as session:
            stored = session.read_stored_state()
            charges, rounds = dict(stored.charges.items()), dict(stored.rounds.items())
            return [*session.rows()], replace(stored, charges=charges, rounds=rounds)


DORA = {"actor": "dora", "reason": "agreed"}


@pytest.mark.parametrize(
    "act",
    [
        lambda ledger: ledger.retire("acme", **DORA),
        lambda ledger: ledger.mark_restored(**DORA),
        lambda ledger: ledger.set_cap("acme", epsilon="0.8", **DORA),
        lambda ledger: ledger.reserve("acme/x", PureDP(0.1), key="held"),
    ],
)
def test_a_charge_that_the_rules_refuse_by_then_is_refused(tmp_path, slowly, act):
    """It repeats one that was accepted; what came between forbids it."""
    rows, _ = write_then(tmp_path, act)
    charge = json.loads(next(row.document for row in rows[::-1] if '"key":"key 3"' in row.document))
    forged = rehashed([*(json.loads(row.document) for row in rows), charge | {"index": len(rows) + 1, "key": "more"}])
    said = refusal(replay.replay_entries, forged)
    assert said is not None
    assert said == refusal(slowly, forged)


@pytest.mark.parametrize(
    "act",
    [
        lambda ledger: ledger.decommission("key 3", scope="acme/x", **DORA),
        lambda ledger: [ledger.charge("acme/x", PureDP(0.01), key=f"more {number}") for number in range(5)],
        lambda ledger: ledger.set_cap("acme", epsilon="5", **DORA),
    ],
)
def test_what_is_stored_after_a_run_is_compared(tmp_path, slowly, act):
    rows, stored = write_then(tmp_path, act)
    books = replay.replay_entries(rows)
    replay.compare_stored_state(books, stored)
    assert tell(books) == tell(slowly(rows))


def test_a_broken_link_and_a_wrong_position_are_refused(rows, slowly):
    documents = [json.loads(row.document) for row in rows]
    for changed in ("previous", "position"):
        forged = rehashed(documents)
        if changed == "position":
            forged[7] = forged[7]._replace(position=9)
        else:
            again = rehashed([{**documents[7], "time": documents[6]["time"]}])[0]
            forged[7] = again._replace(position=8)
        said = refusal(replay.replay_entries, forged)
        assert said is not None
        assert said == refusal(slowly, forged)


def test_an_override_is_for_one_charge_in_a_checkpoint_too(tmp_path, slowly):
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        ledger.override_cost("acme", Laplace(1.0), key="a", amount={"epsilon": "0.01"}, reason="proof 12")
        ledger.charge("acme", Laplace(1.0), key="a", amount={"epsilon": "0.01"})
        with ledger._store.reading() as session:
            documents = [json.loads(row.document) for row in session.rows()]
    rows = rehashed([*documents, documents[-1] | {"index": 4, "key": "b"}])
    kept = [replay.LedgerReplay(since=4) for _ in range(2)]
    for row in rows:
        kept[0].read(row)
        kept[1].fold(Entry.parse(row.document))
    assert dict(kept[0].charges) == dict(kept[1].charges)
    assert kept[0].charges["acme", "b"].override_hash is None


def test_a_budget_in_which_one_order_is_enough_is_full_when_none_is_left(tmp_path, slowly):
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="rdp", orders=[8, 64], epsilon="4", delta="1e-6")
        for number in range(400):
            try:
                ledger.charge("acme", ZeroConcentratedDP(0.01), key=f"key {number}")
            except BudgetExceededError:
                break
        caps, spent = ledger.balance("acme").caps.units, ledger.balance("acme").spent.units
        with ledger._store.reading() as session:
            rows = [*session.rows()]
    assert any(spent[name] > cap for name, cap in caps.items())  # one order is beyond its cap, and charges went on
    assert refusal(replay.replay_entries, rows) is None
    more = json.loads(rows[-1].document) | {"index": len(rows) + 1, "key": "more"}
    forged = rehashed([*(json.loads(row.document) for row in rows), more])
    said = refusal(replay.replay_entries, forged)
    assert said is not None
    assert said == refusal(slowly, forged)


def test_a_time_that_is_none_is_refused_after_one_that_is(rows, slowly):
    """The second of a time is looked at once for the entries that share it."""
    for at, tail in (
        ("2026-02-28T12:00:00", "+00:00"), ("2026-02-28T12:00:00", ""), ("2026-02-29T12:00:00", "+00:00"),
        ("2026-02-28T12:00:00", ".00000x+00:00"),
    ):  # fmt: skip
        documents = [json.loads(row.document) for row in rows]
        for place in (6, 7):
            documents[place]["time"] = "2026-02-28T12:00:00.000001+00:00"
        documents[8]["time"] = at + tail
        said = refusal(replay.replay_entries, rehashed(documents))
        assert said == refusal(slowly, rehashed(documents))
        assert (said is None) == ((at, tail) == ("2026-02-28T12:00:00", "+00:00"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "DELETE FROM charges WHERE key IN ('key 3', 'key 5')",
        "UPDATE charges SET document = replace(document, '\"key\"', ' \"key\"') WHERE key IN ('key 2', 'key 6')",
        "UPDATE charges SET key = upper(key) WHERE key = 'key 4'",
        "UPDATE charges SET key = CAST(key AS BLOB) WHERE key = 'key 4'",
        "UPDATE charges SET document = CAST(document AS BLOB) WHERE key = 'key 4'",
        "UPDATE charges SET document = CAST(X'ff' AS TEXT) WHERE key = 'key 4'",
        "UPDATE charges SET document = CASE key WHEN 'key 1' THEN CAST(X'ff' AS TEXT) ELSE '' END",
        "UPDATE charges SET document = CASE key WHEN 'key 1' THEN '' ELSE CAST(X'ff' AS TEXT) END",
        "UPDATE charges SET scope = 'acme' WHERE key = 'key 2'",
        "INSERT INTO charges SELECT key, 'other', document FROM charges",
        "INSERT INTO charges SELECT 'a' || key, scope, document FROM charges WHERE key = 'key 0'",
        "UPDATE charges SET document = (SELECT document FROM charges other WHERE key = 'key 0')",
    ],
)
def test_what_is_stored_of_charges_is_compared_in_any_order_as_in_order(tmp_path, monkeypatch, statement):
    """The rows are read as they lie; of several that are wrong the first by its name is named."""
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
        for number in (5, 3, 0, 6, 4, 2, 1):
            ledger.charge("acme/x", PureDP(0.1), key=f"key {number}")
        ledger.decommission("key 6", scope="acme/x", **DORA)
        with ledger._store._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute(statement)
        said, compare = [], replay._compare_charges
        for quick in (True, False):
            ordered = []
            with monkeypatch.context() as patched:
                patched.setattr(replay, "_compare_charges", lambda *given, to=ordered: to.append(compare(*given)))
                if not quick:
                    patched.setattr(replay, "_has_charges", lambda *_: False)
                said.append(refusal(lambda store: LedgerView(store).verify(), ledger._store))
            assert ordered == ([] if quick or said[-1] else [None])
    assert said[0] == said[1]
    assert (said[0] is None) == (statement == "SELECT 1")


def relinked(rows, place, document):
    """The rows with one document changed, and all hashes after it made right."""
    changed, was = rows[:place], rows[place].hash
    for row in rows[place:]:
        text = document if row is rows[place] else row.document.replace(was, changed[-1].hash)
        was = row.hash
        changed.append(row._replace(document=text, hash=hash_entry(text)))
    return changed


PIECES = (
    '"',
    "\\",
    " ",
    ",",
    ":",
    "0",
    "9",
    "é",
    "a\u0301",
    "\x00",
    "\x7f",
    "\u2028",
    "k",
    "+",
    ',"index":',
    "\\u0041",
    "}",
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(1, 40)))
def test_a_changed_text_with_right_hashes_is_judged_alike(tmp_path, slowly, seed):
    """Characters are put in, taken out and replaced anywhere in the entries of a life that repeat others."""
    draws = random.Random(seed)  # noqa: S311  # a test draws no secrets
    live(tmp_path / "l.db", seed, amount(80, 200))
    with open_ledger(tmp_path / "l.db") as ledger, ledger._store.reading() as session:
        rows = [*session.rows()]
    charges = [place for place, row in enumerate(rows) if '"verb":"charged"' in row.document]
    said = []
    for _ in range(amount(40, 150)):
        place = draws.choice(charges)
        text = rows[place].document
        frame = text.rindex(',"index":') if draws.random() < 0.8 else 0
        at = draws.randrange(frame, len(text))
        piece = draws.choice(PIECES) if draws.random() < 0.7 else ""
        forged = relinked(rows, place, text[:at] + piece + text[at + draws.choice([0, 1, 1, len(piece)]) :])
        said.append(refusal(replay.replay_entries, forged))
        assert said[-1] == refusal(slowly, forged)
    assert len(set(said)) > 5

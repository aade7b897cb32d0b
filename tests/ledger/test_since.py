"""A ledger held against a signed checkpoint: all of it is worked out again but the prices of the first entries."""

import json
import re
from base64 import b64encode
from dataclasses import replace

import pytest
from tests.extent import amount
from tests.ledger.conftest import Clock
from tests.ledger.stores import InMemory, State
from tests.ledger.test_replay import HASH, every_verb, rehashed

from epsilog.ledger import Checkpoint, Ledger, LedgerView, StoredCheckpoint, replay
from epsilog.ledger.store import StoredState
from epsilog.signing import Note, SigningKey
from epsilog.terms import CheckError, LedgerIntegrityError

SIGNER, STRANGER = SigningKey.create("example.org/auditor"), SigningKey.create("example.org/stranger")
KEYS = (SIGNER.verifier,)


@pytest.fixture(scope="module")
def told():
    return every_verb(Clock())


def kept(rows, count, key=SIGNER):
    """A signed checkpoint of the first so many entries."""
    return StoredCheckpoint(
        Checkpoint.over([row.document for row in rows[:count]], origin="example.org/ledger").note(key)
    )


def view(rows, stored, **changes):
    """A ledger of these rows, of which something is stored otherwise."""
    memory = InMemory(None)
    memory.memory.state = State(tuple(rows), replace(stored, **changes))
    return LedgerView(memory.open(read_only=True))


def stored_of(rows):
    """What the entries amount to, as a forger who knows the rules stores it."""
    books, rounds = replay.replay_entries(rows), {}
    for entry in (json.loads(row.document) for row in rows):
        if entry["verb"].startswith("round-"):
            at = ((entry["scope"], entry["key"]), entry["body"]["round"])
            was = rounds.get(at, replay.charge_record.RoundState(at[1], 0))
            began = entry["verb"] == "round-started"
            rounds[at] = (
                replace(was, attempts=was.attempts + 1)
                if began
                else replace(was, output_hash=entry["body"]["output_hash"])
            )
    balances = {scope: balance.document() for scope, balance in books.balances.items()}
    charges = {name: charge.document() for name, charge in books.charges.items()}
    return StoredState((books.count, books.head), balances, charges, rounds)


def test_from_every_checkpoint_on_it_amounts_to_the_same(told):
    rows, whole = told[0], view(*told).verify()
    priced = [
        row.position
        for row in rows
        if re.search('"verb":"(reserved|charged)"', row.document) and '"key":"cheap"' not in row.document
    ]
    assert (whole.since, whole.rechecked, whole.unchecked) == (0, len(priced), 0)
    for count in range(0, len(rows) + 1, amount(5, 1)):
        found = view(*told).verify(since=kept(rows, count), keys=KEYS)
        assert (found.since, found.rechecked, found.unchecked) == (count, sum(one > count for one in priced), 0)
        assert replace(found, since=0, rechecked=whole.rechecked) == whole


def test_a_ledger_with_fewer_entries_than_the_checkpoint_is_refused(told):
    rows = told[0]
    for count in range(0, len(rows), amount(5, 1)):
        shorter = view(rows[:count], stored_of(rows[:count]))
        assert shorter.verify().count == count
        with pytest.raises(
            LedgerIntegrityError, match=rf"covers {count + 1} entries, but the ledger has {count}"
        ) as found:
            shorter.verify(since=kept(rows, count + 1), keys=KEYS)
        assert found.value.index == count


def test_a_ledger_that_forked_before_the_checkpoint_is_refused(told):
    rows, documents = told[0], [json.loads(row.document) for row in told[0]]
    documents[3]["time"] = "2031-01-01T00:00:00+00:00"
    other = rehashed(documents)
    forked = view(other, stored_of(other))
    assert forked.verify().count == len(other)
    for count in (0, *range(2, len(rows) + 1, amount(5, 1))):
        if count < 4:  # they have so much in common
            assert forked.verify(since=kept(rows, count), keys=KEYS).since == count
            continue
        with pytest.raises(LedgerIntegrityError, match=f"entry {count}: is not the last of the checkpoint"):
            forked.verify(since=kept(rows, count), keys=KEYS)


def test_the_checkpoint_of_another_ledger_is_refused(told):
    store = InMemory(None).open()
    Ledger(store, clock=Clock()).create_budget("zeta", kind="pure", epsilon="1")
    with store.reading() as session, pytest.raises(LedgerIntegrityError, match="the checkpoint is of another"):
        view(*told).verify(since=kept(list(session.rows()), 1), keys=KEYS)


@pytest.mark.slow
def test_each_changed_row_is_found_by_its_index_before_the_checkpoint_and_after(told):
    rows, stored = told
    for position, row in list(enumerate(rows, 1))[:: amount(6, 1)]:
        for columns in (
            {"document": row.document.replace("2026", "2027")},
            {"document": b"{}"},
            {"hash": HASH},
            {"scope": "acme/none"},
            {"scope": "\ud800"},
            {"position": position + 100},
        ):
            changed = [*rows[: position - 1], row._replace(**columns), *rows[position:]]
            with pytest.raises(LedgerIntegrityError) as found:
                view(changed, stored).verify(since=kept(rows, 20), keys=KEYS)
            assert found.value.index in (position, columns.get("position"))
    for swapped in (rows[:4] + rows[5:], [*rows[:4], rows[5], rows[4], *rows[6:]]):
        with pytest.raises(LedgerIntegrityError, match="entry 5: is missing or out of order"):
            view(swapped, stored).verify(since=kept(rows, 20), keys=KEYS)


@pytest.mark.parametrize("before", [True, False])
def test_prices_before_the_checkpoint_are_its_signers_word_and_later_ones_are_not(told, before):
    documents = [json.loads(row.document) for row in told[0]]
    for document in documents:
        if document["key"] == "run" and document["amounts"]:
            document["amounts"]["approximate"]["epsilon"] = "0.9"
    rows = rehashed(documents)
    (run,) = [one["index"] for one in documents if (one["key"], one["verb"]) == ("run", "reserved")]
    cheap, since = view(rows, stored_of(rows)), kept(rows, run if before else run - 1)
    if before:  # the control: what the documentation says is not looked at
        assert cheap.verify(since=since, keys=KEYS).since == run
    for asked in ({}, {"since": kept(rows, run - 1), "keys": KEYS}):
        with pytest.raises(LedgerIntegrityError, match=r"charged .*'0.9'.*costs at least .*'1'") as found:
            cheap.verify(**asked)
        assert found.value.index == run


def test_only_a_checkpoint_that_a_given_key_has_signed_is_believed(told):
    rows, sound = told[0], kept(told[0], 20)
    (signature,) = sound.note.signatures
    unsigned = StoredCheckpoint(Note(sound.note.text))
    shorter = StoredCheckpoint(Note(kept(rows, 19).note.text, (signature,)))  # with the signature of another
    broken = StoredCheckpoint(Note(sound.note.text, (replace(signature, content=bytes(64)),)))
    posing = replace(kept(rows, 20, STRANGER).note.signatures[0], name=signature.name, key_id=signature.key_id)
    for since, keys in (
        (unsigned, KEYS),
        (sound, ()),
        (kept(rows, 20, STRANGER), KEYS),
        (sound, (STRANGER.verifier,)),
        (shorter, KEYS),
        (broken, KEYS),
        (StoredCheckpoint(Note(sound.note.text, (posing,))), KEYS),
        (StoredCheckpoint(sound.note.signed_by(STRANGER)), (replace(STRANGER.verifier, name="example.org/third"),)),
        (StoredCheckpoint(Note(sound.note.text, (posing, signature))), KEYS),  # one that is none beside one that is
    ):
        with pytest.raises(CheckError, match="checkpoint must be signed by"):
            view(*told).verify(since=since, keys=keys)
    both = StoredCheckpoint(sound.note.signed_by(STRANGER))
    for keys in (KEYS, (STRANGER.verifier,), (*KEYS, STRANGER.verifier)):
        assert view(*told).verify(since=both, keys=keys).since == 20


def test_a_signed_root_that_is_none_is_refused(told):
    wrong = Note(f"example.org/ledger\n20\n{b64encode(bytes(32)).decode()}\n").signed_by(SIGNER)
    with pytest.raises(LedgerIntegrityError, match="entry 20: is not the last of the checkpoint"):
        view(*told).verify(since=StoredCheckpoint(wrong), keys=KEYS)

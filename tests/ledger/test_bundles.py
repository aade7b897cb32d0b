"""What leaves a ledger: checkpoints, bundles, receipts; each is read back, and no damage to any of them passes."""

import itertools
import json
from base64 import b64decode
from dataclasses import replace

import pytest
from tests.ledger.stores import charge_in_steps

from epsilog.ledger import (
    Checkpoint,
    Receipt,
    StoredCheckpoint,
    iterate_verified_documents,
    merkle,
    open_ledger,
    prove_consistency,
    read_ledger,
    read_verified_entries,
    write_bundle,
    write_receipt,
)
from epsilog.ledger.bundles import is_bundle
from epsilog.ledger.entries import GENESIS, Entry, hash_entry
from epsilog.ledger.receipts import read_charge_facts
from epsilog.mechanisms import PureDP
from epsilog.signing import Note, SigningKey
from epsilog.terms import CheckError, LedgerIntegrityError

# C2SP tlog-checkpoint and tlog-witness (c2sp.org), their examples; the witness's second signature is left out
CHECKPOINT = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""  # noqa: E501
REQUEST = f"""old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

{CHECKPOINT}"""
ROOT = b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")


@pytest.fixture(scope="module")
def key():
    pytest.importorskip("cryptography")
    return SigningKey.create("example.org/claims")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "l.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="2", delta="1e-5", privacy_unit="one person")
        charge_in_steps(books, "acme/anna", PureDP(0.25), key="q-1")
        run = books.reserve("acme/berta", PureDP(0.5), key="run", rounds=2, plan_hash="ab" * 32)
        run.start()
        run.round_started(1)
        books.reserve("acme", PureDP(0.125), key="q-2").cancel("not needed")
        books.register_plan("acme", "cd" * 32, key="later")
    return path


@pytest.fixture(scope="module")
def documents(ledger):
    with read_ledger(ledger) as books:
        return list(iterate_verified_documents(books))


@pytest.fixture
def bundle(documents, key, tmp_path):
    write_bundle(documents, tmp_path / "l.bundle", origin="example.org/claims", key=key)
    return tmp_path / "l.bundle"


def rewritten(documents, change):
    """A chain that holds, with one entry changed: what a forger with a calculator leaves."""
    previous, made = GENESIS, []
    for document in map(change, itertools.count(1), documents):
        made.append(replace(Entry.parse(document), previous=previous).document())
        previous = hash_entry(made[-1])
    return made


def later(index, document):
    entry = Entry.parse(document)
    return replace(entry, time="2031-01-01T00:00:00+00:00").document() if index == 4 else document


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_published_checkpoints_are_read_and_written_again():
    kept = StoredCheckpoint.parse(CHECKPOINT)
    assert kept.checkpoint == Checkpoint("example.com/behind-the-sofa", 20852163, ROOT)
    assert (str(kept), str(kept.checkpoint)) == (CHECKPOINT, kept.note.text)
    assert StoredCheckpoint.parse(f"Dear all,\n\n> {kept.note.in_one_line()}\n") == kept
    request = StoredCheckpoint.parse(REQUEST)
    assert (request.old, len(request.proof), request.note) == (20852014, 4, kept.note)
    assert str(request) == REQUEST


def test_a_checkpoint_is_of_every_entry(documents, key):
    made = Checkpoint.over(documents, origin="example.org/claims")
    assert made == Checkpoint(
        "example.org/claims", 10, merkle.compute_root([merkle.hash_leaf(d.encode()) for d in documents])
    )
    assert str(made.note(None)) == str(made)
    assert made.note(key).signatures[0].label == key.verifier.label
    for index, document in enumerate(documents):
        changed = [*documents[:index], document.replace('"v":1', '"v":2'), *documents[index + 1 :]]
        assert Checkpoint.over(changed, origin="example.org/claims").root != made.root


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("20852163", "020852163", "size"),
        ("20852163", "-1", "size"),
        ("20852163", "1.0", "size"),
        ("20852163", "", "size"),
        ("20852163", "٣", "size"),
        ("20852163", "9" * 17, "size"),
        ("20852163", "0", "root must be that of an empty tree"),
        ("q2I=\n", "q2I=\nextension\n", "three lines"),
        ("q2I=\n", "\n", "three lines|root"),
        ("q2I=", "q2J=", "one spelling"),
        ("CsUYapGGPo4d", "CsUYapGG", "32 bytes"),
        ("example.com/behind-the-sofa\n2", "example.com/behind the sofa\n2", "origin"),
        ("example.com/behind-the-sofa\n2", "\n2", "origin"),
    ],
)
def test_what_is_no_checkpoint_is_refused(old, new, why):
    with pytest.raises(CheckError, match=why):
        StoredCheckpoint.parse(CHECKPOINT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("old 20852014", "old 020852014"),
        ("old 20852014", "old"),
        ("pkaw=", "pkax="),
        ("\n\nexample", "\nexample"),
        ("Kj/0=\n", "Kj/0=\n" + "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n" * 60),
    ],
)
def test_what_is_no_proof_is_refused(old, new):
    with pytest.raises(CheckError):
        StoredCheckpoint.parse(REQUEST.replace(old, new))


def test_a_proof_without_its_checkpoint_is_named_as_that():
    with pytest.raises(CheckError, match="checkpoint must be below its proof, after an empty line"):
        StoredCheckpoint.parse(REQUEST.partition("\n\n")[0])


@pytest.mark.slow
def test_a_checkpoint_proves_that_the_ledger_only_grew(documents, key):
    states = [Checkpoint.over(documents[:size], origin="o") for size in range(len(documents) + 1)]
    other = [Checkpoint.over(rewritten(documents, later)[:size], origin="o") for size in range(len(documents) + 1)]
    for older, now in itertools.combinations_with_replacement(states, 2):
        found = StoredCheckpoint.parse(str(prove_consistency(older, documents[: now.size], now.note(key))))
        assert found.follows(older)
        for another in (*states, *other):
            same = (another.size, another.root) == (older.size, older.root)
            assert found.follows(another) is (same if another.size == older.size else None)
            assert StoredCheckpoint(found.note).follows(another) is (
                another == now if another.size == now.size else None
            )
    with pytest.raises(CheckError, match="with which it does not begin"):
        prove_consistency(other[5], documents, states[-1].note(key))
    with pytest.raises(CheckError, match="at most 3 entries"):
        prove_consistency(states[5], documents[:3], states[3].note(key))


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_a_bundle_is_the_ledger_word_for_word(ledger, bundle, documents, key):
    assert is_bundle(bundle)
    assert not is_bundle(ledger)
    from_bundle, from_file = read_verified_entries(bundle), read_verified_entries(ledger)
    assert from_bundle.documents == from_file.documents == tuple(documents)
    assert from_bundle.verified == from_file.verified
    assert (from_file.note, from_bundle.note) == (
        None,
        Checkpoint.over(documents, origin="example.org/claims").note(key),
    )
    assert [path.name for path in bundle.parent.iterdir()] == ["l.bundle"]  # nothing half-written is left


def test_a_bundle_that_cannot_be_finished_leaves_the_old_one(bundle, documents):
    def torn():
        yield documents[0]
        raise OSError(28, "No space left on device")

    before = bundle.read_bytes()
    with pytest.raises(OSError, match="No space"):
        write_bundle(torn(), bundle, origin="o")
    with pytest.raises(CheckError, match="origin"):
        write_bundle(documents, bundle, origin="two words")
    assert bundle.read_bytes() == before
    assert [path.name for path in bundle.parent.iterdir()] == ["l.bundle"]


def test_an_empty_ledger_has_a_bundle(tmp_path):
    write_bundle([], tmp_path / "b", origin="o")
    assert read_verified_entries(tmp_path / "b").verified.count == 0


def test_the_first_entry_that_fails_is_named(bundle, documents, key, tmp_path):
    lines = bundle.read_bytes().split(b"\n")
    for index in range(1, len(documents)):
        for was, now, named in (
            (b'"time":"20', b'"time":"19', index + 1),  # the next does not follow from it
            (b'"v":1', b'"v":1 ', index),  # it is no canonical JSON itself
        ):
            changed = [*lines[:index], lines[index].replace(was, now), *lines[index + 1 :]]
            assert changed != lines
            (tmp_path / "b").write_bytes(b"\n".join(changed))
            with pytest.raises(LedgerIntegrityError) as found:
                read_verified_entries(tmp_path / "b")
            assert found.value.index == named
        (tmp_path / "b").write_bytes(b"\n".join(lines[:index] + lines[index + 1 :]))
        with pytest.raises(LedgerIntegrityError) as found:
            read_verified_entries(tmp_path / "b")
        assert found.value.index == index


def test_a_chain_that_was_written_afresh_is_not_the_one_that_was_signed(bundle, documents, tmp_path):
    forged = rewritten(documents, later)
    note = bundle.read_bytes().partition(b"\n\n")[2]
    (tmp_path / "b").write_bytes(b"epsilog-bundle/v0\n" + "\n".join(forged).encode() + b"\n\n" + note)
    with pytest.raises(LedgerIntegrityError, match="the checkpoint does not match the entries"):
        read_verified_entries(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"epsilog-bundle/v0\n" + "\n".join(documents[:-1]).encode() + b"\n\n" + note)
    with pytest.raises(LedgerIntegrityError, match="covers 10 entries, but the bundle has 9"):
        read_verified_entries(tmp_path / "b")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\nno checkpoint", b"\n\xff\n"])
def test_a_bundle_without_its_checkpoint_is_broken(bundle, ending, tmp_path):
    (tmp_path / "b").write_bytes(bundle.read_bytes().partition(b"\n\n")[0] + b"\n" + ending)
    with pytest.raises(LedgerIntegrityError):
        read_verified_entries(tmp_path / "b")


# --- receipts ---------------------------------------------------------------------------------------------------------


def test_a_receipt_says_what_was_charged_and_not_where(documents, key):
    note = write_receipt(documents, key="run", origin="o", signer=key)
    receipt = Receipt.parse(note.text)
    assert receipt.included
    assert receipt.facts == {
        "amounts": {"approximate": {"delta": "0", "epsilon": "0.5"}},
        "plan_hash": "ab" * 32,
        "privacy_unit": "one person",
        "relation": "add-or-remove-one",
        "simulation": False,
        "state": "started",
    }
    entries = [Entry.parse(document) for document in documents]
    assert receipt.facts == read_charge_facts(entries, receipt.index)
    assert receipt.leaf == merkle.hash_leaf(documents[receipt.index].encode())
    for hidden in ("acme", "berta", '"run"', "run-"):
        assert hidden not in str(note)
        assert hidden not in note.in_one_line()


@pytest.mark.parametrize(("name", "state"), [("q-1", "committed"), ("q-2", "cancelled"), ("run", "started")])
def test_every_charge_has_a_receipt_of_its_last_entry(documents, key, name, state):
    for size in range(1, len(documents) + 1):
        if any(f'"key":"{name}"' in document for document in documents[:size]):
            receipt = Receipt.parse(write_receipt(documents[:size], key=name, origin="o", signer=key).text)
            assert receipt.included
            assert receipt.checkpoint.size == size
    assert receipt.facts["state"] == state


def test_there_is_no_receipt_for_what_is_no_charge(documents, key):
    for name in ("q-3", "later"):  # unknown; known, and nothing was charged
        with pytest.raises(CheckError, match="charge must be the key of a charge in this ledger"):
            write_receipt(documents, key=name, origin="o", signer=key)
    with pytest.raises(CheckError, match="that of a charge"):
        read_charge_facts([Entry.parse(documents[0])], 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilog-receipt/v0", "epsilog-receipt/v1"),
        ('"state":"started"', '"state":"allowed"'),
        ('"state":"started"', '"state":"paid"'),
        ('"state":"started"', '"state": "started"'),
        ('"state"', '"scope"'),
        ('"epsilon":"0.5"', '"epsilon":0.5'),
        ('"epsilon":"0.5"', '"epsilon":"nan"'),
        ("approximate", "approximately"),
        ("add-or-remove-one", "add-one"),
        ('"simulation":false', '"simulation":0'),
        ('"one person"', "1"),
        ("ab" * 32, "AB" * 32),
        ("\no\n", "\no o\n"),
        ("\n10\n", "\n010\n"),
    ],
)
def test_what_is_no_receipt_is_refused(documents, key, old, new):
    text = write_receipt(documents, key="run", origin="o", signer=key).text
    assert old in text
    with pytest.raises(CheckError):
        Receipt.parse(text.replace(old, new))


def test_a_receipt_of_another_entry_leads_nowhere(documents, key):
    receipt = Receipt.parse(write_receipt(documents, key="run", origin="o", signer=key).text)
    for index in range(10):
        assert replace(receipt, index=index).included is (index == receipt.index)
    assert not replace(receipt, leaf=merkle.hash_leaf(b"another")).included
    assert not replace(receipt, proof=receipt.proof[:-1]).included
    with pytest.raises(CheckError, match="at most 63"):
        replace(receipt, proof=(bytes(32),) * 64)


def test_a_file_name_tells_nothing(documents, key, tmp_path):
    """Told apart by content: a receipt is no checkpoint, whatever line begins it."""
    receipt = write_receipt(documents, key="run", origin="o", signer=key)
    with pytest.raises(CheckError):
        StoredCheckpoint.parse(str(receipt))
    with pytest.raises(CheckError):
        Receipt.parse(Note(CHECKPOINT).text)
    assert json.loads(receipt.text.split("\n")[1])["state"] == "started"

"""Whose signature counts, which ledger is the kept one, and what a bundle, a checkpoint or a receipt is worth alone."""

from dataclasses import replace

import pytest
from tests.extent import amount
from tests.signing.stated import envelope_of

from epsilog.ledger import (
    Checkpoint,
    Receipt,
    StoredCheckpoint,
    iterate_verified_documents,
    merkle,
    open_ledger,
    prove_consistency,
    read_ledger,
    write_bundle,
    write_receipt,
)
from epsilog.mechanisms import PureDP
from epsilog.signing import SUFFIX, Envelope, Note, SigningKey
from epsilog.terms import CheckError, EpsilogError, RecordError, Status
from epsilog.verification import (
    LedgerReader,
    SignatureCheck,
    TrustAnchors,
    check_file_signatures,
    check_ledger_chain,
    check_note,
    check_signatures,
    identify_artifact,
    read_checkpoint,
    read_signed,
)
from epsilog.verification.artifacts import read_receipt
from epsilog.verification.outcome import combine_statuses
from epsilog.verification.signatures import check_receipt

REQUIRED = ("ledger", "signature")


@pytest.fixture(scope="module")
def key():
    pytest.importorskip("cryptography")
    return SigningKey.create("example.org/claims")


@pytest.fixture(scope="module")
def other():
    return SigningKey.create("example.org/claims")


def charged(path, *names):
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="2")
        for name in names:
            books.charge("acme/anna", PureDP(0.25), key=name)
    with read_ledger(path) as books:
        return list(iterate_verified_documents(books))


@pytest.fixture(scope="module")
def place(tmp_path_factory, key):
    """A ledger as it was, as it is, another one, and what was signed of it."""
    folder = tmp_path_factory.mktemp("signed")
    before, now = charged(folder / "before.db", "q-1"), charged(folder / "l.db", "q-1", "q-2")
    older = Checkpoint.over(now[: len(before)], origin="o").note(key)
    (folder / "older.txt").write_text(f"> As of Monday: {older.in_one_line()}\n")
    made = prove_consistency(
        read_checkpoint(folder / "older.txt").checkpoint, now, Checkpoint.over(now, origin="o").note(key)
    )
    (folder / "checkpoint.txt").write_text(str(made))
    write_bundle(now, folder / "l.bundle", origin="o", key=key)
    write_bundle(now, folder / "unsigned.bundle", origin="o")
    write_bundle(now[: len(before) - 1], folder / "cut.bundle", origin="o", key=key)
    write_bundle(before, folder / "other.bundle", origin="o", key=key)  # the same charge at another time
    (folder / "receipt.txt").write_text(write_receipt(now, key="q-1", origin="o", signer=key).in_one_line())
    return folder


def brought(place, *keys, older=None):
    kept = None if older is None else read_checkpoint(place / older)
    return TrustAnchors(checkpoint=kept, keys=tuple(key.verifier for key in keys))


def found(findings):
    return [finding.code for finding in findings]


def verdict(findings):
    return combine_statuses(findings, required=REQUIRED)


def test_each_is_known_by_its_content(place):
    kinds = {"l.db": "ledger", "l.bundle": "bundle", "checkpoint.txt": "checkpoint", "receipt.txt": "receipt"}
    assert {name: identify_artifact(place / name) for name in kinds} == kinds
    assert identify_artifact(place / "older.txt") == "checkpoint"


def test_a_bundle_passes_with_its_signers_key_alone(place, key, other):
    sound = ["ledger/passed", "costs/passed"]
    assert found(check_ledger_chain(place / "l.bundle", brought(place, key))) == [*sound, "signature/passed"]
    assert verdict(check_ledger_chain(place / "l.bundle", brought(place, key))) == "passed"
    assert verdict(check_ledger_chain(place / "l.bundle", brought(place, other, key))) == "passed"
    for keys, bundle, code in (
        ((), "l.bundle", "signature/not-checked"),
        ((other,), "l.bundle", "signature/key-mismatch"),
        ((key,), "unsigned.bundle", "signature/missing"),
        ((), "unsigned.bundle", "signature/missing"),
    ):
        findings = check_ledger_chain(place / bundle, brought(place, *keys))
        assert found(findings) == [*sound, code]
        assert verdict(findings) == ("failed" if keys == (other,) else "not checked")
    assert found(check_ledger_chain(place / "l.db", brought(place, key))) == [*sound, "signature/missing"]
    assert found(check_ledger_chain(place / "l.db")) == sound


@pytest.mark.parametrize("name", ["l.db", "l.bundle"])
def test_a_kept_checkpoint_catches_a_ledger_that_was_cut_or_rewritten(place, key, name):
    held = check_ledger_chain(place / name, brought(place, older="older.txt"))
    assert "checkpoint/passed" in found(held)
    for other, code in (("cut.bundle", "checkpoint/truncated"), ("other.bundle", "checkpoint/rewritten")):
        findings = check_ledger_chain(place / other, brought(place, key, older="older.txt"))
        assert code in found(findings)
        assert verdict(findings) == "failed"


def test_a_checkpoint_alone_shows_that_its_ledger_only_grew(place, key, tmp_path):
    new = place / "checkpoint.txt"
    findings = check_note(new, "checkpoint", None, brought(place, key, older="older.txt"))
    assert found(findings) == ["consistency/passed", "signature/passed"]
    for name in ("cut.bundle", "other.bundle"):
        note = LedgerReader.read(place / name).note
        (tmp_path / "kept.txt").write_text(str(note))
        findings = check_note(new, "checkpoint", None, brought(tmp_path, key, older="kept.txt"))
        assert verdict(findings) == ("not checked" if name == "cut.bundle" else "failed")
    assert found(check_note(new, "checkpoint", None, brought(place, key))) == ["signature/passed"]


def test_a_checkpoint_is_held_against_a_ledger(place, key):
    for name, code in (
        ("l.db", "passed"),
        ("l.bundle", "passed"),
        ("cut.bundle", "truncated"),
        ("other.bundle", "truncated"),
    ):
        findings = check_note(
            place / "checkpoint.txt", "checkpoint", LedgerReader.read(place / name), brought(place, key)
        )
        assert found(findings)[0] == f"checkpoint/{code}"


def test_a_receipt_stands_on_its_signature_and_falls_with_its_ledger(place, key, other):
    path = place / "receipt.txt"
    (first, signed) = check_note(path, "receipt", None, brought(place, key))
    assert (first.code, signed.code) == ("receipt/passed", "signature/passed")
    assert "epsilon 0.25 (add-or-remove-one) is committed" in first.message
    assert "acme" not in first.message
    assert verdict(check_note(path, "receipt", None, brought(place))) == "not checked"
    assert verdict(check_note(path, "receipt", None, brought(place, other))) == "failed"
    for name, code in (("l.db", "receipt/passed"), ("other.bundle", "receipt/not-in-ledger")):
        findings = check_note(path, "receipt", LedgerReader.read(place / name), brought(place, key))
        assert findings[0].code == code
        assert verdict(findings) == ("passed" if name == "l.db" else "failed")


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (('"epsilon":"0.25"', '"epsilon":"0.2"'), "receipt/not-in-ledger"),
        (('"state":"committed"', '"state":"cancelled"'), "receipt/not-in-ledger"),
        (('"simulation":false', '"simulation":true'), "receipt/not-in-ledger"),
        (("\n3\n", "\n2\n"), "receipt/not-included"),
    ],
)
def test_a_signer_who_lies_in_a_receipt_is_found_out(place, key, tmp_path, lie, code):
    _, receipt = read_receipt(place / "receipt.txt")
    assert lie[0] in str(receipt)
    told = Receipt.parse(str(receipt).replace(*lie))
    (tmp_path / "lie.txt").write_text(str(Note(str(told)).signed_by(key)))
    findings = check_note(tmp_path / "lie.txt", "receipt", LedgerReader.read(place / "l.db"), brought(place, key))
    assert (findings[0].code, verdict(findings)) == (code, "failed")


def states(folder):
    """The transcripts of a ledger while one charge is reserved, cancelled or revoked, and another runs."""
    with open_ledger(folder / "s.db") as books:
        books.create_budget("acme", kind="pure", epsilon="2")
        held = {name: books.reserve("acme", PureDP(0.25), key=name) for name in ("gone", "runs")}
        reserved = list(iterate_verified_documents(books))
        held["gone"].cancel("not needed")
        held["runs"].start()
        cancelled = list(iterate_verified_documents(books))
        held["runs"].commit(evidence={})
        return reserved, cancelled, list(iterate_verified_documents(books))


def test_a_receipt_of_an_entry_that_a_later_one_undid_is_found_out(key, tmp_path):
    """Its proof holds: the reservation lies there. By its checkpoint, or by now, the charge is no more."""
    reserved, cancelled, closed = states(tmp_path)
    at = Receipt.parse(write_receipt(reserved, key="gone", origin="o", signer=key).text)
    until = cancelled[:-1]  # the cancellation is the last entry that the receipt keeps back
    hashes = [merkle.hash_leaf(document.encode()) for document in until]
    lie = replace(
        at,
        checkpoint=Checkpoint.over(until, origin="o"),
        proof=tuple(merkle.compute_subtree_roots(hashes, merkle.list_inclusion_ranges(at.index, len(hashes)))),
    )
    assert (lie.included, lie.facts["state"]) == (True, "reserved")
    books = LedgerReader.read(tmp_path / "s.db")
    for receipt, code, told in (
        (lie, "receipt/not-latest-state", "failed"),
        (at, "receipt/charge-cancelled", "warned"),
        (Receipt.parse(write_receipt(cancelled, key="gone", origin="o", signer=key).text), "receipt/passed", "passed"),
    ):
        finding = check_receipt(receipt, books)
        assert (finding.code, finding.status) == (code, told)
    runs = check_receipt(Receipt.parse(write_receipt(cancelled, key="runs", origin="o", signer=key).text), books)
    assert (runs.code, runs.status) == ("receipt/passed", "passed")
    assert runs.message.endswith("is started, as in the ledger; it is now committed.")
    assert check_receipt(
        Receipt.parse(write_receipt(closed, key="runs", origin="o", signer=key).text), books
    ).message.endswith("is committed, as in the ledger.")
    alone = check_receipt(lie, None).message
    assert "only the signer attests these contents and that no later entry cancels them" in alone


def checkpoint_file(path, documents, origin, *, signer=None, older=None):
    note = Checkpoint.over(documents, origin=origin).note(signer)
    path.write_text(str(note if older is None else prove_consistency(older, documents, note)))
    return read_checkpoint(path)


def test_a_checkpoint_of_no_entries_shows_nothing(place, key, tmp_path):
    empty = checkpoint_file(tmp_path / "empty.txt", [], "o", signer=key)
    with read_ledger(place / "l.db") as books:
        now = list(iterate_verified_documents(books))
    for name in ("l.db", "l.bundle", "other.bundle"):
        findings = check_ledger_chain(place / name, TrustAnchors(checkpoint=empty, keys=(key.verifier,)))
        assert "checkpoint/empty" in found(findings)
        assert combine_statuses(findings, required=()) == "not checked", (
            "whatever is required: it was brought to be checked"
        )
    checkpoint_file(tmp_path / "since.txt", now, "o", signer=key, older=empty.checkpoint)
    findings = check_note(
        tmp_path / "since.txt", "checkpoint", None, TrustAnchors(checkpoint=empty, keys=(key.verifier,))
    )
    assert found(findings)[0] == "consistency/empty"
    assert verdict(findings) == "not checked"
    assert found(
        check_note(tmp_path / "empty.txt", "checkpoint", LedgerReader.read(place / "l.db"), brought(place, key))
    )[0] == ("checkpoint/empty")


def test_a_ledger_of_another_name_is_not_the_one_that_was_kept(place, key, tmp_path):
    """It may be a copy that went its own way: its entries begin alike."""
    with read_ledger(place / "l.db") as books:
        now = list(iterate_verified_documents(books))
    mine = read_checkpoint(place / "older.txt")  # named o
    write_bundle(now, tmp_path / "p.bundle", origin="p", key=key)
    both = TrustAnchors(checkpoint=mine, keys=(key.verifier,))
    findings = check_ledger_chain(tmp_path / "p.bundle", both)
    assert "checkpoint/ledger-mismatch" in found(findings)
    assert verdict(findings) == "failed"
    other = checkpoint_file(tmp_path / "p.txt", now, "p", signer=key)
    for ledger in (None, LedgerReader.read(place / "l.db"), LedgerReader.read(place / "l.bundle")):
        findings = check_note(tmp_path / "p.txt", "checkpoint", ledger, both)
        assert {"consistency/ledger-mismatch"} <= set(found(findings))
        assert verdict(findings) == "failed"
    (tmp_path / "r.txt").write_text(str(write_receipt(now, key="q-1", origin="p", signer=key)))
    for ledger in (None, LedgerReader.read(place / "l.db")):
        findings = check_note(tmp_path / "r.txt", "receipt", ledger, both)
        assert "consistency/ledger-mismatch" in found(findings)
    findings = check_note(tmp_path / "r.txt", "receipt", LedgerReader.read(place / "l.bundle"), brought(place, key))
    assert found(findings)[0] == "receipt/ledger-mismatch"
    with pytest.raises(CheckError, match="since must be a checkpoint of p"):
        prove_consistency(mine.checkpoint, now, other.note)
    nameless = checkpoint_file(tmp_path / "n.txt", now[:3], Checkpoint.UNNAMED)
    assert "checkpoint/passed" in found(check_ledger_chain(tmp_path / "p.bundle", TrustAnchors(checkpoint=nameless)))


def survivors(path, content, check, places):
    """Flips one bit at each of some places, and says which changes pass."""
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        try:
            if check() == Status.PASSED:
                yield at
        except (EpsilogError, ValueError):
            continue


@pytest.mark.slow
@pytest.mark.parametrize("name", ["l.bundle", "receipt.txt", "checkpoint.txt"])
def test_no_flipped_byte_passes(place, key, tmp_path, name):
    content, path, kind = (place / name).read_bytes(), tmp_path / "x", identify_artifact(place / name)
    if kind == "receipt":
        content = str(read_receipt(place / name)[0]).encode()  # its lines; around one line, words may change

    def check():
        if identify_artifact(path) != kind:
            raise RecordError("something else")
        if kind == "bundle":
            return verdict(check_ledger_chain(path, brought(place, key)))
        return verdict(check_note(path, kind, None, brought(place, key, older=None)))

    proof = content.index(b"\n\n") if kind == "checkpoint" else 0  # the proof before a checkpoint is not signed
    assert list(survivors(path, content, check, range(proof, len(content), amount(3, 1)))) == []
    path.write_bytes(content)
    assert check() == "passed"


def test_an_unsigned_proof_that_was_damaged_proves_nothing(place, key, tmp_path):
    content, path = (place / "checkpoint.txt").read_bytes(), tmp_path / "x"

    def check():
        return verdict(check_note(path, "checkpoint", None, brought(place, key, older="older.txt")))

    assert list(survivors(path, content, check, range(content.index(b"\n\n")))) == []
    path.write_bytes(content)
    assert check() == "passed"


# --- signed files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def report(tmp_path):
    (tmp_path / "report.json").write_bytes(b'{"kind": "report"}')
    return tmp_path / "report.json"


def put(path, *lines):
    path.with_name(path.name + SUFFIX).write_text("".join(f"{line}\n" for line in lines))


def told(path, *keys, **given):
    verifiers = tuple(key.verifier for key in keys)
    return found(check_signatures(read_signed(path, verifiers, **given), verifiers))


def test_a_report_is_signed_by_whom_it_is_signed(report, key, other, tmp_path):
    mine, theirs = (Envelope.over("report.json", report.read_bytes(), each) for each in (key, other))
    assert (told(report), told(report, key)) == ([], ["signature/missing"])
    put(report, mine)
    assert told(report, key) == told(report, other, key) == ["signature/passed"]
    assert (told(report), told(report, other)) == (["signature/not-checked"], ["signature/key-mismatch"])
    put(report, theirs, mine)
    assert told(report, key) == told(report, other) == told(report, key, other) == ["signature/passed"]
    assert told(report.parent, key) == ["signature/passed"]  # a run's folder
    put(report, Envelope.over("report.json", b"another", key))
    assert told(report, key) == ["signature/file-mismatch"]
    assert told(report) == ["signature/file-mismatch"]  # needs no key to be seen
    put(report, Envelope(mine.payload, ((key.verifier.label, theirs.signatures[0][1]),)))
    assert told(report, key) == ["signature/invalid"]
    put(report, Envelope(mine.payload, (("", mine.signatures[0][1]),)))
    assert told(report, key) == ["signature/passed"]
    assert told(report, other) == ["signature/key-mismatch"]
    put(report, Envelope.over("report.json", b"as it was", key), theirs)  # signed again after a change, by another
    assert told(report, key) == ["signature/file-mismatch"]
    assert told(report, other) == told(report, key, other) == ["signature/passed"]
    assert told(report) == ["signature/not-checked"]
    elsewhere = tmp_path / "kept.jsonl"
    elsewhere.write_text(f"{theirs}\n")
    assert told(report, other, signature=elsewhere) == ["signature/passed"]


def test_a_signature_that_cannot_be_read_is_an_error(report, key, tmp_path):
    put(report, "{}")
    with pytest.raises(RecordError, match="is not a signature"):
        told(report, key)
    with pytest.raises(RecordError, match="cannot be read"):
        told(report, key, signature=tmp_path / "nothing")
    for name, content in (("a", b"\xff"), ("b", b"no note")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RecordError, match=r"UTF-8|is no checkpoint"):
            read_checkpoint(tmp_path / name)
        with pytest.raises(RecordError, match=r"UTF-8|is no receipt"):
            read_receipt(tmp_path / name)


def test_of_several_signed_things_the_worst_is_told(key):
    good, bad, none = (
        SignatureCheck("a", by=("k",)),
        SignatureCheck("b", claimed=("k",), broken=("k",)),
        SignatureCheck("c"),
    )
    keys = (key.verifier,)
    assert found(check_signatures([good, bad, none], keys)) == ["signature/invalid"]
    (finding,) = check_signatures([good, none], keys)
    assert (finding.code, finding.message) == ("signature/passed", "The a is signed by k. The c is not signed.")
    assert found(check_signatures([], keys)) == ["signature/missing"]
    (finding,) = check_signatures([none, good], keys)  # what is verified comes first: nobody has signed that
    assert (finding.code, finding.message) == ("signature/missing", "The c is not signed. The a is signed by k.")
    assert check_signatures([], ()) == ()


def test_a_kept_checkpoint_signs_neither_a_bundle_nor_a_folder(place, key, tmp_path):
    findings = check_ledger_chain(place / "unsigned.bundle", brought(place, key, older="older.txt"))
    assert "signature/missing" in found(findings)
    assert verdict(findings) == "not checked"
    assert read_signed(tmp_path, (key.verifier,)) == (SignatureCheck("report"),)
    assert read_signed(tmp_path, ()) == ()


def test_a_ledger_that_does_not_hold_is_told_first(place, key, tmp_path):
    (tmp_path / "b").write_bytes((place / "l.bundle").read_bytes()[:-1])
    books = LedgerReader.read(tmp_path / "b")
    for path, kind in ((place / "checkpoint.txt", "checkpoint"), (place / "receipt.txt", "receipt")):
        findings = check_note(path, kind, books, brought(place, key))
        assert "ledger/invalid" in found(findings)
        assert verdict(findings) == "failed"
    assert StoredCheckpoint.parse((place / "checkpoint.txt").read_text()).checkpoint.size == 3


STATED = {
    "withdrawn": {"predicate": {"result": "withdrawn"}},
    "rejected": {"predicate": {"result": "rejected"}},
    "no predicate": {"predicate": None},
    "more than a result": {"predicate": {"result": "approved", "until": "2026-01-01"}},
    "another type": {"predicateType": "https://example.org/withdrawn/v1"},
    "no type": {"predicateType": None},
    "a type that is no text": {"predicateType": ["https://github.com/epsilog/epsilog/signature/v0"]},
    "another tool's pass": {
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {"result": "PASSED"},
    },
}


@pytest.mark.parametrize("said", STATED.values(), ids=STATED)
def test_a_statement_that_does_not_approve_is_no_approval(key, said):
    content = b"a report"
    alone = check_file_signatures("report", content, [envelope_of(content, key, **said)], [key.verifier])
    assert alone.by == alone.broken == ()
    (found,) = check_signatures([alone], [key.verifier])
    assert (found.code, found.status) == ("signature/not-an-approval", "failed")
    for order in (1, -1):
        both = [Envelope.over("report.json", content, key), envelope_of(content, key, **said)][::order]
        (found,) = check_signatures([check_file_signatures("report", content, both, [key.verifier])], [key.verifier])
        assert found.status == ("warned" if "predicateType" in said else "failed")


def test_an_approval_may_say_that_it_is_one(key):
    content = b"a report"
    approved = envelope_of(content, key, predicate={"result": "approved"})
    (found,) = check_signatures([check_file_signatures("report", content, [approved], [key.verifier])], [key.verifier])
    assert found.code == "signature/passed"

"""Who has signed what, and whether a ledger is still the one of a kept checkpoint.

Nothing that evidence says of keys is believed: the keys are those that an auditor brings along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epsilog.ledger import ChargeState, Checkpoint, Receipt, StoredCheckpoint, read_charge_facts
from epsilog.signing import SUFFIX, Envelope, Note, VerifierKey, read_envelopes, verify_signatures
from epsilog.terms import CheckError, Finding, RecordError, RunArtifact, Status
from epsilog.terms.codec import UNREADABLE
from epsilog.verification.files import read_file
from epsilog.verification.ledger_excerpt import LedgerReader


@dataclass(frozen=True, slots=True)
class TrustAnchors:
    """What an auditor brings along, which nobody who made the evidence could change.

    Attributes:
        head: the hash of an entry.
        checkpoint: of the ledger, as it was sent once.
        keys: whose signatures count.
    """

    head: str | None = None
    checkpoint: StoredCheckpoint | None = None
    keys: tuple[VerifierKey, ...] = ()


NO_TRUST_ANCHORS = TrustAnchors()
OF_NONE = "The kept checkpoint is of no entries: any ledger begins with it."


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """One signed thing, and what came of its signatures.

    Attributes:
        what: "report", "checkpoint", "receipt", or what else a sentence calls it.
        claimed: the keys that it says to be signed by, as ``VerifierKey.label``.
        by: those of the keys brought along that have signed that they approve of it.
        withheld: those that have signed that they do not, such as that an approval is withdrawn.
        elsewise: those that have signed a statement of another type on it, which approves of nothing.
        broken: those whose signature it carries, and that have not signed it.
        misplaced: whether what signatures there are, or those of the keys brought along, are of another file.
    """

    what: str
    claimed: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    elsewise: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    misplaced: bool = False


def check_note_signatures(what: str, note: Note, keys: Collection[VerifierKey]) -> SignatureCheck:
    """Who has signed a checkpoint or a receipt."""
    found = [(key.label, holds) for key, holds in verify_signatures(note, keys)]
    return SignatureCheck(
        what,
        claimed=tuple(signature.label for signature in note.signatures),
        by=tuple(label for label, holds in found if holds),
        broken=tuple(label for label, holds in found if not holds),
    )


def check_file_signatures(
    what: str, content: bytes, envelopes: Iterable[Envelope], keys: Collection[VerifierKey]
) -> SignatureCheck:
    """Who has signed a file, by the envelopes that lie beside it."""
    every = tuple(envelopes)
    here = [envelope for envelope in every if envelope.matches_file(content)]
    elsewhere = _list_claimed_signers(envelope for envelope in every if not envelope.matches_file(content))
    claimed, labels = _list_claimed_signers(here), [key.label for key in keys]
    signers = [(envelope, key.label) for envelope in here for key in envelope.signers(keys)]
    by = _each_once(label for envelope, label in signers if envelope.approves)
    withheld = _each_once(label for envelope, label in signers if envelope.is_ours and not envelope.approves)
    elsewise = _each_once(label for envelope, label in signers if not envelope.is_ours)
    broken = tuple(label for label in labels if label in claimed and label not in (*by, *withheld, *elsewise))
    misplaced = (bool(every) and not here) or any(label in elsewhere for label in labels)
    return SignatureCheck(what, claimed or elsewhere, by, withheld, elsewise, broken, misplaced)


def _each_once(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(labels))


def _list_claimed_signers(envelopes: Iterable[Envelope]) -> tuple[str, ...]:
    return tuple(who or "a key without a name" for envelope in envelopes for who, _ in envelope.signatures)


def read_signed(
    path: Path, keys: Collection[VerifierKey], *, signature: Path | None = None
) -> tuple[SignatureCheck, ...]:
    """Who has signed a report, or the report and the page of a run's folder.

    Args:
        path: the report's file, or the folder.
        keys: whose signatures count.
        signature: the file of envelopes; beside the signed file, under its name and ``SUFFIX``, if None.

    Raises:
        RecordError: what should be a signature cannot be read.
    """
    if path.is_dir():
        files = [path / name for name in (RunArtifact.REPORT, RunArtifact.PAGE) if (path / f"{name}{SUFFIX}").exists()]
        if not files and keys:
            return (SignatureCheck("report"),)
        return tuple(_check_signed_file("report", file, file.with_name(f"{file.name}{SUFFIX}"), keys) for file in files)
    beside = signature or path.with_name(f"{path.name}{SUFFIX}")
    if signature is None and not beside.exists():
        return (SignatureCheck("report"),) if keys else ()
    return (_check_signed_file("report", path, beside, keys),)


def _check_signed_file(what: str, file: Path, beside: Path, keys: Collection[VerifierKey]) -> SignatureCheck:
    try:
        envelopes = read_envelopes(read_file(beside))
    except CheckError as error:
        raise RecordError(f"{beside} is no signature: {error}") from error
    return check_file_signatures(what, read_file(file), envelopes, keys)


def check_signatures(signed: Sequence[SignatureCheck], keys: Collection[VerifierKey]) -> tuple[Finding, ...]:
    """Whether the keys brought along have signed; nothing to say where there is no signature and no key.

    Args:
        signed: what is verified first: others' signatures make nothing of one that it lacks.
        keys: whose signatures count.
    """
    if not signed and not keys:
        return ()
    told = [_judge_signature(one, keys) for one in signed] or [("none", "Nothing here is signed.")]
    says = " ".join(text for _, text in told)
    outcomes, own = {outcome for outcome, _ in told}, told[0][0]
    if "broken" in outcomes:
        return (Finding("signature/invalid", Status.FAILED, says),)
    if "of-another-file" in outcomes:
        return (Finding("signature/file-mismatch", Status.FAILED, says),)
    if "not-an-approval" in outcomes:
        return (Finding("signature/not-an-approval", Status.FAILED, says),)
    if "of-another-key" in outcomes:
        return (Finding("signature/key-mismatch", Status.FAILED, says),)
    if "beside-another-statement" in outcomes:
        return (Finding("signature/additional-statement", Status.WARNED, says),)
    if own == "holds":
        return (Finding("signature/passed", Status.PASSED, says),)
    if "not-checked" in outcomes:
        return (Finding("signature/not-checked", Status.NOT_CHECKED, says, missing_evidence="signature"),)
    return (Finding("signature/missing", Status.NOT_CHECKED, says, missing_evidence="signature"),)


def _judge_signature(one: SignatureCheck, keys: Collection[VerifierKey]) -> tuple[str, str]:
    """How one signed thing stands, and in a sentence."""
    claimed = ", ".join(one.claimed)
    if one.broken:
        return "broken", f"What stands as the signature of {', '.join(one.broken)} on the {one.what} is none."
    if one.withheld or (one.elsewise and not one.by):
        who = ", ".join(one.withheld or one.elsewise)
        return "not-an-approval", f"What {who} signed on the {one.what} is no approval of it: read the statement."
    if one.elsewise:
        says = f"The {one.what} is signed by {', '.join(one.by)}; "
        return "beside-another-statement", f"{says}{', '.join(one.elsewise)} signed another statement on it as well."
    if one.by:
        return "holds", f"The {one.what} is signed by {', '.join(one.by)}."
    if one.misplaced:
        return "of-another-file", f"The signature that stands beside the {one.what} is of another file."
    if not one.claimed:
        return "none", f"The {one.what} is not signed."
    if not keys:
        return "not-checked", f"The {one.what} says to be signed by {claimed}; no key was given to check that."
    return "of-another-key", f"The {one.what} says to be signed by {claimed}, which is none of the keys given."


def check_checkpoint_signatures(books: LedgerReader | None, brought: TrustAnchors) -> list[SignatureCheck]:
    """Who has signed a bundle's checkpoint and, where keys are here to check it, the one brought along."""
    notes = [("bundle's checkpoint", books.note)] if books is not None and books.note is not None else []
    if brought.checkpoint is not None and brought.keys:
        notes.append(("kept checkpoint", brought.checkpoint.note))
    return [check_note_signatures(what, note, brought.keys) for what, note in notes]


def check_checkpoint(books: LedgerReader | None, kept: StoredCheckpoint | None) -> tuple[Finding, ...]:
    """Whether a ledger begins with the entries of a kept checkpoint; nothing, if none was kept."""
    if kept is None:
        return ()
    if books is None or books.trouble:
        says = "The ledger does not hold." if books else "No ledger was given."
        return (Finding("checkpoint/not-checked", Status.NOT_CHECKED, says, missing_evidence="ledger"),)
    then, now = kept.checkpoint, len(books.leaves)
    if then.size == 0:
        return (Finding("checkpoint/empty", Status.NOT_CHECKED, OF_NONE),)
    said = None if books.note is None else Checkpoint.parse(books.note.text)
    if said is not None and said.has_other_origin(then):
        return (Finding("checkpoint/ledger-mismatch", Status.FAILED, _two_names(said, then)),)
    if now < then.size:
        says = f"The kept checkpoint is of {then.size} entries, and the ledger has {now}: its end was cut off."
        return (Finding("checkpoint/truncated", Status.FAILED, says),)
    if books.root(then.size) != then.root:
        says = f"The first {then.size} entries are not those of the kept checkpoint: the ledger was rewritten."
        return (Finding("checkpoint/rewritten", Status.FAILED, says),)
    says = f"The ledger's {now} entries begin with the {then.size} of the kept checkpoint."
    return (Finding("checkpoint/passed", Status.PASSED, says),)


def _two_names(now: Checkpoint, older: Checkpoint) -> str:
    says = f"This is of the ledger {now.origin}, and the kept checkpoint of {older.origin}"
    return f"{says}: a copy that begins alike may go its own way."


def check_consistency(now: StoredCheckpoint, older: StoredCheckpoint | None) -> tuple[Finding, ...]:
    """Whether a checkpoint's own proof shows that its ledger only grew since an older one; no ledger is needed."""
    if older is None:
        return ()
    if now.checkpoint.has_other_origin(older.checkpoint):
        says = _two_names(now.checkpoint, older.checkpoint)
        return (Finding("consistency/ledger-mismatch", Status.FAILED, says),)
    if older.checkpoint.size == 0:
        return (Finding("consistency/empty", Status.NOT_CHECKED, OF_NONE),)
    follows = now.follows(older.checkpoint)
    sizes = f"from {older.checkpoint.size} to {now.checkpoint.size} entries"
    if follows is None:
        says = f"No proof leads {sizes}: verify with the ledger, or ask for a checkpoint since the older one."
        return (Finding("consistency/not-checked", Status.NOT_CHECKED, says),)
    if not follows:
        says = f"The ledger did not grow {sizes}: it was rewritten."
        return (Finding("consistency/invalid", Status.FAILED, says),)
    return (Finding("consistency/passed", Status.PASSED, f"The ledger only grew, {sizes}."),)


def check_receipt(receipt: Receipt, books: LedgerReader | None) -> Finding:
    """Whether a receipt's proof leads from its entry to its root, and whether a ledger has that entry."""
    at = receipt.checkpoint
    if not receipt.included:
        says = "The receipt's proof does not lead from its entry to its root."
        return Finding("receipt/not-included", Status.FAILED, says)
    what = f"Entry {receipt.index + 1} of {at.size} in {at.origin}: {_format_charge(receipt)}"
    if books is None or books.trouble:
        says = f"{what}. That this is what the entry says, and that no later entry undid it, rests on the signer's word"
        return Finding("receipt/passed", Status.PASSED, f"{says}; the ledger would show it.")
    said = None if books.note is None else Checkpoint.parse(books.note.text)
    if said is not None and said.has_other_origin(at):
        says = f"The receipt is of the ledger {at.origin}, and this is {said.origin}."
        return Finding("receipt/ledger-mismatch", Status.FAILED, says)
    if not _holds(receipt, at, books):
        return Finding("receipt/not-in-ledger", Status.FAILED, "The ledger holds no such entry in this place.")
    return _since(receipt, books, f"{what}, as the ledger says")


def _since(receipt: Receipt, books: LedgerReader, what: str) -> Finding:
    """What came of the charge after the receipt's entry: under its checkpoint nothing may, and later it may be over."""
    name, size = books.entries[receipt.index].charge_id, receipt.checkpoint.size
    places = [place for place, entry in enumerate(books.entries) if entry.charge_id == name and place > receipt.index]
    if not places:
        return Finding("receipt/passed", Status.PASSED, f"{what}.")
    state = read_charge_facts(books.entries, places[-1])["state"]
    if places[0] < size:
        says = f"{what}; but entry {places[0] + 1} of {size} is of the same charge, which the receipt keeps back."
        return Finding("receipt/not-latest-state", Status.FAILED, f"{says} By now it is {state}.")
    if state == ChargeState.CANCELLED and receipt.facts["state"] != ChargeState.CANCELLED:
        return Finding("receipt/charge-cancelled", Status.WARNED, f"{what}; by now it is {state}, and costs nothing.")
    return Finding("receipt/passed", Status.PASSED, f"{what}; by now it is {state}.")


def _holds(receipt: Receipt, at: Checkpoint, books: LedgerReader) -> bool:
    if len(books.leaves) < at.size or books.root(at.size) != at.root:
        return False
    try:
        return read_charge_facts(books.entries, receipt.index) == receipt.facts  # the root binds the leaf
    except UNREADABLE:
        return False


def _format_charge(receipt: Receipt) -> str:
    """What was charged, in words."""
    facts = receipt.facts
    amounts = [f"{quantity} {units}" for amount in facts["amounts"].values() for quantity, units in amount.items()]
    plan = f" for the plan {facts['plan_hash']}" if facts["plan_hash"] else ""
    unit = f" of one {facts['privacy_unit']}" if facts["privacy_unit"] else ""
    simulated = ", a simulation" if facts["simulation"] else ""
    return f"{', '.join(amounts) or 'nothing'} ({facts['relation']}{unit}) is {facts['state']}{plan}{simulated}"

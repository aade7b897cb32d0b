"""Check signatures against the auditor's keys, and ledgers against a kept checkpoint or a receipt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epsilog.ledger import ChargeState, Checkpoint, Receipt, StoredCheckpoint
from epsilog.ledger.receipts import read_charge_facts
from epsilog.signing import SUFFIX, Envelope, Note, VerifierKey, read_envelopes, verify_signatures
from epsilog.terms import CheckError, Finding, RecordError, RunArtifact, Status
from epsilog.terms.codec import UNREADABLE
from epsilog.verification.files import read_file
from epsilog.verification.ledger_excerpt import LedgerReader


@dataclass(frozen=True, slots=True)
class TrustAnchors:
    """The auditor's own trusted values, which do not come from the evidence.

    Attributes:
        head: the hash of a ledger entry.
        checkpoint: an earlier checkpoint of the ledger.
        keys: the trusted keys.
    """

    head: str | None = None
    checkpoint: StoredCheckpoint | None = None
    keys: tuple[VerifierKey, ...] = ()


NO_TRUST_ANCHORS = TrustAnchors()
EMPTY = "The kept checkpoint covers no entries, so every ledger is consistent with it."
# A failure or warning of any signature decides, in this order.
DECISIVE = {
    "invalid": Status.FAILED,
    "file-mismatch": Status.FAILED,
    "not-an-approval": Status.FAILED,
    "key-mismatch": Status.FAILED,
    "additional-statement": Status.WARNED,
}


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """The signatures of one artifact, checked with the auditor's keys.

    Attributes:
        what: the artifact in a sentence, such as "report" or "checkpoint".
        claimed: the keys that its signatures name, as ``VerifierKey.label``.
        by: keys that signed an approval.
        withheld: keys that signed another decision, such as the withdrawal of an approval.
        elsewise: keys that signed a statement of another type, which is not an approval.
        broken: keys with an invalid signature.
        misplaced: whether all signatures, or those by the auditor's keys, are for another file.
    """

    what: str
    claimed: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    elsewise: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    misplaced: bool = False


def check_note_signatures(what: str, note: Note, keys: Collection[VerifierKey]) -> SignatureCheck:
    """Check the signatures of a checkpoint or a receipt."""
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
    """Check a file's signatures, in their envelopes."""
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
    """Check the signatures of a report, or of the report and the page in a run folder.

    Args:
        path: the report, or the folder.
        keys: the trusted keys.
        signature: the file of envelopes; if None, the signed file's path plus ``SUFFIX``.

    Raises:
        RecordError: the signature file cannot be read.
    """
    if path.is_dir():
        files = [path / name for name in (RunArtifact.REPORT, RunArtifact.PAGE) if (path / f"{name}{SUFFIX}").exists()]
        if not files and keys:
            return (SignatureCheck("report"),)
        return tuple(_check_signed_file("report", file, file.with_name(f"{file.name}{SUFFIX}"), keys) for file in files)
    envelopes = signature or path.with_name(f"{path.name}{SUFFIX}")
    if signature is None and not envelopes.exists():
        return (SignatureCheck("report"),) if keys else ()
    return (_check_signed_file("report", path, envelopes, keys),)


def _check_signed_file(what: str, file: Path, signature: Path, keys: Collection[VerifierKey]) -> SignatureCheck:
    try:
        envelopes = read_envelopes(read_file(signature))
    except CheckError as error:
        raise RecordError(f"{signature} is not a signature: {error}") from error
    return check_file_signatures(what, read_file(file), envelopes, keys)


def check_signatures(signed: Sequence[SignatureCheck], keys: Collection[VerifierKey]) -> tuple[Finding, ...]:
    """Report whether the auditor's keys signed; return nothing without signatures and keys.

    Args:
        signed: the artifacts; the first must be signed itself.
        keys: the trusted keys.
    """
    if not signed and not keys:
        return ()
    judged = [_judge_signature(one, keys) for one in signed] or [("missing", "Nothing is signed.")]
    outcomes, message = [outcome for outcome, _ in judged], " ".join(text for _, text in judged)
    decisive = next((outcome for outcome in DECISIVE if outcome in outcomes), None)
    if decisive is not None:
        return (Finding(f"signature/{decisive}", DECISIVE[decisive], message),)
    if outcomes[0] == "passed":
        return (Finding("signature/passed", Status.PASSED, message),)
    code = "signature/not-checked" if "not-checked" in outcomes else "signature/missing"
    return (Finding(code, Status.NOT_CHECKED, message, missing_evidence="signature"),)


def _judge_signature(one: SignatureCheck, keys: Collection[VerifierKey]) -> tuple[str, str]:
    """Return the outcome of one artifact's signatures, and a sentence."""
    claimed = ", ".join(one.claimed)
    if one.broken:
        return "invalid", f"The {one.what} has an invalid signature by {', '.join(one.broken)}."
    if one.withheld or (one.elsewise and not one.by):
        who = ", ".join(one.withheld or one.elsewise)
        return "not-an-approval", f"{who} signed a statement on the {one.what} that is not an approval: read it."
    if one.elsewise:
        message = f"The {one.what} is signed by {', '.join(one.by)}; "
        return "additional-statement", f"{message}{', '.join(one.elsewise)} also signed another statement on it."
    if one.by:
        return "passed", f"The {one.what} is signed by {', '.join(one.by)}."
    if one.misplaced:
        return "file-mismatch", f"The signature supplied for the {one.what} is for another file."
    if not one.claimed:
        return "missing", f"The {one.what} is not signed."
    if not keys:
        return "not-checked", f"The {one.what} has a signature by {claimed}, but no key was given to check it."
    return "key-mismatch", f"The {one.what} has a signature by {claimed}, which matches none of the given keys."


def check_checkpoint_signatures(ledger: LedgerReader | None, anchors: TrustAnchors) -> list[SignatureCheck]:
    """Check the signatures of a bundle's checkpoint and, if keys are given, of the auditor's kept one."""
    notes = [("bundle's checkpoint", ledger.note)] if ledger is not None and ledger.note is not None else []
    if anchors.checkpoint is not None and anchors.keys:
        notes.append(("kept checkpoint", anchors.checkpoint.note))
    return [check_note_signatures(what, note, anchors.keys) for what, note in notes]


def check_checkpoint(ledger: LedgerReader | None, kept: StoredCheckpoint | None) -> tuple[Finding, ...]:
    """Check that a ledger begins with the entries of a kept checkpoint, if one was kept."""
    if kept is None:
        return ()
    if ledger is None or ledger.trouble:
        message = "The ledger is invalid." if ledger else "No ledger was given."
        return (Finding("checkpoint/not-checked", Status.NOT_CHECKED, message, missing_evidence="ledger"),)
    then, now = kept.checkpoint, len(ledger.leaves)
    if then.size == 0:
        return (Finding("checkpoint/empty", Status.NOT_CHECKED, EMPTY),)
    own = _get_bundle_checkpoint(ledger)
    if own is not None and own.has_other_origin(then):
        return (Finding("checkpoint/ledger-mismatch", Status.FAILED, _format_origins(own, then)),)
    if now < then.size:
        message = f"The kept checkpoint covers {then.size} entries, but the ledger has {now}: it was truncated."
        return (Finding("checkpoint/truncated", Status.FAILED, message),)
    if ledger.root(then.size) != then.root:
        message = f"The first {then.size} entries do not match the kept checkpoint: the ledger was rewritten."
        return (Finding("checkpoint/rewritten", Status.FAILED, message),)
    message = f"The ledger's {now} entries begin with the {then.size} entries of the kept checkpoint."
    return (Finding("checkpoint/passed", Status.PASSED, message),)


def _get_bundle_checkpoint(ledger: LedgerReader) -> Checkpoint | None:
    return None if ledger.note is None else Checkpoint.parse(ledger.note.text)


def _format_origins(now: Checkpoint, older: Checkpoint) -> str:
    message = f"This is the ledger {now.origin}, but the kept checkpoint is for {older.origin}"
    return f"{message}: copies with a common beginning may diverge."


def check_consistency(now: StoredCheckpoint, older: StoredCheckpoint | None) -> tuple[Finding, ...]:
    """Check by a checkpoint's own proof that its ledger only appended entries since an older one."""
    if older is None:
        return ()
    if now.checkpoint.has_other_origin(older.checkpoint):
        message = _format_origins(now.checkpoint, older.checkpoint)
        return (Finding("consistency/ledger-mismatch", Status.FAILED, message),)
    if older.checkpoint.size == 0:
        return (Finding("consistency/empty", Status.NOT_CHECKED, EMPTY),)
    follows = now.follows(older.checkpoint)
    sizes = f"from {older.checkpoint.size} to {now.checkpoint.size} entries"
    if follows is None:
        message = f"No proof covers the growth {sizes}: verify with the ledger, or request a checkpoint since the "
        return (Finding("consistency/not-checked", Status.NOT_CHECKED, f"{message}older one."),)
    if not follows:
        message = f"The proof of growth {sizes} is invalid: the ledger was rewritten."
        return (Finding("consistency/invalid", Status.FAILED, message),)
    return (Finding("consistency/passed", Status.PASSED, f"The ledger only grew, {sizes}."),)


def check_receipt(receipt: Receipt, ledger: LedgerReader | None) -> Finding:
    """Check a receipt's inclusion proof, and its entry in a ledger if one is given."""
    at = receipt.checkpoint
    if not receipt.included:
        return Finding("receipt/not-included", Status.FAILED, "The receipt's inclusion proof is invalid.")
    what = f"Entry {receipt.index + 1} of {at.size} in {at.origin}: {_format_charge(receipt)}"
    if ledger is None or ledger.trouble:
        message = f"{what}. Without the ledger, only the signer attests these contents and that no later entry "
        return Finding("receipt/passed", Status.PASSED, f"{message}cancels them.")
    own = _get_bundle_checkpoint(ledger)
    if own is not None and own.has_other_origin(at):
        message = f"The receipt is for the ledger {at.origin}, but this is {own.origin}."
        return Finding("receipt/ledger-mismatch", Status.FAILED, message)
    if not _contains(ledger, receipt, at):
        return Finding("receipt/not-in-ledger", Status.FAILED, "The ledger does not contain this entry at its index.")
    return _check_subsequent(receipt, ledger, f"{what}, as in the ledger")


def _check_subsequent(receipt: Receipt, ledger: LedgerReader, what: str) -> Finding:
    """Check that the receipt covers no later entry of its charge, and report the current state."""
    name, size = ledger.entries[receipt.index].charge_id, receipt.checkpoint.size
    subsequent = [
        index for index, entry in enumerate(ledger.entries) if entry.charge_id == name and index > receipt.index
    ]
    if not subsequent:
        return Finding("receipt/passed", Status.PASSED, f"{what}.")
    state = read_charge_facts(ledger.entries, subsequent[-1])["state"]
    if subsequent[0] < size:
        message = f"{what}; but the receipt omits entry {subsequent[0] + 1} of {size}, which is of the same charge. "
        return Finding("receipt/not-latest-state", Status.FAILED, f"{message}It is now {state}.")
    if state == ChargeState.CANCELLED and receipt.facts["state"] != ChargeState.CANCELLED:
        return Finding("receipt/charge-cancelled", Status.WARNED, f"{what}; it is now {state}, and costs nothing.")
    return Finding("receipt/passed", Status.PASSED, f"{what}; it is now {state}.")


def _contains(ledger: LedgerReader, receipt: Receipt, at: Checkpoint) -> bool:
    if len(ledger.leaves) < at.size or ledger.root(at.size) != at.root:
        return False
    try:
        return read_charge_facts(ledger.entries, receipt.index) == receipt.facts  # the root binds the leaf
    except UNREADABLE:
        return False


def _format_charge(receipt: Receipt) -> str:
    """Describe the charge."""
    facts = receipt.facts
    amounts = [f"{quantity} {units}" for amount in facts["amounts"].values() for quantity, units in amount.items()]
    plan = f" for the plan {facts['plan_hash']}" if facts["plan_hash"] else ""
    unit = f" of one {facts['privacy_unit']}" if facts["privacy_unit"] else ""
    simulated = ", a simulation" if facts["simulation"] else ""
    return f"{', '.join(amounts) or 'nothing'} ({facts['relation']}{unit}) is {facts['state']}{plan}{simulated}"

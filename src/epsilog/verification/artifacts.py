"""Identify an artifact by its content, and check ledgers, checkpoints and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from epsilog.certificates import FORMAT
from epsilog.ledger import Amounts, ChargeRequest, Cost, Entry, Receipt, StoredCheckpoint, Verb, compute_cost
from epsilog.ledger.bundles import is_bundle
from epsilog.ledger.entries import ChargeId
from epsilog.ledger.filters import PRIVACY_FILTERS
from epsilog.ledger.receipts import is_receipt
from epsilog.ledger.sqlite import is_ledger
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.signing import Note, find_note
from epsilog.terms import CheckError, Finding, RecordError, RunArtifact, Status, UnsupportedMechanismError, codec
from epsilog.verification.files import read_file
from epsilog.verification.ledger_excerpt import LedgerReader
from epsilog.verification.signatures import (
    NO_TRUST_ANCHORS,
    TrustAnchors,
    check_checkpoint,
    check_checkpoint_signatures,
    check_consistency,
    check_note_signatures,
    check_receipt,
    check_signatures,
)


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read a kept checkpoint from its file, or from one line of a text.

    Raises:
        RecordError: the file contains no checkpoint.
    """
    try:
        return StoredCheckpoint.parse(_text(path))
    except CheckError as error:
        raise RecordError(f"{path} is no checkpoint: {error}") from error


def read_receipt(path: Path) -> tuple[Note, Receipt]:
    """Read a receipt and its signatures; see ``read_checkpoint``."""
    try:
        note = find_note(_text(path))
        return note, Receipt.parse(note.text)
    except CheckError as error:
        raise RecordError(f"{path} is no receipt: {error}") from error


def note_kind(path: Path) -> str | None:
    """Return "checkpoint", "receipt", or None for neither."""
    try:
        if is_receipt(find_note(_text(path))):
            return "receipt"
    except (CheckError, RecordError):
        pass
    try:
        StoredCheckpoint.parse(_text(path))
    except (CheckError, RecordError):
        return None
    return "checkpoint"


def _text(path: Path) -> str:
    try:
        content = read_file(path).decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not text in UTF-8") from error
    if "PRIVATE KEY-----" in content:  # a later message might quote it
        raise RecordError(f"{path} is a private key; keep it secret")
    return content


PAGE_START = b"<!doctype html>"
NEITHER = "neither a run folder, nor a report, nor a ledger, nor a checkpoint"
CLOSE = 0.995  # another version's accountant may give this fraction of our cost


def identify_artifact(path: Path) -> str:
    """Return the kind of the artifact at a path, as one word.

    Raises:
        RecordError: the path does not exist, or holds no known artifact.
    """
    if path.is_dir():
        if (path / RunArtifact.PLAN).exists():
            return "run"
        raise RecordError(f"{path} is a folder without {RunArtifact.PLAN}")
    if not path.is_file():
        raise RecordError(f"{path} cannot be read: {'it is no file' if path.exists() else 'No such file or directory'}")
    if is_ledger(path):
        return "ledger"
    if is_bundle(path):
        return "bundle"
    with path.open("rb") as file:
        start = file.read(len(PAGE_START))
    if start.lower().startswith(PAGE_START):
        return "page"
    try:
        document = codec.parse_json(read_file(path))
    except ValueError as error:
        if (kind := note_kind(path)) is not None:
            return kind
        trouble = f": {error}" if start[:1] == b"{" else ""
        raise RecordError(f"{path} is {NEITHER}{trouble}") from error
    if isinstance(document, dict) and document.get("kind") in ("report", "log-report"):
        return "report"
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return "certificate"
    if isinstance(document, dict) and set(document) == {"record", "sha256"}:
        return "calculation"
    raise RecordError(f"{path} is {NEITHER}")


def check_ledger_chain(ledger: str | Path, anchors: TrustAnchors = NO_TRUST_ANCHORS) -> tuple[Finding, ...]:
    """Replay a whole ledger or bundle, and recompute the cost of every reservation in it.

    Args:
        ledger: its file or URL, or the bundle.
        anchors: the auditor's own head and checkpoint, which the ledger must contain, and the auditor's keys.
    """
    reader = LedgerReader.read(ledger)
    signed = check_checkpoint_signatures(reader, anchors)
    return *check_ledger_contents(reader, anchors), *check_signatures(signed, anchors.keys)


def check_ledger_contents(ledger: LedgerReader, anchors: TrustAnchors = NO_TRUST_ANCHORS) -> tuple[Finding, ...]:
    """Check everything in a ledger except its signatures."""
    if ledger.trouble:
        return (Finding("ledger/invalid", Status.FAILED, f"The ledger is invalid: {ledger.trouble}"),)
    message = f"All {len(ledger.entries)} entries are valid; head {ledger.heads[-1] if ledger.heads else 'none'}"
    return (
        Finding("ledger/passed", Status.PASSED, message),
        *_check_restores(ledger.entries),
        *_check_partitions(ledger.entries),
        check_costs(ledger.entries),
        *check_head(ledger, anchors.head),
        *check_checkpoint(ledger, anchors.checkpoint),
    )


def _check_restores(entries: Iterable[Entry]) -> tuple[Finding, ...]:
    """Warn of restores from a backup, which lose later entries."""
    words = {Verb.LEDGER_RESTORED: "restored", Verb.RESTORE_ACCEPTED: "accepted"}
    restores = [
        f"entry {entry.index} ({words[entry.verb]} by {entry.body['actor']}: {entry.body['reason']})"
        for entry in entries
        if entry.verb in words
    ]
    message = f"The ledger was restored from a backup and lacks every charge since: {'; '.join(restores)}."
    return (Finding("ledger/restored", Status.WARNED, message),) if restores else ()


def _check_partitions(entries: Iterable[Entry]) -> tuple[Finding, ...]:
    """Warn of partitions: only their owner attests that the blocks are disjoint."""
    partitions = [
        f"{entry.scope} (entry {entry.index}, by {entry.body['actor']}: {entry.body['reason']})"
        for entry in entries
        if entry.verb is Verb.PARTITION_DECLARED
    ]
    message = f"Budgets above count one block of each partition. Owners attest disjointness: {'; '.join(partitions)}."
    return (Finding("ledger/partitioned", Status.WARNED, message),) if partitions else ()


def check_note(path: Path, kind: str, ledger: LedgerReader | None, anchors: TrustAnchors) -> tuple[Finding, ...]:
    """Check a checkpoint or a receipt: its signature, its proof, and the ledger if one is given."""
    first: tuple[Finding, ...]
    if kind == "receipt":
        note, receipt = read_receipt(path)
        now, first = StoredCheckpoint(Note(str(receipt.checkpoint))), (check_receipt(receipt, ledger),)
    else:
        now = read_checkpoint(path)
        note, first = now.note, () if ledger is None else check_checkpoint(ledger, now)
    grown = [
        finding
        for finding in check_consistency(now, anchors.checkpoint)
        if ledger is None or now.old is not None or finding.status is Status.FAILED  # a ledger proves the rest
    ]
    whole = () if ledger is None else check_ledger_contents(ledger, anchors)
    signed = [check_note_signatures(kind, note, anchors.keys), *check_checkpoint_signatures(ledger, anchors)]
    return *first, *grown, *whole, *check_signatures(signed, anchors.keys)


def check_head(ledger: LedgerReader | None, head: str | None) -> tuple[Finding, ...]:
    """Check that a ledger still contains the entry with a kept hash, if one was kept."""
    if head is None:
        return ()
    if ledger is None:
        return (Finding("head/not-checked", Status.NOT_CHECKED, "No ledger was given.", missing_evidence="ledger"),)
    if head in ledger.heads:
        message = f"The ledger contains the kept head, as entry {ledger.heads.index(head) + 1} of {len(ledger.heads)}."
        return (Finding("head/passed", Status.PASSED, message),)
    message = "The ledger does not contain the kept head: it was truncated or rewritten."
    return (Finding("head/missing", Status.FAILED, message),)


def check_costs(entries: Iterable[Entry]) -> Finding:
    """Check that every reservation covers the recomputed cost of its release, unless its owner overrode the cost."""
    costs: dict[bytes, Cost | None] = {}
    overridden: set[ChargeId | None] = set()
    found: dict[str, list[int]] = {"enough": [], "less": [], "slightly less": [], "an attested amount": []}
    for entry in entries:
        if entry.verb is Verb.COST_OVERRIDDEN:
            overridden.add(entry.charge_id)
        if TRANSITIONS[entry.verb].reserves:
            for kind, charged in entry.amounts.items():
                again = _recompute_cost(entry.body["request"], kind, charged, costs)
                found[_grade(charged, again, overridden=entry.charge_id in overridden)].append(entry.index)
    count = sum(map(len, found.values()))
    if found["less"]:
        message = f"Entries {found['less'][:5]} were charged less than their release costs."
        return Finding("costs/too-low", Status.FAILED, message)
    differing = [
        f"entries {found[how][:5]} were charged {how}" for how in ("slightly less", "an attested amount") if found[how]
    ]
    if differing:
        message = f"Not all of {count} costs could be recomputed: {'; '.join(differing)}."
        return Finding("costs/unproven", Status.WARNED, message)
    return Finding("costs/passed", Status.PASSED, f"Each of {count} costs is at least the recomputed one.")


def _grade(charged: Amounts, again: Cost | None, *, overridden: bool) -> str:
    if again is not None and _covers(charged, again, 1.0):
        return "enough"
    if overridden or again is None:
        return "an attested amount"
    return "slightly less" if _covers(charged, again, CLOSE) else "less"


def _covers(charged: Amounts, again: Cost, fraction: float) -> bool:
    """Return whether an amount is at least a fraction of a finite cost, in every quantity."""
    return again.is_finite and all(
        quantity in charged and Fraction(charged[quantity]) >= Fraction(value) * Fraction(fraction)
        for quantity, value in again.values.items()
    )


def _recompute_cost(
    stored: Mapping[str, Any], kind: str, charged: Amounts, costs: dict[bytes, Cost | None]
) -> Cost | None:
    """Return the accountant's cost of a stored request, not the stated amount; None where no bound is proven."""
    question = {name: stored[name] for name in ("release", "relation", "delta", "amount")}
    orders = list(charged) if PRIVACY_FILTERS[kind].by_order else []
    known = codec.encode_canonical(question | {"kind": kind, "orders": orders})
    if known not in costs:
        request = ChargeRequest.from_json(stored)
        if request.amount is not None:
            delta = request.amount.get("delta", "0")
            request = replace(request, amount=None, delta=None if Fraction(delta) == 0 else delta)
        try:
            costs[known] = compute_cost(request, kind, orders=orders)
        except (UnsupportedMechanismError, ValueError):
            costs[known] = None
    return costs[known]

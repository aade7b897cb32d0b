"""What a third party holds: a run's folder, a report, its page, a ledger, a bundle of one, a checkpoint or a receipt.

They are told apart by content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from epsilog.certificates import FORMAT
from epsilog.ledger import (
    PRIVACY_FILTERS,
    Amounts,
    ChargeId,
    ChargeRequest,
    Cost,
    Entry,
    StoredCheckpoint,
    Verb,
    compute_cost,
    is_bundle,
    is_ledger_file,
)
from epsilog.signing import Note
from epsilog.terms import Finding, RecordError, RunArtifact, Status, UnsupportedMechanismError, codec
from epsilog.verification.files import read_file
from epsilog.verification.ledger_excerpt import LedgerReader
from epsilog.verification.notes import note_kind, read_checkpoint, read_receipt
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

PAGE_START = b"<!doctype html>"
NEITHER = "neither a run folder, nor a report, nor a ledger, nor a checkpoint"
CLOSE = 0.995  # a price this near to ours may rest on another version's accountant


def identify_artifact(path: Path) -> str:
    """Return the kind of what lies at a path, as one word.

    Raises:
        RecordError: it is none of them, or is not there.
    """
    if path.is_dir():
        if (path / RunArtifact.PLAN).exists():
            return "run"
        raise RecordError(f"{path} is a folder without {RunArtifact.PLAN}")
    if not path.is_file():
        raise RecordError(f"{path} cannot be read: {'it is no file' if path.exists() else 'No such file or directory'}")
    if is_ledger_file(path):
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


def check_ledger_chain(ledger: str | Path, brought: TrustAnchors = NO_TRUST_ANCHORS) -> tuple[Finding, ...]:
    """Works a whole ledger out again, from its store or a bundle, and prices every reservation in it afresh.

    Args:
        ledger: its file or URL, or the bundle.
        brought: what an auditor kept elsewhere, which the ledger must still hold, and whose signatures count.
    """
    books = LedgerReader.read(ledger)
    return *check_ledger_contents(books, brought), *check_signatures(
        check_checkpoint_signatures(books, brought), brought.keys
    )


def check_ledger_contents(books: LedgerReader, brought: TrustAnchors = NO_TRUST_ANCHORS) -> tuple[Finding, ...]:
    """What a ledger that was read shows, signatures apart."""
    if books.trouble:
        return (Finding("ledger/invalid", Status.FAILED, f"The ledger does not hold: {books.trouble}"),)
    says = f"All {len(books.entries)} entries hold; head {books.heads[-1] if books.heads else 'none'}"
    return (
        Finding("ledger/passed", Status.PASSED, says),
        *_check_restores(books.entries),
        *_check_partitions(books.entries),
        check_costs(books.entries),
        *check_head(books, brought.head),
        *check_checkpoint(books, brought.checkpoint),
    )


def _check_restores(entries: Iterable[Entry]) -> tuple[Finding, ...]:
    """What a ledger says of having been put back from a backup: whatever came after that is not in it."""
    words = {Verb.LEDGER_RESTORED: "restored", Verb.RESTORE_ACCEPTED: "accepted"}
    told = [
        f"entry {entry.index} ({words[entry.verb]} by {entry.body['actor']}: {entry.body['reason']})"
        for entry in entries
        if entry.verb in words
    ]
    says = f"It was restored from a backup, and what was charged since is missing: {'; '.join(told)}."
    return (Finding("ledger/restored", Status.WARNED, says),) if told else ()


def _check_partitions(entries: Iterable[Entry]) -> tuple[Finding, ...]:
    """Which blocks count as disjoint: the owner's word, on which the budgets above them rest."""
    told = [
        f"{entry.scope} (entry {entry.index}, by {entry.body['actor']}: {entry.body['reason']})"
        for entry in entries
        if entry.verb is Verb.PARTITION_DECLARED
    ]
    says = f"Budgets above count one block of each partition, disjoint by its owner's word: {'; '.join(told)}."
    return (Finding("ledger/partitioned", Status.WARNED, says),) if told else ()


def check_note(path: Path, kind: str, books: LedgerReader | None, brought: TrustAnchors) -> tuple[Finding, ...]:
    """Checks a checkpoint or a receipt: its signature, its proof, and the ledger where one is here."""
    first: tuple[Finding, ...]
    if kind == "receipt":
        note, receipt = read_receipt(path)
        now, first = StoredCheckpoint(Note(str(receipt.checkpoint))), (check_receipt(receipt, books),)
    else:
        now = read_checkpoint(path)
        note, first = now.note, () if books is None else check_checkpoint(books, now)
    grown = [
        finding
        for finding in check_consistency(now, brought.checkpoint)
        if books is None or now.old is not None or finding.status is Status.FAILED  # a ledger shows the rest
    ]
    whole = () if books is None else check_ledger_contents(books, brought)
    signed = [check_note_signatures(kind, note, brought.keys), *check_checkpoint_signatures(books, brought)]
    return *first, *grown, *whole, *check_signatures(signed, brought.keys)


def check_head(books: LedgerReader | None, head: str | None) -> tuple[Finding, ...]:
    """Whether a ledger still holds an entry whose hash was kept elsewhere; nothing, if none was."""
    if head is None:
        return ()
    if books is None:
        return (Finding("head/not-checked", Status.NOT_CHECKED, "No ledger was given.", missing_evidence="ledger"),)
    if head in books.heads:
        says = f"The ledger holds the head that was kept, as entry {books.heads.index(head) + 1} of {len(books.heads)}."
        return (Finding("head/passed", Status.PASSED, says),)
    says = "The ledger does not hold the head that was kept: it was cut or rewritten."
    return (Finding("head/missing", Status.FAILED, says),)


def check_costs(entries: Iterable[Entry]) -> Finding:
    """Every reservation costs at least what the accountant says of its release today, or its owner has allowed less."""
    asked: dict[bytes, Cost | None] = {}
    allowed: set[ChargeId | None] = set()
    found: dict[str, list[int]] = {"enough": [], "less": [], "a hair less": [], "on the owner's word": []}
    for entry in entries:
        if entry.verb is Verb.COST_OVERRIDDEN:
            allowed.add(entry.charge_id)
        if entry.verb is Verb.RESERVED:
            for kind, charged in entry.amounts.items():
                again = _recompute_cost(entry.body["request"], kind, charged, asked)
                found[_grade(charged, again, allowed=entry.charge_id in allowed)].append(entry.index)
    priced = sum(map(len, found.values()))
    if found["less"]:
        says = f"Entries {found['less'][:5]} were charged less than their release costs."
        return Finding("costs/too-low", Status.FAILED, says)
    odd = [
        f"entries {found[how][:5]} were charged {how}" for how in ("a hair less", "on the owner's word") if found[how]
    ]
    if odd:
        return Finding(
            "costs/unproven",
            Status.WARNED,
            f"Of {priced} prices, not all are what the accountant says: {'; '.join(odd)}.",
        )
    return Finding("costs/passed", Status.PASSED, f"Each of {priced} prices is at least what the accountant says now.")


def _grade(charged: Amounts, again: Cost | None, *, allowed: bool) -> str:
    if again is not None and _covers(charged, again, 1.0):
        return "enough"
    if allowed or again is None:
        return "on the owner's word"
    return "a hair less" if _covers(charged, again, CLOSE) else "less"


def _covers(charged: Amounts, again: Cost, share: float) -> bool:
    """Whether an amount is at least a share of a price, in every quantity."""
    return (
        all(
            quantity in charged and Fraction(charged[quantity]) >= Fraction(value) * Fraction(share)
            for quantity, value in again.values.items()
            if again.is_finite
        )
        and again.is_finite
    )


def _recompute_cost(
    stored: Mapping[str, Any], kind: str, charged: Amounts, asked: dict[bytes, Cost | None]
) -> Cost | None:
    """The accountant's price for a stored request, whatever amount the caller stated; None where none is proven."""
    question = {name: stored[name] for name in ("release", "relation", "delta", "amount")}
    orders = list(charged) if PRIVACY_FILTERS[kind].by_order else []
    known = codec.encode_canonical(question | {"kind": kind, "orders": orders})
    if known not in asked:
        request = ChargeRequest.from_json(stored)
        if request.amount is not None:
            delta = request.amount.get("delta", "0")
            request = replace(request, amount=None, delta=None if Fraction(delta) == 0 else delta)
        try:
            asked[known] = compute_cost(request, kind, orders=orders)
        except (UnsupportedMechanismError, ValueError):
            asked[known] = None
    return asked[known]

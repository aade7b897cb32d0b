"""What somebody was given, checked as `epsilog verify` does it: a report, the bundle of its ledger; nothing is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from epsilog import reports
from epsilog.ledger import Kept
from epsilog.server import answers
from epsilog.server.asks import ReportAsk
from epsilog.server.routes import Routes
from epsilog.signing import VerifierKey, read_envelopes
from epsilog.terms import CheckError, RecordsError, StorageError, codec
from epsilog.verification import (
    Books,
    Brought,
    Reconciliation,
    Signed,
    check_books,
    check_signatures,
    note_signatures,
    signed_file,
)

routes = Routes("verify")


@routes.add("/verify", answers.CheckedReport, summary="Check a report, a bundle of a ledger, or both")
def verify(ask: ReportAsk) -> dict[str, Any]:
    """Every check on what is given, and every part of a report beside what comes out again from its evidence.

    Only the ledger binds a report to a run: its bundle is worked out entry by entry. A signature counts if it is by the
    key that is given, and a kept checkpoint shows whether the bundle goes on from what was there then.
    """
    if ask.record is not None:
        return _of_record(ask)
    brought, books = _brought(ask), _books(ask)
    if ask.report is not None:
        return _of_report(ask.report, ask.signature, books, brought)
    if books is None:
        raise CheckError("report", "given, or a bundle", "neither")
    if ask.signature is not None:
        raise CheckError("signature", "absent without a report (a bundle carries its own)", "one")
    findings = *check_books(books, brought), *check_signatures(note_signatures(books, brought), brought.keys)
    return _told(Reconciliation(findings, required=("ledger", "signature")), "") | {"parts": []}


def _of_record(ask: ReportAsk) -> dict[str, Any]:
    """What a calculator's record shows; nothing that belongs to a run goes with it."""
    if ask.model_fields_set - {"record"} and ask.model_dump(exclude={"record"}, exclude_none=True):
        raise CheckError("record", "alone: it is of no run", "something beside it")
    with _read("record", "a stamped calculation"):
        document = codec.parse((ask.record or "").encode("utf-8", "surrogatepass"))
        findings = reports.check_calculation(document)
    return _told(Reconciliation(findings, required=()), "") | {"parts": []}


def _of_report(report: str, signature: str | None, books: Books | None, brought: Brought) -> dict[str, Any]:
    content = report.encode("utf-8", "surrogatepass")
    signed: tuple[Signed, ...] = (Signed("report"),) if brought.keys else ()
    if signature is not None:
        with _read("signature", "that of a report: DSSE envelopes, one a line", shown=False):
            signed = (signed_file("report", content, read_envelopes(signature.encode()), brought.keys),)
    required = *reports.REQUIRED, *(("signature",) if brought.keys else ())  # whoever gives a key wants a signature
    with _read("report", "one that carries its evidence"):
        found = reports.examine_report(content, books, required=required, brought=brought, signed=signed)
        parts = [dataclasses.asdict(part) for part in reports.compare(content)]
    return _told(found.outcome, found.stands) | {"parts": parts}


def _told(outcome: Reconciliation, stands: str) -> dict[str, Any]:
    findings = [finding.to_json() for finding in outcome.findings]
    return {"verdict": outcome.verdict.value, "stands": stands, "findings": findings}


def _brought(ask: ReportAsk) -> Brought:
    kept, keys = None, tuple[VerifierKey, ...]()
    if ask.checkpoint is not None:
        if ask.bundle is None:
            raise CheckError("checkpoint", "absent without a bundle, which it is of", "one")
        with _read("checkpoint", "one of a ledger", shown=False):
            kept = Kept.parse(ask.checkpoint)
    if ask.key is not None:
        with _read("key", "a public line, NAME+ID+KEY", shown=False):
            keys = (VerifierKey.parse(ask.key),)
    return Brought(checkpoint=kept, keys=keys)


def _books(ask: ReportAsk) -> Books | None:
    if ask.bundle is None:
        return None
    with _read("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        return Books.read(BytesIO(ask.bundle.encode("utf-8", "surrogatepass")))


@contextmanager
def _read(field: str, wanted: str, *, shown: bool = True) -> Iterator[None]:
    """Says of which of the files it is that it cannot be read; where that may be a private key, none of its words."""
    try:
        yield
    except (RecordsError, StorageError, ValueError) as error:
        if not shown:
            raise CheckError(field, wanted, "another text") from None
        raise CheckError(field, wanted, f"another: {error}") from error

"""What somebody was given, checked as `epsilog verify` does it: a report, the bundle of its ledger; nothing is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from epsilog import reports
from epsilog.ledger import StoredCheckpoint
from epsilog.server import answers
from epsilog.server.asks import VerifyRequest
from epsilog.server.routes import Routes
from epsilog.signing import VerifierKey, read_envelopes
from epsilog.terms import CheckError, RecordError, StorageError, codec
from epsilog.verification import (
    LedgerReader,
    Reconciliation,
    SignatureCheck,
    TrustAnchors,
    check_checkpoint_signatures,
    check_file_signatures,
    check_ledger_contents,
    check_signatures,
)

routes = Routes("verify")


@routes.add("/verify", answers.ReportVerificationModel, summary="Check a report, a bundle of a ledger, or both")
def verify_route(ask: VerifyRequest) -> dict[str, Any]:
    """Every check on what is given, and every part of a report beside what comes out again from its evidence.

    Only the ledger binds a report to a run: its bundle is worked out entry by entry. A signature counts if it is by the
    key that is given, and a kept checkpoint shows whether the bundle goes on from what was there then.
    """
    if ask.record is not None:
        return _of_record(ask)
    brought, books = _build_trust_anchors(ask), _open_ledger_reader(ask)
    if ask.report is not None:
        return _of_report(ask.report, ask.signature, books, brought)
    if books is None:
        raise CheckError("report", "given, or a bundle", "neither")
    if ask.signature is not None:
        raise CheckError("signature", "absent without a report (a bundle carries its own)", "one")
    findings = (
        *check_ledger_contents(books, brought),
        *check_signatures(check_checkpoint_signatures(books, brought), brought.keys),
    )
    return _outcome_to_json(Reconciliation(findings, required=("ledger", "signature")), "") | {"parts": []}


def _of_record(ask: VerifyRequest) -> dict[str, Any]:
    """What a calculator's record shows; nothing that belongs to a run goes with it."""
    if ask.model_fields_set - {"record"} and ask.model_dump(exclude={"record"}, exclude_none=True):
        raise CheckError("record", "alone: it is of no run", "something beside it")
    with _read("record", "a stamped calculation"):
        document = codec.parse_json((ask.record or "").encode("utf-8", "surrogatepass"))
        findings = reports.check_calculation(document)
    return _outcome_to_json(Reconciliation(findings, required=()), "") | {"parts": []}


def _of_report(report: str, signature: str | None, books: LedgerReader | None, brought: TrustAnchors) -> dict[str, Any]:
    content = report.encode("utf-8", "surrogatepass")
    signed: tuple[SignatureCheck, ...] = (SignatureCheck("report"),) if brought.keys else ()
    if signature is not None:
        with _read("signature", "that of a report: DSSE envelopes, one a line", shown=False):
            signed = (check_file_signatures("report", content, read_envelopes(signature.encode()), brought.keys),)
    required = (
        *reports.REQUIRED_EVIDENCE,
        *(("signature",) if brought.keys else ()),
    )  # whoever gives a key wants a signature
    with _read("report", "one that carries its evidence"):
        found = reports.verify_report(content, books, required=required, brought=brought, signed=signed)
        parts = [dataclasses.asdict(part) for part in reports.compare_rebuilt(content)]
    return _outcome_to_json(found.outcome, found.stands) | {"parts": parts}


def _outcome_to_json(outcome: Reconciliation, stands: str) -> dict[str, Any]:
    findings = [finding.to_json() for finding in outcome.findings]
    return {"verdict": outcome.verdict.value, "stands": stands, "findings": findings}


def _build_trust_anchors(ask: VerifyRequest) -> TrustAnchors:
    kept, keys = None, tuple[VerifierKey, ...]()
    if ask.checkpoint is not None:
        if ask.bundle is None:
            raise CheckError("checkpoint", "absent without a bundle, which it is of", "one")
        with _read("checkpoint", "one of a ledger", shown=False):
            kept = StoredCheckpoint.parse(ask.checkpoint)
    if ask.key is not None:
        with _read("key", "a public line, NAME+ID+KEY", shown=False):
            keys = (VerifierKey.parse(ask.key),)
    return TrustAnchors(checkpoint=kept, keys=keys)


def _open_ledger_reader(ask: VerifyRequest) -> LedgerReader | None:
    if ask.bundle is None:
        return None
    with _read("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        return LedgerReader.read(BytesIO(ask.bundle.encode("utf-8", "surrogatepass")))


@contextmanager
def _read(field: str, wanted: str, *, shown: bool = True) -> Iterator[None]:
    """Says of which of the files it is that it cannot be read; where that may be a private key, none of its words."""
    try:
        yield
    except (RecordError, StorageError, ValueError) as error:
        if not shown:
            raise CheckError(field, wanted, "another text") from None
        raise CheckError(field, wanted, f"another: {error}") from error

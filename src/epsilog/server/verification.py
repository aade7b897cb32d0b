"""Documents of others, checked as `epsilog verify` does it: a report, the bundle of its ledger; nothing is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from epsilog import reports
from epsilog.ledger import StoredCheckpoint
from epsilog.server.responses import ReportVerificationModel, VerificationExampleModel
from epsilog.server.routes import RequestModel, Routes
from epsilog.signing import VerifierKey, read_envelopes
from epsilog.terms import CheckError, RecordError, StorageError, codec
from epsilog.verification import (
    LedgerReader,
    SignatureCheck,
    TrustAnchors,
    Verification,
    check_checkpoint_signatures,
    check_file_signatures,
    check_ledger_contents,
    check_signatures,
    parse_evidence,
    verify_evidence,
)

routes = Routes("verify")
_Text: TypeAlias = Annotated[str | None, Field(max_length=4 * 1024 * 1024)]
_BEGINNING = b"epsilog-bundle/v0\n"
_EXAMPLE = Path(__file__).parent / "example"  # the records of a small rehearsal, and the bundle of its ledger
_Note: TypeAlias = Annotated[str | None, Field(max_length=64 * 1024)]  # a signature, a checkpoint


class VerifyRequest(RequestModel):
    """A report, a bundle of a ledger, or both, with what an auditor kept elsewhere."""

    report: _Text = Field(None, description="report.json or report.html, as text")
    bundle: _Text = Field(None, description="the bundle of the ledger that was charged, as text")
    record: _Text = Field(None, description="a stamped record of a calculator, as text")
    signature: _Note = Field(None, description="the report's signature (.intoto.jsonl)")
    checkpoint: _Note = Field(None, description="a checkpoint that was kept: the bundle begins with it")
    key: str | None = Field(None, description="the trusted key of signatures, NAME+ID+KEY", max_length=1000)


@routes.add("/verify", ReportVerificationModel, summary="Check a report, a bundle of a ledger, or both")
def verify_route(ask: VerifyRequest) -> dict[str, Any]:
    """Every check of the given files. Each part of a report is compared with its recomputation from the evidence.

    Only the ledger binds a report to a run: its bundle is verified entry by entry. A signature counts if it is by the
    given key, and a kept checkpoint shows whether the bundle continues the ledger of that time.
    """
    if ask.record is not None:
        return _verify_record(ask)
    return _verify(ask, _open_ledger_reader(ask), has_bundle=ask.bundle is not None)


def verify_with_bundle(ask: VerifyRequest, bundle: Path) -> dict[str, Any]:
    """Return the outcome of a question whose bundle is a file."""
    if ask.bundle is not None or ask.record is not None:
        raise CheckError("bundle", "given once, and without a record", "another too")
    with _name_unreadable("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        with bundle.open("rb") as start:
            if start.read(len(_BEGINNING)) != _BEGINNING:
                raise RecordError("it does not begin like a bundle; archives are not opened")
        ledger = LedgerReader.read(bundle)
    return _verify(ask, ledger, has_bundle=True)


def _verify(ask: VerifyRequest, ledger: LedgerReader | None, *, has_bundle: bool) -> dict[str, Any]:
    anchors = _build_trust_anchors(ask, has_bundle=has_bundle)
    if ask.report is not None:
        return _verify_report(ask.report, ask.signature, ledger, anchors)
    if ledger is None:
        raise CheckError("report", "given, or a bundle", "neither")
    if ask.signature is not None:
        raise CheckError("signature", "absent without a report (a bundle carries its own)", "one")
    signatures = check_signatures(check_checkpoint_signatures(ledger, anchors), anchors.keys)
    findings = (*check_ledger_contents(ledger, anchors), *signatures)
    return _outcome_to_json(Verification(findings, required=("ledger", "signature")))


class ExampleRequest(RequestModel):
    """Nothing."""


@routes.add("/verify/example", VerificationExampleModel, summary="A report and its ledger, to try")
def example_route(_ask: ExampleRequest) -> dict[str, Any]:
    """The report of a small rehearsal on real data, built from its records, and the bundle of its ledger."""
    return {"report": _build_example(), "bundle": (_EXAMPLE / "ledger.bundle").read_text(encoding="utf-8")}


@cache
def _build_example() -> str:
    files = {one.name: one.read_bytes() for one in _EXAMPLE.iterdir() if one.suffix in (".json", ".jsonl")}
    evidence = parse_evidence(files, LedgerReader.read(_EXAMPLE / "ledger.bundle"))
    return codec.encode_canonical(reports.build_report(verify_evidence(evidence))).decode()


def _verify_record(ask: VerifyRequest) -> dict[str, Any]:
    """Return the findings of a calculator's record; nothing that belongs to a run goes with it."""
    if ask.model_fields_set - {"record"} and ask.model_dump(exclude={"record"}, exclude_none=True):
        raise CheckError("record", "alone: it is of no run", "other fields too")
    with _name_unreadable("record", "a stamped calculation"):
        document = codec.parse_json((ask.record or "").encode("utf-8", "surrogatepass"))
        findings = reports.check_calculation(document)
    return _outcome_to_json(Verification(findings, required=()))


def _verify_report(
    report: str, signature: str | None, ledger: LedgerReader | None, anchors: TrustAnchors
) -> dict[str, Any]:
    content = report.encode("utf-8", "surrogatepass")
    signatures: tuple[SignatureCheck, ...] = (SignatureCheck("report"),) if anchors.keys else ()
    if signature is not None:
        with _name_unreadable("signature", "that of a report: DSSE envelopes, one a line", quote=False):
            envelopes = read_envelopes(signature.encode())
            signatures = (check_file_signatures("report", content, envelopes, anchors.keys),)
    required = (*reports.REQUIRED_OF_REPORT, *(("signature",) if anchors.keys else ()))  # a key asks for a signature
    with _name_unreadable("report", "one that carries its evidence"):
        found = reports.verify_report(content, ledger, required=required, trust=anchors, signed=signatures)
        parts = [dataclasses.asdict(part) for part in reports.compare_rebuilt(content)]
    document = reports.read_report(content)[1]
    return _outcome_to_json(found, parts, document)


def _outcome_to_json(
    outcome: Verification, parts: Sequence[dict[str, Any]] = (), report: dict[str, Any] | None = None
) -> dict[str, Any]:
    findings = [finding.to_json() for finding in outcome.findings]
    return {
        "status": outcome.status.value,
        "answer": outcome.answer,
        "supported_claim": outcome.claim,
        "findings": findings,
        "parts": list(parts),
        "evidence": reports.list_evidence_kinds(outcome, report),
        "simulation": outcome.evidence is not None and outcome.evidence.claim.simulation,
    }


def _build_trust_anchors(ask: VerifyRequest, *, has_bundle: bool) -> TrustAnchors:
    checkpoint, keys = None, tuple[VerifierKey, ...]()
    if ask.checkpoint is not None:
        if not has_bundle:
            raise CheckError("checkpoint", "absent without a bundle, which it is of", "one")
        with _name_unreadable("checkpoint", "one of a ledger", quote=False):
            checkpoint = StoredCheckpoint.parse(ask.checkpoint)
    if ask.key is not None:
        with _name_unreadable("key", "a public line, NAME+ID+KEY", quote=False):
            keys = (VerifierKey.parse(ask.key),)
    return TrustAnchors(checkpoint=checkpoint, keys=keys)


def _open_ledger_reader(ask: VerifyRequest) -> LedgerReader | None:
    if ask.bundle is None:
        return None
    with _name_unreadable("bundle", "one of a ledger (`epsilog ledger bundle`)"):
        return LedgerReader.read(BytesIO(ask.bundle.encode("utf-8", "surrogatepass")))


@contextmanager
def _name_unreadable(field: str, wanted: str, *, quote: bool = True) -> Iterator[None]:
    """Name the text that cannot be read; quote nothing of one that may be a private key."""
    try:
        yield
    except (RecordError, StorageError, ValueError) as error:
        if not quote:
            raise CheckError(field, wanted, "another text") from None
        raise CheckError(field, wanted, f"another: {error}") from error

"""Verify a run, a report, a ledger, logs, a note or a calculation, recognized by content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from epsilog.ledger import parse_address
from epsilog.reports.calculations import check_calculation
from epsilog.reports.report import log_digests
from epsilog.reports.verification import (
    REQUIRED_EVIDENCE,
    REQUIRED_OF_REPORT,
    add_claim,
    verify_log_report,
    verify_report,
    verify_run,
)
from epsilog.terms import EVIDENCE_KINDS, LOG_EVIDENCE_KINDS, OPTIONAL_EVIDENCE_KINDS, CheckError, check, codec
from epsilog.verification import (
    NO_TRUST_ANCHORS,
    REQUIRED_LOGS,
    LedgerReader,
    TrustAnchors,
    Verification,
    check_certificate_file,
    check_ledger_chain,
    check_note,
    identify_artifact,
    read_file,
    read_run_folder,
    read_signed,
)

DEFAULT_LEDGER = "ledger.db"  # next to a run's folder, if no ledger is given
SIGNED_KINDS = ("bundle", "checkpoint", "receipt")  # which are made to be signed


def verify(
    path: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    logs: Path | None = None,
    require: Sequence[str] | None = None,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signature: Path | None = None,
    references: Mapping[str, str] | None = None,
) -> Verification:
    """Verify the file or folder at a path, or the logs that a mapping names.

    Args:
        path: a run folder, a report (JSON or HTML), a ledger or its URL, a bundle of one, a checkpoint, a receipt, a
            certificate, or a stamped calculation.
        ledger: the ledger that a run was charged to, or a bundle of it.
        logs: a mapping of the logs of any other run; then ``path`` is the report of those logs.
        require: evidence that must be checked to pass; None for the default of the kind.
        trust: the head, checkpoint and keys that an auditor kept elsewhere; with a key, a signature is required.
        signature: the file of a report's signatures; None for the one next to the report.
        references: SHA-256 of files, by the names in a stamped calculation.

    Raises:
        RecordError: it is something else, or cannot be read.
        CheckError: this kind does not take an argument.
    """
    if logs is not None:
        _refuse("reference", "logs", references)
        report = None if path is None else Path(path)
        return _verify_logs(report, logs, require=require, trust=trust, signature=signature)
    if path is None:
        raise CheckError("path", "given, or logs", "neither")
    for name in require or ():
        check.one_of((*EVIDENCE_KINDS, *OPTIONAL_EVIDENCE_KINDS))(require=name)
    where = parse_address(path) if isinstance(path, str) else path
    kind = "ledger" if isinstance(where, str) else identify_artifact(where)
    of_run = kind in ("run", "report", "page")
    if kind != "calculation":
        _refuse("reference", f"a {kind}", references)
    if not of_run and kind != "calculation":
        _refuse("signature", f"a {kind}, which carries its own", signature)
    if kind in ("ledger", "bundle", "certificate", "calculation"):
        _refuse("ledger", f"a {kind}", ledger)
    if kind in ("certificate", "calculation"):
        _refuse("require", f"a {kind}", require)
        _refuse("trust", f"a {kind}", None if trust == NO_TRUST_ANCHORS else "what an auditor kept")
    if isinstance(where, str) or kind in ("ledger", "bundle"):
        return Verification(check_ledger_chain(where, trust), required=_list_required(kind, require, trust))
    if kind == "certificate":
        return Verification((check_certificate_file(read_file(where)),), required=())
    if kind == "calculation":
        return Verification(check_calculation(codec.parse_json(read_file(where)), files=references), required=())
    default = where.resolve().parent / DEFAULT_LEDGER
    ledger = ledger or (default if kind == "run" and default.exists() else None)
    reader = LedgerReader.read(parse_address(ledger) if isinstance(ledger, str) else ledger) if ledger else None
    needed = _list_required(kind, require, trust)
    if kind in ("checkpoint", "receipt"):
        return Verification(check_note(where, kind, reader, trust), required=needed)
    signed = read_signed(where, trust.keys, signature=signature)
    if kind == "run":
        files = read_run_folder(where)
        return verify_run(files, reader, required=needed, trust=trust, signed=signed)
    return verify_report(read_file(where), reader, required=needed, trust=trust, signed=signed)


def _refuse(name: str, kind: str, value: Any) -> None:
    """Refuse an argument that this kind does not take."""
    if value:
        shown = ", ".join(value) if isinstance(value, Mapping) else repr(str(value))
        raise CheckError(name, f"absent for {kind}", shown)


def _list_required(kind: str, required: Sequence[str] | None, trust: TrustAnchors) -> tuple[str, ...]:
    """Return the required evidence; a key requires a signature."""
    usual = {"run": REQUIRED_EVIDENCE, "report": REQUIRED_OF_REPORT, "page": REQUIRED_OF_REPORT}.get(kind, ("ledger",))
    signed = ("signature",) if trust.keys or (required is None and kind in SIGNED_KINDS) else ()
    return tuple(dict.fromkeys((*(usual if required is None else required), *signed)))


def _verify_logs(
    path: Path | None,
    mapping: Path,
    *,
    require: Sequence[str] | None,
    trust: TrustAnchors,
    signature: Path | None,
) -> Verification:
    """Verify logs, and their report at ``path`` if given."""
    from epsilog.verification.logs import verify_logs

    needed = tuple(REQUIRED_LOGS if require is None else require)
    for name in needed:
        check.one_of(LOG_EVIDENCE_KINDS)(require=name)
    found = verify_logs(mapping, required=needed)
    if path is None:
        outcome = add_claim(found, None)
    else:
        signed = read_signed(path, trust.keys, signature=signature)
        outcome = verify_log_report(read_file(path), found, trust=trust, signed=signed)
    return replace(outcome, files=log_digests(found))

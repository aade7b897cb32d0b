"""Verify a run, a report or its page: check the evidence, build the report again, and compare.

A report is a function of its evidence, so every field must equal its recomputation: exactly where it is copied, within
one part in a billion where it is computed. The ledger binds what the owner attests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from epsilog import npz
from epsilog.reports.figure_sources import RECOMPUTED, classify_figures, get_figure_source, list_leaf_paths
from epsilog.reports.rendering import extract_document, render_html
from epsilog.reports.report import VERSION, build_report, extract_files
from epsilog.reports.statements import format_supported_statement, format_verified_claim
from epsilog.terms import COMMITMENT, EVIDENCE_KINDS, Finding, RecordError, RunArtifact, Status, codec
from epsilog.verification import (
    LEDGER_CHECKS,
    NO_TRUST_ANCHORS,
    RECOMPUTE_TOLERANCE,
    Evidence,
    LedgerExcerpt,
    LedgerReader,
    SignatureCheck,
    TrustAnchors,
    Verification,
    check_checkpoint,
    check_checkpoint_signatures,
    check_head,
    check_signatures,
    parse_evidence,
    verify_evidence,
)

Path = tuple[str | int, ...]
Paths = tuple[Path, ...]
COMPUTED: Paths = (  # another processor may round them otherwise
    ("accounting", "curve"),
    ("accounting", "closed_form"),
    ("claim", "epsilon"),
    ("claim", "unamplified"),
    ("risk_metrics",),
    ("tuning",),
    ("verification",),
    ("audit", "bound"),
    ("audit", "estimate"),
)
COMPUTED_FROM_LOGS: Paths = (  # which may leave the claim to be computed
    ("claim", "supported"),
    ("claim", "guarantee", "epsilon"),
    *COMPUTED,
)
REQUIRED_EVIDENCE = tuple(name for name in EVIDENCE_KINDS if name not in ("page", "model", "signature"))
REQUIRED_OF_REPORT = ("report", "ledger")
"""What a report alone must be checked against: the curator's records are not public, and the owner attests them."""


def verify_report(
    content: bytes,
    ledger: LedgerReader | None,
    *,
    required: Collection[str] = REQUIRED_OF_REPORT,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
) -> Verification:
    """Verify a report alone, as JSON or as its HTML page; see ``verify_run``.

    Raises:
        RecordError: it is neither, or does not carry its evidence.
    """
    files = _extract_files(content)
    return verify_run(files, ledger, required=required, trust=trust, signed=signed, complete=False)


def _extract_files(content: bytes) -> dict[str, bytes]:
    """Return the files that a report carries, and the report itself if it is a page."""
    page, document = read_report(content)
    if isinstance(document, dict) and document.get("kind") == "log-report":
        raise RecordError("a report of logs does not carry them: verify it with the mapping of those logs")
    return extract_files(document) | ({} if page is None else {RunArtifact.PAGE: content})


def read_report(content: bytes) -> tuple[bytes | None, Any]:
    """Return the JSON in a page, or None for another file, and the parsed document.

    Raises:
        RecordError: it is neither JSON nor a page that contains it.
    """
    page = extract_document(content)
    return page, _parse_json(content if page is None else page, "the report")


def _parse_json(content: bytes, name: str) -> Any:
    try:
        return codec.parse_json(content)
    except ValueError as error:
        raise RecordError(f"{name} is not unambiguous JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class PartComparison:
    """One part of a report, compared with its recomputation from the evidence that the report carries.

    Attributes:
        part: its name at the top of the document.
        fields: the number of its values.
        copied: the number of attested or unknown values; that they are equal proves nothing.
        differing: path, stated and recomputed value of each difference, up to a thousand.
    """

    part: str
    fields: int
    copied: int
    differing: tuple[tuple[str, str, str], ...]


def compare_rebuilt(content: bytes) -> tuple[PartComparison, ...]:
    """Build a report again from the evidence that it carries, and compare both part by part.

    Raises:
        RecordError: it is not a report, does not carry its evidence, or no report can be built from it.
    """
    files = _extract_files(content)
    document = _parse_report(files)
    evidence = replace(parse_evidence(files, None), ledger=_read_reported_excerpt(document))
    try:
        outcome = verify_evidence(evidence, required=REQUIRED_EVIDENCE)
        again = build_report(outcome)
    except codec.UNREADABLE as error:
        raise RecordError(f"no report can be built from this evidence: {error!r}") from error
    paths = list_leaf_paths(again)
    copied = Counter(path[0] for path in paths if get_figure_source(again, path) != RECOMPUTED)
    parts = {**document, **again}
    return tuple(
        _compare_part(part, document.get(part, ABSENT), again.get(part, ABSENT), copied[part]) for part in parts
    )


def _compare_part(part: str, stated: Any, again: Any, copied: int) -> PartComparison:
    found = islice(list_differences(stated, again, (part,)), MAX_DIFFERENCES)
    differing = tuple(("/".join(map(str, at)), _format_value(one), _format_value(other)) for at, one, other in found)
    fields = sum(1 for _ in list_leaf_paths(again if stated is ABSENT else stated))
    return PartComparison(part, fields, min(copied, fields), differing)


def _format_value(value: Any) -> str:
    text = "nothing" if value is ABSENT else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def verify_run(
    files: Mapping[str, bytes],
    ledger: LedgerReader | None,
    *,
    required: Collection[str] = REQUIRED_EVIDENCE,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
    complete: bool = True,
) -> Verification:
    """Apply every check, then build the report again and compare each field.

    Args:
        files: contents by name, as a run left them.
        ledger: the ledger that the run was charged to; None if it was not given.
        required: evidence (report, ledger, custody, page, model, signature) that must be checked to pass.
        trust: the head, checkpoint and keys that an auditor kept elsewhere.
        signed: who signed the report; see ``read_signed``.
        complete: whether all files of a run should be here; then a missing committed file fails.

    Raises:
        RecordError: plan or records cannot be read.
    """
    evidence, document = parse_evidence(files, ledger), _parse_report(files)
    if ledger is None:
        evidence = replace(evidence, ledger=_read_reported_excerpt(document))
    try:
        outcome = verify_evidence(evidence, required=required)
    except codec.UNREADABLE as error:  # readable, but no run leaves such files
        raise RecordError(f"this evidence cannot be checked: {error!r}") from error
    findings = outcome.findings if ledger is not None else tuple(map(_ignore_reported_ledger, outcome.findings))
    if complete:
        findings = tuple(_fail_missing(f, evidence) if f.missing_evidence in required else f for f in findings)
    found = replace(outcome, findings=findings).with_findings(
        (
            *check_head(ledger, trust.head),
            *check_checkpoint(ledger, trust.checkpoint),
            *check_signatures([*signed, *check_checkpoint_signatures(ledger, trust)], trust.keys),
            check_report(document, outcome),
            check_page(files, document),
            check_model(files, evidence),
        )
    )
    return add_claim(found, document)


def verify_log_report(
    content: bytes,
    outcome: Verification,
    *,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
) -> Verification:
    """Build the report of logs again, and compare it with a given one, as JSON or as its HTML page.

    Args:
        content: the given report.
        outcome: the verification of the logs.
        trust: the accepted keys; with a key, a signature is required.
        signed: who signed the report; see ``read_signed``.

    Raises:
        RecordError: it is not a report of logs.
    """
    page, document = read_report(content)
    if not isinstance(document, dict) or document.get("kind") != "log-report":
        raise RecordError("this is not a report of logs")
    again = build_report(outcome)
    compared = (
        check_rebuilt(document, again),
        check_page({} if page is None else {RunArtifact.PAGE: content}, document),
        *check_signatures(signed, trust.keys),
    )
    required = (*outcome.required, *(("signature",) if trust.keys else ()))
    found = add_claim(replace(outcome, findings=(*outcome.findings, *compared), required=required), document)
    failed = {one.check for one in compared if one.status is Status.FAILED}
    assert outcome.evidence is not None
    left = format_supported_statement(outcome.evidence.claim, failed) if failed else format_verified_claim(outcome)
    return replace(found, claim=left)


def add_claim(found: Verification, document: Any) -> Verification:
    """Add the supported claim and the sources of a rebuilt report's figures."""
    assert found.evidence is not None
    rebuilt = any(one.code == "report/passed" for one in found.findings)
    figures = classify_figures(document) if rebuilt else {}
    return replace(found, claim=format_verified_claim(found), figures=figures)


def _parse_report(files: Mapping[str, bytes]) -> Any:
    content = files.get(RunArtifact.REPORT)
    return None if content is None else _parse_json(content, RunArtifact.REPORT)


def _read_reported_excerpt(document: Any) -> LedgerExcerpt | None:
    """Return the report's own excerpt of the ledger, for use without a ledger."""
    try:
        return LedgerExcerpt.from_json(document["evidence"]["ledger"])
    except codec.UNREADABLE:
        return None


def _ignore_reported_ledger(finding: Finding) -> Finding:
    if finding.check not in LEDGER_CHECKS or finding.status is Status.FAILED:
        return finding
    message = "No ledger was given."
    return Finding(f"{finding.check}/not-checked", Status.NOT_CHECKED, message, missing_evidence="ledger")


def _fail_missing(finding: Finding, evidence: Evidence) -> Finding:
    """Fail what a complete run folder must contain, and this one lacks."""
    committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
    messages = {"ledger": "The ledger that the run was charged to is missing."}
    if COMMITMENT in committed:
        messages["custody"] = f"{RunArtifact.CUSTODY} was committed and is missing."
    if finding.check != finding.missing_evidence or finding.missing_evidence not in messages:
        return finding
    return Finding(f"{finding.check}/missing", Status.FAILED, messages[finding.missing_evidence])


def check_report(document: Any, outcome: Verification) -> Finding:
    """Check that the report equals the one built from its evidence."""
    if document is None:
        return Finding("report/not-checked", Status.NOT_CHECKED, "No report was given.", missing_evidence="report")
    try:
        again = build_report(outcome)
    except codec.UNREADABLE as error:
        return Finding("report/not-buildable", Status.FAILED, f"No report can be built from this evidence: {error}")
    return check_rebuilt(document, again)


def check_rebuilt(document: Any, again: Any) -> Finding:
    """Check that every field of a report equals its recomputation from the evidence."""
    version = document.get("v") if isinstance(document, dict) else None
    if version != VERSION:
        message = f"The report has version {version!r}; this release verifies version {VERSION}."
        return Finding("report/mismatch", Status.FAILED, message)
    computed = COMPUTED_FROM_LOGS if again["kind"] == "log-report" else COMPUTED
    different = list(list_differences(document, again, computed=computed))
    if not different:
        by = "the author of the logs" if document["kind"] == "log-report" else "the owner and the ledger"
        message = (
            f"All report fields match the values recomputed from the evidence; values attested by {by} are copied."
        )
        return Finding("report/passed", Status.PASSED, message, _count_sources(document))
    shown = "; ".join(f"{'/'.join(map(str, path)) or 'all'}: {_describe(a, b)}" for path, a, b in different[:3])
    more = f"; and {len(different) - 3} more" if len(different) > 3 else ""
    return Finding("report/mismatch", Status.FAILED, f"The report differs from its evidence: {shown}{more}.")


def _count_sources(document: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Count the values of a report that are recomputed, attested by each party, or unknown."""
    counts = Counter(source.attested_by or source.source for source in classify_figures(document).values())
    return tuple((name, float(count)) for name, count in sorted(counts.items()))


MAX_DIFFERENCES = 1000
ABSENT = object()  # a value that one of two documents lacks


def list_differences(
    stated: Any, again: Any, at: Path = (), *, computed: Paths = COMPUTED
) -> Iterator[tuple[Path, Any, Any]]:
    """List the differences of two documents: the path and both values.

    >>> [path for path, _, _ in list_differences({"a": [1, True]}, {"a": [1, 1]})]
    [('a', 1)]
    """
    if isinstance(stated, dict) and isinstance(again, dict):
        for name in sorted(stated.keys() | again.keys()):
            one, other = stated.get(name, ABSENT), again.get(name, ABSENT)
            yield from list_differences(one, other, (*at, name), computed=computed)
    elif isinstance(stated, list) and isinstance(again, list):
        for i in range(max(len(stated), len(again))):
            one, other = (part[i] if i < len(part) else ABSENT for part in (stated, again))
            yield from list_differences(one, other, (*at, i), computed=computed)
    elif not _is_same(stated, again, at, computed):
        yield at, stated, again


def _is_same(stated: Any, again: Any, at: Path, computed: Paths) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, again))
    if stated == again:
        return numbers or type(stated) is type(again)
    in_computed = numbers and any(at[: len(path)] == path for path in computed)
    return in_computed and math.isclose(stated, again, rel_tol=RECOMPUTE_TOLERANCE)


def _describe(stated: Any, again: Any) -> str:
    if stated is ABSENT:
        return "is missing"
    return "is surplus" if again is ABSENT else f"{_format_value(stated)} instead of {_format_value(again)}"


def check_page(files: Mapping[str, bytes], document: Any) -> Finding:
    """Check that the HTML page is the rendering of the report, byte for byte."""
    if RunArtifact.PAGE not in files or document is None:
        return Finding("page/not-checked", Status.NOT_CHECKED, "No HTML page was given.", missing_evidence="page")
    try:
        again = render_html(document).encode()
    except Exception as error:  # noqa: BLE001 - a document that is not a report may break a template in any way
        return Finding("page/not-renderable", Status.FAILED, f"The report cannot be rendered: {error}")
    if again == files[RunArtifact.PAGE]:
        return Finding("page/passed", Status.PASSED, "The HTML page is the rendering of this report, byte for byte.")
    return Finding("page/mismatch", Status.FAILED, "The HTML page is not the rendering of this report.")


def check_model(files: Mapping[str, bytes], evidence: Evidence) -> Finding:
    """Check that the model's file holds the parameters that the last round released, in order."""
    if RunArtifact.MODEL not in files:
        return Finding("model/not-checked", Status.NOT_CHECKED, "No model was given.", missing_evidence="model")
    try:
        found = npz.hash_arrays(npz.decode_npz(files[RunArtifact.MODEL]))
    except ValueError as error:
        return Finding("model/unreadable", Status.FAILED, f"{RunArtifact.MODEL} is not a released model: {error}.")
    if evidence.records and found == evidence.records[-1].output_hash:
        message = f"{RunArtifact.MODEL} contains the model that the last round released, bit for bit."
        return Finding("model/passed", Status.PASSED, message)
    message = f"{RunArtifact.MODEL} does not contain the model that the last round released."
    return Finding("model/mismatch", Status.FAILED, message)

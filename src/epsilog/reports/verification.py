"""What a third party does with a run, a report or its page: check the evidence, build the report again, compare.

A report is a function of its evidence. So nothing in it is believed: every field must come out again, to the digit
where it is copied and to a billionth where it is computed. What only the owner can say is bound by the ledger.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from epsilog import npz
from epsilog.reports.kinds import Attested, Recomputed, classify_figures, kind_at, leaves
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
    check_rigorous,
    check_signatures,
    parse_evidence,
    verify_evidence,
)

Place = tuple[str | int, ...]
Places = tuple[Place, ...]
COMPUTED: Places = (  # may differ by rounding elsewhere
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
COMPUTED_OF_LOGS: Places = (  # whose claim may be recomputed, too
    ("claim", "supported"),
    ("claim", "guarantee", "epsilon"),
    *COMPUTED,
)
REQUIRED_EVIDENCE = tuple(name for name in EVIDENCE_KINDS if name not in ("page", "model", "signature"))


def verify_report(
    content: bytes,
    ledger: LedgerReader | None,
    *,
    required: Collection[str] = REQUIRED_EVIDENCE,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
    cells: int | None = None,
) -> Verification:
    """Verify a report alone, as JSON or as its HTML page; see ``verify_run``.

    Raises:
        RecordError: it is neither, or does not carry its evidence.
    """
    files = _extract_files(content)
    return verify_run(files, ledger, required=required, trust=trust, signed=signed, complete=False, cells=cells)


def _extract_files(content: bytes) -> dict[str, bytes]:
    """The files that a report carries, and itself as its page where it is one."""
    page, document = read_report(content)
    if isinstance(document, dict) and document.get("kind") == "log-report":
        raise RecordError("it is a report of logs, which it does not carry: verify it with the mapping of those logs")
    return extract_files(document) | ({} if page is None else {RunArtifact.PAGE: content})


def read_report(content: bytes) -> tuple[bytes | None, Any]:
    """What a page holds (None if it is none), and the document, which may be any.

    Raises:
        RecordError: it is neither JSON nor a page that holds it.
    """
    page = extract_document(content)
    try:
        return page, codec.parse_json(page if page is not None else content)
    except ValueError as error:
        raise RecordError(f"the report is not JSON that can be read in one way: {error}") from error


@dataclass(frozen=True, slots=True)
class PartComparison:
    """One part of a report beside the same part, built again from the evidence that the report carries.

    Attributes:
        part: its name at the top of the document.
        fields: how many values it holds.
        copied: how many of those somebody attests, or nobody states: that they are the same again proves nothing.
        differing: place, what the report says, and what comes out; of each that differs, of many the first thousand.
    """

    part: str
    fields: int
    copied: int
    differing: tuple[tuple[str, str, str], ...]


def compare_rebuilt(content: bytes) -> tuple[PartComparison, ...]:
    """Builds a report again from what it carries, and puts both beside each other, part by part.

    Raises:
        RecordError: it is no report, does not carry its evidence, or none can be built from it.
    """
    files = _extract_files(content)
    document = _parse_report(files)
    evidence = replace(parse_evidence(files, None), ledger=_read_reported_excerpt(document))
    try:
        outcome = verify_evidence(evidence, required=REQUIRED_EVIDENCE)
        again = build_report(outcome)
    except codec.UNREADABLE as error:
        raise RecordError(f"no report can be built from this evidence: {error!r}") from error
    copied = Counter(place[0] for place in leaves(again) if kind_at(again, place) != Recomputed())
    parts = {**document, **again}
    return tuple(
        _compare_part(part, document.get(part, ABSENT), again.get(part, ABSENT), copied[part]) for part in parts
    )


def _compare_part(part: str, stated: Any, again: Any, copied: int) -> PartComparison:
    found = islice(list_differences(stated, again, (part,)), MOST_SHOWN)
    told = tuple(("/".join(map(str, at)), _format_value(one), _format_value(other)) for at, one, other in found)
    fields = _fields(again if stated is ABSENT else stated)
    return PartComparison(part, fields, min(copied, fields), told)


def _format_value(value: Any) -> str:
    return "nothing" if value is ABSENT else _short(value)


def _fields(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(_fields, value.values() if isinstance(value, dict) else value))
    return 1


def verify_run(
    files: Mapping[str, bytes],
    ledger: LedgerReader | None,
    *,
    required: Collection[str] = REQUIRED_EVIDENCE,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
    complete: bool = True,
    cells: int | None = None,
) -> Verification:
    """Apply every rule, then build the report again and compare it field by field.

    Args:
        files: contents by name, as a run left them.
        ledger: the ledger that the run was charged to; None if it was not given.
        required: evidence (report, ledger, custody, page, model, signature) without which nothing is verified.
        trust: what an auditor kept elsewhere, which the ledger must still hold, and whose signatures count.
        signed: who has signed the report; see ``read_signed``.
        complete: whether all that a run leaves should be here: then what was committed and is missing fails.
        cells: given, the claim is proven again in ball arithmetic, on lattices of at most so many cells.

    Raises:
        RecordError: plan or records that cannot be read.
    """
    evidence, document = parse_evidence(files, ledger), _parse_report(files)
    if ledger is None:
        evidence = replace(evidence, ledger=_read_reported_excerpt(document))
    try:
        outcome = verify_evidence(evidence, required=required)
    except codec.UNREADABLE as error:  # readable, and nothing that a run could have left
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
    return _finish(found, document, cells)


def verify_log_report(
    content: bytes,
    outcome: Verification,
    *,
    trust: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
    cells: int | None = None,
) -> Verification:
    """Build the report of logs again and compare it with one that was given, as JSON or as its HTML page.

    Args:
        content: the report.
        outcome: what the logs themselves show.
        trust: whose signatures count; whoever brings a key requires one.
        signed: who has signed the report; see ``read_signed``.
        cells: as of ``verify_run``.

    Raises:
        RecordError: it is no report of logs.
    """
    page, document = read_report(content)
    if not isinstance(document, dict) or document.get("kind") != "log-report":
        raise RecordError("it is no report of logs")
    again = build_report(outcome)
    compared = (
        check_rebuilt(document, again),
        check_page({} if page is None else {RunArtifact.PAGE: content}, document),
        *check_signatures(signed, trust.keys),
    )
    required = (*outcome.required, *(("signature",) if trust.keys else ()))
    found = _finish(replace(outcome, findings=(*outcome.findings, *compared), required=required), document, cells)
    failed = {one.check for one in compared if one.status is Status.FAILED}
    assert outcome.evidence is not None
    left = format_supported_statement(outcome.evidence.claim, failed) if failed else format_verified_claim(outcome)
    return replace(found, claim=left)


def _finish(found: Verification, document: Any, cells: int | None) -> Verification:
    """Add the claim that is left, the figures of a report that was built again, and a proof in ball arithmetic."""
    assert found.evidence is not None
    claim = found.evidence.claim
    rebuilt = any(one.code == "report/passed" for one in found.findings)
    figures = classify_figures(document) if rebuilt else {}
    again = () if cells is None else (check_rigorous(claim.guarantee, claim.release, cells=cells),)
    return replace(found.with_findings(again), claim=format_verified_claim(found), figures=figures)


def _parse_report(files: Mapping[str, bytes]) -> Any:
    if RunArtifact.REPORT not in files:
        return None
    try:
        return codec.parse_json(files[RunArtifact.REPORT])
    except ValueError as error:
        raise RecordError(f"{RunArtifact.REPORT} is not JSON that can be read in one way: {error}") from error


def _read_reported_excerpt(document: Any) -> LedgerExcerpt | None:
    """The report's own account of the ledger, where no ledger is here to say otherwise."""
    try:
        return LedgerExcerpt.from_json(document["evidence"]["ledger"])
    except codec.UNREADABLE:
        return None


def _ignore_reported_ledger(finding: Finding) -> Finding:
    if finding.check not in LEDGER_CHECKS or finding.status is Status.FAILED:
        return finding
    says = "No ledger was given."
    return Finding(f"{finding.check}/not-checked", Status.NOT_CHECKED, says, missing_evidence="ledger")


def _fail_missing(finding: Finding, evidence: Evidence) -> Finding:
    """In a run's own folder, evidence that is bound to be there and is not was taken away."""
    committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
    says = {"ledger": "The ledger that the run was charged to is not here."}
    if COMMITMENT in committed:
        says["custody"] = f"{RunArtifact.CUSTODY} was committed, and is not here."
    if finding.check != finding.missing_evidence or finding.missing_evidence not in says:
        return finding
    return Finding(f"{finding.check}/missing", Status.FAILED, says[finding.missing_evidence])


def check_report(document: Any, outcome: Verification) -> Finding:
    """Check that the report is what its evidence amounts to, in every field."""
    if document is None:
        return Finding("report/not-checked", Status.NOT_CHECKED, "There is no report here.", missing_evidence="report")
    try:
        again = build_report(outcome)
    except codec.UNREADABLE as error:
        return Finding("report/not-buildable", Status.FAILED, f"No report can be built from this evidence: {error}")
    return check_rebuilt(document, again)


def check_rebuilt(document: Any, again: Any) -> Finding:
    """Check that every field of a document is what it is when it is built again from its evidence."""
    version = document.get("v") if isinstance(document, dict) else None
    if version != VERSION:
        says = f"The report is of version {version!r}, and this release verifies version {VERSION}."
        return Finding("report/mismatch", Status.FAILED, says)
    computed = COMPUTED_OF_LOGS if again["kind"] == "log-report" else COMPUTED
    different = list(list_differences(document, again, computed=computed))
    if not different:
        who = "their writer states" if document["kind"] == "log-report" else "the owner and the ledger state"
        says = f"Every field of the report is what its evidence amounts to; what {who} is copied."
        return Finding("report/passed", Status.PASSED, says, _numbers_by_kind(document))
    shown = "; ".join(f"{'/'.join(map(str, path)) or 'all'}: {_difference(a, b)}" for path, a, b in different[:3])
    more = f"; and {len(different) - 3} more" if len(different) > 3 else ""
    return Finding("report/mismatch", Status.FAILED, f"The report differs from its evidence: {shown}{more}.")


def _numbers_by_kind(document: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """Count how many values of a report were recomputed, and how many were copied from whose word."""
    kinds = classify_figures(document).values()
    counts = Counter(kind.by if isinstance(kind, Attested) else kind.label for kind in kinds)
    return tuple((name, float(count)) for name, count in sorted(counts.items()))


MOST_SHOWN = 1000
ABSENT = object()  # what a document does not hold


def list_differences(
    stated: Any, again: Any, at: Place = (), *, computed: Places = COMPUTED
) -> Iterator[tuple[Place, Any, Any]]:
    """List where two documents differ: the place, what the first says, what the second says.

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
    elif not _same(stated, again, computed=any(at[: len(place)] == place for place in computed)):
        yield at, stated, again


def _same(stated: Any, again: Any, *, computed: bool) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, again))
    if numbers and computed:
        return math.isclose(stated, again, rel_tol=RECOMPUTE_TOLERANCE)
    return (numbers or type(stated) is type(again)) and bool(stated == again)


def _difference(stated: Any, again: Any) -> str:
    if stated is ABSENT:
        return "is missing"
    return "is nothing that a report holds" if again is ABSENT else f"{_short(stated)} instead of {_short(again)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_page(files: Mapping[str, bytes], document: Any) -> Finding:
    """The HTML page is, byte for byte, the rendering of the report."""
    if RunArtifact.PAGE not in files or document is None:
        return Finding("page/not-checked", Status.NOT_CHECKED, "There is no HTML page here.", missing_evidence="page")
    try:
        again = render_html(document).encode()
    except Exception as error:  # noqa: BLE001 - whatever a document that is no report does to a template
        return Finding("page/not-renderable", Status.FAILED, f"The report cannot be rendered: {error}")
    if again == files[RunArtifact.PAGE]:
        return Finding("page/passed", Status.PASSED, "The HTML page is the rendering of this report, byte for byte.")
    return Finding("page/mismatch", Status.FAILED, "The HTML page is not the rendering of this report.")


def check_model(files: Mapping[str, bytes], evidence: Evidence) -> Finding:
    """The model's file holds the numbers that the last round released, in its own order."""
    if RunArtifact.MODEL not in files:
        return Finding("model/not-checked", Status.NOT_CHECKED, "There is no model here.", missing_evidence="model")
    try:
        found = npz.hash_arrays(npz.decode_npz(files[RunArtifact.MODEL]))
    except ValueError as error:
        return Finding("model/unreadable", Status.FAILED, f"{RunArtifact.MODEL} is not a released model: {error}.")
    if evidence.records and found == evidence.records[-1].output_hash:
        says = f"The parameters in {RunArtifact.MODEL} are those that the last round released, to the last bit."
        return Finding("model/passed", Status.PASSED, says)
    return Finding("model/mismatch", Status.FAILED, f"{RunArtifact.MODEL} holds no model that the last round released.")

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
from epsilog.reports.kinds import Attested, Recomputed, kind_at
from epsilog.reports.narrative import (
    provable_guarantee,
    statement,
    supported_epsilon,
    supported_statement,
    with_counts,
)
from epsilog.reports.readings import version_of
from epsilog.reports.rendering import document_of, render_html
from epsilog.reports.report import build_report, unpacked
from epsilog.terms import COMMITMENT, EVIDENCE, Finding, RecordsError, RunFile, Verdict, codec
from epsilog.verification import (
    LEDGER_CHECKS,
    NOTHING,
    SAME,
    Books,
    Brought,
    Evidence,
    LedgerWord,
    Reconciliation,
    Signed,
    certified_run,
    check_checkpoint,
    check_head,
    check_rigorous,
    check_signatures,
    note_signatures,
    parse_evidence,
    reconcile,
    whatever_the_sampler,
)

Place = tuple[str | int, ...]
Places = tuple[Place, ...]
COMPUTED: Places = (  # may differ by rounding elsewhere
    ("accounting", "curve"),
    ("accounting", "formula"),
    ("claim", "epsilon"),
    ("claim", "unamplified"),
    ("reading",),
    ("tuning",),
    ("verification",),
    ("audit", "bound"),
    ("audit", "estimate"),
)
REQUIRED = tuple(name for name in EVIDENCE if name not in ("page", "model", "signature"))


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found, and which claim it leaves standing.

    Attributes:
        outcome: all findings, on evidence and on the report.
        stands: the claim that what is here supports, in a sentence.
    """

    outcome: Reconciliation
    stands: str

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return self.outcome.verdict

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return self.outcome.to_json() | {"stands": self.stands, "required": sorted(self.outcome.required)}


def examine_report(
    content: bytes,
    books: Books | None,
    *,
    required: Collection[str] = REQUIRED,
    brought: Brought = NOTHING,
    signed: Sequence[Signed] = (),
    cells: int | None = None,
) -> Examination:
    """Examines a report alone, as JSON or as its HTML page; see ``examine``.

    Raises:
        RecordsError: it is neither, or does not carry its evidence.
    """
    return examine(_files(content), books, required=required, brought=brought, signed=signed, whole=False, cells=cells)


def _files(content: bytes) -> dict[str, bytes]:
    """The files that a report carries, and itself as its page where it is one."""
    page, document = read_report(content)
    if isinstance(document, dict) and document.get("kind") == "logs-report":
        raise RecordsError("it is a report of logs, which it does not carry: verify it with the mapping of those logs")
    return unpacked(document) | ({} if page is None else {RunFile.PAGE: content})


def read_report(content: bytes) -> tuple[bytes | None, Any]:
    """What a page holds (None if it is none), and the document, which may be any.

    Raises:
        RecordsError: it is neither JSON nor a page that holds it.
    """
    page = document_of(content)
    try:
        return page, codec.parse(page if page is not None else content)
    except ValueError as error:
        raise RecordsError(f"the report is not JSON that can be read in one way: {error}") from error


@dataclass(frozen=True, slots=True)
class Compared:
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


def compare(content: bytes) -> tuple[Compared, ...]:
    """Builds a report again from what it carries, and puts both beside each other, part by part.

    Raises:
        RecordsError: it is no report, does not carry its evidence, or none can be built from it.
    """
    files = _files(content)
    document = _report(files)
    evidence = replace(parse_evidence(files, None), ledger=_told_word(document))
    try:
        again = build_report(evidence, reconcile(evidence, required=REQUIRED), version=version_of(document))
    except codec.UNREADABLE as error:
        raise RecordsError(f"no report can be built from this evidence: {error!r}") from error
    copied = Counter(place[0] for place in leaves(again) if kind_at(again, place) != Recomputed())
    parts = {**document, **again}
    return tuple(_compared(part, document.get(part, ABSENT), again.get(part, ABSENT), copied[part]) for part in parts)


def _compared(part: str, stated: Any, again: Any, copied: int) -> Compared:
    found = islice(differences(stated, again, (part,)), MOST_SHOWN)
    told = tuple(("/".join(map(str, at)), _told(one), _told(other)) for at, one, other in found)
    fields = _fields(again if stated is ABSENT else stated)
    return Compared(part, fields, min(copied, fields), told)


def _told(value: Any) -> str:
    return "nothing" if value is ABSENT else _short(value)


def _fields(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(_fields, value.values() if isinstance(value, dict) else value))
    return 1


def examine(
    files: Mapping[str, bytes],
    books: Books | None,
    *,
    required: Collection[str] = REQUIRED,
    brought: Brought = NOTHING,
    signed: Sequence[Signed] = (),
    whole: bool = True,
    cells: int | None = None,
) -> Examination:
    """Runs every check, then builds the report again and compares it field by field.

    Args:
        files: contents by name, as a run left them.
        books: the ledger that the run was charged to; None if it was not given.
        required: evidence (report, ledger, custody, page, model, signature) without which nothing is verified.
        brought: what an auditor kept elsewhere, which the ledger must still hold, and whose signatures count.
        signed: who has signed the report; see ``verify.read_signed``.
        whole: whether all that a run leaves ought to be here: then what was committed and is missing fails.
        cells: given, the claim is proven again in ball arithmetic, on lattices of at most so many cells.

    Raises:
        RecordsError: plan or records that cannot be read.
    """
    evidence, document = parse_evidence(files, books), _report(files)
    if books is None:
        evidence = replace(evidence, ledger=_told_word(document))
    try:
        outcome = reconcile(evidence, required=required)
    except codec.UNREADABLE as error:  # readable, and nothing that a run could have left
        raise RecordsError(f"this evidence cannot be checked: {error!r}") from error
    findings = outcome.findings if books is not None else tuple(map(_no_ledger, outcome.findings))
    if whole:
        findings = tuple(_missing(f, evidence) if f.lacks in required else f for f in findings)
    findings = (
        *findings,
        *check_head(books, brought.head),
        *check_checkpoint(books, brought.checkpoint),
        *check_signatures([*signed, *note_signatures(books, brought)], brought.keys),
        check_report(document, evidence, outcome),
        check_page(files, document),
        check_model(files, evidence),
    )
    if cells is not None:
        findings = (*findings, check_rigorous(evidence.plan.guarantee, evidence.plan.release, cells=cells))
    return Examination(replace(outcome, findings=findings), _standing(evidence, findings))


def _report(files: Mapping[str, bytes]) -> Any:
    if RunFile.REPORT not in files:
        return None
    try:
        return codec.parse(files[RunFile.REPORT])
    except ValueError as error:
        raise RecordsError(f"{RunFile.REPORT} is not JSON that can be read in one way: {error}") from error


def _told_word(document: Any) -> LedgerWord | None:
    """The report's own account of the ledger, where no ledger is here to say otherwise."""
    try:
        return LedgerWord.from_json(document["evidence"]["ledger"])
    except codec.UNREADABLE:
        return None


def _no_ledger(finding: Finding) -> Finding:
    if finding.check not in LEDGER_CHECKS or finding.verdict is Verdict.FAILED:
        return finding
    says = "No ledger was given."
    return Finding(f"{finding.check}/not-checked", Verdict.NOT_CHECKED, says, lacks="ledger")


def _missing(finding: Finding, evidence: Evidence) -> Finding:
    """In a run's own folder, evidence that is bound to be there and is not was taken away."""
    committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
    says = {"ledger": "The ledger that the run was charged to is not here."}
    if COMMITMENT in committed:
        says["custody"] = f"{RunFile.CUSTODY} was committed, and is not here."
    if finding.check != finding.lacks or finding.lacks not in says:
        return finding
    return Finding(f"{finding.check}/missing", Verdict.FAILED, says[finding.lacks])


def check_report(document: Any, evidence: Evidence, outcome: Reconciliation) -> Finding:
    """The report is what its evidence amounts to, in every field."""
    if document is None:
        return Finding("report/not-checked", Verdict.NOT_CHECKED, "There is no report here.", lacks="report")
    try:
        again = build_report(evidence, outcome, version=version_of(document))
    except codec.UNREADABLE as error:
        return Finding("report/cannot-be-built", Verdict.FAILED, f"No report can be built from this evidence: {error}")
    return comes_out_again(document, again)


def comes_out_again(document: Any, again: Any, *, computed: Places = COMPUTED) -> Finding:
    """Every field of a document is what it is when it is built again from its evidence."""
    different = list(differences(document, again, computed=computed))
    if not different:
        who = "their writer states" if document["kind"] == "logs-report" else "the owner and the ledger state"
        says = f"Every field of the report is what its evidence amounts to; what {who} is copied."
        return Finding("report/holds", Verdict.PASSED, says, _numbers_by_kind(document))
    shown = "; ".join(f"{'/'.join(map(str, path)) or 'all'}: {_difference(a, b)}" for path, a, b in different[:3])
    more = f"; and {len(different) - 3} more" if len(different) > 3 else ""
    return Finding("report/differs", Verdict.FAILED, f"The report differs from its evidence: {shown}{more}.")


def _numbers_by_kind(document: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """How many values of a report were worked out again, and how many were copied from whose word."""
    kinds = [kind_at(document, place) for place in leaves(document)]
    counts = Counter(kind.by if isinstance(kind, Attested) else kind.label for kind in kinds)
    return tuple((name, float(count)) for name, count in sorted(counts.items()))


def leaves(value: Any, at: Place = ()) -> Iterator[Place]:
    """Places of the values in a document that hold no others."""
    if isinstance(value, dict | list) and value:
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[step], (*at, step))
    else:
        yield at


MOST_SHOWN = 1000
ABSENT = object()  # what a document does not hold


def differences(
    stated: Any, again: Any, at: Place = (), *, computed: Places = COMPUTED
) -> Iterator[tuple[Place, Any, Any]]:
    """Where two documents differ: the place, what the first says, what the second says.

    Args:
        stated: the first.
        again: the second.
        at: where in them this is.
        computed: places where figures may differ by rounding elsewhere.

    >>> [path for path, _, _ in differences({"a": [1, True]}, {"a": [1, 1]})]
    [('a', 1)]
    """
    if isinstance(stated, dict) and isinstance(again, dict):
        for name in sorted(stated.keys() | again.keys()):
            yield from differences(stated.get(name, ABSENT), again.get(name, ABSENT), (*at, name), computed=computed)
    elif isinstance(stated, list) and isinstance(again, list):
        for i in range(max(len(stated), len(again))):
            one, other = (part[i] if i < len(part) else ABSENT for part in (stated, again))
            yield from differences(one, other, (*at, i), computed=computed)
    elif not _same(stated, again, computed=any(at[: len(place)] == place for place in computed)):
        yield at, stated, again


def _same(stated: Any, again: Any, *, computed: bool) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, again))
    if numbers and computed:
        return math.isclose(stated, again, rel_tol=SAME)
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
    if RunFile.PAGE not in files or document is None:
        return Finding("page/not-checked", Verdict.NOT_CHECKED, "There is no HTML page here.", lacks="page")
    try:
        again = render_html(document).encode()
    except Exception as error:  # noqa: BLE001 - whatever a document that is no report does to a template
        return Finding("page/cannot-be-rendered", Verdict.FAILED, f"The report cannot be rendered: {error}")
    if again == files[RunFile.PAGE]:
        return Finding("page/holds", Verdict.PASSED, "The HTML page is the rendering of this report, byte for byte.")
    return Finding("page/differs", Verdict.FAILED, "The HTML page is not the rendering of this report.")


def check_model(files: Mapping[str, bytes], evidence: Evidence) -> Finding:
    """The model's file holds the numbers that the last round released, in its own order."""
    if RunFile.MODEL not in files:
        return Finding("model/not-checked", Verdict.NOT_CHECKED, "There is no model here.", lacks="model")
    try:
        found = npz.digest(npz.read(files[RunFile.MODEL]))
    except ValueError as error:
        return Finding("model/cannot-be-read", Verdict.FAILED, f"{RunFile.MODEL} is not a released model: {error}.")
    if evidence.records and found == evidence.records[-1].output_hash:
        says = f"The parameters in {RunFile.MODEL} are those that the last round released, to the last bit."
        return Finding("model/holds", Verdict.PASSED, says)
    return Finding("model/differs", Verdict.FAILED, f"{RunFile.MODEL} holds no model that the last round released.")


def _standing(evidence: Evidence, findings: Collection[Finding]) -> str:
    """The claim that is left by what failed, and by what is not here; and what rests on somebody's word."""
    plan = evidence.plan
    guarantee, known, seeded = plan.guarantee, whatever_the_sampler(plan), plan.simulation
    guarantee = provable_guarantee(guarantee, certified_run(plan).upper)
    failed = {finding.check for finding in findings if finding.verdict is Verdict.FAILED}
    if failed - {"participation"}:
        return supported_statement(guarantee, unamplified=known, failed=failed, simulation=seeded)
    unbound = "No ledger was given, so nothing binds these records. " if _lacking("ledger", findings) else ""
    if evidence.custody is not None:
        left = supported_epsilon(guarantee, unamplified=known, failed=failed)
        says = supported_statement(guarantee, unamplified=known, failed=failed, simulation=seeded)
        return unbound + says + with_counts(left, plan.beside) + _unchecked(findings)
    told = evidence.owner.private["participation"] if evidence.owner else Verdict.NOT_CHECKED
    weak = statement(replace(guarantee, epsilon=known), simulation=seeded) + with_counts(known, plan.beside)
    says = f"Without {RunFile.CUSTODY}, what can be checked is the claim without amplification by sampling: {weak} "
    rest = "That contributions were clipped, and the smaller epsilon of the plan, rest on the owner's word "
    return f"{unbound}{says}{rest}(sampler: {told}).{_unchecked(findings)}"


FOREMOST = ("the settings of the mechanism", "training", "data", "losses and scores", "software")


def _unchecked(findings: Collection[Finding]) -> str:
    """What verification did not look at, and what it copied: a banner says so, whatever else passed."""
    left = [finding.check for finding in findings if finding.verdict is Verdict.NOT_CHECKED]
    says = f" Not checked here: {', '.join(left)}." if left else ""
    return f"{says} By the owner's word alone: {', '.join(FOREMOST)}; the report lists the rest."


def _lacking(what: str, findings: Collection[Finding]) -> bool:
    return any(finding.lacks == what for finding in findings)

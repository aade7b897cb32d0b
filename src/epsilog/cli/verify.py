"""`epsilog verify` and `epsilog audit`: what a third party checks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, Json, app, hash_file, is_standard, print_json, write_output
from epsilog.cli.ledger import redact_address
from epsilog.cli.show import VERDICT_STYLE, format_status, print_figures, print_notice, print_table, style, write
from epsilog.terms import LOG_EVIDENCE_KINDS, CheckError, Finding, NeighboringRelation, RecordError, RunArtifact, Status
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from rich.text import Text

    from epsilog.plan import RegisteredPlan
    from epsilog.signing import VerifierKey
    from epsilog.verification import Playbook, TrustAnchors, Verification
    from epsilog.verification.audits import CanaryAudit


Place = Annotated[
    str | None,
    typer.Argument(
        metavar="[PATH]",
        help="A run folder, report (JSON or HTML), ledger, bundle, checkpoint, receipt, certificate or "
        "calculation record, recognized by content; a ledger may be a postgresql:// or https:// URL.",
    ),
]
Required = Annotated[
    list[str] | None,
    typer.Option(
        help="Required evidence: report, ledger, custody, page, signature; if omitted: the first two, of a folder "
        "the first three, and the signature with --key or for files that are made to be signed. "
        f"Of logs: {', '.join(LOG_EVIDENCE_KINDS)}; if omitted: all but the last two. Repeatable."
    ),
]


@app.command("verify")
def verify_command(
    place: Place = None,
    logs: Annotated[
        Path | None,
        typer.Option(help="A mapping (TOML) of the logs of any other run: checks them, or their report at PATH."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", "-l", help="The ledger that a run was charged to, or its bundle.")
    ] = None,
    require: Required = None,
    head: Annotated[
        str | None,
        typer.Option("--head-hash", help="Hash of an entry that you kept: the ledger must still contain it."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A checkpoint that you kept: the ledger must begin with its entries.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="A key that you trust: a public line NAME+ID+KEY, or its file; repeatable."),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(help="The report's signature; if omitted: REPORT.intoto.jsonl.")
    ] = None,
    playbook: Annotated[
        Path | None, typer.Option(help="A TOML file of steps by the findings that trigger them.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write as Markdown; - for standard output.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE that a calculation record names by its SHA-256; repeatable.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds between two looks at the files; verifies again after a change."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a run, report, ledger, signed file, calculation or logs.

    Exit codes: 0 it holds, 4 it does not hold, 5 nobody can tell (a required check was not made), or there is a
    warning to read. With --watch it ends when a check fails.

    Example: epsilog verify runs/exam-scores-central-1a2b3c4d
    """
    from epsilog import reports
    from epsilog.ledger import parse_address

    files = _hash_references(reference)
    path, books = (None if text is None else parse_address(text) for text in (place, ledger))
    if path is None and logs is None:
        raise CheckError("path", "given, or --logs", "neither")
    rules = _read_playbook(playbook, logs)
    if logs is not None:
        address = ledger and redact_address(ledger)
        for name, value in {"ledger": address, "head": head, "checkpoint": checkpoint}.items():
            _require_absent(name, value, "with --logs, which no ledger binds")
        if path is None:
            _require_absent("key", key, "without a report, which alone can be signed")
            _require_absent("signature", signature, "without a report, which alone can be signed")

    def look() -> Status:
        anchors = _build_trust_anchors(head, checkpoint, key)
        found = reports.verify(
            path, ledger=books, logs=logs, require=require, trust=anchors, signature=signature, references=files
        )
        title = Path("ledger") if isinstance(path, str) else path or logs or Path()
        _print_outcome(found, title=title, rules=rules, output=output, as_json=as_json)
        return found.status

    places = [each for each in (path, logs, books) if isinstance(each, Path)]
    status = look() if watch is None else _watch(look, watch, places)
    if status != "passed":
        raise typer.Exit(NOT_VERIFIED if status == "failed" else NOT_ALL_CHECKED)


def _watch(look: Callable[[], Status], seconds: float, places: list[Path]) -> Status:
    """Looks again whenever something there has changed, until something fails; half-written files are waited for."""
    while True:
        seen = _stamps(places)
        try:
            status = look()
        except RecordError as error:  # of a run that is being written, perhaps
            print_notice(f"not yet: {error}")
        else:
            if status == "failed":
                return status
        while _stamps(places) == seen:
            time.sleep(seconds)


def _stamps(places: list[Path]) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the files in some folders, or in the folders of some files."""
    found = []
    for place in places:
        for file in sorted((place if place.is_dir() else place.parent).iterdir()):
            with contextlib.suppress(OSError):  # gone while we looked
                facts = file.stat()
                found.append((str(file), facts.st_size, facts.st_mtime_ns))
    return found


def _require_absent(name: str, value: Any, why: str) -> None:
    if value:
        raise CheckError(name, f"absent {why}", repr(str(value)))


def _hash_references(given: list[str] | None) -> dict[str, str]:
    """Return the SHA-256 of files by the names that a record has for them."""
    found = {}
    for each in given or ():
        name, _, file = each.partition("=")
        if not name or not file:
            raise CheckError("reference", "NAME=FILE", repr(each))
        found[name] = hash_file(Path(file), "reference")
    return found


def _print_outcome(
    outcome: Verification, *, title: Path, rules: Playbook | None, output: Path | None, as_json: bool
) -> None:
    if output is not None:
        from epsilog.reports import render_verdict

        write_output(render_verdict(outcome, title=title.name, playbook=rules), output, quiet=True)
        if is_standard(output):
            return None
    claim = outcome.claim
    if as_json:
        further = {"answer": outcome.answer, "supported_claim": claim, "required": sorted(outcome.required)}
        return print_json(outcome.to_json(rules) | further)
    write(_format_answer(outcome), f"\n{legible(claim)}" if claim else "", sep="")
    rows: list[list[str | Text]] = [[f.check, format_status(f.status), f.message] for f in outcome.findings]
    print_table(str(title), ["check", "status", "what was found"], rows)
    for what_if in outcome.what_ifs:
        print_notice(what_if.message)
    if rules is not None:
        _run_playbook(outcome.findings, rules)
    return None


def _format_answer(outcome: Verification) -> Text:
    """Return the verdict; green only where everything was checked."""
    if outcome.status is Status.PASSED and outcome.unchecked:
        return style(f"{outcome.answer}; not checked: {', '.join(outcome.unchecked)}", "bold")
    return style(outcome.answer, VERDICT_STYLE[outcome.status])


def _build_trust_anchors(head: str | None, checkpoint: Path | None, keys: list[str] | None) -> TrustAnchors:
    """Return what the verifier has kept elsewhere."""
    from epsilog.verification import TrustAnchors, read_checkpoint

    kept = None if checkpoint is None else read_checkpoint(checkpoint)
    return TrustAnchors(head, kept, tuple(read_verifier_key(key) for key in keys or ()))


def read_verifier_key(key: str) -> VerifierKey:
    """Read a public key from its line or from a file of it."""
    from epsilog.signing import VerifierKey

    file = Path(key)
    if not file.is_file():
        return VerifierKey.parse(key)
    try:
        return VerifierKey.parse(file.read_text(encoding="ascii"))
    except ValueError:  # its message may quote the file, which may be a private key
        raise CheckError("key", "a file of one public line, NAME+ID+KEY", key) from None


def _read_playbook(playbook: Path | None, logs: Path | None) -> Playbook | None:
    """Read the given playbook, or the one that the mapping of the logs names."""
    from epsilog.verification import Playbook

    if playbook is not None or logs is None:
        return None if playbook is None else Playbook.read(playbook)
    from epsilog.verification.logs import read_playbook

    return read_playbook(logs)


def _run_playbook(findings: Sequence[Finding], rules: Playbook) -> None:
    for finding in findings:
        for step in rules.steps_for(finding):
            print_notice(f"{finding.code} triggers: {step} (playbook {rules.sha256[:16]}...)")


# ---- audits ----------------------------------------------------------------------------------------------------------


@app.command("audit")
def audit_command(
    scores: Annotated[
        Path,
        typer.Argument(
            help="A run folder with canaries; or a CSV file with columns score and included, one line a canary."
        ),
    ],
    protocol: Annotated[
        Path | None,
        typer.Option("--protocol", "-p", help="The protocol that was fixed before the run (TOML); for a CSV file."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta at which epsilon is bounded; for a CSV file without --protocol.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="The run folder to compare the claim of; for a CSV file.")] = None,
    as_json: Json = False,
) -> None:
    """Bound epsilon from below by canaries in one run.

    A lower bound can refute a claim; it cannot confirm one. Exit code 4: the claim of the run is refuted.

    Example: epsilog audit runs/exam-scores-central-1a2b3c4d
    """
    claim: dict[str, Any] | None
    if not scores.exists():
        raise CheckError("scores", "a run folder or a CSV file that exists", f"{scores}")
    if scores.is_dir():
        for name, given in (("protocol", protocol), ("delta", delta), ("run", run)):
            if given is not None:
                raise CheckError(name, "absent for a run with its own canaries", repr(str(given)))
        found, claim = _audit_run(scores)
    else:
        found, claim = _audit_file(scores, protocol, delta, run)
    if as_json:
        print_json(found.to_json() | {"claim": claim})
    else:
        _show_audit(found, claim)
    if claim and claim["refuted"]:
        raise typer.Exit(NOT_VERIFIED)


def _audit_run(folder: Path) -> tuple[CanaryAudit, dict[str, Any]]:
    """Audit a run with its own canaries, by the protocol in its plan."""
    from epsilog.verification import evaluate_planned_audit, read_evidence
    from epsilog.verification.audits import PlannedAudit

    evidence = read_evidence(folder, None)
    if PlannedAudit.of(evidence.plan) is None:
        raise RecordError(f"{folder}: no audit was planned for this run, so it has no canaries")
    if evidence.canaries is None:
        raise RecordError(
            f"{folder / RunArtifact.CANARIES} does not exist: the run has not finished, or its canaries were removed"
        )
    found = evaluate_planned_audit(evidence)
    if found is None:
        raise RecordError(f"{folder / RunArtifact.CANARIES}: these are not scores of the canaries in the plan")
    return found, _compare_claim(found, evidence.plan, protocol_in_plan=True)


def _audit_file(
    scores: Path, protocol: Path | None, delta: float | None, run: Path | None
) -> tuple[CanaryAudit, dict[str, Any] | None]:
    """Audit scores from a file."""
    from epsilog.verification import audits, read_evidence

    if (protocol is None) == (delta is None):
        raise CheckError("protocol", "given, or else delta", "both" if protocol else "neither")
    values, coins = audits.read_scores(scores)
    rules = audits.AuditProtocol(len(values), delta or 0.0) if protocol is None else audits.read_protocol(protocol)
    found = audits.audit_one_run(values, coins, rules)
    if run is None:
        return found, None
    plan = read_evidence(run, None).plan
    if plan.guarantee.relation is NeighboringRelation.REPLACE_ONE:
        raise CheckError("run", "a claim on units that are added or left out, as canaries are", "replace-one")
    named = None
    if protocol is not None:
        named = hash_file(protocol, "protocol") in plan.details.get("references", {}).values()
    return found, _compare_claim(found, plan, protocol_in_plan=named)


def _compare_claim(found: CanaryAudit, plan: RegisteredPlan, *, protocol_in_plan: bool | None) -> dict[str, Any]:
    """Return the claim of the run, whether it is refuted, and whether its plan names the protocol."""
    from epsilog.verification.audits import refute_claim

    test = refute_claim(found, plan)
    return {
        "epsilon": test.claimed,
        "delta": found.protocol.delta,
        "refuted": test.refuted,
        "confidence": 1 - test.mistaken,
        "by_its_profile": test.by_profile,
        "protocol_in_plan": protocol_in_plan,
    }


def _show_audit(found: CanaryAudit, claim: dict[str, Any] | None) -> None:
    protocol = found.protocol
    rows = [
        ("epsilon is at least", f"{format_lower(found.epsilon)} at delta {protocol.delta:g}"),
        ("confidence", f"{protocol.confidence:g}"),
        ("could have shown", format_lower(found.most)),
    ]
    if claim:
        outcome = f"refuted with confidence {claim['confidence']:.3g}" if claim["refuted"] else "not refuted"
        rows.append(("claimed", f"{format_upper(claim['epsilon'])}, {outcome}"))
    print_figures("Lower bound by an audit", rows)
    print_notice(found.message)
    if claim and claim["protocol_in_plan"] is False:
        print_notice("The plan does not name this protocol, so nothing shows that it was fixed before the run.")
    if claim and claim["refuted"] and claim["by_its_profile"]:
        write("Too many guesses are right for the whole privacy profile of the plan.")

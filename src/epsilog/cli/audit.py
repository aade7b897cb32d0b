"""`epsilog audit`: what an attack has shown a run to leak at least, beside what is claimed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import NOT_VERIFIED, Json, app, print_json
from epsilog.cli.show import console, print_figures, print_notice
from epsilog.terms import CheckError, NeighboringRelation, RecordError, RunArtifact
from epsilog.terms.formatting import format_lower, format_upper

if TYPE_CHECKING:
    from epsilog.plan import RegisteredPlan
    from epsilog.verification.audits import CanaryAudit


@app.command("audit")
def audit_command(
    scores: Annotated[
        Path,
        typer.Argument(
            help="A run's folder with its own canaries; or a CSV file with the columns score and included, a canary a "
            "line."
        ),
    ],
    protocol: Annotated[
        Path | None, typer.Option("--protocol", "-p", help="What was fixed before the run (TOML); of a file.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="At which epsilon is bounded; of a file without a protocol.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run's folder, whose claim is held against it; of a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Bound epsilon from below by the scores of canaries that were put into one run by fair coins.

    A lower bound refutes claims; it promises nothing. Exit code 4 says that the run's claim is refuted.

    Example: epsilog audit runs/exam-scores-central-1a2b3c4d
    """
    claim: dict[str, Any] | None
    if scores.is_dir():
        for name, given in (("protocol", protocol), ("delta", delta), ("run", run)):
            if given is not None:
                raise CheckError(name, "absent for a run with canaries of its own", repr(str(given)))
        found, claim = _of_run(scores)
    else:
        found, claim = _of_file(scores, protocol, delta, run)
    if as_json:
        print_json(found.to_json() | {"claim": claim})
    else:
        _show(found, claim)
    if claim and claim["refuted"]:
        raise typer.Exit(NOT_VERIFIED)


def _of_run(folder: Path) -> tuple[CanaryAudit, dict[str, Any]]:
    """What a run's own canaries show, by the protocol that its plan named before the first round."""
    from epsilog.verification import evaluate_planned_audit, read_evidence
    from epsilog.verification.audits import PlannedAudit

    evidence = read_evidence(folder, None)
    if PlannedAudit.of(evidence.plan) is None:
        raise RecordError(f"{folder}: no audit was planned for this run, so it has no canaries of its own")
    if evidence.canaries is None:
        raise RecordError(
            f"{folder / RunArtifact.CANARIES} is not there: the run is not over, or its canaries are gone"
        )
    found = evaluate_planned_audit(evidence)
    if found is None:
        raise RecordError(
            f"{folder / RunArtifact.CANARIES}: these are not scores of the canaries whose hash the plan names"
        )
    return found, _held_against(found, evidence.plan, protocol_in_plan=True)


def _of_file(
    scores: Path, protocol: Path | None, delta: float | None, run: Path | None
) -> tuple[CanaryAudit, dict[str, Any] | None]:
    """What scores from elsewhere show."""
    from epsilog.verification import audits, read_evidence

    if (protocol is None) == (delta is None):
        raise CheckError("protocol", "given, or else delta", "both" if protocol else "neither")
    values, coins = audits.read_scores(scores)
    asked = audits.AuditProtocol(len(values), delta or 0.0) if protocol is None else audits.read_protocol(protocol)
    found = audits.audit_one_run(values, coins, asked)
    if run is None:
        return found, None
    plan = read_evidence(run, None).plan
    if plan.guarantee.relation is NeighboringRelation.REPLACE_ONE:
        raise CheckError("run", "a claim on units that are added or left out, as canaries are", "replace-one")
    named = None
    if protocol is not None:
        digest = hashlib.sha256(protocol.read_bytes()).hexdigest()
        named = digest in plan.details.get("references", {}).values()
    return found, _held_against(found, plan, protocol_in_plan=named)


def _held_against(found: CanaryAudit, plan: RegisteredPlan, *, protocol_in_plan: bool | None) -> dict[str, Any]:
    """The run's claim beside what was shown, and whether its plan named the protocol."""
    from epsilog.verification.audits import refute_claim

    held = refute_claim(found, plan)
    return {
        "epsilon": held.claimed,
        "delta": found.protocol.delta,
        "refuted": held.refuted,
        "confidence": 1 - held.mistaken,
        "by_its_profile": held.by_profile,
        "protocol_in_plan": protocol_in_plan,
    }


def _show(found: CanaryAudit, claim: dict[str, Any] | None) -> None:
    asked = found.protocol
    rows = [
        ("epsilon is at least", f"{format_lower(found.epsilon)} at delta {asked.delta:g}"),
        ("confidence", f"{asked.confidence:g}"),
        ("could have shown", format_lower(found.most)),
    ]
    if claim:
        told = f"refuted with confidence {claim['confidence']:.3g}" if claim["refuted"] else "not refuted"
        rows.append(("claimed", f"{format_upper(claim['epsilon'])}, {told}"))
    print_figures("Lower bound by an attack", rows)
    print_notice(found.says)
    if claim and claim["protocol_in_plan"] is False:
        print_notice("The plan does not name this protocol, so nothing shows that it was fixed before the run.")
    if claim and claim["refuted"] and claim["by_its_profile"]:
        console.print("The guesses are too many right for the whole privacy profile of the plan.")

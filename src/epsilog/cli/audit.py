"""`epsilog audit`: what an attack has shown a run to leak at least, beside what is claimed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import NOT_VERIFIED, Json, app, print_json
from epsilog.cli.show import console, figures, note
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.terms.digits import lower_text, upper_text

if TYPE_CHECKING:
    from epsilog.verify.audits import Audit


@app.command("audit")
def audit(
    scores: Annotated[Path, typer.Argument(help="CSV with the columns score and included, a canary a line.")],
    protocol: Annotated[
        Path | None, typer.Option("--protocol", "-p", help="What was fixed before the run (TOML).")
    ] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="At which epsilon is bounded; without a file.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="The run's folder, whose claim is held against it.")] = None,
    as_json: Json = False,
) -> None:
    """Bound epsilon from below by the scores of canaries that were put into one run by fair coins.

    A lower bound refutes claims; it promises nothing. Exit code 4 says that the run's claim is refuted.

    Example: epsilog audit scores.csv --protocol audit.toml --run runs/exam-scores-central-1a2b3c4d
    """
    from epsilog.verify import audits

    if (protocol is None) == (delta is None):
        raise CheckError("protocol", "given, or else delta", "both" if protocol else "neither")
    values, coins = audits.read_scores(scores)
    asked = audits.Protocol(len(values), delta or 0.0) if protocol is None else audits.read_protocol(protocol)
    found = audits.one_run(values, coins, asked)
    claim = None if run is None else _held_against(found, run, protocol)
    if as_json:
        print_json(found.to_json() | {"claim": claim})
    else:
        _show(found, claim)
    if claim and claim["refuted"]:
        raise typer.Exit(NOT_VERIFIED)


def _held_against(found: Audit, run: Path, protocol: Path | None) -> dict[str, Any]:
    """The run's claim beside what was shown, and whether its plan named the protocol."""
    from epsilog.accounting import epsilon
    from epsilog.plan import profile_view
    from epsilog.verify import audits, read_evidence

    plan = read_evidence(run, None).plan
    if plan.guarantee.relation is NeighboringRelation.REPLACE_ONE:
        raise CheckError("run", "a claim on units that are added or left out, as canaries are", "replace-one")
    release, relation, at = plan.scheme.release(), plan.guarantee.relation, found.protocol.delta
    claimed = plan.guarantee.epsilon
    if at != plan.guarantee.delta:
        claimed = epsilon(release, delta=at, relation=relation).upper
    view = profile_view(release, delta=plan.guarantee.delta, relation=relation)
    points = list(zip(view.epsilons, (one.upper for one in view.deltas), strict=True))
    whole, any_mechanism = audits.refutes_profile(found, points), found.protocol.method == audits.ONE_RUN
    mistaken = (1 - found.protocol.confidence) * (2 if any_mechanism else 1)  # two tests, or one
    named = None
    if protocol is not None:
        digest = hashlib.sha256(protocol.read_bytes()).hexdigest()
        named = digest in plan.details.get("references", {}).values()
    return {
        "epsilon": claimed,
        "delta": at,
        "refuted": whole or (any_mechanism and found.refutes(claimed)),
        "confidence": max(0.0, 1 - mistaken),
        "by_its_profile": whole,
        "protocol_in_plan": named,
    }


def _show(found: Audit, claim: dict[str, Any] | None) -> None:
    asked = found.protocol
    rows = [
        ("epsilon is at least", f"{lower_text(found.epsilon)} at delta {asked.delta:g}"),
        ("confidence", f"{asked.confidence:g}"),
        ("could have shown", lower_text(found.most)),
    ]
    if claim:
        told = f"refuted with confidence {claim['confidence']:.3g}" if claim["refuted"] else "not refuted"
        rows.append(("claimed", f"{upper_text(claim['epsilon'])}, {told}"))
    figures("Lower bound by an attack", rows)
    note(found.says)
    if claim and claim["protocol_in_plan"] is False:
        note("The plan does not name this protocol, so nothing shows that it was fixed before the run.")
    if claim and claim["refuted"] and claim["by_its_profile"]:
        console.print("The guesses are too many right for the whole privacy profile of the plan.")

"""The report: one JSON document that holds everything a third party needs to recompute the claim.

Every rendering (HTML, terminal) is made from this document alone, and the document from plan, records, owner's word and
ledger alone: whoever has those builds it again and compares.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from epsilog.plan import OUTCOME_SHARE, RegisteredPlan, plan_tuning, write_formula
from epsilog.reports.attack import build_audit_section
from epsilog.reports.claim_metrics import VERSION, compute_claim_metrics
from epsilog.reports.kinds import OF_RUNS, list_parts
from epsilog.reports.publication_fields import list_publication_fields
from epsilog.reports.residual_risks import list_residual_risks
from epsilog.reports.statements import (
    LIMITS,
    compute_supported_epsilon,
    format_supported_statement,
    list_party_guarantees,
    provable_guarantee,
    with_counts,
)
from epsilog.terms import RecordError, RunArtifact, Status, codec
from epsilog.terms.disclosed import disclose
from epsilog.verification import (
    LedgerExcerpt,
    Reconciliation,
    RunEvidence,
    bound_any_sampler,
    bound_unamplified,
    certified_run,
    closed_form,
    compute_certified_interval,
)

CURVE_POINTS = 40


def build_report(evidence: RunEvidence, outcome: Reconciliation, *, version: int = VERSION) -> dict[str, Any]:
    """Writes the report of one run: a function of its evidence and of nothing else.

    Args:
        evidence: what the run left behind; the owner's word must be here.
        outcome: what the checks said of it.
        version: of the report: 0 is built again beside one that was written as such.

    Raises:
        RecordError: the owner's word is missing.
    """
    plan, owner, word = evidence.plan, evidence.owner, evidence.ledger
    if owner is None:
        raise RecordError("owner.json is not here, and a report holds it")
    details = plan.details
    published = outcome.published(evidence)
    failed = {finding.check for finding in published.findings if finding.verdict is Status.FAILED}
    known, open_, formula = bound_any_sampler(plan), bound_unamplified(plan), closed_form(plan)
    again = certified_run(plan)
    provable = provable_guarantee(plan.guarantee, again.upper)
    supported = compute_supported_epsilon(provable, unamplified=known, failed=failed)
    last = evidence.records[-1] if evidence.records else None
    utility = None if owner.utility is None else owner.utility.to_json()
    document = {
        "v": version,
        "kind": "report",
        "identity": dict(details.get("programme", {"name": plan.name}))
        | {"period": details.get("reporting", {}).get("period", "")},
        "simulation": plan.simulation,
        "claim": {
            "statement": format_supported_statement(
                provable,
                unamplified=known,
                failed=sorted(failed),
                simulation=plan.simulation,
            )
            + with_counts(supported, plan.epsilon_of_counts),
            "supported": _number(supported),
            "guarantee": codec.encode(plan.guarantee),
            "epsilon": codec.encode(again),
            "unamplified": codec.encode(open_),
            "delta_rationale": plan.budget["delta_rationale"],
            "boundary": details.get("boundary", {}),
            "parties": list_party_guarantees(
                plan.scheme,
                unit=plan.guarantee.privacy_unit,
                epsilon=supported,
                unamplified=open_.upper,
                swept=plan.trials is not None,
            ),
        },
        "reading": None if failed else _reading(plan, version),
        "publication": list_publication_fields(details.get("reporting", {})),
        "mechanism": {
            "scheme": codec.encode(plan.scheme),
            "release": codec.encode(plan.release),
            "noise_stddev": plan.scheme.noise_stddev,
            "training": details.get("training", {}),
            "data": details.get("data", {}),
        },
        "tuning": _tuning(plan, version),
        "accounting": {
            "formula": {
                "root_term": _number(formula.root_term),
                "linear_term": _number(formula.linear_term),
                "total": _number(formula.total),
                "dominates": formula.dominant_term,
                "side": "estimate",
                "verdict": _verdict(plan, formula.total),
            },
            "curve": sample_epsilon_curve(plan, len(evidence.records), version),
        },
        "budget": plan.budget | _build_budget_section(plan, word),
        "rounds": [
            {"round": record.round, "test_loss": record.test_loss, "test_score": record.test_score}
            for record in evidence.records
        ],
        "result": {
            "rounds": len(evidence.records),
            "diverged": bool(last and last.diverged),
            "score_name": str(details.get("data", {}).get("score", "score")),
            "test_loss": last.test_loss if last else None,
            "test_score": last.test_score if last else None,
            "model_hash": last.output_hash if last else None,
        },
        "utility": utility,
        "audit": build_audit_section(evidence),
        "verification": published.to_json(),
        "evidence": {
            "plan_hash": plan.hash,
            "files": {**(word.evidence or {} if word else {}), **disclose(evidence.hashes)},
            "ledger": word.to_json() if word else None,
            "references": details.get("references", {}),
            "software": dict(owner.software),
            "made": dict(owner.made),
            "recompute": "epsilog verify report.html --ledger <ledger file>",
            "plan": plan.to_json(),
            "records": [codec.to_json(record) for record in evidence.records],
        },
        "owner": owner.to_json(),
        "kinds": list_parts(OF_RUNS),
        "limits": list(LIMITS),
        "forgeable": list_residual_risks(plan),
    }
    spelt: dict[str, Any] = codec.parse_json(codec.encode_canonical(document))  # as a reader of the file gets it
    return spelt


def _reading(plan: RegisteredPlan, version: int = VERSION) -> dict[str, Any]:
    held = plan.details.get("boundary", {}).get("records_per_person")
    return compute_claim_metrics(
        plan.release,
        version=version,
        delta=plan.guarantee.delta,
        relation=plan.guarantee.relation,
        known=plan.best_of_trials(plan.scheme.unamplified_release()),
        held=held,
    )


def _verdict(plan: RegisteredPlan, total: float) -> str:
    """Whether the closed form, which is about one run, under-reports."""
    one = compute_certified_interval(plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation)
    if plan.trials is None:
        return str(write_formula(total, one))
    return f"{write_formula(total, one)} (It is about one trial, and so is this comparison.)"


def _tuning(plan: RegisteredPlan, version: int) -> dict[str, Any] | None:
    """What the sweep costs that this run was the best of, and what one run would; None where there was one.

    Upper bounds cover the published outcomes of checks, as the claim does; those of version 0 did not.
    """
    if plan.trials is None:
        return None
    release, delta, relation = plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation
    found = plan_tuning(release, plan.trials, delta=delta, relation=relation)
    if version > 0:
        found = found.covering(plan_tuning(release, plan.trials, delta=delta * (1 - OUTCOME_SHARE), relation=relation))
    return found.to_json()


def _build_budget_section(plan: RegisteredPlan, word: LedgerExcerpt | None) -> dict[str, Any]:
    """What the ledger adds to a plan's budget: what it was charged, where that stands, and what was spent before."""
    if word is None or word.key is None:
        return {}
    booked = {"charged": dict(word.charged), "state": word.state, "spent_before": dict(word.before)}
    return booked | ({"binding": _binding(plan, word)} if word.binding else {})


def _binding(plan: RegisteredPlan, word: LedgerExcerpt) -> dict[str, Any]:
    """The budget that binds: the one that the plan states, or a ledger's with less epsilon available."""
    caps = {name: plan.budget[name] for name in ("epsilon", "delta")}
    stated: dict[str, Any] = {"scope": word.scope, "by": "plan", "caps": caps, "held": dict(word.held)}
    booked: dict[str, Any] = {"by": "ledger", **word.binding}
    available = [Decimal(one["caps"]["epsilon"]) - Decimal(one["held"]["epsilon"]) for one in (stated, booked)]
    return booked if available[1] <= available[0] else stated


def extract_files(report: Any) -> dict[str, bytes]:
    """The files that a report carries within it, byte for byte as they were committed: all but the curator's.

    Raises:
        RecordError: it is no report, or carries none.
    """
    try:
        inner = report["evidence"]
        documents: dict[str, list[Any]] = {
            RunArtifact.PLAN: [inner["plan"]],
            RunArtifact.ROUNDS: inner["records"],
            RunArtifact.OWNER: [report["owner"]],
        }
        if report["audit"] is not None and report["audit"]["canaries"] is not None:
            documents[RunArtifact.CANARIES] = [report["audit"]["canaries"]]
        files = {name: b"".join(codec.encode_canonical(d) + b"\n" for d in parts) for name, parts in documents.items()}
        return files | {RunArtifact.REPORT: codec.encode_canonical(report) + b"\n"}
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the report does not carry its plan, records and owner's word: {error!r}") from error


def sample_epsilon_curve(plan: RegisteredPlan, rounds: int, version: int = VERSION) -> list[dict[str, Any]]:
    """Certified epsilon after rounds 1 .. ``rounds``, at about 40 of them, the last one included.

    Empty where the best of several runs was chosen: nothing is released before that. It covers the published outcomes
    of checks, as the claim does; that of version 0 did not.
    """
    if plan.trials is not None:
        return []
    count = min(rounds, CURVE_POINTS)
    chosen = sorted({1 + round(k * (rounds - 1) / max(1, count - 1)) for k in range(count)})
    curve = []
    for one in chosen:
        interval = plan.epsilon_after(one)
        if version == 0:
            interval = compute_certified_interval(plan.scheme.after(one), plan.guarantee.delta, plan.guarantee.relation)
        curve.append({"round": one, "lower": _number(interval.lower), "upper": _number(interval.upper)})
    return curve


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"

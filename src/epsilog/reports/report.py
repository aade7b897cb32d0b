"""The report: one JSON document with everything that a third party needs to recompute the claim.

Each rendering is a function of this document, and the document is a function of what was verified: the plan, the
records, the owner attestation and the ledger, or logs and their mapping. A verifier builds it again and compares.
Logs are attested by their author. Their report names no client, and counts clients only if the logs are public.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

from epsilog.accounting import profile
from epsilog.mechanisms import Release
from epsilog.plan import (
    RegisteredPlan,
    bound_attack,
    bound_log_odds_factor,
    compute_risk_metrics,
    plan_tuning,
    write_formula,
)
from epsilog.reports.figure_sources import LOG_PARTS, RUN_PARTS, list_parts
from epsilog.reports.hazards import list_residual_log_risks, list_residual_risks, state_hazards
from epsilog.reports.publication_fields import list_publication_fields, require_field
from epsilog.reports.statements import (
    LIMITS,
    LOG_LIMITS,
    compute_provable_guarantee,
    has_lists,
    list_party_guarantees,
    state_claim,
)
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms import (
    OUTCOME_SHARE,
    CalibrationError,
    CheckError,
    NeighboringRelation,
    RecordError,
    RunArtifact,
    UnsupportedMechanismError,
    codec,
)
from epsilog.terms.disclosed import disclose
from epsilog.terms.formatting import format_lower
from epsilog.verification import (
    Claim,
    Evidence,
    LedgerExcerpt,
    LogSource,
    OwnerAttestation,
    Verification,
    bound_every_round,
    bound_unamplified,
    closed_form,
    compute_certified_interval,
    compute_claim_interval,
    compute_control_limits,
    evaluate_planned_audit,
    publish,
)
from epsilog.verification.audits import SILENCE, CanaryAudit, PlannedAudit, estimate_by_cosines

VERSION = 2  # of a report
CURVE_POINTS = 40


def build_report(outcome: Verification) -> dict[str, Any]:
    """Return the report of one run, or of the logs of one, as a function of its verification alone.

    Args:
        outcome: the verification, with its evidence; for a run of ours, this includes the owner attestation.

    Raises:
        RecordError: the owner attestation is missing.
        CheckError: a mapping's [reporting] section has an unknown or invalid field.
    """
    evidence, published = outcome.evidence, publish(outcome)
    assert evidence is not None
    claim, of_run = evidence.claim, evidence.logs is None
    epsilon, statement = state_claim(published if of_run else outcome)
    sections = _build_run_sections(published, epsilon) if of_run else _build_log_sections(outcome)
    document: dict[str, Any] = {
        "v": VERSION,
        "kind": "report" if of_run else "log-report",
        "simulation": claim.simulation,
        "claim": {
            "statement": statement,
            "supported": _number(epsilon),
            "guarantee": codec.encode(claim.guarantee),
            "epsilon": codec.encode(compute_claim_interval(claim)),
            "unamplified": codec.encode(bound_unamplified(claim) if of_run else bound_every_round(claim)),
        },
        "risk_metrics": _build_risk_metrics(published if of_run else outcome, epsilon),
        "mechanism": {
            "scheme": codec.encode(claim.scheme),
            "release": codec.encode(claim.release),
            "noise_stddev": claim.scheme.noise_stddev,
        },
        "verification": published.to_json(),
        "figure_sources": list_parts(RUN_PARTS if of_run else LOG_PARTS),
    }
    for name, section in sections.items():
        document[name] = document[name] | section if name in document else section
    parsed: dict[str, Any] = codec.parse_json(codec.encode_canonical(document))  # as a reader of the file parses it
    return parsed | {"hazards": state_hazards(parsed)}


def _build_risk_metrics(outcome: Verification, epsilon: float) -> dict[str, Any] | None:
    """Return the metrics of the supported claim: all of it, the unamplified one, or none."""
    assert outcome.evidence is not None
    claim, of_run = outcome.evidence.claim, outcome.evidence.logs is None
    if not math.isfinite(epsilon) or (of_run and outcome.failed):
        return None
    if of_run:
        return compute_claim_metrics(claim, claim.release, get_unamplified_release(claim))
    every = claim.scheme.full_participation_release()
    whole = epsilon == compute_provable_guarantee(claim).epsilon and not outcome.failed and has_lists(outcome)
    return compute_claim_metrics(claim, claim.release if whole else every, every)


def get_unamplified_release(claim: Claim) -> Release:
    """Return what a plan releases to those who know who took part."""
    known = claim.scheme.unamplified_release()
    return known if claim.plan is None else claim.plan.best_of_trials(known)


def _build_run_sections(published: Verification, epsilon: float) -> dict[str, Any]:
    """Return the sections of the report of a run of ours."""
    evidence = published.evidence
    assert evidence is not None
    plan, owner, excerpt, records = evidence.plan, evidence.owner, evidence.ledger, evidence.records or ()
    if owner is None:
        raise RecordError("a report contains owner.json, which is missing")
    details, formula, last = plan.details, closed_form(plan), records[-1] if records else None
    return {
        "identity": dict(details.get("identity", {"name": plan.name}))
        | {"period": details.get("reporting", {}).get("period", "")},
        "claim": {
            "delta_rationale": plan.budget["delta_rationale"],
            "coverage": details.get("coverage", {}),
            "parties": list_party_guarantees(
                plan.scheme,
                unit=plan.guarantee.privacy_unit,
                epsilon=epsilon,
                unamplified=bound_unamplified(evidence.claim).upper,
                tuned=plan.trials is not None,
            ),
        },
        "publication": list_publication_fields(details.get("reporting", {})),
        "mechanism": {"training": details.get("training", {}), "data": details.get("data", {})},
        "tuning": _build_tuning_section(plan),
        "accounting": {
            "closed_form": {
                "root_term": _number(formula.root_term),
                "linear_term": _number(formula.linear_term),
                "total": _number(formula.total),
                "dominant_term": formula.dominant_term,
                "side": "estimate",
                "note": _compare_closed_form(plan, formula.total),
            },
            "curve": sample_epsilon_curve(plan, len(records)),
        },
        "budget": plan.budget | _build_budget_section(plan, excerpt),
        "rounds": [{"round": one.round, "test_loss": one.test_loss, "test_score": one.test_score} for one in records],
        "result": {
            "rounds": len(records),
            "diverged": bool(last and last.diverged),
            "score_name": str(details.get("data", {}).get("score", "score")),
            "test_loss": last.test_loss if last else None,
            "test_score": last.test_score if last else None,
            "model_hash": last.output_hash if last else None,
        },
        "utility": None if owner.utility is None else owner.utility.to_json(),
        "audit": build_audit_section(evidence),
        "evidence": _build_evidence_section(evidence, owner),
        "owner": owner.to_json(),
        "limits": list(LIMITS),
        "residual_risks": list_residual_risks(plan),
    }


def _build_evidence_section(evidence: Evidence, owner: OwnerAttestation) -> dict[str, Any]:
    """Return the evidence from which the report can be rebuilt, and what binds the rest."""
    plan, excerpt = evidence.plan, evidence.ledger
    return {
        "plan_hash": plan.hash,
        "certificate": None if evidence.certificate is None else evidence.certificate.decode("utf-8", "replace"),
        "files": {**(excerpt.evidence or {} if excerpt else {}), **disclose(evidence.hashes)},
        "ledger": excerpt.to_json() if excerpt else None,
        "references": plan.details.get("references", {}),
        "software": dict(owner.software),
        "provenance": dict(owner.provenance),
        "recompute": "epsilog verify report.html --ledger <ledger file>",
        "plan": plan.to_json(),
        "records": [codec.to_json(record) for record in evidence.records or ()],
    }


def _build_log_sections(outcome: Verification) -> dict[str, Any]:
    """Return the sections of a report of logs, with cohort sizes only where the logs are public."""
    evidence = outcome.evidence
    assert evidence is not None
    logs, source, public = evidence.logs, get_log_source(outcome), evidence.public
    assert logs is not None
    sizes = [] if evidence.cohort_sizes is None else evidence.cohort_sizes.tolist()
    filters = [
        {
            "section": one.name,
            "file": one.file,
            "where": dict(one.where),
            "rows_left_out": one.left_out if public else None,
        }
        for one in logs.summaries
        if one.where
    ]
    return {
        "identity": dict(source.identity) | {"period": _get_period(source.reporting)},
        "publication": list_publication_fields(_get_statements(source.reporting)),
        "mechanism": {"divisor": evidence.claim.divisor},
        "observed": {
            "public": public,
            "cohorts": sizes if public else None,
            "control_limits": _compute_limits(evidence) if public else None,
            "filters": filters,
        },
        "verification": publish(outcome).to_json(source.playbook)
        | {"required_evidence": sorted(publish(outcome).required)},
        "evidence": {
            **_bind_files(outcome),
            "software": {"epsilog": metadata.version("epsilog")},
            "recompute": "epsilog verify report.html --logs <mapping file>",
        },
        "limits": list(LOG_LIMITS),
        "residual_risks": list_residual_log_risks(simulation=evidence.claim.simulation),
    }


def get_log_source(outcome: Verification) -> LogSource:
    """Return where verified logs come from."""
    assert outcome.evidence is not None
    assert outcome.evidence.logs is not None
    assert outcome.evidence.logs.source is not None
    return outcome.evidence.logs.source


def _compute_limits(evidence: Evidence) -> list[int] | None:
    """Return the range of all cohort sizes of a sound run, up to false alarms; None if sizes are not random."""
    sizes = evidence.cohort_sizes
    match evidence.claim.scheme.cohorts:
        case PoissonSampler(clients=clients, probability=rate) if rate < 1 and sizes is not None and sizes.size:
            return list(compute_control_limits(clients, rate, sizes.size, evidence.false_alarm_rate))
    return None


def _get_period(reporting: Mapping[str, Any]) -> str:
    period = reporting.get("period", "")
    if not isinstance(period, str):
        raise CheckError("reporting.period", "a string", repr(period))
    return period


def _get_statements(reporting: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {name: require_field(name, value) for name, value in reporting.items() if name != "period"}
    except CheckError as error:
        raise error.under("reporting") from None


def _bind_files(outcome: Verification) -> dict[str, Any]:
    """Return what binds files: SHA-256 of public ones, keyed hashes of others, or the names of unbound ones.

    With a plain hash of private data, a reader who knows all but one person's rows could test guesses of the rest.
    """
    assert outcome.evidence is not None
    source = get_log_source(outcome)
    own = {} if outcome.evidence.public else {name: source.files[name] for name in source.logs}
    keyed = {}
    if source.salt is not None:
        key = source.salt.encode()
        keyed = {name: hmac.digest(key, bytes.fromhex(digest), "sha256").hex() for name, digest in own.items()}
    return {
        "files": {name: digest for name, digest in source.files.items() if name not in own},
        "hmac_files": keyed,
        "unhashed_files": sorted(own.keys() - keyed.keys()),
    }


def log_digests(outcome: Verification) -> dict[str, str]:
    """Return the digests of the files that a report binds; private data without a salt have none."""
    bound = _bind_files(outcome)
    keyed = {f"{name}, under the salt of the mapping": digest for name, digest in bound["hmac_files"].items()}
    return {**bound["files"], **keyed}


def _compare_closed_form(plan: RegisteredPlan, total: float) -> str:
    """Return whether the closed form, which is for one run, under-reports."""
    one = compute_certified_interval(plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation)
    if plan.trials is None:
        return str(write_formula(total, one))
    return f"{write_formula(total, one)} (This comparison is for one trial.)"


def _build_tuning_section(plan: RegisteredPlan) -> dict[str, Any] | None:
    """Return the cost of the tuning that selected this run, and of one run; None without tuning.

    Upper bounds cover the published outcomes of checks, as the claim does.
    """
    if plan.trials is None:
        return None
    release, delta, relation = plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation
    found = plan_tuning(release, plan.trials, delta=delta, relation=relation)
    checked = plan_tuning(release, plan.trials, delta=delta * (1 - OUTCOME_SHARE), relation=relation)
    return found.covering(checked).to_json()


def _build_budget_section(plan: RegisteredPlan, excerpt: LedgerExcerpt | None) -> dict[str, Any]:
    """Return what the ledger adds to a plan's budget: the charge, its state, and earlier spending."""
    if excerpt is None or excerpt.key is None:
        return {}
    section = {
        "charged": dict(excerpt.charged),
        "state": excerpt.state,
        "earlier_spending": dict(excerpt.earlier_spending),
    }
    return section | ({"binding": _select_binding_budget(plan, excerpt)} if excerpt.binding else {})


def _select_binding_budget(plan: RegisteredPlan, excerpt: LedgerExcerpt) -> dict[str, Any]:
    """Return the budget that binds: the stated one, or one of the ledger with less epsilon available."""
    caps = {name: plan.budget[name] for name in ("epsilon", "delta")}
    stated: dict[str, Any] = {
        "scope": excerpt.scope,
        "source": "plan",
        "caps": caps,
        "spent_or_reserved": dict(excerpt.spent_or_reserved),
    }
    recorded: dict[str, Any] = {"source": "ledger", **excerpt.binding}
    return min(
        (recorded, stated),
        key=lambda one: Decimal(one["caps"]["epsilon"]) - Decimal(one["spent_or_reserved"]["epsilon"]),
    )


def extract_files(report: Any) -> dict[str, bytes]:
    """Return the committed files that a report carries, byte for byte: all but the curator's.

    Raises:
        RecordError: it is not a report, or does not carry them.
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
        if inner["certificate"] is not None:
            files[RunArtifact.CERTIFICATE] = inner["certificate"].encode()
        return files | {RunArtifact.REPORT: codec.encode_canonical(report) + b"\n"}
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the report does not carry its plan, records and owner attestation: {error!r}") from error


def sample_epsilon_curve(plan: RegisteredPlan, rounds: int) -> list[dict[str, Any]]:
    """Return certified epsilon after rounds 1 .. ``rounds``, at about 40 of them including the last.

    It covers the published outcomes of checks, as the claim does. It is empty for the best of several trials, because
    nothing is released before the selection.
    """
    if plan.trials is not None:
        return []
    count = min(rounds, CURVE_POINTS)
    chosen = sorted({1 + round(k * (rounds - 1) / max(1, count - 1)) for k in range(count)})
    curve = []
    for one in chosen:
        interval = plan.epsilon_after(one)
        curve.append({"round": one, "lower": _number(interval.lower), "upper": _number(interval.upper)})
    return curve


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


COSINE = "cosine"
MIN_PER_SIDE = 2  # canaries on a side from which a spread can be estimated


def build_audit_section(evidence: Evidence) -> dict[str, Any] | None:
    """Return the part of a report about its canaries; None if no audit was planned."""
    planned = PlannedAudit.of(evidence.plan)
    if planned is None:
        return None
    scores, audit = evidence.canaries, evaluate_planned_audit(evidence)
    estimate = None if audit is None else _estimate_epsilon(evidence, planned)
    return {
        "planned": planned.to_json(),
        "canaries": None if scores is None else scores.to_json(),
        "bound": None if audit is None else audit.to_json(),
        "estimate": estimate,
        "messages": _write_messages(evidence, audit, estimate),
    }


def _estimate_epsilon(evidence: Evidence, planned: PlannedAudit) -> float | None:
    """Estimate epsilon from cosines; None for other scores, or with too few canaries on a side."""
    found = evidence.canaries
    if found is None or planned.score != COSINE:
        return None
    coins = found.canaries.included
    if min(coins.sum(), (~coins).sum()) < MIN_PER_SIDE:
        return None
    return estimate_by_cosines(np.array(found.scores), coins, delta=evidence.plan.guarantee.delta)


def _write_messages(evidence: Evidence, audit: CanaryAudit | None, estimate: float | None) -> list[str]:
    guarantee, count = evidence.plan.guarantee, evidence.plan.details["audit"]["canaries"]
    messages = [
        f"{count:,} of the N = {guarantee.population:,} units are canaries: synthetic, and each included by a fair "
        "coin before the run. The claim counts them like all others."
    ]
    if audit is None or evidence.canaries is None:
        return [*messages, "The outcome of the audit is missing."]
    messages.append(f"{int(evidence.canaries.canaries.included.sum()):,} of them were included. {audit.message}")
    if estimate is not None:
        messages.append(
            f"Gaussians fitted to the cosines estimate epsilon at about {format_lower(estimate, 3)}. This is not a "
            "bound (Andrew et al. 2023)."
        )
    return messages if SILENCE in messages[1] else [*messages, SILENCE]


_RELATIVE_WIDTH = 0.005  # to aim for, as ``plan.status`` does


def compute_claim_metrics(claim: Claim, release: Release, unamplified: Release) -> dict[str, Any]:
    """Return risk metrics at the claim's delta, also against those who know who took part, and the log odds factor.

    Args:
        claim: the claim with its delta, relation and group size.
        release: what is released.
        unamplified: the same for those who know who took part.
    """
    delta, relation = claim.guarantee.delta, claim.guarantee.relation
    group_size = None if claim.plan is None else claim.plan.details.get("coverage", {}).get("group_size")
    metrics = compute_risk_metrics(release, delta=delta, relation=relation, known=unamplified, held=group_size)
    return metrics | {
        "unamplified_attack": bound_attack(unamplified, delta=delta, relation=relation),
        "log_odds_factor": _compute_log_odds_factor(release, delta, relation),
    }


@lru_cache(maxsize=64)
def _compute_log_odds_factor(release: Release, delta: float, relation: NeighboringRelation) -> Any:
    """Return a number, "inf" for an infinite one, or None if none is proven."""
    try:
        return codec.encode(
            bound_log_odds_factor(profile(release, relation=relation, relative_width=_RELATIVE_WIDTH), delta)
        )
    except (UnsupportedMechanismError, CalibrationError):
        return None

"""The report: one JSON document that holds everything a third party needs to recompute the claim.

Every rendering is made from this document alone, and the document from what was verified alone: whoever has plan,
records, owner's word and ledger, or logs and their mapping, builds it again and compares. Logs are their writer's word:
their report names no client and tells no number of one, but where the mapping says that they are public.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from decimal import Decimal
from importlib import metadata
from typing import Any

from epsilog.mechanisms import Release
from epsilog.plan import RegisteredPlan, plan_tuning, write_formula
from epsilog.reports.attack import build_audit_section
from epsilog.reports.claim_metrics import compute_claim_metrics
from epsilog.reports.kinds import OF_LOGS, OF_RUNS, list_parts
from epsilog.reports.publication_fields import list_publication_fields, require_field
from epsilog.reports.residual_risks import list_residual_log_risks, list_residual_risks
from epsilog.reports.statements import (
    LIMITS,
    LOG_LIMITS,
    compute_provable_guarantee,
    has_lists,
    list_party_guarantees,
    state_claim,
)
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms import OUTCOME_SHARE, CheckError, RecordError, RunArtifact, codec
from epsilog.terms.disclosed import disclose
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
    publish,
)

VERSION = 2  # of a report
CURVE_POINTS = 40


def build_report(outcome: Verification) -> dict[str, Any]:
    """Write the report of one run, or of the logs of one: a function of what was verified and of nothing else.

    Args:
        outcome: what was found, with the evidence; of a run of ours, the owner's attestation must be here.

    Raises:
        RecordError: the owner's attestation is missing.
        CheckError: a field of a mapping's [reporting] that is none.
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
        "figure_sources": list_parts(OF_RUNS if of_run else OF_LOGS),
    }
    for name, section in sections.items():
        document[name] = document[name] | section if name in document else section
    spelt: dict[str, Any] = codec.parse_json(codec.encode_canonical(document))  # as a reader of the file gets it
    return spelt


def _build_risk_metrics(outcome: Verification, epsilon: float) -> dict[str, Any] | None:
    """Read what is left: the claim, the schedule without amplification, or nothing."""
    assert outcome.evidence is not None
    claim, of_run = outcome.evidence.claim, outcome.evidence.logs is None
    if not math.isfinite(epsilon) or (of_run and outcome.failed):
        return None
    if of_run:
        return read_claim(claim, claim.release, get_unamplified_release(claim))
    every = claim.scheme.full_participation_release()
    whole = epsilon == compute_provable_guarantee(claim).epsilon and not outcome.failed and has_lists(outcome)
    return read_claim(claim, claim.release if whole else every, every)


def get_unamplified_release(claim: Claim) -> Release:
    """Return what a plan releases to whoever knows who took part."""
    known = claim.scheme.unamplified_release()
    return known if claim.plan is None else claim.plan.best_of_trials(known)


def read_claim(claim: Claim, release: Release, known: Release) -> dict[str, Any]:
    """Read what a release means at the claim's delta; ``known`` is the same for whoever knows who took part."""
    held = None if claim.plan is None else claim.plan.details.get("coverage", {}).get("group_size")
    return compute_claim_metrics(
        release,
        delta=claim.guarantee.delta,
        relation=claim.guarantee.relation,
        known=known,
        held=held,
    )


def _build_run_sections(published: Verification, epsilon: float) -> dict[str, Any]:
    """Return what a report says of a run of ours, beside what every report says."""
    evidence = published.evidence
    assert evidence is not None
    plan, owner, excerpt, records = evidence.plan, evidence.owner, evidence.ledger, evidence.records or ()
    if owner is None:
        raise RecordError("owner.json is not here, and a report holds it")
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
                swept=plan.trials is not None,
            ),
        },
        "publication": list_publication_fields(details.get("reporting", {})),
        "mechanism": {"training": details.get("training", {}), "data": details.get("data", {})},
        "tuning": _tuning(plan),
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
    """Return what a report carries, so that it can be built again from itself, and what binds the rest."""
    plan, excerpt = evidence.plan, evidence.ledger
    return {
        "plan_hash": plan.hash,
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
    """Return what a report says of logs, beside what every report says: sizes of cohorts only where they are public."""
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
    """Return limits of all cohorts of a sound run, but for false alarms; None where no size is a matter of chance."""
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

    A hash of data that are not public would let whoever knows all of them but one person's check a guess of the rest.
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
    """Return digests by name of what was read, as a report binds it: none of data neither public nor under a salt."""
    bound = _bind_files(outcome)
    keyed = {f"{name}, under the salt of the mapping": digest for name, digest in bound["hmac_files"].items()}
    return {**bound["files"], **keyed}


def _compare_closed_form(plan: RegisteredPlan, total: float) -> str:
    """Whether the closed form, which is about one run, under-reports."""
    one = compute_certified_interval(plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation)
    if plan.trials is None:
        return str(write_formula(total, one))
    return f"{write_formula(total, one)} (It is about one trial, and so is this comparison.)"


def _tuning(plan: RegisteredPlan) -> dict[str, Any] | None:
    """What the sweep costs that this run was the best of, and what one run would; None where there was one.

    Upper bounds cover the published outcomes of checks, as the claim does.
    """
    if plan.trials is None:
        return None
    release, delta, relation = plan.scheme.release(), plan.guarantee.delta, plan.guarantee.relation
    found = plan_tuning(release, plan.trials, delta=delta, relation=relation)
    checked = plan_tuning(release, plan.trials, delta=delta * (1 - OUTCOME_SHARE), relation=relation)
    return found.covering(checked).to_json()


def _build_budget_section(plan: RegisteredPlan, excerpt: LedgerExcerpt | None) -> dict[str, Any]:
    """What the ledger adds to a plan's budget: what it was charged, where that stands, and what was spent before."""
    if excerpt is None or excerpt.key is None:
        return {}
    booked = {
        "charged": dict(excerpt.charged),
        "state": excerpt.state,
        "earlier_spending": dict(excerpt.earlier_spending),
    }
    return booked | ({"binding": _binding(plan, excerpt)} if excerpt.binding else {})


def _binding(plan: RegisteredPlan, excerpt: LedgerExcerpt) -> dict[str, Any]:
    """The budget that binds: the one that the plan states, or a ledger's with less epsilon available."""
    caps = {name: plan.budget[name] for name in ("epsilon", "delta")}
    stated: dict[str, Any] = {
        "scope": excerpt.scope,
        "source": "plan",
        "caps": caps,
        "spent_or_reserved": dict(excerpt.spent_or_reserved),
    }
    booked: dict[str, Any] = {"source": "ledger", **excerpt.binding}
    available = [
        Decimal(one["caps"]["epsilon"]) - Decimal(one["spent_or_reserved"]["epsilon"]) for one in (stated, booked)
    ]
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


def sample_epsilon_curve(plan: RegisteredPlan, rounds: int) -> list[dict[str, Any]]:
    """Certified epsilon after rounds 1 .. ``rounds``, at about 40 of them, the last one included.

    Empty where the best of several runs was chosen: nothing is released before that. It covers the published outcomes
    of checks, as the claim does.
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

"""The audit section of a report: a lower bound on epsilon from canaries, which cannot confirm a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsilog.terms.formatting import format_lower
from epsilog.verification import Evidence, evaluate_planned_audit
from epsilog.verification.audits import SILENCE, CanaryAudit, PlannedAudit, estimate_by_cosines

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

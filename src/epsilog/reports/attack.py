"""What the canaries of a run have shown, beside the claim: a bound from below, and never a word for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from epsilog.terms.formatting import format_lower
from epsilog.verification import Evidence, evaluate_planned_audit
from epsilog.verification.audits import SILENCE, CanaryAudit, PlannedAudit, estimate_by_cosines

COSINE = "cosine"
FEWEST = 2  # canaries on a side of which a spread can be had


def build_audit_section(evidence: Evidence) -> dict[str, Any] | None:
    """The part of a report about its canaries; None where no audit was planned."""
    stated = PlannedAudit.of(evidence.plan)
    if stated is None:
        return None
    found, audit = evidence.canaries, evaluate_planned_audit(evidence)
    estimate = None if audit is None else _estimate(evidence, stated)
    return {
        "planned": stated.to_json(),
        "canaries": None if found is None else found.to_json(),
        "bound": None if audit is None else audit.to_json(),
        "estimate": estimate,
        "messages": _sentences(evidence, audit, estimate),
    }


def _estimate(evidence: Evidence, stated: PlannedAudit) -> float | None:
    """As cosines have it; None of losses, and of too few on a side."""
    found = evidence.canaries
    if found is None or stated.score != COSINE:
        return None
    coins = found.canaries.included
    if min(coins.sum(), (~coins).sum()) < FEWEST:
        return None
    return estimate_by_cosines(np.array(found.scores), coins, delta=evidence.plan.guarantee.delta)


def _sentences(evidence: Evidence, audit: CanaryAudit | None, estimate: float | None) -> list[str]:
    guarantee, count = evidence.plan.guarantee, evidence.plan.details["audit"]["canaries"]
    told = [
        f"{count:,} of the N = {guarantee.population:,} units are canaries: made up, and each put in by a fair coin "
        "that was tossed before the run. The claim counts them like all others."
    ]
    if audit is None or evidence.canaries is None:
        return [*told, "What an attack made of them is not here."]
    told.append(f"{int(evidence.canaries.canaries.included.sum()):,} of them were in. {audit.says}")
    if estimate is not None:
        told.append(
            f"Normal laws fitted to their cosines would have epsilon at about {format_lower(estimate, 3)}: an "
            "estimate, "
            "no bound from either side (Andrew et al. 2023)."
        )
    return told if SILENCE in told[1] else [*told, SILENCE]

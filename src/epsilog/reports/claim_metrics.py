"""The risk metrics of a claim, in numbers; renderings make sentences and tables of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from epsilog.accounting import profile
from epsilog.mechanisms import Release
from epsilog.plan import bound_attack, bound_log_odds_factor, compute_risk_metrics
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, codec
from epsilog.verification import Claim

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

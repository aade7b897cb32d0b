"""What a report says that its claim means, in numbers; its renderings make sentences and tables of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from epsilog.accounting import profile
from epsilog.mechanisms import Release
from epsilog.plan import bound_log_odds_factor, compute_risk_metrics
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, codec

_RELATIVE_WIDTH = 0.005  # relative width to aim for, as ``plan.status`` does


def compute_claim_metrics(
    release: Release,
    *,
    delta: float,
    relation: NeighboringRelation,
    known: Release,
    held: int | None = None,
) -> dict[str, Any]:
    """Return risk metrics of a claim, and the logarithm of the largest factor by which an outcome changes odds.

    Args:
        release: what is claimed of.
        delta: the claim's.
        relation: which data sets are neighbors.
        known: the same release for whoever knows who took part.
        held: the most units that one person holds, where that is stated.
    """
    reading = compute_risk_metrics(release, delta=delta, relation=relation, known=known, held=held)
    return reading | {"log_odds_factor": _compute_log_odds_factor(release, delta, relation)}


@lru_cache(maxsize=64)
def _compute_log_odds_factor(release: Release, delta: float, relation: NeighboringRelation) -> Any:
    """A number, "inf" for an infinite one, or None where none is proven."""
    try:
        return codec.encode(
            bound_log_odds_factor(profile(release, relation=relation, relative_width=_RELATIVE_WIDTH), delta)
        )
    except (UnsupportedMechanismError, CalibrationError):
        return None

"""What a report says that its claim means, in numbers; its renderings make sentences and tables of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from epsilog.accounting import profile
from epsilog.mechanisms import Release
from epsilog.plan import bound_log_odds_factor, compute_risk_metrics
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, codec

VERSION = 1  # of a report; readings of version 0 do not tell how far odds move
_GAP = 0.005  # relative width to aim for, as ``plan.verdict`` does


def get_report_version(document: Any) -> int:
    """The version of a report to build again beside one that was given; the newest where it names none."""
    told = document.get("v") if isinstance(document, dict) else None
    return 0 if type(told) is int and told == 0 else VERSION


def compute_claim_metrics(
    release: Release,
    *,
    version: int,
    delta: float,
    relation: NeighboringRelation,
    known: Release,
    held: int | None = None,
) -> dict[str, Any]:
    """The readings of a claim, and ``moved``: how far odds move, as a logarithm, but for outcomes of chance ``delta``.

    Args:
        release: what is claimed of.
        version: that of the report.
        delta: the claim's.
        relation: which data sets are neighbors.
        known: the same release for whoever knows who took part.
        held: the most units that one person holds, where that is stated.
    """
    reading = compute_risk_metrics(release, delta=delta, relation=relation, known=known, held=held)
    return reading if version == 0 else reading | {"moved": _compute_log_odds_factor(release, delta, relation)}


@lru_cache(maxsize=64)
def _compute_log_odds_factor(release: Release, delta: float, relation: NeighboringRelation) -> Any:
    """A number, "inf" for an infinite one, or None where none is proven."""
    try:
        return codec.encode(bound_log_odds_factor(profile(release, relation=relation, gap=_GAP), delta))
    except (UnsupportedMechanismError, CalibrationError):
        return None

"""What a report says that its claim means, in numbers; its renderings make sentences and tables of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from epsilog.accounting import profile
from epsilog.mechanisms import Release
from epsilog.plan import odds, risk_reading
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, codec

VERSION = 1  # of a report; readings of version 0 do not tell how far odds move
_GAP = 0.005  # relative width to aim for, as ``plan.verdict`` does


def version_of(document: Any) -> int:
    """The version of a report to build again beside one that was given; the newest where it names none."""
    told = document.get("v") if isinstance(document, dict) else None
    return 0 if type(told) is int and told == 0 else VERSION


def read_claim(
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
        relation: which data sets are neighbours.
        known: the same release for whoever knows who took part.
        held: the most units that one person holds, where that is stated.
    """
    reading = risk_reading(release, delta=delta, relation=relation, known=known, held=held)
    return reading if version == 0 else reading | {"moved": _moved(release, delta, relation)}


@lru_cache(maxsize=64)
def _moved(release: Release, delta: float, relation: NeighboringRelation) -> Any:
    """A number, "inf" for an infinite one, or None where none is proven."""
    try:
        return codec.encode(odds(profile(release, relation=relation, gap=_GAP), delta))
    except (UnsupportedMechanismError, CalibrationError):
        return None

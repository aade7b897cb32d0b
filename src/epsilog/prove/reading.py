"""What the claim means for an attacker, for duplicates and at other deltas: readings of one certified curve."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from epsilog.accounting import mu, profile
from epsilog.terms import Guarantee, NeighboringRelation, Release, check

FALSE_ALARMS = (0.001, 0.01)  # at which attacks on training data are usually judged (Carlini et al. 2022)
DELTAS = (1e-3, 1e-6, 1e-9)
GROUPS = (2, 4)  # units that one person holds, or copies of one record
GAP = 0.005


def risk_reading(release: Release, guarantee: Guarantee, *, known: Release, held: int | None = None) -> dict[str, Any]:
    """The readings of a claim, as plain JSON values; every figure is an upper bound.

    ``mu`` is that of mu-GDP where the release is Gaussian and has one, and ``unamplified_mu`` that against those who
    know who took part; null where sampling leaves none. ``attack`` is the true positive rate that the best test between
    two neighbours reaches at most; ``groups`` is epsilon at the claim's delta for somebody who holds several units.

    Args:
        release: what is claimed of.
        guarantee: its delta and relation.
        known: the same release for whoever knows who took part.
        held: the most units that one person holds, where that is stated: the first of ``groups`` then.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383) for mu and rates; docs/accounting/groups.md.
    """
    return {
        "mu": _mean(release, guarantee.relation),
        "unamplified_mu": _mean(known, guarantee.relation),
        **_readings(release, guarantee.relation, guarantee.delta, _groups(held)),
    }


def _groups(held: int | None) -> tuple[int, ...]:
    """The stated most first, and those that are always told."""
    if held is None or held == 1:
        return GROUPS
    return (check.integer(1)(records_per_person=held), *(units for units in GROUPS if units != held))


def _mean(release: Release, relation: NeighboringRelation) -> float | str | None:
    found = mu(release, relation)
    return "inf" if found is not None and math.isinf(found) else found


@lru_cache(maxsize=64)
def _readings(release: Release, relation: NeighboringRelation, delta: float, groups: tuple[int, ...]) -> dict[str, Any]:
    curve = profile(release, relation=relation, gap=GAP)
    return {
        "attack": [{"fpr": fpr, "tpr": curve.tpr(fpr).upper} for fpr in FALSE_ALARMS],
        "profile": [{"delta": at, "epsilon": _number(curve.epsilon(at).upper)} for at in DELTAS],
        "groups": [
            {"units": units, "epsilon": _number(curve.group_epsilon(units=units, delta=delta).upper)}
            for units in groups
        ],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"

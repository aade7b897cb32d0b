"""What the claim means for an attacker, for copies and at other deltas: readings of one certified curve."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from epsilog.accounting import GaussianDPFit, PrivacyProfile, epsilon, fit_gaussian_dp, mu, profile
from epsilog.mechanisms import Release
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, check, codec

REPORTED_FPRS = (0.001, 0.01)  # at which attacks on training data are usually judged (Carlini et al. 2022)
DELTAS = (1e-3, 1e-6, 1e-9)
GROUP_SIZES = (1, 2, 8, 64)  # of one record, or units that one person holds
RISK_RELATIVE_WIDTH, ROUGH = (
    0.005,
    0.05,
)  # relative widths to aim for; the second where many copies make each place dear
MANY = 8
SLACK, _PLACES = 5e-3, 24  # what the mu of a fit may leave out, and the number of points of the curve


def compute_risk_metrics(
    release: Release,
    *,
    delta: float,
    relation: NeighboringRelation,
    known: Release,
    held: int | None = None,
    fit: bool = True,
) -> dict[str, Any]:
    """Return the risk metrics of a claim as plain JSON values; all figures are upper bounds except ``lower``.

    ``mu`` is the GDP parameter of a Gaussian release, and ``unamplified_mu`` the one with known participation; null if
    sampling leaves none. ``fit`` is a close mu, with what it leaves out (``beyond``) and what it overstates
    (``regret``); null if none is close. ``attack`` is the highest true positive rate of any test between two neighbors;
    empty if none is proven. ``groups`` bounds epsilon at the claim's delta from both sides, for a holder of several
    units or for a record with several copies; null if no bound is proven.

    Args:
        release: what is claimed of.
        delta: the claim's.
        relation: which data sets are neighbors.
        known: the same release with known participation.
        held: the most units that one person holds, where that is stated: the first of ``groups`` then.
        fit: whether to look for the mu that comes close, which takes a fraction of a second.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383) for mu and rates; docs/accounting/groups.md and interpretation.md.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    held = check.optional(check.integer(1))(held=held)
    return {
        "mu": _mean(release, relation),
        "unamplified_mu": _mean(known, relation),
        "fit": _fit(release, relation) if fit else None,
        **_readings(release, relation, delta),
        "groups": [
            {"units": units} | _of_copies(release, known, relation, units, delta)
            for units in dict.fromkeys((held or 1, *GROUP_SIZES))
        ],
    }


def _mean(release: Release, relation: NeighboringRelation) -> float | str | None:
    found = mu(release, relation)
    return "inf" if found is not None and math.isinf(found) else found


@lru_cache(maxsize=64)
def _readings(release: Release, relation: NeighboringRelation, delta: float) -> dict[str, Any]:
    curve = profile(release, relation=relation, relative_width=RISK_RELATIVE_WIDTH)
    return {
        "attack": _attack(curve, epsilon(release, delta=delta, relation=relation).upper, delta),
        "profile": [{"delta": at, "epsilon": _number(curve.epsilon(at).upper)} for at in DELTAS],
    }


def bound_attack(release: Release, *, delta: float, relation: NeighboringRelation) -> list[dict[str, float]]:
    """Bound the true positive rate of every test between two neighbors, at the reported false positive rates.

    Args:
        release: what is tested.
        delta: the claim's, in [0, 1).
        relation: which data sets are neighbors.

    Returns:
        Rates by name, ``fpr`` and ``tpr``; empty if no bound is proven.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383), Proposition 2.5.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    try:
        curve = profile(release, relation=relation, relative_width=RISK_RELATIVE_WIDTH)
        return _attack(curve, epsilon(release, delta=delta, relation=relation).upper, delta)
    except (UnsupportedMechanismError, CalibrationError):
        return []


def _attack(curve: PrivacyProfile, claimed: float, delta: float) -> list[dict[str, float]]:
    """No rate above what the claim itself leaves, where other bounds on the curve are wider."""
    most = [min(1.0, math.exp(min(claimed, 700.0)) * fpr * (1 + 1e-12) + delta) for fpr in REPORTED_FPRS]
    try:
        return [
            {"fpr": fpr, "tpr": min(curve.tpr(fpr).upper, rate)} for fpr, rate in zip(REPORTED_FPRS, most, strict=True)
        ]
    except UnsupportedMechanismError:
        return []


@lru_cache(maxsize=256)
def _of_copies(
    release: Release, known: Release, relation: NeighboringRelation, units: int, delta: float
) -> dict[str, Any]:
    """Return both bounds; for many copies of trials as if participation were known, since each point is expensive."""
    try:
        if units == 1:  # the claim itself
            found = epsilon(release, delta=delta, relation=relation)
        elif release.one_trial and units > MANY:
            found = epsilon(known, delta=delta, relation=relation, relative_width=ROUGH, group_size=units)
            found = replace(found, lower=min(epsilon(release, delta=delta, relation=relation).lower, found.upper))
        else:
            found = epsilon(
                release,
                delta=delta,
                relation=relation,
                relative_width=RISK_RELATIVE_WIDTH if units <= MANY else ROUGH,
                group_size=units,
            )
    except (UnsupportedMechanismError, CalibrationError):
        return {"lower": None, "epsilon": None}
    return {"lower": _number(found.lower), "epsilon": _number(found.upper)}


@lru_cache(maxsize=64)
def _fit(release: Release, relation: NeighboringRelation) -> dict[str, Any] | None:
    if release.one_trial:  # each place of its curve is an answer about many trials
        return None
    found = fit_gaussian_dp_quickly(release, relation)
    return None if found is None else fit_json(found)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def fit_gaussian_dp_quickly(release: Release, relation: NeighboringRelation) -> GaussianDPFit | None:
    """Fit mu to the release, with both errors; None if no mu is close or the curve has no bound.

    >>> from epsilog.mechanisms import Gaussian
    >>> fit_gaussian_dp_quickly(Gaussian(2.0), NeighboringRelation.ADD_OR_REMOVE_ONE).mu
    0.5
    """
    try:
        found = fit_gaussian_dp(
            release, slack=SLACK, relation=relation, relative_width=RISK_RELATIVE_WIDTH, places=_PLACES
        )
    except (CalibrationError, UnsupportedMechanismError):
        return None
    return found if math.isfinite(found.mu) else None


def fit_json(fit: GaussianDPFit) -> dict[str, Any]:
    """A fit as plain JSON values."""
    return {"mu": codec.encode(fit.mu), "slack": fit.slack, "regret": fit.regret}

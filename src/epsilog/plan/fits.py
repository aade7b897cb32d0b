"""The mu of Gaussian DP that a release comes close to, in a fraction of a second: for plans and reports alike."""

from __future__ import annotations

import math
from typing import Any

from epsilog.accounting import GaussianFit, gaussian_fit
from epsilog.mechanisms import Release
from epsilog.terms import CalibrationError, NeighboringRelation, UnsupportedMechanismError, codec

__all__ = ["close_fit", "fit_json"]

SLACK, _GAP, _PLACES = 5e-3, 0.005, 24  # what mu may leave out; how the curve is priced, and at how many places


def close_fit(release: Release, relation: NeighboringRelation) -> GaussianFit | None:
    """Fits mu to what is released, with both errors; None where no mu comes close, or the curve has no price.

    >>> from epsilog.mechanisms import Gaussian
    >>> close_fit(Gaussian(2.0), NeighboringRelation.ADD_OR_REMOVE_ONE).mu
    0.5
    """
    try:
        found = gaussian_fit(release, slack=SLACK, relation=relation, gap=_GAP, places=_PLACES)
    except (CalibrationError, UnsupportedMechanismError):
        return None
    return found if math.isfinite(found.mu) else None


def fit_json(fit: GaussianFit) -> dict[str, Any]:
    """A fit as plain JSON values."""
    return {"mu": codec.encode(fit.mu), "beyond": fit.beyond, "regret": fit.regret}

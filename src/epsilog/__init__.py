"""epsilog: plan, charge, verify and report differential-privacy budgets, for queries and for federated learning.

``mechanisms`` describe releases, and ``accounting`` bounds their privacy loss. ``plan`` computes costs before a run,
``ledger`` charges them, and ``training`` runs. ``verification`` compares records, plan and ledger. ``reports`` writes a
report that a third party recomputes. ``pipeline`` runs all of it.

>>> import epsilog as ep
>>> sgd = ep.Repeated(ep.PoissonSampled(ep.Gaussian(noise_multiplier=1.0), sampling_probability=0.01), count=1_000)
>>> print(ep.epsilon(sgd, delta=1e-5))  # doctest: +ELLIPSIS
epsilon in [1.828236, 1.828237] at delta 1e-05 (add-or-remove-one; Laplace inversion, every error bounded...
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from epsilog import plan as plan, queries as queries, schemes as schemes
    from epsilog.accounting import (
        Intervals as Intervals,
        calibrate as calibrate,
        delta as delta,
        delta_curve as delta_curve,
        epsilon as epsilon,
        epsilon_curve as epsilon_curve,
        max_rounds as max_rounds,
        montecarlo as montecarlo,
        profile as profile,
    )
    from epsilog.certificates import certificate as certificate
    from epsilog.ledger import open_ledger as open_ledger, read_ledger as read_ledger
    from epsilog.mechanisms import (
        ApproximateDP as ApproximateDP,
        Composed as Composed,
        Gaussian as Gaussian,
        Laplace as Laplace,
        PoissonSampled as PoissonSampled,
        PureDP as PureDP,
        Repeated as Repeated,
    )
    from epsilog.pipeline import run as run
    from epsilog.reports import verify as verify
    from epsilog.terms import (
        BudgetExceededError as BudgetExceededError,
        CalibrationError as CalibrationError,
        CheckError as CheckError,
        ConflictError as ConflictError,
        EpsilogError as EpsilogError,
        Finding as Finding,
        Guarantee as Guarantee,
        Interval as Interval,
        LedgerIntegrityError as LedgerIntegrityError,
        Message as Message,
        NeighboringRelation as NeighboringRelation,
        Status as Status,
        UnsupportedMechanismError as UnsupportedMechanismError,
    )
    from epsilog.terms.codec import from_json as from_json, to_json as to_json

_NAMES = {
    "accounting": "calibrate delta delta_curve epsilon epsilon_curve Intervals profile max_rounds",
    "certificates": "certificate",
    "ledger": "open_ledger read_ledger",
    "mechanisms": "ApproximateDP Composed Gaussian Laplace PoissonSampled PureDP Repeated",
    "pipeline": "run",
    "reports": "verify",
    "terms": "Finding Guarantee Interval Message NeighboringRelation Status"
    " BudgetExceededError CalibrationError CheckError ConflictError EpsilogError LedgerIntegrityError"
    " UnsupportedMechanismError",
    "terms.codec": "from_json to_json",
}
_HOME = {name: f"epsilog.{package}" for package, names in _NAMES.items() for name in names.split()}
_PACKAGES = "accounting adapters certificates ledger mechanisms pipeline plan queries reports schemes"
_PACKAGES += " server study terms training verification"
_PARTS = {package: f"epsilog.{package}" for package in _PACKAGES.split()}
_PARTS["montecarlo"] = "epsilog.accounting.montecarlo"

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that ``import epsilog`` takes milliseconds."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PARTS:
        return importlib.import_module(_PARTS[name])
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("epsilog")
    raise AttributeError(f"module 'epsilog' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names and packages."""
    return sorted([*__all__, *_PARTS, "__version__"])

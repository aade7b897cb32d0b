"""epsilog: plan, spend, verify and prove differential-privacy budgets, for queries and for federated learning.

``mechanisms`` (what is released) -> ``accounting`` (a certified interval) -> ``plan`` (before a run) -> ``ledger`` and
``training`` (during it) -> ``verification`` (do records, plan and ledger agree?) -> ``reports`` (a report that a third
party recomputes); ``pipeline`` runs all of it.

>>> import epsilog as ep
>>> sgd = ep.Repeated(ep.PoissonSampled(ep.Gaussian(noise_multiplier=1.0), sampling_probability=0.01), count=1_000)
>>> print(ep.epsilon(sgd, delta=1e-5))  # doctest: +ELLIPSIS
epsilon in [1.828236, 1.828237] at delta 1e-05 (add-or-remove-one; Laplace inversion, every error bounded...
"""

import importlib
from typing import TYPE_CHECKING, Any

from epsilog.mechanisms import *  # noqa: F403
from epsilog.mechanisms import __all__ as _mechanisms
from epsilog.schemes import (
    ClientLevelAdaptiveClip,
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ClientLevelDistributed,
    ExampleLevelClientSide,
    Scheme,
)
from epsilog.terms import *  # noqa: F403
from epsilog.terms import __all__ as _terms

if TYPE_CHECKING:
    __version__: str
    from epsilog import plan as plan
    from epsilog import queries as queries
    from epsilog.accounting import calibrate as calibrate
    from epsilog.accounting import compare_profiles as compare_profiles
    from epsilog.accounting import delta as delta
    from epsilog.accounting import delta_curve as delta_curve
    from epsilog.accounting import epsilon as epsilon
    from epsilog.accounting import epsilon_curve as epsilon_curve
    from epsilog.accounting import montecarlo as montecarlo
    from epsilog.accounting import profile as profile
    from epsilog.ledger import open_ledger as open_ledger
    from epsilog.ledger import read_ledger as read_ledger
    from epsilog.terms.codec import from_json as from_json

_HOME = {
    "from_json": "epsilog.terms.codec",
    "calibrate": "epsilog.accounting",
    "compare_profiles": "epsilog.accounting",
    "delta": "epsilog.accounting",
    "delta_curve": "epsilog.accounting",
    "epsilon": "epsilog.accounting",
    "epsilon_curve": "epsilog.accounting",
    "profile": "epsilog.accounting",
    "open_ledger": "epsilog.ledger",
    "read_ledger": "epsilog.ledger",
}
_PARTS = {
    part: f"epsilog.{part}"
    for part in ("accounting", "plan", "ledger", "training", "verification", "reports", "pipeline")
}
_PARTS |= {
    "queries": "epsilog.queries",
    "adapters": "epsilog.adapters",
    "server": "epsilog.server",
    "montecarlo": "epsilog.accounting.montecarlo",
}

__all__ = [  # noqa: PLE0604 - names are strings
    *_mechanisms,
    *_terms,
    *_HOME,
    "ClientLevelAdaptiveClip",
    "ClientLevelBufferedNoise",
    "ClientLevelCentral",
    "ClientLevelClientSide",
    "ClientLevelCorrelatedNoise",
    "ClientLevelDistributed",
    "ExampleLevelClientSide",
    "Scheme",
    "montecarlo",
    "plan",
]


def __getattr__(name: str) -> Any:
    """Brings in a name from its part when it is first asked for, so that ``import epsilog`` stays quick."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PARTS:
        return importlib.import_module(_PARTS[name])
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("epsilog")
    raise AttributeError(f"module 'epsilog' has no attribute {name!r}")

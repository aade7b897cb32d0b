"""Numbers with proven errors: rounding, roots, privacy loss distributions and their pairs; no mechanism is known.

Modules are loaded when they are first used: who only describes a release, as a ledger does, loads no NumPy.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsilog.numerics import (
        balls_in_bins as balls_in_bins,
        counts as counts,
        distributions as distributions,
        gaussian as gaussian,
        mixtures as mixtures,
        noise as noise,
        pairs as pairs,
        products as products,
        questions as questions,
        renyi as renyi,
        replace_one as replace_one,
        rounding as rounding,
        selection as selection,
        shuffling as shuffling,
    )

_MODULES = {module.name for module in pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"epsilog.numerics.{name}")
    raise AttributeError(f"module 'epsilog.numerics' has no attribute {name!r}")

"""Numbers with proven errors: rounding, roots, privacy loss distributions and their pairs; no mechanism is known.

Modules are loaded when they are first used: who only describes a release, as a ledger does, loads no NumPy.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsilog.numerics import balls_in_bins as balls_in_bins
    from epsilog.numerics import counts as counts
    from epsilog.numerics import distributions as distributions
    from epsilog.numerics import gaussian as gaussian
    from epsilog.numerics import mixtures as mixtures
    from epsilog.numerics import noise as noise
    from epsilog.numerics import pairs as pairs
    from epsilog.numerics import products as products
    from epsilog.numerics import questions as questions
    from epsilog.numerics import renyi as renyi
    from epsilog.numerics import replace_one as replace_one
    from epsilog.numerics import rounding as rounding
    from epsilog.numerics import selection as selection
    from epsilog.numerics import shuffling as shuffling

_MODULES = {module.name for module in pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"epsilog.numerics.{name}")
    raise AttributeError(f"module 'epsilog.numerics' has no attribute {name!r}")

"""Numbers with proven errors: rounding, roots, privacy loss distributions and their pairs; no mechanism is known.

Modules are loaded when they are first used: who only describes a release, as a ledger does, loads no NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epsilog.numerics import laws as laws
    from epsilog.numerics import renyi as renyi
    from epsilog.numerics import rounding as rounding


def __getattr__(name: str) -> Any:
    if name in ("laws", "renyi", "rounding"):
        return importlib.import_module(f"epsilog.numerics.{name}")
    raise AttributeError(f"module 'epsilog.numerics' has no attribute {name!r}")

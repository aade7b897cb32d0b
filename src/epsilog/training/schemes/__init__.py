"""Training of each scheme of ``epsilog.schemes``. Importing this package imports all its files, which register."""

from importlib import import_module
from pkgutil import iter_modules

from epsilog.training.schemes.base import (
    TRAINED as TRAINED,
    RoundContext as RoundContext,
    RoundUpdate as RoundUpdate,
    register_trainer,
)

__all__ = [
    "register_trainer",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

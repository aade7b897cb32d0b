"""Training of each scheme of ``epsilog.schemes``. Importing this package imports all its files, which register."""

from importlib import import_module
from pkgutil import iter_modules

from epsilog.training.schemes.base import TRAINED, RoundContext, RoundUpdate, register_trainer

__all__ = ["TRAINED", "RoundContext", "RoundUpdate", "register_trainer"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

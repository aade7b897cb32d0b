"""Adapters to other libraries. Each is imported on first use, so ``import epsilog.adapters`` needs none of them.

``dp_accounting`` reads and writes events, ``opacus`` histories, and ``flower`` the state of an accountant. Each has a
``CertifiedAccountant`` that replaces the library's own and returns certified upper bounds; ``interval`` returns both
bounds. What has no counterpart is refused by name. ``flower_app`` carries the rounds of a run to Flower's nodes, and
``notebook`` shows sliders in Jupyter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def make_class_on_demand(body: type, base: str, name: str = "CertifiedAccountant") -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that needs another library only once its class ``name`` is asked for.

    Args:
        body: the class without its base.
        base: the base class, as MODULE:CLASS.
        name: the name of the class that has both.
    """

    @cache
    def make() -> type[Any]:
        module, _, kind = base.partition(":")
        bases = (body, getattr(import_module(module), kind))
        return type(name, bases, {"__doc__": body.__doc__, "__module__": body.__module__})

    def get_attribute(wanted: str) -> Any:
        if wanted == name:
            return make()
        raise AttributeError(f"module {body.__module__!r} has no attribute {wanted!r}")

    return get_attribute

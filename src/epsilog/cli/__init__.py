"""The command line ``epsilog``: it parses, calls the library and prints; it computes nothing."""

import gc
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader, module_from_spec
from types import ModuleType
from typing import Any


class _Docstring(dict[str, list[str]]):
    """Stands for SciPy's parsed docstring of a special function, and keeps the text as it is."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._text = function.__doc__ or ""

    def __missing__(self, section: str) -> list[str]:
        return []

    def __str__(self) -> str:
        return f"\n{self._text}"


class _QuickImports:
    """Finds parts of NumPy and SciPy that few commands use: half of the CPU time of a short command.

    SciPy imports all names of NumPy, also its Fortran interface: those modules are loaded at their first use. And it
    parses the docstring of each special function, to add a table to it: here only those of other functions.
    """

    deferred = ("numpy.f2py", "numpy.ma", "numpy.polynomial", "numpy.random", "numpy.testing")
    docstrings = "scipy._lib._docscrape"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in (*self.deferred, self.docstrings) else None
        if spec and spec.loader:
            if name in self.deferred:
                spec.loader = LazyLoader(spec.loader)
            else:
                self._real = spec
                return ModuleSpec(name, self)  # type: ignore[arg-type]
        return spec

    def create_module(self, _: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        @cache
        def load() -> ModuleType:
            made = module_from_spec(self._real)
            self._real.loader.exec_module(made)  # type: ignore[union-attr]
            return made

        def parse(function: Any, *words: Any, **given: Any) -> Any:
            home = getattr(function, "__module__", None) or "scipy.special"  # NumPy's own class of functions has none
            if home.startswith("scipy.special"):
                return _Docstring(function)
            return load().FunctionDoc(function, *words, **given)

        vars(module).update(FunctionDoc=parse, __getattr__=lambda name: getattr(load(), name))


def main() -> None:
    """Run the command line; its parts are imported only now."""
    sys.meta_path.insert(0, _QuickImports())
    gc.set_threshold(100_000)  # what is imported is no garbage: to look for some takes a tenth of a short command
    from epsilog.cli.app import main as run

    run()


__all__ = ["main"]

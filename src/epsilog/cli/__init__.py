"""The command line ``epsilog``: it parses, calls the library and prints; it computes nothing."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class _DeferredNumpy:
    """Finds parts of NumPy that SciPy imports and no command uses, and loads them at their first use.

    SciPy imports all names of NumPy, also its Fortran interface: a tenth of the CPU time of a short command.
    """

    parts = ("numpy.f2py", "numpy.polynomial", "numpy.testing")

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self.parts else None
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec


def main() -> None:
    """Run the command line; its parts are imported only now."""
    sys.meta_path.insert(0, _DeferredNumpy())
    from epsilog.cli.app import main as run

    run()


__all__ = ["main"]

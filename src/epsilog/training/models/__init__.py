"""Models: anybody's pure JAX functions or PyTorch module, and a few kinds that are shipped.

``Model(init, apply, loss)`` is what engines are written against; ``from_torch`` makes one of a module, and ``build``
one of a kind that has a name.
"""

from epsilog.training.models.base import Model, layered
from epsilog.training.models.kinds import KINDS, Kind, build, built, choose
from epsilog.training.models.own import is_own, require_name
from epsilog.training.models.probe import ROWS, require_alone_and_twice, require_rows_apart, tried
from epsilog.training.models.released import Released
from epsilog.training.models.torch_modules import ROWS_APART, from_torch, require_own_rows

__all__ = [
    "KINDS",
    "ROWS",
    "ROWS_APART",
    "Kind",
    "Model",
    "Released",
    "build",
    "built",
    "choose",
    "from_torch",
    "is_own",
    "layered",
    "require_alone_and_twice",
    "require_name",
    "require_own_rows",
    "require_rows_apart",
    "tried",
]

"""Models: anybody's pure JAX functions or PyTorch module, and a few kinds that are shipped.

``Model(init, apply, loss)`` is what engines are written against; ``from_torch`` makes one of a module, and ``build``
one of a kind that has a name.
"""

from epsilog.train.models.base import Model, layered
from epsilog.train.models.kinds import KINDS, Kind, build, built, choose
from epsilog.train.models.own import is_own, require_name
from epsilog.train.models.probe import require_rows_apart
from epsilog.train.models.released import Released
from epsilog.train.models.torch_modules import from_torch

__all__ = [
    "KINDS",
    "Kind",
    "Model",
    "Released",
    "build",
    "built",
    "choose",
    "from_torch",
    "is_own",
    "layered",
    "require_name",
    "require_rows_apart",
]

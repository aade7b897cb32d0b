"""Models: anybody's pure JAX functions, and a few kinds that are shipped.

``Model(init, apply, loss)`` is what engines are written against. ``build`` makes one of a kind that has a name.
"""

from epsilog.train.models.base import Model, layered
from epsilog.train.models.kinds import KINDS, Kind, build, built, choose
from epsilog.train.models.own import is_own, require_name
from epsilog.train.models.probe import require_rows_apart
from epsilog.train.models.released import Released

__all__ = [
    "KINDS",
    "Kind",
    "Model",
    "Released",
    "build",
    "built",
    "choose",
    "is_own",
    "layered",
    "require_name",
    "require_rows_apart",
]

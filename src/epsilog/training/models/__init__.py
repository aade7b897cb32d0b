"""Models: pure JAX functions, a PyTorch module, and a few kinds that are shipped.

``Model(init, apply, loss)`` is what engines are written against; ``from_torch`` makes one of a module, and
``build_model`` one of a kind that has a name.
"""

from epsilog.training.models.base import Model, build_layered_model
from epsilog.training.models.custom import is_custom as is_custom, require_factory_name as require_factory_name
from epsilog.training.models.kinds import (
    KINDS as KINDS,
    ModelKind as ModelKind,
    build_model,
    get_cached_model as get_cached_model,
    parse_model_kind as parse_model_kind,
)
from epsilog.training.models.probe import (
    ROWS as ROWS,
    call_user_code as call_user_code,
    require_deterministic_per_row as require_deterministic_per_row,
)
from epsilog.training.models.released import ReleasedModel as ReleasedModel
from epsilog.training.models.torch_modules import (
    ROWS_APART as ROWS_APART,
    from_torch,
    reject_cross_row_layers as reject_cross_row_layers,
)

__all__ = [
    "Model",
    "build_layered_model",
    "build_model",
    "from_torch",
]

"""PyTorch modules as models for ``engines.torch_engine``. PyTorch is imported on first use.

The parameters of a module that require a gradient are the flat vector of the model, in their order. Frozen parameters
and buffers stay constant, and are as public as the starting parameters.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check
from epsilog.training.models.base import Loss, Model, half_squared_error, require_classes

ROWS_APART = "a function of each row alone"


def from_torch(module: Any, loss: str | Loss, *, classes: int | None = None, **described: Any) -> Model:
    """Return a model from a module that maps features (n, f) to outputs (n, ...).

    The module is copied, and trained in its current mode. Its weights are public: they must not come from private data.

    Args:
        module: a ``torch.nn.Module``. The output for a row must depend on this row alone: outside evaluation mode,
            BatchNorm mixes rows and Dropout makes random draws that are not accounted for.
        loss: "half-squared-error" (one real output), "cross-entropy" (one output per class), or a function of outputs
            and targets that returns one number per example (``reduction="none"``).
        classes: number of classes; None if targets are real numbers.
        **described: the other attributes of ``Model``.

    Raises:
        CheckError: the argument is no module, mixes rows, makes random draws, or has no trainable parameter.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise CheckError("module", "a torch.nn.Module", f"a {type(module).__name__}")
    reject_cross_row_layers(module)
    module = copy.deepcopy(module)
    names = [name for name, one in module.named_parameters() if one.requires_grad]
    module.requires_grad_(False)
    held = dict(module.named_parameters())
    start = tuple(_array(held.pop(name)) for name in names)
    buffers = dict(module.named_buffers())

    def apply(params: Any, features: Any) -> Any:
        rows = _tensor(features)
        given = {name: _tensor(one) for name, one in zip(names, params[0], strict=True)}
        frozen = {name: _like(one, rows) for name, one in held.items()}
        kept = {name: _like(one, rows).clone() for name, one in buffers.items()}  # the module may change them
        return torch.func.functional_call(module, {**frozen, **kept, **given}, (rows,))

    facts = {"framework": "torch", **_held_facts({**held, **buffers}), **described.pop("facts", {})}
    if not callable(loss):
        require_classes(check.one_of(tuple(LOSSES))(loss=loss), classes)
    return Model(
        lambda: (start,),
        apply,
        _loss(loss),
        classes=classes,
        facts=facts,
        framework="torch",
        names=tuple(names),
        **described,
    )


def compute_torch_gradients(model: Model, vector: Any, features: Any, targets: Any) -> Any:
    """Return the gradient of each example from its row alone; tensors of shape (d,), (n, f), (n,) to (n, d)."""
    import torch

    def loss(vector: Any, row: Any, target: Any) -> Any:
        return model.losses(model.apply(model.unflatten(vector), row[None]), target[None])[0]

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(vector, features, targets)


def reject_cross_row_layers(module: Any) -> None:
    """Refuse known layers that mix rows or make random draws; the test on synthetic rows finds others."""
    import torch

    for name, part in module.named_modules():
        if not part.training:
            continue
        where = f"{type(part).__name__} {name}".strip()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise CheckError("module", f"{ROWS_APART} (GroupNorm and LayerNorm are, BatchNorm in eval() is)", where)
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p:
            raise CheckError("module", "the same function each time (p = 0, or in eval())", where)


def _loss(loss: str | Loss) -> Loss:
    """Return a loss of tensors; a built-in one keeps its name."""
    if not isinstance(loss, str):
        return loss

    def call_loss(outputs: Any, targets: Any) -> Any:
        return LOSSES[loss](outputs, _tensor(targets))

    call_loss.__name__ = loss
    return call_loss


def _cross_entropy(outputs: Any, targets: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "half-squared-error": half_squared_error,
    "cross-entropy": _cross_entropy,
}


def _held_facts(held: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about untrained numbers, to which a run is bound."""
    if not held:
        return {}
    whole = hashlib.sha256()
    for name, one in sorted(held.items()):
        array = one.detach().cpu().numpy()
        whole.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return {"untrained": {"numbers": sum(one.numel() for one in held.values()), "sha256": whole.hexdigest()}}


def _array(parameter: Any) -> NDArray[Any]:
    """Return the numbers of a parameter, in float64 if they are real."""
    found = parameter.detach().cpu()
    return np.array((found.double() if found.is_floating_point() else found).numpy())


def _tensor(values: Any) -> Any:
    import torch

    return values if isinstance(values, torch.Tensor) else torch.as_tensor(values)


def _like(held: Any, rows: Any) -> Any:
    """Return a tensor in the precision of the rows if its numbers are real."""
    return held.to(rows.dtype) if held.is_floating_point() else held

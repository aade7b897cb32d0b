"""PyTorch modules as models: what ``engines.torch_engine`` trains. PyTorch is imported where it is used.

A module's parameters that require a gradient are the model's flat vector, in their own order; whatever else it holds
(frozen parameters, buffers) stays as it is, and is as public as the starting parameters.
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

ROWS_APART = "a function of each row on its own"


def from_torch(module: Any, loss: str | Loss, *, classes: int | None = None, **described: Any) -> Model:
    """A model from a module that takes features (n, f) and returns outputs (n, ...).

    The module is copied, and trained in the mode that it is in. Its weights are public: they must not come from
    anybody's private data.

    Args:
        module: a ``torch.nn.Module``. A row's output must be its own: BatchNorm mixes rows, and Dropout draws where
            nobody accounts for it, unless they are in evaluation mode.
        loss: "half-squared-error" (one real output), "cross-entropy" (an output a class), or a function of outputs and
            targets that returns one number an example (``reduction="none"``).
        classes: how many classes there are, where targets are class numbers; None where they are real numbers.
        **described: the other attributes of ``Model``.

    Raises:
        CheckError: no module, one that mixes rows or draws at random, or nothing in it to train.
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
        kept = {name: _like(one, rows).clone() for name, one in buffers.items()}  # whatever the module does to them
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
    """Each example's gradient, computed from its row alone; tensors of shape (d,), (n, f), (n,) to (n, d)."""
    import torch

    def loss(vector: Any, row: Any, target: Any) -> Any:
        return model.losses(model.apply(model.unflatten(vector), row[None]), target[None])[0]

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(vector, features, targets)


def reject_cross_row_layers(module: Any) -> None:
    """Name the layers that everybody knows to do what a model must not; the probe finds the others by trying."""
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
    """A loss of tensors; one of those with a name keeps it."""
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
    """What a report says of numbers that are not trained: a run is bound to them."""
    if not held:
        return {}
    whole = hashlib.sha256()
    for name, one in sorted(held.items()):
        array = one.detach().cpu().numpy()
        whole.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return {"untrained": {"numbers": sum(one.numel() for one in held.values()), "sha256": whole.hexdigest()}}


def _array(parameter: Any) -> NDArray[Any]:
    """A parameter's numbers as doubles, where they are real."""
    found = parameter.detach().cpu()
    return np.array((found.double() if found.is_floating_point() else found).numpy())


def _tensor(values: Any) -> Any:
    import torch

    return values if isinstance(values, torch.Tensor) else torch.as_tensor(values)


def _like(held: Any, rows: Any) -> Any:
    """In the precision of the rows, where it is a real number."""
    return held.to(rows.dtype) if held.is_floating_point() else held

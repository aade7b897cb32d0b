"""A model: three pure functions with their public facts.

Its parameters are a flat vector on the server and a pytree inside a computation. JAX is imported when a function is
called, so that a built-in model can be described without it.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check
from epsilog.training.models.layers import Layer

Loss = Callable[[Any, Any], Any]
"""(outputs (n, ...), targets (n,)) -> loss of each example; shape (n,)."""
Score = Callable[[Any, Any], Any]
"""(outputs (m, ...), targets (m,)) -> one number for a whole test set."""


def half_squared_error(outputs: Any, targets: Any) -> Any:
    """Return half of the squared error, for one real output per example."""
    return 0.5 * (outputs.reshape(targets.shape) - targets) ** 2


def cross_entropy(outputs: Any, targets: Any) -> Any:
    """Return minus the log probability of the right class, for one output per class."""
    import jax
    import jax.numpy as jnp

    shifted = outputs - jax.lax.stop_gradient(outputs.max(axis=1, keepdims=True))
    right = targets[:, None] == jnp.arange(outputs.shape[1])
    return jnp.log(jnp.exp(shifted).sum(axis=1)) - jnp.where(right, shifted, 0).sum(axis=1)


def r_squared(outputs: Any, targets: Any) -> Any:
    """Return R squared, the explained fraction of the variance of targets; 1 is perfect."""
    missed = outputs.reshape(targets.shape) - targets
    return 1.0 - (missed**2).sum() / ((targets - targets.mean()) ** 2).sum()


def accuracy(outputs: Any, targets: Any) -> Any:
    """Return the fraction of examples with the largest output for their class."""
    return (outputs.argmax(axis=1) == targets).mean()


LOSSES: dict[str, Loss] = {"half-squared-error": half_squared_error, "cross-entropy": cross_entropy}


FRAMEWORKS = ("jax", "torch")
NAME = re.compile(r"(?!.*\.npy$)[\w.-]+")  # all readers of a file agree on such a name
AT_ONCE = 1024  # rows in one batch
MOST_IDS = 2**24  # float32 represents integers up to here exactly
Params = Any
"""A pytree of arrays."""
Call = Callable[[int, Any], Any]
"""(i, x) -> output of layer i for x."""
Forward = Callable[[Call, Any], Any]
"""(call, features) -> outputs."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model to train: pure JAX functions.

    Attributes:
        init: returns the public starting parameters, a pytree of arrays; takes no argument, or a fixed JAX key.
        apply: (parameters, features (n, f)) -> outputs (n, ...). The output for a row must not depend on other rows.
        loss: "half-squared-error" (one real output), "cross-entropy" (one output per class), or a function of outputs
            and targets that returns one number per example.
        classes: number of classes; None if targets are real numbers.
        score: a function of outputs and targets of the whole test set; None for accuracy or R squared.
        ids: number of ids if each feature is an id from 0, such as that of a word or an item; else None. Rows hold ids
            as real numbers. A row with another number is unusable, like one that is not finite.
        inputs: number of features of a row; None if ``apply`` takes any number.
        name: the kind of model, for reports.
        facts: further public facts for reports.
        shipped: whether the kind is built in; any other is tested on synthetic rows before training.
        layers: the layers of a model from ``build_layered_model``.
        forward: the function that combines these layers.
        framework: "jax", or "torch" for a model from ``from_torch``.
        names: names of the arrays in the order of the vector; by default their paths in the pytree, or numbers if paths
            are not valid names.

    >>> import jax.numpy as jnp
    >>> slope = Model(lambda: {"w": jnp.zeros(2)}, lambda p, x: x @ p["w"], "half-squared-error")
    >>> slope.size, slope.describe()
    (2, {'kind': 'own', 'loss': 'half-squared-error', 'parameters': 2})
    """

    init: Callable[..., Params]
    apply: Callable[[Params, Any], Any]
    loss: str | Loss
    classes: Annotated[int | None, check.optional(check.integer(2))] = None
    score: Score | None = None
    ids: Annotated[int | None, check.optional(check.integer(1, MOST_IDS))] = None
    inputs: Annotated[int | None, check.optional(check.integer(1))] = None
    name: Annotated[str, check.text()] = "own"
    facts: Mapping[str, Any] = field(default_factory=dict)
    shipped: bool = False
    layers: tuple[Layer, ...] = ()
    forward: Forward | None = None
    framework: Annotated[str, check.one_of(FRAMEWORKS)] = "jax"
    names: tuple[str, ...] = ()
    start: NDArray[np.float64] = field(init=False)
    shapes: tuple[tuple[int, ...], ...] = field(init=False)
    _rebuild: Callable[[list[Any]], Params] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not callable(self.loss):
            object.__setattr__(self, "loss", check.one_of(tuple(LOSSES))(loss=self.loss))
            require_classes(self.loss, self.classes)
        leaves, rebuild, names = _structure(_initialize(self.init))
        _require_numbers(leaves)
        vector = np.concatenate([leaf.reshape(-1) for leaf in leaves], dtype=np.float64)
        object.__setattr__(self, "start", vector)
        object.__setattr__(self, "shapes", tuple(leaf.shape for leaf in leaves))
        object.__setattr__(self, "_rebuild", rebuild)
        object.__setattr__(self, "names", _make_names_unique(self.names or names))

    @property
    def size(self) -> int:
        """Return the number of parameters."""
        return self.start.size

    @property
    def loss_name(self) -> str:
        """Return the name of the loss."""
        return self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "own")

    def takes(self, features: NDArray[Any], *, reach: float) -> NDArray[np.bool_]:
        """Return a mask of usable features: finite and in range, or valid ids; in the shape of ``features``."""
        if self.ids is None:
            return np.asarray(np.abs(features) <= reach)
        return np.asarray((features >= 0) & (features < self.ids) & (np.floor(features) == features))

    def target_type(self, precision: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of targets for features of ``precision``: the same, or integers for classes."""
        return precision if self.classes is None else np.dtype(np.int64)

    def cut(self, vector: Any) -> list[Any]:
        """Return the arrays of a parameter vector (d,)."""
        parts, start = [], 0
        for shape in self.shapes:
            end = start + int(np.prod(shape))
            parts.append(vector[start:end].reshape(shape))
            start = end
        return parts

    def unflatten(self, vector: Any) -> Params:
        """Return the pytree of a parameter vector (d,)."""
        return self._rebuild(self.cut(vector))

    def flatten(self, params: Params) -> Any:
        """Return the vector of a pytree; shape (d,)."""
        import jax
        import jax.numpy as jnp

        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])

    def asarray(self, values: NDArray[Any]) -> Any:
        """Return values as an array of the framework."""
        if self.framework == "torch":
            import torch

            return torch.as_tensor(values)
        import jax.numpy as jnp

        return jnp.asarray(values)

    def doubles(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that enables float64, which JAX requires."""
        if self.framework == "torch":
            return contextlib.nullcontext()
        import jax

        switch: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
        return switch

    def losses(self, outputs: Any, targets: Any) -> Any:
        """Return the loss of each example; shape (n,)."""
        loss = self.loss if callable(self.loss) else LOSSES[self.loss]
        return loss(outputs, targets)

    def compute_losses(
        self, vector: NDArray[Any], features: NDArray[Any], targets: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return the loss of each row under a parameter vector (d,), in the precision of the data; shape (n,)."""
        goals, found = targets.astype(self.target_type(features.dtype)), np.empty(len(features))
        with self.doubles():
            params = self.unflatten(self.asarray(vector.astype(features.dtype)))
            for first in range(0, len(features), AT_ONCE):
                rows = slice(first, first + AT_ONCE)
                losses = self.losses(self.apply(params, self.asarray(features[rows])), self.asarray(goals[rows]))
                found[rows] = np.asarray(losses.detach() if self.framework == "torch" else losses)
        return found

    def compute_score(self, outputs: Any, targets: Any) -> Any:
        """Return the score of outputs on a whole test set."""
        if self.score is not None:
            return self.score(outputs, targets)
        if self.framework == "torch":
            outputs, targets = np.asarray(outputs), np.asarray(targets)
        with np.errstate(divide="ignore", invalid="ignore"):  # if all targets are equal
            return r_squared(outputs, targets) if self.classes is None else accuracy(outputs, targets)

    def describe(self) -> dict[str, Any]:
        """Return the public facts that a report may print."""
        shape = {} if self.inputs is None else {"inputs": self.inputs}
        return {**self.facts, "kind": self.name, **shape, "loss": self.loss_name, "parameters": self.size}


def build_layered_model(layers: tuple[Layer, ...], forward: Forward, loss: str | Loss, **described: Any) -> Model:
    """Return a model of layers, which compute norms of gradients without forming the gradients.

    Args:
        layers: the layers, each with its parameters.
        forward: (call, features) -> outputs, where ``call(i, x)`` is the output of layer i for x. If it calls a layer
            more than once, gradients are formed.
        loss: as in ``Model``.
        **described: the other attributes of ``Model``.
    """

    def init() -> Params:
        draws = np.random.Generator(np.random.Philox(key=0))
        return tuple(layer.init(draws) for layer in layers)

    def apply(params: Params, features: Any) -> Any:
        return forward(lambda i, x: layers[i].apply(params[i], x), features)

    return Model(init, apply, loss, layers=layers, forward=forward, **described)


def require_classes(loss: str, classes: int | None) -> None:
    """Refuse a classification loss without classes, and classes with another loss."""
    counted = loss == "cross-entropy"
    if counted != (classes is not None):
        raise CheckError("classes", f"{'given' if counted else 'absent'} for {loss}", repr(classes))


def _initialize(init: Callable[..., Params]) -> Params:
    """Return the starting parameters; the key for ``init`` is public and fixed."""
    try:
        wanted = [one for one in inspect.signature(init).parameters.values() if one.default is one.empty]
    except (TypeError, ValueError):  # it has no signature
        wanted = []
    if not any(one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD} for one in wanted):
        return init()
    import jax

    return init(jax.random.key(0))


def _structure(params: Params) -> tuple[list[NDArray[Any]], Callable[[list[Any]], Params], tuple[str, ...]]:
    """Return the arrays of a pytree, a function that rebuilds it, and the paths; plain tuples need no JAX."""
    if type(params) is tuple and all(type(part) is tuple for part in params):
        counts = [len(part) for part in params]
        if all(isinstance(leaf, np.ndarray) for part in params for leaf in part):
            names = tuple(f"{i}.{j}" for i, count in enumerate(counts) for j in range(count))
            return [leaf for part in params for leaf in part], lambda leaves: _group_leaves(leaves, counts), names
    import jax

    found, structure = jax.tree_util.tree_flatten_with_path(params)
    names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") or "0" for path, _ in found)
    return [np.asarray(leaf) for _, leaf in found], lambda leaves: jax.tree.unflatten(structure, leaves), names


def _make_names_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names for the arrays in a file; numbers if paths collide or are not valid names."""
    if len(set(names)) == len(names) and all(map(NAME.fullmatch, names)):
        return names
    return tuple(str(place) for place in range(len(names)))


def _group_leaves(leaves: list[Any], counts: list[int]) -> Params:
    ends = np.cumsum(counts).tolist()
    return tuple(tuple(leaves[end - count : end]) for end, count in zip(ends, counts, strict=True))


def _require_numbers(leaves: list[NDArray[Any]]) -> None:
    if not sum(leaf.size for leaf in leaves):
        raise CheckError("init", "at least one parameter", "none", verb="make")
    for place, leaf in enumerate(leaves):
        if leaf.dtype.kind != "f":
            raise CheckError("init", "arrays of real numbers alone", f"{leaf.dtype} in leaf {place}", verb="make")
        if not np.isfinite(leaf).all():
            raise CheckError("init", "finite numbers", f"others in leaf {place}", verb="make")

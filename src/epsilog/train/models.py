"""Models as pure functions: dense layers, with linear regression as the case that has no hidden layer.

A model is a description (``Dense``); its parameters are one flat vector on the server and a tuple of (weights, bias)
pairs inside a computation. The functions take the array module ``xp`` (numpy or jax.numpy). Gradients are written out
(back-propagation by hand) because example-level DP wants the norm of every example's gradient without ever forming it:
for a dense layer with input a and error e the squared norm is (|a|^2 + 1) |e|^2 (Goodfellow 2015, arXiv:1510.01799).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check

Layers = tuple[tuple[Any, Any], ...]
LOSSES = ("half-squared-error", "cross-entropy")


@dataclass(frozen=True, slots=True)
class Dense:
    """Dense layers with ReLU between them.

    Attributes:
        widths: inputs, hidden widths, outputs.
        loss: "half-squared-error" (one output, real targets) or "cross-entropy" (a class number each).

    >>> Dense((3, 1), "half-squared-error").size
    4
    """

    widths: tuple[int, ...]
    loss: str

    def __post_init__(self) -> None:
        check.fields(self, widths=check.each(check.integer(1)), loss=check.one_of(LOSSES))
        if len(self.widths) < 2:
            raise CheckError("widths", "inputs and outputs", repr(self.widths), verb="name")
        if self.loss == "half-squared-error" and self.widths[-1] != 1:
            raise CheckError("widths", "1 for half-squared-error", repr(self.widths), verb="end in")

    @property
    def classes(self) -> int | None:
        """How many classes there are; None where targets are real numbers."""
        return self.widths[-1] if self.loss == "cross-entropy" else None

    def target_type(self, precision: np.dtype[Any]) -> np.dtype[Any]:
        """What targets are stored as beside features of ``precision``: the same, or whole class numbers."""
        return precision if self.classes is None else np.dtype(np.int64)

    @property
    def size(self) -> int:
        """Parameters in all."""
        return sum((rows + 1) * columns for rows, columns in zip(self.widths, self.widths[1:], strict=False))


def initial(model: Dense) -> NDArray[np.float64]:
    """The public starting point: zeros for a linear model, else He's normals from a fixed public key; shape (d,)."""
    if len(model.widths) == 2:
        return np.zeros(model.size)
    draws = np.random.Generator(np.random.Philox(key=0))
    layers = tuple(
        (draws.standard_normal((rows, columns)) * np.sqrt(2.0 / rows), np.zeros(columns))
        for rows, columns in zip(model.widths, model.widths[1:], strict=False)
    )
    return np.asarray(flatten(layers, xp=np))


def unflatten(model: Dense, vector: Any) -> Layers:
    """Cuts a parameter vector (..., d) into layers of weights (..., rows, columns) and bias (..., columns)."""
    layers, start, lead = [], 0, vector.shape[:-1]
    for rows, columns in zip(model.widths, model.widths[1:], strict=False):
        middle, end = start + rows * columns, start + (rows + 1) * columns
        layers.append((vector[..., start:middle].reshape((*lead, rows, columns)), vector[..., middle:end]))
        start = end
    return tuple(layers)


def flatten(layers: Layers, *, xp: ModuleType) -> Any:
    """Undoes ``unflatten`` for one parameter vector; shape (d,)."""
    return xp.concatenate([part.reshape(-1) for layer in layers for part in layer])


def outputs(layers: Layers, features: Any, *, xp: ModuleType) -> tuple[list[Any], Any]:
    """Runs the model; returns every layer's input (n, rows) and the last layer's output (n, outputs)."""
    inputs = [features]
    for weights, bias in layers[:-1]:
        inputs.append(xp.maximum(inputs[-1] @ weights + bias, 0.0))
    weights, bias = layers[-1]
    return inputs, inputs[-1] @ weights + bias


def losses(model: Dense, layers: Layers, features: Any, targets: Any, *, xp: ModuleType) -> Any:
    """Computes each example's loss; shape (n,)."""
    predicted = outputs(layers, features, xp=xp)[1]
    if model.loss == "half-squared-error":
        return 0.5 * (predicted[:, 0] - targets) ** 2
    shifted = predicted - predicted.max(axis=1, keepdims=True)
    return xp.log(xp.exp(shifted).sum(axis=1)) - xp.take_along_axis(shifted, targets[:, None], axis=1)[:, 0]


def score(model: Dense, layers: Layers, features: Any, targets: Any, *, xp: ModuleType) -> Any:
    """Computes R squared (regression) or accuracy (classes) over a test set."""
    predicted = outputs(layers, features, xp=xp)[1]
    if model.loss == "half-squared-error":
        return 1.0 - ((predicted[:, 0] - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
    return (predicted.argmax(axis=1) == targets).mean()


def errors(model: Dense, layers: Layers, features: Any, targets: Any, *, xp: ModuleType) -> tuple[list[Any], list[Any]]:
    """Back-propagates: each layer's input (n, rows), and the loss's slope at each layer's output (n, columns)."""
    inputs, predicted = outputs(layers, features, xp=xp)
    if model.loss == "half-squared-error":
        error = predicted - targets[:, None]
    else:
        odds = xp.exp(predicted - predicted.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True) - (targets[:, None] == xp.arange(model.widths[-1]))
    slopes = [error]
    for (weights, _), entering in zip(layers[:0:-1], inputs[:0:-1], strict=True):
        slopes.insert(0, xp.where(entering > 0, slopes[0] @ weights.T, 0.0))
    return inputs, slopes


def gradient(inputs: list[Any], slopes: list[Any], weights: Any) -> Layers:
    """Sums the examples' gradients, each times its weight (n,); an example of weight 0 must have finite entries."""
    weighted = [weights[:, None] * slope for slope in slopes]
    return tuple((entering.T @ slope, slope.sum(axis=0)) for entering, slope in zip(inputs, weighted, strict=True))


def gradient_norms(inputs: list[Any], slopes: list[Any], *, xp: ModuleType) -> Any:
    """Computes the L2 norm of each example's whole gradient without forming it; shape (n,)."""
    squares = [
        ((entering**2).sum(axis=1) + 1.0) * (slope**2).sum(axis=1)
        for entering, slope in zip(inputs, slopes, strict=True)
    ]
    return xp.sqrt(sum(squares[1:], squares[0]))

"""Layers of models, with norms of example gradients that need no formed gradient.

The part of a layer in the gradient of an example follows from its input and the slope of the loss at its output. The
clipped numbers must be exactly the measured ones: a layer computes a norm only if norm and sum use the same numbers
without cancellation. (The norm of a sum over positions by inner products of all pairs has cancellation, so that in
floating point a gradient could seem shorter than it is.) Otherwise, the gradients of the layer are formed for each
example in the precision of the model, and the rounded numbers are measured and summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np

from epsilog.terms import check
from epsilog.training.clipping import LARGEST_MODEL

Arrays = tuple[Any, ...]


class Layer(Protocol):
    """A part of a model. A custom layer returns None from ``example_norms``, which clipping trusts."""

    def init(self, draws: np.random.Generator) -> Arrays:
        """Return the starting parameters, from public draws."""

    def apply(self, params: Arrays, x: Any) -> Any:
        """Return the output for ``x`` (n, ...), row by row; shape (n, ...)."""

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """Return the squared norm of each example's gradient, and slopes with the same gradient.

        Args:
            x: the input, in float64 for norms; shape (n, ...). Whether the result is None depends on shapes only.
            slopes: slopes of each example's loss at the output; shape (n, ...).

        Returns:
            Squared norms (n,), and slopes of which no two are summed into one number of the gradient; None if
            gradients must be formed.
        """


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense layer with bias: (n, ..., inputs) -> (n, ..., outputs).

    Attributes:
        inputs: input width.
        outputs: output width.
        gain: the starting weights are normals of variance ``gain`` / inputs (He et al. 2015: 2 before a ReLU).
    """

    inputs: Annotated[int, check.integer(1)]
    outputs: Annotated[int, check.integer(1)]
    gain: Annotated[float, check.at_least(0)] = 2.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few((self.inputs + 1) * self.outputs)

    def init(self, draws: np.random.Generator) -> Arrays:
        """Return He's normals, and zeros for the bias."""
        return _normals(draws, (self.inputs, self.outputs), self.gain / self.inputs), np.zeros(self.outputs)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Return the weighted sums."""
        weights, bias = params
        return x @ weights + bias

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """Return norms of outer products of (x, 1) and the slopes (Goodfellow 2015, arXiv:1510.01799)."""
        if x.ndim > 2:
            return None
        return ((x**2).sum(axis=1) + 1.0) * (slopes**2).sum(axis=1), slopes


@dataclass(frozen=True, slots=True)
class Embedding:
    """An embedding: (n, ...) -> (n, ..., width). An invalid id counts as the nearest valid one.

    Attributes:
        ids: number of ids.
        width: width of the embedding.
        gain: the starting numbers are normals of variance ``gain`` / width.
    """

    ids: Annotated[int, check.integer(1)]
    width: Annotated[int, check.integer(1)]
    gain: Annotated[float, check.at_least(0)] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few(self.ids * self.width)

    def init(self, draws: np.random.Generator) -> Arrays:
        """Return normals."""
        return (_normals(draws, (self.ids, self.width), self.gain / self.width),)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Return the embedding of each id."""
        import jax.numpy as jnp

        return params[0][jnp.clip(x, 0, self.ids - 1).astype(jnp.int32)]

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """Return norms of the slopes, after a sum over equal ids of an example."""
        import jax.numpy as jnp

        ids = jnp.clip(x, 0, self.ids - 1).reshape(len(x), -1)
        each = slopes.reshape(*ids.shape, self.width)
        same = ids[:, :, None] == ids[:, None, :]
        first = jnp.argmax(same, axis=2) == jnp.arange(ids.shape[1])
        merged = jnp.where(first[:, :, None], jnp.einsum("nts,nsk->ntk", same.astype(each.dtype), each), 0.0)
        return (merged**2).sum(axis=(1, 2)), merged.reshape(slopes.shape)


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution: (n, h, w, inputs) -> (n, h - kernel + 1, w - kernel + 1, outputs).

    Windows are the columns of one matrix product (im2col). On a CPU this is many times faster than XLA's convolution
    for example gradients. Copies are whole lines of an image, and both float64 products have a fast layout for XLA.

    Attributes:
        inputs: input channels.
        outputs: output channels.
        kernel: width and height of a window.
        gain: the starting weights are normals of variance ``gain`` over the numbers of a window.
    """

    inputs: Annotated[int, check.integer(1)]
    outputs: Annotated[int, check.integer(1)]
    kernel: Annotated[int, check.integer(1)]
    gain: Annotated[float, check.at_least(0)] = 2.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few((self.kernel**2 * self.inputs + 1) * self.outputs)

    def init(self, draws: np.random.Generator) -> Arrays:
        """Return He's normals, and zeros for the bias."""
        rows = self.kernel**2 * self.inputs
        return _normals(draws, (rows, self.outputs), self.gain / rows), np.zeros(self.outputs)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Return the weighted sums over windows."""
        import jax.numpy as jnp

        weights, bias = params
        high, wide = (size - self.kernel + 1 for size in x.shape[1:3])
        planes, offsets = jnp.moveaxis(x, -1, 0), range(self.kernel)
        beside = jnp.concatenate([planes[..., right : right + wide] for right in offsets])
        windows = jnp.concatenate([beside[:, :, down : down + high] for down in offsets])
        sums = (weights.T @ windows.reshape(len(weights), -1)).reshape(self.outputs, len(x), high, wide)
        return jnp.moveaxis(sums, 0, -1) + bias

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:  # noqa: ARG002 - as every layer
        """Return None: the gradient sums over windows, and the layer has few weights."""
        return None


@dataclass(frozen=True, slots=True)
class Bias:
    """Equal numbers for each row, starting from zero: (n, ...) -> (n, width).

    Attributes:
        width: the width.
    """

    width: Annotated[int, check.integer(1)]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few(self.width)

    def init(self, draws: np.random.Generator) -> Arrays:  # noqa: ARG002 - as every layer
        """Return zeros."""
        return (np.zeros(self.width),)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Return the numbers for each row."""
        import jax.numpy as jnp

        return jnp.broadcast_to(params[0], (len(x), self.width))

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:  # noqa: ARG002 - as every layer
        """Return norms of the slopes, which are the gradient."""
        return (slopes**2).sum(axis=1), slopes


def _require_few(parameters: int) -> int:
    """Refuse a layer with more parameters than a model may have, before it allocates memory."""
    return check.integer(1, LARGEST_MODEL)(parameters=parameters)


def _normals(draws: np.random.Generator, shape: tuple[int, int], variance: float) -> Any:
    return draws.standard_normal(shape) * np.sqrt(variance) if variance else np.zeros(shape)

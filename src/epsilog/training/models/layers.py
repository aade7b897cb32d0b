"""Layers: pieces of models of which each example's gradient is known without forming it for the whole model.

A layer's part of an example's gradient follows from what enters the layer and the loss's slope at its output. What is
clipped must be exactly what was measured: a layer gives a norm only where norm and sum come from the same numbers
without cancellation. (The norm of a sum over positions by inner products of all pairs cancels, and in floating point a
gradient could pass for shorter than it is.) Elsewhere the layer's own gradients are formed, one an example, in the
precision of the model; what they round to is measured and summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np

from epsilog.terms import check
from epsilog.training.clipping import LARGEST_MODEL

Arrays = tuple[Any, ...]


class Layer(Protocol):
    """A piece of a model with parameters of its own. A layer of your own says None to ``ghost``: clips rest on it."""

    def init(self, draws: np.random.Generator) -> Arrays:
        """The starting parameters, from public draws."""

    def apply(self, params: Arrays, x: Any) -> Any:
        """What the layer makes of ``x`` (n, ...); shape (n, ...). A row is its own."""

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """The squared norm of each example's gradient, and slopes that stand for that very gradient.

        Args:
            x: what entered, in float64 where norms are measured; shape (n, ...). Whether the answer is None depends on
                shapes alone.
            slopes: of each example's loss at what left; shape (n, ...).

        Returns:
            Squares (n,), and slopes of which no two add up to one number of the gradient; None where gradients must be
            formed.
        """


@dataclass(frozen=True, slots=True)
class Dense:
    """Weighted sums and a bias: (n, ..., inputs) -> (n, ..., outputs).

    Attributes:
        inputs: numbers that enter.
        outputs: numbers that leave.
        gain: the starting weights are normals of variance ``gain`` / inputs (He et al. 2015: 2 before a ReLU).
    """

    inputs: Annotated[int, check.integer(1)]
    outputs: Annotated[int, check.integer(1)]
    gain: Annotated[float, check.at_least(0)] = 2.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few((self.inputs + 1) * self.outputs)

    def init(self, draws: np.random.Generator) -> Arrays:
        """He's normals, and zeros for the bias."""
        return _normals(draws, (self.inputs, self.outputs), self.gain / self.inputs), np.zeros(self.outputs)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Weighted sums."""
        weights, bias = params
        return x @ weights + bias

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """A gradient is the outer product of (x, 1) and its slope (Goodfellow 2015, arXiv:1510.01799)."""
        if x.ndim > 2:
            return None
        return ((x**2).sum(axis=1) + 1.0) * (slopes**2).sum(axis=1), slopes


@dataclass(frozen=True, slots=True)
class Embedding:
    """A row of numbers for each id: (n, ...) -> (n, ..., width). An id that there is not counts as the nearest.

    Attributes:
        ids: how many there are.
        width: numbers that stand for one.
        gain: the starting numbers are normals of variance ``gain`` / width.
    """

    ids: Annotated[int, check.integer(1)]
    width: Annotated[int, check.integer(1)]
    gain: Annotated[float, check.at_least(0)] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few(self.ids * self.width)

    def init(self, draws: np.random.Generator) -> Arrays:
        """Normals."""
        return (_normals(draws, (self.ids, self.width), self.gain / self.width),)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Looks the ids up."""
        import jax.numpy as jnp

        return params[0][jnp.clip(x, 0, self.ids - 1).astype(jnp.int32)]

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:
        """The slopes of one id's places in an example add up before they are measured."""
        import jax.numpy as jnp

        ids = jnp.clip(x, 0, self.ids - 1).reshape(len(x), -1)
        each = slopes.reshape(*ids.shape, self.width)
        same = ids[:, :, None] == ids[:, None, :]
        first = jnp.argmax(same, axis=2) == jnp.arange(ids.shape[1])
        merged = jnp.where(first[:, :, None], jnp.einsum("nts,nsk->ntk", same.astype(each.dtype), each), 0.0)
        return (merged**2).sum(axis=(1, 2)), merged.reshape(slopes.shape)


@dataclass(frozen=True, slots=True)
class Conv:
    """Weighted sums over windows of an image: (n, h, w, inputs) -> (n, h - kernel + 1, w - kernel + 1, outputs).

    Windows are laid out side by side (im2col), so that the sums are one matrix product: on a CPU that is many times
    faster than XLA's convolution where each example's gradient is asked for. A column is a window, so that what is
    copied are whole lines of an image, and both products of doubles are of the kind that XLA does well.

    Attributes:
        inputs: channels that enter.
        outputs: channels that leave.
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
        """He's normals, and zeros for the bias."""
        rows = self.kernel**2 * self.inputs
        return _normals(draws, (rows, self.outputs), self.gain / rows), np.zeros(self.outputs)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Weighted sums over windows."""
        import jax.numpy as jnp

        weights, bias = params
        high, wide = (size - self.kernel + 1 for size in x.shape[1:3])
        planes, offsets = jnp.moveaxis(x, -1, 0), range(self.kernel)
        beside = jnp.concatenate([planes[..., right : right + wide] for right in offsets])
        windows = jnp.concatenate([beside[:, :, down : down + high] for down in offsets])
        sums = (weights.T @ windows.reshape(len(weights), -1)).reshape(self.outputs, len(x), high, wide)
        return jnp.moveaxis(sums, 0, -1) + bias

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:  # noqa: ARG002 - as every layer
        """None: windows are summed over, and a layer's weights are few."""
        return None


@dataclass(frozen=True, slots=True)
class Bias:
    """The same numbers for every row, from zero: (n, ...) -> (n, width).

    Attributes:
        width: how many.
    """

    width: Annotated[int, check.integer(1)]

    def __post_init__(self) -> None:
        check.check_fields(self)
        _require_few(self.width)

    def init(self, draws: np.random.Generator) -> Arrays:  # noqa: ARG002 - as every layer
        """Zeros."""
        return (np.zeros(self.width),)

    def apply(self, params: Arrays, x: Any) -> Any:
        """The numbers, whatever enters."""
        import jax.numpy as jnp

        return jnp.broadcast_to(params[0], (len(x), self.width))

    def example_norms(self, x: Any, slopes: Any) -> tuple[Any, Any] | None:  # noqa: ARG002 - as every layer
        """The slopes are the gradient."""
        return (slopes**2).sum(axis=1), slopes


def _require_few(parameters: int) -> int:
    """Refuse a layer of more parameters than a model may have, before memory is asked for."""
    return check.integer(1, LARGEST_MODEL)(parameters=parameters)


def _normals(draws: np.random.Generator, shape: tuple[int, int], variance: float) -> Any:
    return draws.standard_normal(shape) * np.sqrt(variance) if variance else np.zeros(shape)

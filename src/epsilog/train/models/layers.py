"""Layers: pieces of models that know how long each example's gradient is without forming it.

A layer's part of an example's gradient follows from what enters the layer and the loss's slope at its output. ``apply``
takes inputs (n, ...) and is linear in the parameters; a row of its output is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from epsilog.terms import check

Arrays = tuple[Any, ...]


class Layer(Protocol):
    """A piece of a model."""

    def init(self, draws: np.random.Generator) -> Arrays:
        """The starting parameters, from public draws."""

    def apply(self, params: Arrays, x: Any) -> Any:
        """What the layer makes of ``x`` (n, ...); shape (n, ...)."""

    def squared_norms(self, x: Any, slopes: Any) -> Any:
        """Of each example's gradient, from what entered and the loss's slope at what left; shape (n,)."""


@dataclass(frozen=True, slots=True)
class Dense:
    """Weighted sums and a bias: (n, inputs) -> (n, outputs).

    Attributes:
        inputs: numbers that enter.
        outputs: numbers that leave.
        gain: the starting weights are normals of variance ``gain`` / inputs (He et al. 2015: 2 before a ReLU).
    """

    inputs: int
    outputs: int
    gain: float = 2.0

    def __post_init__(self) -> None:
        check.fields(self, inputs=check.integer(1), outputs=check.integer(1), gain=check.at_least(0))

    def init(self, draws: np.random.Generator) -> Arrays:
        """He's normals, and zeros for the bias."""
        shape = self.inputs, self.outputs
        scale = np.sqrt(self.gain / self.inputs)
        return (draws.standard_normal(shape) * scale if self.gain else np.zeros(shape)), np.zeros(self.outputs)

    def apply(self, params: Arrays, x: Any) -> Any:
        """Weighted sums."""
        weights, bias = params
        return x @ weights + bias

    def squared_norms(self, x: Any, slopes: Any) -> Any:
        """Of each example's gradient, which is the outer product of (x, 1) and its slope (Goodfellow 2015)."""
        return ((x**2).sum(axis=1) + 1.0) * (slopes**2).sum(axis=1)

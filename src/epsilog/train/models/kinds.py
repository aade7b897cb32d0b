"""The kinds of models that are shipped: each a few public options, checked, from which a model is built."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from epsilog.terms import CheckError, check
from epsilog.train.models.base import Model, layered
from epsilog.train.models.layers import Dense
from epsilog.train.models.own import Own, is_own


class Kind(Hashable, Protocol):
    """A kind of model with its options."""

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """The model for rows of ``inputs`` features, and so many classes, or real targets."""


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense layers with ReLU between them.

    Attributes:
        hidden: widths of the hidden layers.
    """

    name: ClassVar[str] = "mlp"
    hidden: tuple[int, ...] = (16,)

    def __post_init__(self) -> None:
        check.fields(self, hidden=check.each(check.integer(1)))

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """As ``Kind`` says."""
        return _dense("mlp", (inputs, *self.hidden, classes or 1), classes, {"hidden": list(self.hidden)}, gain=2.0)


@dataclass(frozen=True, slots=True)
class Linear:
    """Weighted sums of the features, from zero."""

    name: ClassVar[str] = "linear"

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """As ``Kind`` says."""
        return _dense("linear", (inputs, classes or 1), classes, {}, gain=0.0)


KINDS: dict[str, Callable[..., Kind]] = {kind.name: kind for kind in (Linear, Mlp)}


def choose(kind: str, /, beside: Path = Path(), **options: Any) -> Kind:
    """A kind of model with its options, checked.

    Args:
        kind: one of ``KINDS``, or module:factory.
        beside: the folder of that module's file.
        **options: of the kind.

    Raises:
        CheckError: an unknown kind or option, or one that is out of its bounds.
    """
    if is_own(kind):
        return Own.read(kind, beside, options)
    made = KINDS[check.one_of(tuple(KINDS))(kind=kind)]
    known = [one.name for one in fields(made)]  # type: ignore[arg-type] # kinds are dataclasses
    for name, value in options.items():
        if name not in known:
            raise CheckError(name, f"an option of {kind} ({', '.join(known) or 'it has none'})", repr(value))
    return made(**options)


def build(kind: str, /, *, inputs: int, classes: int | None, **options: Any) -> Model:
    """Builds a model of a kind that is known by name.

    Args:
        kind: one of ``KINDS``, or module:factory for a Python file in the current folder.
        inputs: features of a row.
        classes: how many classes there are; None where targets are real numbers.
        **options: of the kind.

    Raises:
        CheckError: an unknown kind or option, or one that is out of its bounds.

    >>> build("mlp", inputs=3, classes=None, hidden=[16]).size
    81
    """
    return built(choose(kind, **options), inputs=inputs, classes=classes)


def built(kind: Kind, *, inputs: int, classes: int | None) -> Model:
    """The model of a kind; the same one again, so that what was compiled for it serves again."""
    inputs, classes = check.integer(1)(inputs=inputs), check.optional(check.integer(2))(classes=classes)
    return _built(kind, inputs, classes)


@lru_cache(maxsize=256)
def _built(kind: Kind, inputs: int, classes: int | None) -> Model:
    return kind.build(inputs=inputs, classes=classes)


def _dense(name: str, widths: tuple[int, ...], classes: int | None, facts: dict[str, Any], *, gain: float) -> Model:
    layers = tuple(Dense(*pair, gain=gain) for pair in itertools.pairwise(widths))

    def forward(call: Callable[[int, Any], Any], x: Any) -> Any:
        import jax

        for place in range(len(layers) - 1):
            x = jax.nn.relu(call(place, x))
        return call(len(layers) - 1, x)

    loss = "half-squared-error" if classes is None else "cross-entropy"
    return layered(layers, forward, loss, classes=classes, inputs=widths[0], name=name, facts=facts, shipped=True)

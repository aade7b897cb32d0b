"""The built-in kinds of models, each with a few checked public options."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

from epsilog.terms import CheckError, check
from epsilog.training.models.base import MOST_IDS, Call, Forward, Model, build_layered_model
from epsilog.training.models.custom import CustomModel, WarmStart, is_custom
from epsilog.training.models.layers import Bias, Conv, Dense, Embedding, Layer


class ModelKind(Hashable, Protocol):
    """A kind of model with its options."""

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model for rows of ``inputs`` features, and for classes or real targets."""


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense layers with ReLU between them.

    Attributes:
        hidden: widths of the hidden layers.
    """

    name: ClassVar[str] = "mlp"
    hidden: Annotated[tuple[int, ...], check.sequence_of(check.integer(1))] = (16,)

    def __post_init__(self) -> None:
        check.check_fields(self)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        return _dense(self, (inputs, *self.hidden, classes or 1), classes, gain=2.0)


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear model that starts from zero."""

    name: ClassVar[str] = "linear"

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        return _dense(self, (inputs, classes or 1), classes, gain=0.0)


@dataclass(frozen=True, slots=True)
class Cnn:
    """Convolutions with 2 x 2 max pooling and ReLU, then dense layers, for images.

    A row is an image line by line, with the channels of a pixel next to each other.

    Attributes:
        filters: output channels of each convolution.
        kernel: width and height of the windows.
        hidden: widths of the dense layers before the last.
        height: height of an image; None for a square.
        channels: channels of a pixel.
    """

    name: ClassVar[str] = "cnn"
    filters: Annotated[tuple[int, ...], check.sequence_of(check.integer(1))] = (16, 32)
    kernel: Annotated[int, check.integer(1)] = 5
    hidden: Annotated[tuple[int, ...], check.sequence_of(check.integer(1))] = (32,)
    height: Annotated[int | None, check.optional(check.integer(1))] = None
    channels: Annotated[int, check.integer(1)] = 1

    def __post_init__(self) -> None:
        check.check_fields(self)
        if not self.filters:
            raise CheckError("filters", "at least one convolution", "none", verb="name")

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        shape = self._shape(inputs)
        high, wide, channels = shape
        layers: list[Layer] = []
        for filters in self.filters:
            layers.append(Conv(channels, filters, self.kernel))
            high, wide, channels = (high - self.kernel + 1) // 2, (wide - self.kernel + 1) // 2, filters
            if min(high, wide) < 1:
                raise CheckError("filters", f"few enough for images of {shape[0]} x {shape[1]}", f"{self.filters}")
        stack = [Dense(*pair) for pair in itertools.pairwise((high * wide * channels, *self.hidden, classes or 1))]
        convolutions = len(layers)

        def forward(call: Call, x: Any) -> Any:
            import jax

            x = x.reshape(len(x), *shape)
            for place in range(convolutions):
                x = jax.nn.relu(_max_pool(call(place, x)))
            return _apply_layers(call, x.reshape(len(x), -1), range(convolutions, convolutions + len(stack)))

        return _build_bundled_model(self, (*layers, *stack), forward, inputs, classes)

    def _shape(self, inputs: int) -> tuple[int, int, int]:
        """Return height, width and channels of images with this number of inputs."""
        pixels = inputs // self.channels
        high = self.height or math.isqrt(pixels)
        wide = pixels // high if high else 0
        square = self.height is not None or high == wide
        if high * wide * self.channels != inputs or not square:
            kind = "square images" if self.height is None else f"images {self.height} high"
            raise CheckError("inputs", f"the numbers of {kind} with {self.channels} channels", f"{inputs}")
        return high, wide, self.channels


@dataclass(frozen=True, slots=True)
class Recommender:
    """A model of ratings from the rated item and from other items of the same user.

    A row holds the id of an item and the ids of other items of the user, padded with 0, which is no item. These ids are
    all that represents a user: the model has no parameters for single users.

    Attributes:
        items: number of ids, with 0.
        width: width of the embeddings.
    """

    name: ClassVar[str] = "recommender"
    items: Annotated[int, check.integer(2, MOST_IDS)]
    width: Annotated[int, check.integer(1)] = 8

    def __post_init__(self) -> None:
        check.check_fields(self)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        if classes is not None:
            raise CheckError("classes", "absent for recommender: ratings are real numbers", f"{classes}")
        tables = (
            Embedding(self.items, 1, gain=0.0),
            Embedding(self.items, self.width),
            Embedding(self.items, self.width),
        )
        taken = tables if inputs > 1 else tables[:2]

        def forward(call: Call, x: Any) -> Any:
            import jax.numpy as jnp

            item, others = x[:, 0], x[:, 1:]
            taste = call(len(taken), x)
            if inputs > 1:
                there = (others > 0)[:, :, None]
                taste = taste + (call(2, others) * there).sum(axis=1) / jnp.maximum(there.sum(axis=1), 1)
            worth = (call(1, item) * taste).sum(axis=1, keepdims=True)
            return call(len(taken) + 1, x) + call(0, item) + worth

        return _build_bundled_model(self, (*taken, Bias(self.width), Bias(1)), forward, inputs, None, ids=self.items)


@dataclass(frozen=True, slots=True)
class NextCharacter:
    """A model of the next symbol of a text; a row holds the ids of the symbols before it.

    Attributes:
        width: width of the embedding.
        hidden: widths of the hidden layers.
        symbols: number of symbols; None for the number of classes.
    """

    name: ClassVar[str] = "next-character"
    width: Annotated[int, check.integer(1)] = 8
    hidden: Annotated[tuple[int, ...], check.sequence_of(check.integer(1))] = (64,)
    symbols: Annotated[int | None, check.optional(check.integer(1, MOST_IDS))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)

    def build(self, *, inputs: int, classes: int | None) -> Model:
        """Return the model, as ``ModelKind`` specifies."""
        if classes is None:
            raise CheckError("classes", "given for next-character", "None")
        symbols = self.symbols or classes
        stack = [Dense(*pair) for pair in itertools.pairwise((inputs * self.width, *self.hidden, classes))]

        def forward(call: Call, x: Any) -> Any:
            return _apply_layers(call, call(0, x).reshape(len(x), -1), range(1, 1 + len(stack)))

        return _build_bundled_model(
            self, (Embedding(symbols, self.width), *stack), forward, inputs, classes, ids=symbols
        )


KINDS: dict[str, Callable[..., ModelKind]] = {
    kind.name: kind for kind in (Linear, Mlp, Cnn, Recommender, NextCharacter)
}


def parse_model_kind(kind: str, /, folder: Path = Path(), warm_start: Any = None, **options: Any) -> ModelKind:
    """Return a kind of model with checked options.

    Args:
        kind: one of ``KINDS``, or module:factory.
        folder: the folder of the file of that module, and of ``warm_start``.
        warm_start: public starting parameters, an array (d,) or the path of an .npy file; None for the default ones.
        **options: options of the kind.

    Raises:
        CheckError: a kind or option is unknown, or an option is out of its bounds.
    """
    if warm_start is not None:
        return WarmStart.read(parse_model_kind(kind, folder, **options), warm_start, folder)
    if is_custom(kind):
        return CustomModel.read(kind, folder, options)
    made = KINDS[check.one_of(tuple(KINDS))(kind=kind)]
    known = [one.name for one in fields(made)]  # type: ignore[arg-type] # kinds are dataclasses
    for name, value in options.items():
        if name not in known:
            raise CheckError(name, f"an option of {kind} ({', '.join(known) or 'it has none'})", repr(value))
    for one in fields(made):  # type: ignore[arg-type]
        if one.default is MISSING and one.name not in options:
            raise CheckError(one.name, f"given for {kind}", "nothing")
    return made(**options)


def build_model(kind: str, /, *, inputs: int, classes: int | None, **options: Any) -> Model:
    """Return a model of a named kind.

    Args:
        kind: one of ``KINDS``, or module:factory for a Python file in the current folder.
        inputs: number of features of a row.
        classes: number of classes; None if targets are real numbers.
        **options: options of the kind.

    Raises:
        CheckError: a kind or option is unknown, or an option is out of its bounds.

    >>> build_model("mlp", inputs=3, classes=None, hidden=[16]).size
    81
    """
    return get_cached_model(parse_model_kind(kind, **options), inputs=inputs, classes=classes)


def get_cached_model(kind: ModelKind, *, inputs: int, classes: int | None) -> Model:
    """Return the model of a kind; equal arguments return the same object, so that compiled code is reused."""
    inputs, classes = check.integer(1)(inputs=inputs), check.optional(check.integer(2))(classes=classes)
    return _build_layers(kind, inputs, classes)


@lru_cache(maxsize=32)
def _build_layers(kind: ModelKind, inputs: int, classes: int | None) -> Model:
    return kind.build(inputs=inputs, classes=classes)


def _dense(kind: Any, widths: tuple[int, ...], classes: int | None, *, gain: float) -> Model:
    layers = tuple(Dense(*pair, gain=gain) for pair in itertools.pairwise(widths))
    return _build_bundled_model(
        kind, layers, lambda call, x: _apply_layers(call, x, range(len(layers))), widths[0], classes
    )


def _build_bundled_model(
    kind: Any, layers: tuple[Layer, ...], forward: Forward, inputs: int, classes: int | None, *, ids: int | None = None
) -> Model:
    """Return a model of a kind; its options are its facts."""
    facts = {one.name: getattr(kind, one.name) for one in fields(kind)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}
    loss = "half-squared-error" if classes is None else "cross-entropy"
    return build_layered_model(
        layers, forward, loss, classes=classes, ids=ids, inputs=inputs, name=kind.name, facts=plain, shipped=True
    )


def _apply_layers(call: Call, x: Any, places: range) -> Any:
    """Return the output of a sequence of layers with ReLU between them."""
    import jax

    for place in places[:-1]:
        x = jax.nn.relu(call(place, x))
    return call(places[-1], x)


def _max_pool(x: Any) -> Any:
    """Return the largest number of each 2 x 2 square; incomplete squares at the edges are dropped."""
    count, high, wide, channels = x.shape
    squares = x[:, : high // 2 * 2, : wide // 2 * 2].reshape(count, high // 2, 2, wide // 2, 2, channels)
    return squares.max(axis=(2, 4))

"""Training data: built-in data sets by name, and custom data of the user (``custom``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from epsilog.terms import check
from epsilog.training.data import chem97, fashion_mnist
from epsilog.training.data.custom import CustomData, read_column_types as read_column_types
from epsilog.training.data.dataset import Dataset
from epsilog.training.data.schema import (
    DataSchema as DataSchema,
    Feature as Feature,
    Target as Target,
    parse_feature as parse_feature,
    parse_target as parse_target,
)
from epsilog.training.models import ModelKind, parse_model_kind
from epsilog.training.task import LocalTraining, Task

__all__ = [
    "CustomData",
    "load_dataset",
    "load_task",
]

SHIPPED: dict[str, Callable[[str, Path], Dataset]] = {
    "chem97": chem97.load_chem97,
    "fashion-mnist": fashion_mnist.load_fashion_mnist,
}
"""Loaders of data sets by name; each takes a privacy unit and a folder for converted files."""


def load_dataset(name: str, *, unit: str, cache: Path | None = None) -> Dataset:
    """Return a built-in data set for a privacy unit.

    Args:
        name: one of ``SHIPPED``.
        unit: a privacy unit of the data set.
        cache: folder for converted files; None for ``$XDG_CACHE_HOME/epsilog`` or ``~/.cache/epsilog``.

    Raises:
        CheckError: the name or the unit is unknown.
        ConfigError: the data are not installed, or their hash is wrong.
    """
    load = SHIPPED[check.one_of(tuple(SHIPPED))(name=name)]
    return load(unit, cache or get_default_cache())


def get_default_cache() -> Path:
    """Return the folder of the user for converted data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "epsilog"


def load_task(
    name: str,
    *,
    unit: str,
    model: str | ModelKind,
    learning_rate: float,
    local_steps: int = 1,
    expected_examples: int = 10,
    cache: Path | None = None,
) -> Task:
    """Return a training task on a built-in data set.

    Args:
        name: one of ``SHIPPED``.
        unit: a privacy unit of the data set.
        model: a kind of model by name, or with options (``models.parse_model_kind``).
        learning_rate: learning rate of each local step.
        local_steps: local steps of a client per round, at the client level.
        expected_examples: the public client size by which steps are scaled, at the example level.
        cache: as in ``load_dataset``.

    Raises:
        CheckError: the name, the unit or the model is unknown.
        ConfigError: the data are not installed, or their hash is wrong.
    """
    training = LocalTraining(learning_rate, local_steps=local_steps, expected_examples=expected_examples)
    kind = parse_model_kind(model) if isinstance(model, str) else model
    return load_dataset(name, unit=unit, cache=cache).task(kind, training)

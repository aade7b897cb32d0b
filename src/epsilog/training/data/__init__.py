"""Data to train on: sets that ship with a package, loaded here by name, and the user's own (``custom``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from epsilog.terms import check
from epsilog.training.data import chem97, fashion_mnist
from epsilog.training.data.custom import CustomData, read_column_types
from epsilog.training.data.dataset import Dataset, TestSet
from epsilog.training.data.schema import DataSchema, Feature, Target, parse_feature, parse_target
from epsilog.training.models import ModelKind, parse_model_kind
from epsilog.training.task import LocalTraining, Task

__all__ = [
    "SHIPPED",
    "CustomData",
    "DataSchema",
    "Feature",
    "Target",
    "TestSet",
    "get_default_cache",
    "load_dataset",
    "load_task",
    "parse_feature",
    "parse_target",
    "read_column_types",
]

SHIPPED: dict[str, Callable[[str, Path], Dataset]] = {
    "chem97": chem97.load_chem97,
    "fashion-mnist": fashion_mnist.load_fashion_mnist,
}
"""By name, what loads a set for a privacy unit, given a folder for converted files."""


def load_dataset(name: str, *, unit: str, cache: Path | None = None) -> Dataset:
    """Load a shipped set of data for a privacy unit.

    Args:
        name: one of ``SHIPPED``.
        unit: one of the set's own words.
        cache: folder for converted files; None for ``$XDG_CACHE_HOME/epsilog`` or ``~/.cache/epsilog``.

    Raises:
        CheckError: an unknown name or unit.
        ConfigError: the data is not installed, or is not the data it should be.
    """
    load = SHIPPED[check.one_of(tuple(SHIPPED))(name=name)]
    return load(unit, cache or get_default_cache())


def get_default_cache() -> Path:
    """The folder of the user's that holds fetched and converted data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "epsilog"


def load_task(
    name: str,
    *,
    unit: str,
    model: str | ModelKind,
    learning_rate: float,
    local_steps: int = 1,
    nominal_examples: int = 10,
    cache: Path | None = None,
) -> Task:
    """Load a shipped set of data as a training problem.

    Args:
        name: one of ``SHIPPED``.
        unit: one of the set's own words.
        model: a kind of model by its name, or one with its options (``models.choose``).
        learning_rate: of every local step.
        local_steps: steps a client takes in a round, at the client level.
        nominal_examples: the public client size that steps are scaled by, at the example level.
        cache: as in ``load_dataset``.

    Raises:
        CheckError: an unknown name, unit or model.
        ConfigError: the data is not installed, or is not the data it should be.
    """
    training = LocalTraining(learning_rate, local_steps=local_steps, nominal_examples=nominal_examples)
    kind = parse_model_kind(model) if isinstance(model, str) else model
    return load_dataset(name, unit=unit, cache=cache).task(kind, training)

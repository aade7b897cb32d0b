"""What is trained on what: clients' data as padded arrays, a public test set, a model and its local training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import CheckError, check
from epsilog.train import clipping
from epsilog.train.models import Dense

Floats = NDArray[np.floating[Any]]
PRECISIONS = ("float32", "float64")


@dataclass(frozen=True, slots=True, eq=False)
class Federation:
    """Every client's examples, padded to the largest client.

    Attributes:
        features: shape (clients, n, f); float32 or float64, which is also the precision of local training.
        targets: shape (clients, n); real numbers, or class numbers.
        present: shape (clients, n); False where a row is padding.
    """

    features: Floats
    targets: NDArray[Any]
    present: NDArray[np.bool_]

    def __post_init__(self) -> None:
        _require_arrays(features=self.features, targets=self.targets, present=self.present)
        shape = self.features.shape
        if len(shape) != 3 or 0 in shape:
            raise CheckError("features", "shape (clients, n, f), each at least 1", f"{shape}", verb="have")
        if self.targets.shape != shape[:2]:
            raise CheckError("targets", f"shape {shape[:2]}", f"{self.targets.shape}", verb="have")
        if self.present.shape != shape[:2]:
            raise CheckError("present", f"shape {shape[:2]}", f"{self.present.shape}", verb="have")
        check.one_of(PRECISIONS)(features_dtype=str(self.features.dtype))
        check.one_of(("bool",))(present_dtype=str(self.present.dtype))

    def usable(self, model: Dense) -> NDArray[np.bool_]:
        """Which rows a step can use: present, every number finite and within reach, a label of some class."""
        reach = clipping.reach(self.features.dtype)
        within: NDArray[np.bool_] = self.present & (np.abs(self.features) <= reach).all(axis=2)
        if model.classes is None:
            within &= np.abs(self.targets) <= reach
        else:
            within &= (self.targets >= 0) & (self.targets < model.classes)
        return within

    @property
    def count(self) -> int:
        """Clients in all."""
        return int(self.features.shape[0])


@dataclass(frozen=True, slots=True)
class Training:
    """How a client computes its update; all of it public.

    Attributes:
        learning_rate: of every local step.
        local_steps: steps a client takes in a round (client level; at the example level the scheme says).
        batch_size: rows in a local step (client level), drawn afresh every round: a client's rows are shuffled and
            taken in turn, and again from the first one when all were taken; who has fewer takes them all. None takes
            all rows in every step.
        nominal_examples: the client size that example-level steps are scaled by. A step is (sum + noise) / (p * this):
            a client's true size is private under add/remove, since one example more would rescale signal and noise.
    """

    learning_rate: float
    local_steps: int = 1
    batch_size: int | None = None
    nominal_examples: int = 10

    def __post_init__(self) -> None:
        check.fields(
            self,
            learning_rate=check.positive(),
            local_steps=check.integer(1),
            batch_size=check.optional(check.integer(1)),
            nominal_examples=check.integer(1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A training problem with its public facts.

    Attributes:
        name: of the data.
        unit: the privacy unit, in the data's own word: whole clients ("school") or examples ("pupil").
        unit_is_client: which of the two it is.
        model: what is trained.
        training: how a client computes its update.
        clients: the population's data.
        test_features: the public test set, outside the population; shape (m, f).
        test_targets: shape (m,).
        facts: public facts about the data, for reports.

    What is public is checked at birth: shapes, kinds, the test set. What clients hold is not, since a refusal would
    tell: a row that no step can use (a number that is not finite, a label of no class) is left out of training, and how
    many there were in a round is the curator's to see.
    """

    name: str
    unit: str
    unit_is_client: bool
    model: Dense
    training: Training
    clients: Federation
    test_features: Floats
    test_targets: NDArray[Any]
    facts: dict[str, Any]

    def __post_init__(self) -> None:
        check.fields(self, name=check.text(), unit=check.text())
        check.within(0, clipping.reach(self.clients.features.dtype))(learning_rate=self.training.learning_rate)
        _require_arrays(test_features=self.test_features, test_targets=self.test_targets)
        for named, width in (("clients", self.clients.features.shape[2]), ("test", self.test_features.shape[-1])):
            if width != self.model.widths[0]:
                raise ValueError(f"{named} features must have width {self.model.widths[0]}, got {width}")
        _require_kind(self.model, targets=self.clients.targets, test_targets=self.test_targets)
        _require_test_set(self.model, self.test_features, self.test_targets)

    def usable_rows(self) -> tuple[Floats, NDArray[Any], NDArray[np.bool_]]:
        """Features, targets and which rows count, as an engine takes them: zeros wherever a row does not count."""
        usable = self.clients.usable(self.model)
        features = np.where(usable[..., None], self.clients.features, 0)
        return features, _like(features, self.model, np.where(usable, self.clients.targets, 0)), usable

    def test_set(self) -> tuple[Floats, NDArray[Any]]:
        """The public test set, as an engine takes it."""
        return self.test_features, _like(self.test_features, self.model, self.test_targets)

    @property
    def examples(self) -> int:
        """Examples of all clients together; private where the unit is the client."""
        return int(self.clients.present.sum())

    @property
    def units(self) -> int:
        """Privacy units in all: the N of the guarantee."""
        return self.clients.count if self.unit_is_client else self.examples

    def describe(self) -> dict[str, Any]:
        """Returns public facts only: what a report may print."""
        return {
            "data": self.name,
            "privacy_unit": self.unit,
            "units": self.units,
            "clients": self.clients.count,
            "test_examples": int(self.test_targets.size),
            "model": {"widths": list(self.model.widths), "loss": self.model.loss, "parameters": self.model.size},
            **self.facts,
        }


def _like(features: Floats, model: Dense, targets: NDArray[Any]) -> NDArray[Any]:
    """Targets in the features' own precision; class numbers as integers."""
    return targets.astype(features.dtype if model.classes is None else np.int64)


def _require_arrays(**named: Any) -> None:
    """Names what is no array by its type alone: its values may be private."""
    for name, value in named.items():
        if not isinstance(value, np.ndarray):
            raise CheckError(name, "a numpy array", f"a {type(value).__name__}")


def _require_kind(model: Dense, **named: NDArray[Any]) -> None:
    kinds, words = ("iuf", "real numbers") if model.classes is None else ("iu", "whole class numbers")
    for name, targets in named.items():
        if targets.dtype.kind not in kinds:
            raise CheckError(name, f"{words} for {model.loss}", f"an array of {targets.dtype}")


def _require_test_set(model: Dense, features: Floats, targets: NDArray[Any]) -> None:
    """The test set is public, so what is wrong with it is said, and before anything is spent."""
    if features.ndim != 2 or not features.shape[0]:
        raise CheckError("test_features", "shape (m, f) with at least one row", f"{features.shape}", verb="have")
    if targets.shape != features.shape[:1]:
        raise CheckError("test_targets", f"shape {features.shape[:1]}", f"{targets.shape}", verb="have")
    check.one_of(PRECISIONS)(test_features_dtype=str(features.dtype))
    reach = clipping.reach(features.dtype)
    _require_everywhere("test_features", features, np.abs(features) <= reach, f"finite and at most {reach:.3g}")
    if model.classes is None:
        _require_everywhere("test_targets", targets, np.abs(targets) <= reach, f"finite and at most {reach:.3g}")
        if (targets == targets[0]).all():
            raise CheckError(
                "test_targets", "for R squared to have a meaning", f"{targets[0]} everywhere", verb="differ"
            )
    else:
        inside = (targets >= 0) & (targets < model.classes)
        _require_everywhere("test_targets", targets, inside, f"class numbers from 0 to {model.classes - 1}")


def _require_everywhere(name: str, values: NDArray[Any], holds: NDArray[np.bool_], bound: str) -> None:
    if not holds.all():
        first = tuple(int(one) for one in np.argwhere(~holds)[0])
        raise CheckError(name, bound, f"{values[first]} in row {first[0]}")

"""What is trained on what: clients' data as padded arrays, a public test set, a model and its local training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import check
from epsilog.train.models import Dense

Floats = NDArray[np.floating[Any]]


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
        if self.features.ndim != 3 or self.targets.shape != self.features.shape[:2]:
            raise ValueError(f"targets must have shape {self.features.shape[:2]}, got {self.targets.shape}")
        if self.present.shape != self.targets.shape:
            raise ValueError(f"present must have shape {self.targets.shape}, got {self.present.shape}")
        check.one_of(("float32", "float64"))(dtype=str(self.features.dtype))


@dataclass(frozen=True, slots=True)
class Training:
    """How a client computes its update; all of it public.

    Attributes:
        learning_rate: of every local step.
        local_steps: steps a client takes in a round (client level; at the example level the scheme says).
        batch_size: rows in a local step, taken in turn (client level); None takes all.
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
        for named, width in (("clients", self.clients.features.shape[2]), ("test", self.test_features.shape[1])):
            if width != self.model.widths[0]:
                raise ValueError(f"{named} features must have width {self.model.widths[0]}, got {width}")
        rows, batch = self.clients.features.shape[1], self.training.batch_size
        if batch is not None and rows % batch:
            raise ValueError(f"batch_size must divide the padded client size {rows}, got {batch}")

    @property
    def population(self) -> int:
        """Clients in all."""
        return int(self.clients.features.shape[0])

    @property
    def examples(self) -> int:
        """Examples of all clients together; private where the unit is the client."""
        return int(self.clients.present.sum())

    @property
    def units(self) -> int:
        """Privacy units in all: the N of the guarantee."""
        return self.population if self.unit_is_client else self.examples

    def describe(self) -> dict[str, Any]:
        """Returns public facts only: what a report may print."""
        return {
            "data": self.name,
            "privacy_unit": self.unit,
            "units": self.units,
            "clients": self.population,
            "test_examples": int(self.test_targets.size),
            "model": {"widths": list(self.model.widths), "loss": self.model.loss, "parameters": self.model.size},
            **self.facts,
        }

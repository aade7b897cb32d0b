"""A data set without a model: rows of clients, an optional test set, and public facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from epsilog.terms import CheckError
from epsilog.terms.disclosed import Private
from epsilog.training.federation import Federation
from epsilog.training.models import ModelKind, get_cached_model
from epsilog.training.task import LocalTraining, Task


class TestSet(NamedTuple):
    """Public examples outside the population for the scores of released models.

    Attributes:
        features: features; shape (m, f).
        targets: targets; shape (m,).
    """

    features: NDArray[Any]
    targets: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset(Private):
    """The data of a training task.

    Attributes:
        name: the name in reports.
        unit: the privacy unit, in the word of the data.
        unit_is_client: whether the unit is a whole client; else it is one row.
        clients: the rows of the population.
        test: the test set; None for no scores.
        classes: number of classes; None if targets are real numbers.
        facts: public facts for reports.
        counts_are_public: whether the numbers of units and clients are public; if not, errors do not state them.
        names: names of the clients in the order of their positions; private. Empty if positions are the names.
        notes: sentences on unprotected rows, for the operator of a run.
    """

    name: str
    unit: str
    unit_is_client: bool
    clients: Federation
    test: TestSet | None
    classes: int | None
    facts: dict[str, Any]
    counts_are_public: bool
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> int:
        """Return the number of features of a row."""
        return int(self.clients.features.shape[1])

    @property
    def units(self) -> int:
        """Return the true number of privacy units; private unless ``counts_are_public``."""
        return self.clients.count if self.unit_is_client else len(self.clients.features)

    def places(self, names: Iterable[str]) -> frozenset[int]:
        """Return the positions of clients by name; ignore unknown names, since an error would show absence."""
        known = self.names or tuple(map(str, range(self.clients.count)))
        at = {name: place for place, name in enumerate(known)}
        return frozenset(at[name] for name in names if name in at)

    def misfits(self, *, population: int, clients: int, canaries: int = 0) -> list[CheckError]:
        """Return the errors in declared counts of privacy units and of clients.

        Public counts must be exact. Others are upper limits, since empty positions do not show in releases; an error
        then discloses only that the limit is too low. Canaries count in addition to the units in the data.
        """
        found = [("population", population, self.units + canaries)]
        if not self.unit_is_client:  # else the population counts them
            found.append(("clients", clients, self.clients.count))
        if self.counts_are_public:
            return [CheckError(n, f"{true} for these data", f"{stated}") for n, stated, true in found if stated != true]
        bound = "at least the number of {} in the data (which is private: state a larger number)"
        words = {"population": "privacy units", "clients": "clients"}
        return [CheckError(n, bound.format(words[n]), f"{stated}") for n, stated, true in found if stated < true]

    def task(
        self,
        kind: ModelKind,
        training: LocalTraining,
        *,
        population: int | None = None,
        clients: int | None = None,
        sizes_are_public: bool = False,
    ) -> Task:
        """Return the training task with a model.

        Args:
            kind: the kind of model.
            training: how a client computes its update.
            population: declared number of privacy units; None if the true number is public.
            clients: declared number of clients, at least the true one; None for the true number.
            sizes_are_public: whether the number of rows of each client is public.
        """
        none = (None, None)
        features, targets = none if self.test is None else self.test
        return Task(
            name=self.name,
            unit=self.unit,
            unit_is_client=self.unit_is_client,
            model=get_cached_model(kind, inputs=self.inputs, classes=self.classes),
            training=training,
            clients=self.clients if clients is None else self.clients.pad_clients(clients),
            test_features=features,
            test_targets=targets,
            facts=self.facts,
            population=population,
            sizes_are_public=sizes_are_public,
        )

"""A set of data before a model is chosen for it: clients' rows, a test set or none, and public facts."""

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
    """Public examples outside the population, to score released models on.

    Attributes:
        features: shape (m, f).
        targets: shape (m,).
    """

    features: NDArray[Any]
    targets: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset(Private):
    """What is trained on.

    Attributes:
        name: what it is called in reports.
        unit: the privacy unit, in the data's own word.
        unit_is_client: whether that is a whole client, or one row.
        clients: the population's rows.
        test: to score models on; None for no scores at all.
        classes: how many classes there are; None where targets are real numbers.
        facts: public facts, for reports.
        counts_are_public: whether the numbers of units and clients are public. Where not, errors do not say.
        names: the clients', in the order of their places; private. Empty where a client is its place's number.
        notes: sentences on rows that nobody protects, for whoever starts a run.
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
        """Numbers in a row of features."""
        return int(self.clients.features.shape[1])

    @property
    def units(self) -> int:
        """Privacy units that are there; private unless ``counts_are_public``."""
        return self.clients.count if self.unit_is_client else len(self.clients.features)

    def places(self, names: Iterable[str]) -> frozenset[int]:
        """The places of clients by name; a name that is not there has none, and nobody is told."""
        known = self.names or tuple(map(str, range(self.clients.count)))
        at = {name: place for place, name in enumerate(known)}
        return frozenset(at[name] for name in names if name in at)

    def misfits(self, *, population: int, clients: int, canaries: int = 0) -> list[CheckError]:
        """What is wrong with declared counts of privacy units and of clients.

        Counts that are public must be these. Others are places, which may stay empty: a place without anybody does not
        show in what is released, and a refusal for want of places tells that they are too few, and no more. Canaries
        are units beside those that are there.
        """
        found = [("population", population, self.units + canaries)]
        if not self.unit_is_client:  # else the population counts them
            found.append(("clients", clients, self.clients.count))
        if self.counts_are_public:
            return [CheckError(n, f"{there} for this data", f"{said}") for n, said, there in found if said != there]
        bound = "at least the number of {} in the data (which is not told: state one with room to spare)"
        words = {"population": "privacy units", "clients": "clients"}
        return [CheckError(n, bound.format(words[n]), f"{said}") for n, said, there in found if said < there]

    def task(
        self,
        kind: ModelKind,
        training: LocalTraining,
        *,
        population: int | None = None,
        clients: int | None = None,
        sizes_are_public: bool = False,
    ) -> Task:
        """The training problem with a model of some kind.

        Args:
            kind: of model.
            training: how a client computes its update.
            population: privacy units as declared; None where how many there are is no secret.
            clients: places for clients, at least as many as there are; None for no place to spare.
            sizes_are_public: whether each client's number of rows is public.
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

"""A training task: the data of the clients, a public test set, a model and its local training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import Canaries, CheckError, check
from epsilog.training import clipping
from epsilog.training.federation import PRECISIONS, Federation, Floats, require_arrays
from epsilog.training.models import Model
from epsilog.training.models.probe import require_per_example
from epsilog.training.server_optimizer import SCHEDULES, ServerOptimizer

CANARY_SLOT_BOUND = "at most the number of empty slots after all clients"  # canaries


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """How a client computes its update; all of it public.

    Attributes:
        learning_rate: learning rate of each local step.
        local_steps: local steps per round at the client level; at the example level, the scheme determines them.
        batch_size: rows in a local step at the client level. Each round shuffles the rows of a client and takes them in
            turn, and then again from the first one. A client with fewer rows takes all of them. None takes all rows in
            each step.
        expected_examples: the public client size n by which example-level steps are scaled: (sum + noise) / (p n). The
            true size is private under add-or-remove-one, since one example more would rescale signal and noise.
        schedule: how the learning rate of clients changes over the rounds: "constant", "cosine" or "step".
        server: how the server applies the noisy step of a round.
        example_cap: number of rows from which on a client has weight 1; None gives all clients weight 1. A client
            multiplies its change by min(rows / example_cap, 1). At the client level it does so before clipping, so its
            size stays private and the cost is unchanged. At the example level the change is noisy by then, and its
            norm shows the size, so sizes must be public.
    """

    learning_rate: Annotated[float, check.positive()]
    local_steps: Annotated[int, check.integer(1)] = 1
    batch_size: Annotated[int | None, check.optional(check.integer(1))] = None
    expected_examples: Annotated[int, check.integer(1)] = 10
    schedule: Annotated[str, check.one_of(SCHEDULES)] = "constant"
    server: Annotated[ServerOptimizer, check.instance_of(ServerOptimizer)] = field(default_factory=ServerOptimizer)
    example_cap: Annotated[int | None, check.optional(check.integer(1))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)

    def weights(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the weights of clients with these numbers of rows, in [0, 1]; in the shape of ``rows``.

        >>> LocalTraining(0.1, example_cap=4).weights(np.array([0, 1, 8])).tolist()
        [0.0, 0.25, 1.0]
        """
        if self.example_cap is None:
            return np.ones(rows.shape)
        return np.minimum(rows / self.example_cap, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A training task with its public facts.

    Attributes:
        name: the name of the data.
        unit: the privacy unit in the word of the data: a whole client ("school") or an example ("pupil").
        unit_is_client: whether the unit is a whole client.
        model: the model to train.
        training: how a client computes its update.
        clients: the data of the population.
        test_features: the public test set, outside the population; shape (m, f). None for no scores.
        test_targets: its targets; shape (m,), or None.
        facts: public facts about the data, for reports.
        population: the declared number of privacy units, which is public; None if the true number is public.
        sizes_are_public: whether the number of rows of each client is public. Neighbors then keep all rows: the
            guarantee protects the content of a row (zero-out) but not its presence.
        canaries: synthetic units from ``canaries.insert_canaries``; None for none.

    Construction checks public facts: shapes, types and the test set. It does not check rows of clients, since a refusal
    would disclose them. Training leaves out a row that no step can use, such as one with a number that is not finite or
    a label of no class. Only the curator sees their number in a round.
    """

    name: Annotated[str, check.text()]
    unit: Annotated[str, check.text()]
    unit_is_client: Annotated[bool, check.boolean()]
    model: Model
    training: LocalTraining
    clients: Federation
    test_features: Floats | None
    test_targets: NDArray[Any] | None
    facts: dict[str, Any] = field(default_factory=dict)
    population: Annotated[int | None, check.optional(check.integer(1))] = None
    sizes_are_public: Annotated[bool, check.boolean()] = False
    canaries: Annotated[Canaries | None, check.optional(check.instance_of(Canaries))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)
        for name, kind in (("model", Model), ("training", LocalTraining), ("clients", Federation)):
            given = getattr(self, name)
            if not isinstance(given, kind):  # never show a value, which may be private
                raise CheckError(name, f"a {kind.__name__}", f"a {type(given).__name__}")
        if self.reveals_sizes and not self.sizes_are_public:
            raise CheckError("example_cap", "absent, or sizes_are_public true, if the unit is an example", "given")
        check.in_closed_interval(0, clipping.get_largest_trainable(self.clients.features.dtype))(
            learning_rate=self.training.learning_rate
        )
        _require_width(self.model, clients=self.clients.features)
        if not self.model.shipped:
            require_per_example(self.model, inputs=self.clients.features.shape[1])
        _require_kind(self.model, targets=self.clients.targets)
        if self.clients.names and not self.unit_is_client and self.population is None:
            raise CheckError("population", "declared if clients hold their own rows", "None")
        there = self.clients.count if self.unit_is_client else self.examples
        if self.population is not None and self.population < there:
            raise CheckError("population", "at least the number of units in the data", f"{self.population}")
        if self.canaries is not None and self.unit_is_client:
            taken = self.clients.sizes[-self.canaries.count :]  # all clients, if there are more canaries
            if self.canaries.count >= self.clients.count or taken.any():
                raise CheckError("canaries", CANARY_SLOT_BOUND, f"{self.canaries.count}")
        if self.is_scored:
            features, targets = self.test_features, self.test_targets
            require_arrays(test_features=features, test_targets=targets)
            assert features is not None
            assert targets is not None
            _require_width(self.model, test=features)
            _require_kind(self.model, test_targets=targets)
            _require_test_set(self.model, features, targets)

    def test_set(self) -> tuple[Floats, NDArray[Any]]:
        """Return the public test set for an engine; no rows if models are not scored."""
        features, targets = self.test_features, self.test_targets
        if features is None or targets is None:
            features, targets = np.zeros_like(self.clients.features[:0]), np.zeros(0)
        return features, targets.astype(self.model.target_type(features.dtype))

    @property
    def is_scored(self) -> bool:
        """Return whether released models are scored on a test set."""
        return self.test_features is not None or self.test_targets is not None

    @property
    def score_name(self) -> str:
        """Return the name of the score."""
        if not self.is_scored:
            return "no score"
        usual = "R squared" if self.model.classes is None else "accuracy"
        own = getattr(self.model.score, "__name__", "own score")
        return f"{usual if self.model.score is None else own} on the test set"

    @property
    def examples(self) -> int:
        """Return the number of examples of all clients; private if the unit is a client."""
        return len(self.clients.features)

    @property
    def units(self) -> int:
        """Return the number of privacy units: N of the guarantee."""
        there = self.clients.count if self.unit_is_client else self.examples
        return there if self.population is None else self.population

    @property
    def reveals_sizes(self) -> bool:
        """Return whether uploads show the number of rows of a client: noise for examples, multiplied by a weight."""
        return self.training.example_cap is not None and not self.unit_is_client

    def describe(self) -> dict[str, Any]:
        """Return the public facts that a report may print."""
        sizes: dict[str, Any] = {"client_sizes": "public"} if self.reveals_sizes else {}
        canaries = {} if self.canaries is None else {"canaries": self.canaries.count}
        return {
            "data": self.name,
            "privacy_unit": self.unit,
            "units": self.units,
            "clients": self.clients.count,
            "test_examples": 0 if self.test_targets is None else int(self.test_targets.size),
            "model": self.model.describe(),
            "score": self.score_name,
            **sizes,
            **canaries,
            **self.facts,
        }


def _require_width(model: Model, **named: Floats) -> None:
    for name, features in named.items():
        if model.inputs not in (None, features.shape[-1]):
            raise CheckError(f"{name} features", f"width {model.inputs}", f"{features.shape[-1]}", verb="have")


def _require_kind(model: Model, **named: NDArray[Any]) -> None:
    kinds, words = ("iuf", "real numbers") if model.classes is None else ("iu", "whole class numbers")
    for name, targets in named.items():
        if targets.dtype.kind not in kinds:
            raise CheckError(name, f"{words} for {model.loss_name}", f"an array of {targets.dtype}")


def _require_test_set(model: Model, features: Floats, targets: NDArray[Any]) -> None:
    """Check the public test set before anything is spent; an error may state its values."""
    if features.ndim != 2 or not features.shape[0]:
        raise CheckError("test_features", "shape (m, f) with at least one row", f"{features.shape}", verb="have")
    if targets.shape != features.shape[:1]:
        raise CheckError("test_targets", f"shape {features.shape[:1]}", f"{targets.shape}", verb="have")
    check.one_of(PRECISIONS)(test_features_dtype=str(features.dtype))
    reach = clipping.get_largest_trainable(features.dtype)
    taken = f"finite and at most {reach:.3g}" if model.ids is None else f"whole numbers from 0 to {model.ids - 1}"
    _require_everywhere("test_features", features, model.takes(features, reach=reach), taken)
    if model.classes is None:
        _require_everywhere("test_targets", targets, np.abs(targets) <= reach, f"finite and at most {reach:.3g}")
        if (targets == targets[0]).all():
            raise CheckError("test_targets", "for R squared to be defined", f"{targets[0]} everywhere", verb="differ")
    else:
        inside = (targets >= 0) & (targets < model.classes)
        _require_everywhere("test_targets", targets, inside, f"class numbers from 0 to {model.classes - 1}")
        if model.score is None and (targets == targets[0]).all():
            given = f"class {targets[0]} in all of {targets.size}"
            raise CheckError("test_targets", "of at least two classes for accuracy to be meaningful", given)


def _require_everywhere(name: str, values: NDArray[Any], holds: NDArray[np.bool_], bound: str) -> None:
    if not holds.all():
        first = tuple(int(one) for one in np.argwhere(~holds)[0])
        raise CheckError(name, bound, f"{values[first]} in row {first[0]}")

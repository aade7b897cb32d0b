"""What is trained on what: clients' data, a public test set, a model and its local training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from epsilog.terms import Canaries, CheckError, check
from epsilog.training import clipping, models
from epsilog.training.federation import PRECISIONS, Federation, Floats, require_arrays
from epsilog.training.models import Model
from epsilog.training.server_optimizer import SCHEDULES, ServerOptimizer

CANARY_SLOT_BOUND = "at most the places that are empty, behind everybody's"  # canaries


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """How a client computes its update; all of it public.

    Attributes:
        learning_rate: of every local step.
        local_steps: steps a client takes in a round (client level; at the example level the scheme says).
        batch_size: rows in a local step (client level), drawn afresh every round. A client's rows are shuffled and
            taken in turn, and again from the first one when all were taken. A client with fewer rows takes them all.
            None takes all rows in every step.
        nominal_examples: the client size that example-level steps are scaled by. A step is (sum + noise) / (p * this):
            a client's true size is private under add/remove, since one example more would rescale signal and noise.
        schedule: by which clients' learning rate changes over the rounds: "constant", "cosine" or "step".
        server: how the server moves the model along a round's noisy step.
        example_cap: a client with so many rows counts whole, one with fewer in proportion; None counts all alike. A
            client multiplies its own change by min(rows / this, 1). Where whole clients are protected it does so before
            the clip, so its size stays private and no price changes. At the example level the change is noisy by then,
            and its length tells the size: sizes must be public.
    """

    learning_rate: Annotated[float, check.positive()]
    local_steps: Annotated[int, check.integer(1)] = 1
    batch_size: Annotated[int | None, check.optional(check.integer(1))] = None
    nominal_examples: Annotated[int, check.integer(1)] = 10
    schedule: Annotated[str, check.one_of(SCHEDULES)] = "constant"
    server: Annotated[ServerOptimizer, check.instance_of(ServerOptimizer)] = field(default_factory=ServerOptimizer)
    example_cap: Annotated[int | None, check.optional(check.integer(1))] = None

    def __post_init__(self) -> None:
        check.check_fields(self)

    def weights(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """How much clients with so many rows each count, between 0 and 1; in the shape of ``rows``.

        >>> LocalTraining(0.1, example_cap=4).weights(np.array([0, 1, 8])).tolist()
        [0.0, 0.25, 1.0]
        """
        if self.example_cap is None:
            return np.ones(rows.shape)
        return np.minimum(rows / self.example_cap, 1.0)


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
        test_features: the public test set, outside the population; shape (m, f). None for no scores at all.
        test_targets: shape (m,), or None likewise.
        facts: public facts about the data, for reports.
        population: privacy units as declared, which is public; None where how many there are is no secret.
        sizes_are_public: whether each client's number of rows is public. A neighbor then keeps them all: the
            promise is for what a row holds (zero-out), and no longer for whether it is there.
        canaries: made-up units among the others, which ``canaries.enrol`` puts in; None for none.

    Public facts are checked at construction: shapes, kinds, the test set. Clients' rows are not, since a refusal would
    disclose them. Training leaves out a row that no step can use (a number that is not finite, a label of no class).
    Only the curator sees how many there were in a round.
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
            if not isinstance(given, kind):  # its values may be private
                raise CheckError(name, f"a {kind.__name__}", f"a {type(given).__name__}")
        if self.reveals_sizes and not self.sizes_are_public:
            raise CheckError("example_cap", "absent, or sizes_are_public, where the unit is an example", "given")
        check.in_closed_interval(0, clipping.get_largest_trainable(self.clients.features.dtype))(
            learning_rate=self.training.learning_rate
        )
        _require_width(self.model, clients=self.clients.features)
        if not self.model.shipped:
            models.require_per_example(self.model, inputs=self.clients.features.shape[1])
        _require_kind(self.model, targets=self.clients.targets)
        if self.clients.names and not self.unit_is_client and self.population is None:
            raise CheckError("population", "declared where rows lie with their clients", "None")
        there = self.clients.count if self.unit_is_client else self.examples
        if self.population is not None and self.population < there:
            raise CheckError("population", "at least the number of units that there are", f"{self.population}")
        if self.canaries is not None and self.unit_is_client:
            taken = self.clients.sizes[-self.canaries.count :]  # of more canaries than clients: all of them
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
        """The public test set, as an engine takes it; no rows where models are not scored."""
        features, targets = self.test_features, self.test_targets
        if features is None or targets is None:
            features, targets = np.zeros_like(self.clients.features[:0]), np.zeros(0)
        return features, targets.astype(self.model.target_type(features.dtype))

    @property
    def is_scored(self) -> bool:
        """Whether there is a test set to score released models on."""
        return self.test_features is not None or self.test_targets is not None

    @property
    def score_name(self) -> str:
        """What the score is."""
        if not self.is_scored:
            return "no score"
        usual = "R squared" if self.model.classes is None else "accuracy"
        own = getattr(self.model.score, "__name__", "own score")
        return f"{usual if self.model.score is None else own} on the test set"

    @property
    def examples(self) -> int:
        """Examples of all clients together; private where the unit is the client."""
        return len(self.clients.features)

    @property
    def units(self) -> int:
        """Privacy units in all: the N of the guarantee."""
        there = self.clients.count if self.unit_is_client else self.examples
        return there if self.population is None else self.population

    @property
    def reveals_sizes(self) -> bool:
        """Whether what leaves a client tells how many rows it has: it holds whole examples' noise, times a weight."""
        return self.training.example_cap is not None and not self.unit_is_client

    def describe(self) -> dict[str, Any]:
        """Return public facts only: what a report may print."""
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
    """The test set is public, so what is wrong with it is said, and before anything is spent."""
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
            raise CheckError(
                "test_targets", "for R squared to have a meaning", f"{targets[0]} everywhere", verb="differ"
            )
    else:
        inside = (targets >= 0) & (targets < model.classes)
        _require_everywhere("test_targets", targets, inside, f"class numbers from 0 to {model.classes - 1}")
        if model.score is None and (targets == targets[0]).all():
            given = f"class {targets[0]} in all of {targets.size}"
            raise CheckError("test_targets", "of two classes or more for accuracy to have a meaning", given)


def _require_everywhere(name: str, values: NDArray[Any], holds: NDArray[np.bool_], bound: str) -> None:
    if not holds.all():
        first = tuple(int(one) for one in np.argwhere(~holds)[0])
        raise CheckError(name, bound, f"{values[first]} in row {first[0]}")

"""What the API is asked, as strict models: shapes and types here, bounds in the library, which names them better."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from epsilog.mechanisms import read_trials
from epsilog.terms import DeltaPolicy, NeighboringRelation, fields, parameters

Relation = Literal["add-or-remove-one", "replace-one", "zero-out"]
Sampling = Literal["poisson", "fixed-size", "balls-in-bins"]
Mechanism = Literal["laplace", "gaussian"]
LateReplies = Literal["zero", "first", "again"]
LONGEST_TEXT = 4 * 1024 * 1024  # characters
Short = Annotated[str, Field(max_length=80)]


class Ask(BaseModel):
    """Unknown fields, NaN and text for numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def told(field: fields.Field, example: Any = None) -> Any:
    """A field for a description: its words and bounds stand in the API; the library enforces them, by name."""
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "le": "maximum"}
    bounds: dict[str, Any] = {names[name]: bound for name, bound in field.bounds.items()}
    more = {
        "x-symbol": field.symbol,
        "x-at-most": field.le_field,
        "x-blank": field.none_means,
        "x-choices": dict(field.choices),
    }
    extra = bounds | {name: value for name, value in more.items() if value}
    return Field(description=field.help, examples=None if example is None else [example], json_schema_extra=extra)


LONGEST_NOTE = 64 * 1024  # characters of a signature or a checkpoint


class ReportAsk(Ask):
    """A report, a bundle of a ledger, or both, to be checked, with what an auditor kept elsewhere."""

    report: Annotated[
        str | None, Field(description="report.json or report.html, its whole text", max_length=LONGEST_TEXT)
    ] = None
    bundle: Annotated[
        str | None, Field(description="a bundle of the ledger that paid, its whole text", max_length=LONGEST_TEXT)
    ] = None
    record: Annotated[
        str | None, Field(description="a calculator's stamped record, its whole text", max_length=LONGEST_TEXT)
    ] = None
    signature: Annotated[
        str | None, Field(description="the report's signature (.intoto.jsonl)", max_length=LONGEST_NOTE)
    ] = None
    checkpoint: Annotated[
        str | None, Field(description="a checkpoint that was kept: the bundle begins with it", max_length=LONGEST_NOTE)
    ] = None
    key: Annotated[
        str | None, Field(description="whose signature counts: the public line NAME+ID+KEY", max_length=1000)
    ] = None


class FederatedSchedule(Ask):
    """The public facts of a federated run."""

    population: Annotated[int, told(parameters.POPULATION, 50_000)]
    cohort_size: Annotated[int, told(parameters.COHORT_SIZE, 500)]
    rounds: Annotated[int, told(parameters.ROUNDS, 200)]
    noise_multiplier: Annotated[float, told(parameters.NOISE_MULTIPLIER, 1.2)]
    clip_norm: Annotated[float, told(parameters.CLIP_NORM)] = 1.0
    delta: Annotated[float | None, told(parameters.DELTA)] = None
    delta_cap: Annotated[float | None, told(parameters.DELTA_CAP)] = 1e-6
    sampling: Annotated[Sampling, told(parameters.SAMPLING)] = "poisson"
    relation: Annotated[Relation, told(parameters.RELATION)] = "add-or-remove-one"
    privacy_unit: Annotated[Short, told(parameters.PRIVACY_UNIT)] = "client"
    releases_per_period: Annotated[int, told(parameters.RELEASES_PER_PERIOD)] = 1

    def arguments(self) -> dict[str, Any]:
        """For ``plan.federated``."""
        given = self.model_dump(include=set(FederatedSchedule.model_fields) - {"delta_cap"})
        return given | {"relation": NeighboringRelation(self.relation), "policy": DeltaPolicy(self.delta_cap)}


class FederatedAsk(FederatedSchedule):
    """A schedule with the boundary of the claim."""

    without_replacement: Annotated[bool, told(parameters.WITHOUT_REPLACEMENT)] = True
    rounds_per_release: Annotated[int, told(parameters.ROUNDS_PER_RELEASE), Field(ge=1)] = 1
    adaptive_clip: Annotated[bool, told(parameters.ADAPTIVE_CLIP)] = False
    late_replies: Annotated[LateReplies, told(parameters.LATE)] = "zero"
    group: Annotated[int, told(parameters.GROUP), Field(ge=1, le=64)] = 1
    trials: Annotated[Short | None, told(parameters.TRIALS)] = None

    def arguments(self) -> dict[str, Any]:
        """For ``plan.federated``."""
        trials = None if self.trials is None else read_trials(self.trials)
        return super().arguments() | {"group": self.group, "trials": trials}


class FederatedVerdictAsk(FederatedAsk):
    """A schedule, and the policy that it is held against."""

    cap: Annotated[float | None, Field(description="the policy's cap on epsilon", gt=0)] = None


class ReferenceAsk(Ask):
    """A file that a calculation belongs to, by its hash."""

    what: Literal["model", "data", "playbook", "other"]
    name: Annotated[str, Field(description="what its owner calls it; no path", max_length=120)]
    sha256: Annotated[str, Field(description="of its bytes, 64 hex digits", max_length=64)]


class Owned(Ask):
    """What the owner of a calculation says in its record; no number is read from it."""

    delta_reason: Annotated[str | None, Field(description="why this delta, in words", max_length=1000)] = None
    references: Annotated[list[ReferenceAsk], Field(max_length=20)] = []

    def question(self) -> dict[str, Any]:
        """What was asked, without what was said of it."""
        return self.model_dump(exclude=set(Owned.model_fields))


class FederatedRecordAsk(FederatedAsk, Owned):
    """A federated calculation, with what its owner says in the record."""


class FederatedGoal(FederatedSchedule):
    """A schedule with a goal: its own noise and rounds are what the inverse questions vary."""

    epsilon: Annotated[float, told(parameters.EPSILON, 2.0)]

    def arguments(self) -> dict[str, Any]:
        """For ``plan.noise_for`` and ``plan.rounds_for``, once the one that is looked for is left out."""
        return super().arguments() | {"epsilon": self.epsilon}


class QueriesAsk(Ask):
    """A budget over several queries."""

    epsilon: Annotated[float, told(parameters.TOTAL_EPSILON, 1.0)]
    queries: Annotated[int, told(parameters.QUERIES, 100)]
    sensitivity: Annotated[float, told(parameters.SENSITIVITY)] = 1.0
    mechanism: Annotated[Mechanism, told(parameters.MECHANISM)] = "laplace"
    delta: Annotated[float | None, told(parameters.TOTAL_DELTA)] = None
    delta_cap: Annotated[float | None, told(parameters.DELTA_CAP)] = 1e-6
    queries_used: Annotated[int, told(parameters.QUERIES_USED)] = 0
    weights: Annotated[list[float] | None, told(parameters.WEIGHTS), Field(max_length=1000)] = None
    population: Annotated[int | None, told(parameters.UNITS)] = None
    magnitude: Annotated[float | None, told(parameters.MAGNITUDE)] = None

    def arguments(self) -> dict[str, Any]:
        """For ``plan.queries``."""
        return self.model_dump(include=set(QueriesAsk.model_fields) - {"delta_cap"}) | {
            "policy": DeltaPolicy(self.delta_cap)
        }


class QueriesVerdictAsk(QueriesAsk):
    """A budget over several queries, and the policy that it is held against."""

    cap: Annotated[float | None, Field(description="the policy's cap on epsilon", gt=0)] = None


class QueriesRecordAsk(QueriesAsk, Owned):
    """A query calculation, with what its owner says in the record."""


class CrossoverAsk(Ask):
    """Laplace against Gaussian under one budget."""

    epsilon: float
    delta: float
    queries: Annotated[int | None, Field(description="a number of queries to compare at, beside the usual ones")] = None


class SensitivityAsk(Ask):
    """One count, bounded sum or mean."""

    query: Literal["count", "sum", "mean"]
    contributions: int = 1
    low: float = 0.0
    high: float = 1.0
    size: int | None = None
    relation: Relation = "add-or-remove-one"


class Part(Ask):
    """One kind of release in a mix."""

    mechanism: Literal["gaussian", "laplace", "randomized-response", "pure", "approximate", "zcdp", "gdp"]
    parameter: float = Field(description="noise multiplier, flip probability, epsilon, rho or mu")
    second: float | None = Field(None, description="delta of a stated (epsilon, delta), or categories")
    sampling_probability: float = 1.0
    count: int = 1


class MixAsk(Ask):
    """A mix of releases with one question about it."""

    parts: list[Part] = Field(min_length=1, max_length=20)
    delta: float = Field(1e-6, description="failure probability, in [0, 1)")
    relation: Relation = "add-or-remove-one"
    fpr: float = Field(0.01, description="false-positive rate at which to read the trade-off curve")


class MixVerdictAsk(MixAsk):
    """A mix of releases, and the policy that it is held against."""

    cap: Annotated[float | None, Field(description="the policy's cap on epsilon", gt=0)] = None


class CompareAsk(Ask):
    """Two releases, with the point of each curve that is of interest."""

    first: Part
    second: Part
    delta: float = Field(1e-6, description="failure probability at which epsilons are told, in (0, 1)")
    relation: Relation = "add-or-remove-one"
    fpr: float = Field(0.01, description="false-positive rate at which the best attacks are told, in (0, 1)")

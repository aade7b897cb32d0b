"""What the API is asked, as strict models: shapes and types here, bounds in the library, which names them better."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from epsilog.terms import DeltaPolicy, NeighboringRelation

Relation = Literal["add-or-remove-one", "replace-one", "zero-out"]
Sampling = Literal["poisson", "fixed-size", "balls-in-bins"]
Mechanism = Literal["laplace", "gaussian"]
Short = Annotated[str, Field(max_length=80)]


class Ask(BaseModel):
    """Unknown fields, NaN and text for numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class FederatedSchedule(Ask):
    """The public facts of a federated run."""

    population: int = Field(description="privacy units in all (N)", examples=[50_000])
    cohort_size: int = Field(description="units expected in a round (m)", examples=[500])
    rounds: int = Field(description="training rounds (T)", examples=[200])
    noise_multiplier: float = Field(description="noise on the sum over the clip norm (sigma)", examples=[1.2])
    clip_norm: float = Field(1.0, description="the most one unit can move the sum (C)")
    delta: float | None = Field(None, description="failure probability; blank: min(1/N, policy cap)")
    delta_cap: float | None = Field(1e-6, description="the largest delta the policy accepts; null: no cap")
    sampling: Sampling = "poisson"
    relation: Relation = "add-or-remove-one"
    privacy_unit: Short = "client"
    releases_per_period: int = Field(1, description="models released in a period on the same population")

    def arguments(self) -> dict[str, Any]:
        """For ``plan.federated``."""
        given = self.model_dump(include=set(FederatedSchedule.model_fields) - {"delta_cap"})
        return given | {"relation": NeighboringRelation(self.relation), "policy": DeltaPolicy(self.delta_cap)}


class FederatedAsk(FederatedSchedule):
    """A schedule with the boundary of the claim."""

    without_replacement: bool = Field(True, description="one unit gives at most one update a round")
    rounds_per_release: int = Field(1, ge=1, description="rounds between two models that leave the server")
    adaptive_clip: bool = Field(False, description="the clip norm is learnt from the same data")


class FederatedGoal(FederatedSchedule):
    """A schedule with a goal: its own noise and rounds are what the inverse questions vary."""

    epsilon: float = Field(description="the goal, in nats", examples=[2.0])

    def arguments(self) -> dict[str, Any]:
        """For ``plan.noise_for`` and ``plan.rounds_for``, once the one that is looked for is left out."""
        return super().arguments() | {"epsilon": self.epsilon}


class QueriesAsk(Ask):
    """A budget over several queries."""

    epsilon: float = Field(description="the total, in nats", examples=[1.0])
    queries: int = Field(description="how many queries are planned (Q)", examples=[100])
    sensitivity: float = 1.0
    mechanism: Mechanism = "laplace"
    delta: float | None = None
    delta_cap: float | None = 1e-6
    queries_used: int = 0
    weights: list[float] | None = Field(None, max_length=1000)
    population: int | None = None
    magnitude: float | None = Field(None, description="a typical true answer, to compare errors with")

    def arguments(self) -> dict[str, Any]:
        """For ``plan.queries``."""
        return self.model_dump(exclude={"delta_cap"}) | {"policy": DeltaPolicy(self.delta_cap)}


class CrossoverAsk(Ask):
    """Laplace against Gaussian under one budget."""

    epsilon: float
    delta: float


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

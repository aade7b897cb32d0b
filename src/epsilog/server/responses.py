"""What the calculators and the playground answer, for the API's description and the pages' types.

Answers are sent as the library gives them; tests hold them against these models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from functools import cache
from inspect import getdoc
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from epsilog import plan, terms

Number = Annotated[float | Literal["inf"], Field(description='a number; "inf" for an infinite one')]
Grade = Literal["void", "weak", "good"]
Message = Annotated[
    str | tuple[str, dict[str, Any]],
    Field(description="an identifier of the catalogue of messages, with its parameters; or a sentence"),
]


class ResponseModel(BaseModel):
    """Holds all that is sent, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class IntervalModel(ResponseModel):
    """A certified interval; only ``upper`` may be claimed."""

    lower: Annotated[Number | None, Field(description="null where only the upper bound is known")]
    upper: Number
    method: Message
    relation: str
    assumptions: list[Message]
    type: Literal["interval"] = "interval"
    estimate: Number | None = None
    quantity: str = "epsilon"
    given: list[tuple[str, Number]] = []


class FindingModel(ResponseModel):
    """A finding for the reader; the reference lists the codes."""

    code: str
    check: str
    status: Literal["passed", "warned", "failed", "not checked"]
    message: str
    values: dict[str, Number]


class DeltaModel(ResponseModel):
    """The failure probability that is used, and why."""

    value: float
    rationale: str
    findings: list[FindingModel]


class ClosedFormModel(ResponseModel):
    """The popular closed form: an estimate."""

    root_term: Number
    linear_term: Number
    total: Number
    dominant_term: str
    side: Literal["estimate"] = "estimate"


def _build_model(kind: Any, name: str = "", *, omit: tuple[str, ...] = (), **more: Any) -> type[ResponseModel]:
    """The model of a dataclass as plain JSON values (``codec.plain``); ``more`` are types, or pairs with a default."""
    members = _list_members(kind, {*omit, *more}) | more
    described = {each: shape if type(shape) is tuple else (shape, ...) for each, shape in members.items()}
    doc = (getdoc(kind) or "").partition("\n\n")[0]
    model: type[ResponseModel] = create_model(name or kind.__name__, __base__=ResponseModel, __doc__=doc, **described)  # type: ignore[call-overload]
    return model


def _list_members(kind: Any, omit: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass, each with its type in JSON."""
    hints = get_type_hints(kind)
    return {each.name: _shape(hints[each.name]) for each in dataclasses.fields(kind) if each.name not in omit}


@cache
def _shape(kind: Any) -> Any:
    """Return a field's type in JSON."""
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return list[_shape(parts[0])]  # type: ignore[misc]
    if type(None) in parts:
        return _shape(parts[0]) | None
    known = {
        float: Number,
        terms.messages.Message: Message,
        terms.Interval: IntervalModel,
        terms.Finding: FindingModel,
        terms.DeltaChoice: DeltaModel,
        terms.NeighboringRelation: str,
    }
    return known.get(kind) or (_build_model(kind) if dataclasses.is_dataclass(kind) else kind)


TuningCostModel = _build_model(
    plan.TuningCost, "TuningCostModel", trials=dict[str, Any], trial_distribution=str, expected=float
)


FederatedResponse = _build_model(
    plan.FederatedPlan,
    "FederatedResponse",
    omit=("schedule", "fit"),
    **_list_members(plan.Schedule) | {"clip_norm": float, "noise_multiplier": float},
    sampling_probability=float,
    noise_stddev=float,
    closed_form=ClosedFormModel,
    group_size=(int, 1),
    group_interval=(IntervalModel | None, None),
    tuning_cost=(TuningCostModel | None, None),
    closed_form_note=Message,
    delta_grade=Grade,
    delta_sentence=str,
    limits=list[FindingModel],
)


class PosteriorModel(ResponseModel):
    """What a suspicion becomes, at most."""

    prior: float
    posterior: float


class CompositionModel(ResponseModel):
    """What several such releases cost together."""

    count: int
    epsilon: Annotated[Number | None, Field(description="null where none is proven")]


class InterpretationResponse(ResponseModel):
    """What a claim means for one person; every figure is an upper bound but ``fits``."""

    epsilon: Number
    delta: float
    statement: Message
    log_odds_factor: Annotated[
        Number, Field(description="log of the factor by which odds grow, except with probability delta")
    ]
    odds: Message
    posteriors: list[PosteriorModel]
    delta_notes: list[Message]
    releases: list[CompositionModel]
    composition_note: Message
    cap: float | None
    max_releases_under_cap: Annotated[
        int | None, Field(description="such releases that fit the cap together; null without a cap")
    ]
    headroom_note: Message
    assumptions: list[Message]
    limits: Annotated[list[Message], Field(description="what the claim covers, and what it does not")]


class SnippetsResponse(ResponseModel):
    """A calculation in other tools' words, each of which gives its number again."""

    python: str
    command: str
    run_config: Annotated[str | None, Field(description="what a run config promises (TOML); null where none can")]
    no_run_config: Annotated[str | None, Field(description="why a file is absent, or refused as it is")]
    playground: Annotated[str | None, Field(description="an address; null where its form lacks words for it")]
    charge: Annotated[str, Field(description="an address of the ledger's page, with the release")]


class RiskMetricsResponse(ResponseModel):
    """What the best attack finds, and what copies cost: a report's tables, row by row."""

    rows: Annotated[list[tuple[Message, str]], Field(description="label and figure")]
    attack_note: Message
    group_rows: Annotated[list[tuple[str, str, str]], Field(description="copies, epsilon at most, at least")]
    group_note: Message


class EpsilonCurvePointModel(ResponseModel):
    """What the first rounds cost."""

    rounds: int
    lower: Annotated[Number | None, Field(description="null where only the upper bound is known")]
    upper: Number
    closed_form: Number


class EpsilonCurveResponse(ResponseModel):
    """Epsilon over rounds."""

    points: list[EpsilonCurvePointModel]


class NoiseResponse(ResponseModel):
    """The least noise that meets a goal."""

    noise_multiplier: float


class RoundsResponse(ResponseModel):
    """The most rounds that meet a goal."""

    rounds: int


class StampedCalculationModel(ResponseModel):
    """A question with its answer, and the SHA-256 of their canonical JSON."""

    record: dict[str, Any]
    sha256: str


QueriesAnswer = _build_model(
    plan.QueryPlan,
    "QueriesAnswer",
    queries=int,
    queries_left=int,
    remaining=Number,
    compatible=bool,
    saving=Number,
    relative_error_95=Number | None,
    delta_grade=Grade | None,
    delta_sentence=str | None,
)


class ProfilePointModel(ResponseModel):
    """Delta at one epsilon."""

    epsilon: float
    lower: float
    upper: float


class RatePointModel(ResponseModel):
    """The best attacker's true-positive rate at one false-positive rate."""

    fpr: float
    tpr: float


class ProfileResponse(ResponseModel):
    """The privacy profile of a mix, and what an attacker can tell."""

    profile: list[ProfilePointModel]
    roc: list[RatePointModel]
    fpr: float
    tpr: float
    advantage: float


class PointComparisonModel(ResponseModel):
    """How two releases stand at one delta, by epsilon, or at one false-positive rate, by true positives."""

    at: float
    first: IntervalModel
    second: IntervalModel
    better: Annotated[Literal["first", "second", "open"], Field(description="where the bounds are apart")]


class GaussianDPFitModel(ResponseModel):
    """The mu of Gaussian DP that a release comes close to, with both errors."""

    mu: Number
    slack: Annotated[float, Field(description="what an attacker may get beyond mu, at most")]
    regret: Annotated[float, Field(description="what mu overstates, at most")]


class ComparisonResponse(ResponseModel):
    """Two releases side by side: their curves, and words on which is weaker where."""

    outcome: Literal["first", "second", "neither", "alike", "open"]
    better: Message
    messages: list[Message]
    deltas: list[PointComparisonModel]
    fprs: list[PointComparisonModel]
    first_excess: Annotated[float, Field(description="by how much the first is easier to attack anywhere, at most")]
    second_excess: Annotated[float, Field(description="by how much the second is easier to attack anywhere, at most")]
    tolerance: float
    first_fit: GaussianDPFitModel | None
    second_fit: GaussianDPFitModel | None


class PartComparisonModel(ResponseModel):
    """One part of a report compared with its recomputation: its values, and those that differ."""

    part: str
    fields: int
    copied: Annotated[int, Field(description="attested values: that they are equal proves nothing")]
    differing: Annotated[list[tuple[str, str, str]], Field(description="place, what it says, what comes out")]


class ReportVerificationModel(ResponseModel):
    """What a report alone supports, check by check and part by part."""

    status: Literal["passed", "warned", "failed", "not checked"]
    supported_claim: Annotated[str, Field(description="the claim that is left, in a sentence")]
    findings: list[FindingModel]
    parts: list[PartComparisonModel]


ANSWERS: dict[str, tuple[type[ResponseModel], str]] = {
    "/federated": (FederatedResponse, "What a federated schedule costs"),
    "/federated/curve": (EpsilonCurveResponse, "Epsilon over rounds"),
    "/federated/noise": (NoiseResponse, "The least noise for a target epsilon"),
    "/federated/rounds": (RoundsResponse, "The most rounds for a target epsilon"),
    "/federated/verdict": (InterpretationResponse, "What a schedule means for one person"),
    "/federated/risk": (RiskMetricsResponse, "What attacks find, and what copies cost"),
    "/queries": (QueriesAnswer, "A budget split over queries"),
    "/queries/verdict": (InterpretationResponse, "What a query plan means for one person"),
    "/queries/risk": (RiskMetricsResponse, "What attacks find, and what copies cost"),
    "/queries/crossover": (_build_model(plan.QueryNoiseComparison, "CrossoverAnswer"), "Laplace against Gaussian"),
    "/sensitivity": (
        _build_model(plan.QuerySensitivity, "SensitivityAnswer"),
        "The sensitivity of a count, a bounded sum or a mean",
    ),
    "/account": (_build_model(plan.CompositionPlan, "MixAnswer"), "What a mix of releases costs"),
    "/account/profile": (ProfileResponse, "The privacy profile of a mix, and what an attacker can tell"),
    "/account/verdict": (InterpretationResponse, "What a mix of releases means for one person"),
    "/account/risk": (RiskMetricsResponse, "What attacks find, and what copies cost"),
    "/account/compare": (ComparisonResponse, "Which of two releases protects better, and where"),
}
"""What the questions of the calculators are answered with, by address, and in one line."""

"""Answers of the calculators' questions as types, where they have other members than a dataclass of ``plan``.

The API's response models and the types of the pages are derived from them. Text in ``Annotated`` describes a member.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Never, NotRequired, TypedDict

from epsilog import plan
from epsilog.terms import Finding, Interval, Message

INFINITE = 'a number; "inf" for an infinite one'
Number = Annotated[float, INFINITE]
LowerBound = Annotated[Number | None, "null where only the upper bound is known"]
ReleaseDocument = Annotated[dict[str, Any], "the release, as tagged JSON"]
Grade = Literal["void", "weak", "good"]


class ClosedFormModel(TypedDict):
    """The popular closed form: an estimate."""

    root_term: Number
    linear_term: Number
    total: Number
    dominant_term: str
    side: NotRequired[Literal["estimate"]]


class TuningCostModel(TypedDict):
    """The cost of the best of several runs."""

    trials: dict[str, Any]
    trial_distribution: str
    expected: float


class DPSGDResponse(TypedDict):
    """A DP-SGD run with its cost; one neighbor differs in one example."""

    release: NotRequired[ReleaseDocument]  # the browser's own answer has none
    examples: int
    batch_size: int
    epochs: float | None
    steps: Annotated[int, "noisy steps"]
    passes: Annotated[int, "epochs that were begun; shuffled batches use an example at most once in each"]
    sampling_probability: Annotated[float | None, "of an example, in each step; null for shuffled batches"]
    noise_multiplier: float
    noise_stddev: Annotated[float, "of the noise on each coordinate of a batch's average gradient"]
    clip_norm: float
    sampler: str
    max_batch_size: int | None
    delta: float
    delta_grade: Grade
    delta_sentence: str
    relation: str
    epsilon: Interval
    other_sampler: Annotated[str, "the other loader"]
    other_epsilon: Annotated[Interval, "of the same run with the other loader"]
    loader_note: Message


class FoundResponse(TypedDict):
    """What the best attack finds."""

    found: Annotated[
        int | None, "of 1,000 examples, where 10 of 1,000 others are wrongly accused; null without a proof"
    ]
    meaning: list[Message]


class FederatedResponse(TypedDict):
    """A schedule with its cost."""

    schedule: Never
    fit: Never
    release: NotRequired[ReleaseDocument]  # the browser's own answer has none
    clip_norm: float
    noise_multiplier: float
    sampling_probability: float
    noise_stddev: float
    closed_form: ClosedFormModel
    group_size: NotRequired[int]
    group_interval: NotRequired[Interval | None]
    tuning_cost: NotRequired[Annotated[dict[str, Any], plan.TuningCost, TuningCostModel] | None]
    closed_form_note: Message
    delta_grade: Grade
    delta_sentence: str
    limits: list[Finding]


class EpsilonCurvePointModel(TypedDict):
    """The cost of the first rounds."""

    rounds: int
    lower: LowerBound
    upper: Number
    closed_form: Number


class EpsilonCurveResponse(TypedDict):
    """Epsilon over rounds."""

    points: list[EpsilonCurvePointModel]


class NoiseResponse(TypedDict):
    """The least noise that meets a goal."""

    noise_multiplier: float


class RoundsResponse(TypedDict):
    """The most rounds that meet a goal."""

    rounds: int


class PosteriorModel(TypedDict):
    """An upper bound on the posterior probability."""

    prior: float
    posterior: float


class CompositionModel(TypedDict):
    """The joint cost of several such releases."""

    count: int
    epsilon: Annotated[Number | None, "null where none is proven"]


class InterpretationResponse(TypedDict):
    """The meaning of a claim for one person: upper bounds, and the number of releases under a cap."""

    epsilon: Number
    delta: float
    statement: Message
    log_odds_factor: Annotated[
        Number, "logarithm of the factor by which odds change at most, except with probability delta"
    ]
    odds: Message
    posteriors: list[PosteriorModel]
    delta_notes: list[Message]
    releases: list[CompositionModel]
    composition_note: Message
    cap: float | None
    max_releases_under_cap: Annotated[
        int | None, "number of such releases that fit the cap together; null without a cap"
    ]
    headroom_note: Message
    assumptions: list[Message]
    limits: Annotated[list[Message], "what the claim covers, and what it does not"]


class RiskMetricsResponse(TypedDict):
    """Bounds on attacks, and the cost of copies: a report's tables, by row."""

    rows: Annotated[list[tuple[Message, str]], "label and figure"]
    attack_note: Message
    group_rows: Annotated[list[tuple[str, str, str]], "copies, epsilon at most, at least"]
    group_note: Message


class QueriesResponse(TypedDict):
    """A budget split over queries, with the noise of each."""

    release: NotRequired[ReleaseDocument]
    queries: int
    queries_left: int
    remaining: Number
    compatible: bool
    saving: Number
    relative_error_95: Number | None
    delta_grade: Grade | None
    delta_sentence: str | None


class CompositionResponse(TypedDict):
    """What several releases cost together, and each of them."""

    release: ReleaseDocument


class ProfilePointModel(TypedDict):
    """Delta at one epsilon."""

    epsilon: float
    lower: float
    upper: float


class RatePointModel(TypedDict):
    """The best attacker's true-positive rate at one false-positive rate."""

    fpr: float
    tpr: float


class ProfileResponse(TypedDict):
    """The privacy profile of several releases, and the best attack on them."""

    profile: list[ProfilePointModel]
    roc: list[RatePointModel]
    fpr: float
    tpr: float
    advantage: float


class DeploymentModel(TypedDict):
    """A published privacy budget."""

    name: Annotated[str, "publisher and release"]
    protects: Annotated[str, "how much of a person's data one unit holds"]
    epsilon: float
    delta: float
    rho: Annotated[float | None, "of zCDP, where that was published"]
    source: str


class VerdictResponse(TypedDict):
    """A verdict card; every figure is an upper bound."""

    found: Annotated[int, "of 1,000 units, those that the best attack finds"]
    guessed: Annotated[int, "those that a blind guess finds"]
    leaked: Annotated[int, "further ones if the participation list leaks"]
    epsilon: Number
    prior: float
    posterior: Annotated[float, "after an accusation; at most 0.999 is printed"]
    banner: Annotated[list[Message], "what must be read before a rehearsal's figures"]
    headline: Message
    notes: Annotated[list[Message], "what guessing finds, and where the figures come from"]
    suspicion: Message
    highest: Message
    claim: Message
    origin: Annotated[list[Message], "the report that the figures come from, and its verdict"]
    unprotected: Annotated[list[Message], "what the claim does not protect"]
    published_note: Message
    published: list[DeploymentModel]
    units: Annotated[str, "the privacy unit, in the plural"]
    date: str
    engine: str
    text: Annotated[str, "the card as text: what the hash covers"]
    sha256: str


class CertifyResponse(TypedDict):
    """A certificate, with what it proves."""

    certificate: Annotated[str, "the file, without its line end"]
    epsilon: Annotated[float, "what is proven, in nats, rounded up"]
    sha256: Annotated[str, "of the text"]
    claim: Annotated[list[tuple[str, str]], "what is proven, as names and values"]
    message: Annotated[str, "what the checker says"]
    checker_sha256: Annotated[str, "of the checker, dp_certificate.py"]


class PointComparisonModel(TypedDict):
    """How two releases compare at one delta, by epsilon, or at one false-positive rate, by true positives."""

    at: float
    first: Interval
    second: Interval
    better: Annotated[Literal["first", "second", "open"], "points at which the bounds differ"]


class GaussianDPFitModel(TypedDict):
    """The closest mu of Gaussian DP, with both errors."""

    mu: Number
    slack: Annotated[float, "upper bound on an attacker's excess over mu"]
    regret: Annotated[float, "upper bound on the overstatement by mu"]


class ComparisonResponse(TypedDict):
    """A comparison of two releases: their curves, and the weaker one at each point."""

    outcome: Literal["first", "second", "neither", "alike", "open"]
    better: Message
    messages: list[Message]
    deltas: list[PointComparisonModel]
    fprs: list[PointComparisonModel]
    first_excess: Annotated[float, "upper bound on the largest TPR excess of the first"]
    second_excess: Annotated[float, "upper bound on the largest TPR excess of the second"]
    tolerance: float
    first_fit: GaussianDPFitModel | None
    second_fit: GaussianDPFitModel | None

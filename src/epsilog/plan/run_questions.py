"""The calculators' questions about runs and queries, and their answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from epsilog import plan
from epsilog.mechanisms import BestOfTrials, parse_trials
from epsilog.plan import responses, sentences
from epsilog.plan.query_sensitivity import QUERIES
from epsilog.plan.question import Question
from epsilog.terms import DeltaPolicy, NeighboringRelation, codec, fields, parameters
from epsilog.terms.fields import DOWN, Field
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from epsilog.plan import DPSGDPlan, FederatedPlan, QueryPlan

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
CAP = Field("the policy's cap on epsilon", gt=0, none_means="no cap", rounding=DOWN)


class DPSGDQuestion(
    Question,
    path="/dp-sgd",
    schema="DPSGDRequest",
    work=lambda ask: (0.2 if ask.epsilon is None else 2.0) + (1.0 if ask.relation == "replace-one" else 0.0),
):
    """A DP-SGD run with its loader: the cost of its noise, or the noise for a target."""

    examples: Annotated[int, parameters.EXAMPLES]
    batch_size: Annotated[int, parameters.BATCH_SIZE]
    delta: Annotated[float, parameters.RUN_DELTA]
    epochs: Annotated[float | None, parameters.EPOCHS] = None
    steps: Annotated[int | None, parameters.STEPS] = None
    noise_multiplier: Annotated[float | None, parameters.GIVEN_NOISE] = None
    epsilon: Annotated[float | None, parameters.TARGET_EPSILON] = None
    clip_norm: Annotated[float, parameters.CLIP_NORM] = 1.0
    sampler: Annotated[str, parameters.LOADER] = "poisson"
    max_batch_size: Annotated[int | None, parameters.MAX_BATCH_SIZE] = None
    relation: Annotated[NeighboringRelation | None, parameters.RELATION_OF_LOADER] = None

    def plan(self) -> DPSGDPlan:
        """Return the run with its cost."""
        return plan.plan_dp_sgd(**{name: getattr(self, name) for name in fields.list_fields(DPSGDQuestion)})

    def claim(self) -> dict[str, Any]:
        """The whole run."""
        found = self.plan()
        return {"release": found.release, "delta": found.delta, "relation": found.relation}

    def answer(self) -> Annotated[dict[str, Any], responses.DPSGDResponse]:
        """The certified interval, and the figure of the other loader."""
        return self.describe(self.plan())

    def describe(self, found: DPSGDPlan) -> dict[str, Any]:
        """A plan as plain JSON values, with the release for a certificate."""
        return found.to_json() | {"release": codec.to_json(found.release)}


class DPSGDAttack(DPSGDQuestion, path="/dp-sgd/attack", work=10.0):
    """Count the examples of 1,000 that an attack on a DP-SGD run finds."""

    def answer(self) -> Annotated[dict[str, Any], responses.FoundResponse]:
        """What the best attack finds, beside guessing, from the whole privacy profile."""
        planned = self.plan()
        found = planned.count_found()
        return {"found": found, "meaning": [one.to_json() for one in planned.write_meaning(found)]}


class FederatedSchedule(Question, schema="FederatedSchedule"):
    """The public facts of a federated run."""

    population: Annotated[int, parameters.POPULATION]
    cohort_size: Annotated[int, parameters.COHORT_SIZE]
    rounds: Annotated[int, parameters.ROUNDS]
    noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]
    clip_norm: Annotated[float, parameters.CLIP_NORM] = 1.0
    delta: Annotated[float | None, parameters.DELTA] = None
    delta_cap: Annotated[float | None, parameters.DELTA_CAP] = 1e-6
    sampling: Annotated[str, parameters.SAMPLING] = "poisson"
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE
    privacy_unit: Annotated[str, replace(parameters.PRIVACY_UNIT, max_length=80)] = "client"
    releases_per_period: Annotated[int, parameters.RELEASES_PER_PERIOD] = 1

    def without(self, *names: str) -> dict[str, Any]:
        """Return the arguments of a function of ``plan``, without these."""
        given = {name: getattr(self, name) for name in fields.list_fields(FederatedSchedule)}
        given["policy"] = DeltaPolicy(given.pop("delta_cap"))
        return {name: value for name, value in given.items() if name not in names}


class FederatedCurve(FederatedSchedule, path="/federated/curve", work=0.6):
    """Bound epsilon after each of several numbers of rounds."""

    def answer(self) -> Annotated[dict[str, Any], responses.EpsilonCurveResponse]:
        """Certified bounds and the closed form at up to 16 numbers of rounds."""
        points = plan.compute_epsilon_curve(plan.plan_federated(**self.without()))
        return {
            "points": [
                {
                    "rounds": point.rounds,
                    "lower": codec.encode(point.epsilon.lower),
                    "upper": codec.encode(point.epsilon.upper),
                    "closed_form": codec.encode(point.closed_form),
                }
                for point in points
            ]
        }


class FederatedGoal(FederatedSchedule, schema="FederatedGoal"):
    """A schedule with a target: the inverse questions vary its noise or its rounds."""

    epsilon: Annotated[float, parameters.EPSILON]

    def goal(self) -> dict[str, Any]:
        """The arguments of an inverse question, without the field that is sought and those that do not matter."""
        given = self.without(self.sought, "clip_norm", "privacy_unit", "releases_per_period")
        return given | {"epsilon": self.epsilon}


class FederatedNoise(FederatedGoal, path="/federated/noise", sought="noise_multiplier", work=0.6):
    """Find the least noise multiplier for a target epsilon."""

    def answer(self) -> Annotated[dict[str, Any], responses.NoiseResponse]:
        """The result is on the safe side; the schedule's own noise is ignored."""
        return {"noise_multiplier": plan.calibrate_noise(**self.goal())}


class FederatedRounds(FederatedGoal, path="/federated/rounds", sought="rounds", work=0.6):
    """Find the most rounds within a target epsilon."""

    def answer(self) -> Annotated[dict[str, Any], responses.RoundsResponse]:
        """The result is on the safe side; the schedule's own rounds are ignored."""
        return {"rounds": plan.calibrate_rounds(**self.goal())}


class FederatedQuestion(
    FederatedSchedule,
    path="/federated",
    schema="FederatedRequest",
    work=lambda ask: (
        0.1 + (0.0 if ask.group_size == 1 else ask.group_size**2 / 1000) + (0.0 if ask.trials is None else 0.5)
    ),
):
    """A schedule with the scope of its claim."""

    without_replacement: Annotated[bool, parameters.WITHOUT_REPLACEMENT] = True
    rounds_per_release: Annotated[int, parameters.ROUNDS_PER_RELEASE] = 1
    adaptive_clip: Annotated[bool, parameters.ADAPTIVE_CLIP] = False
    late_replies: Annotated[str, parameters.LATE_REPLY_POLICY] = "count-as-zero"
    group_size: Annotated[int, parameters.GROUP_SIZE] = 1
    trials: Annotated[str | None, parameters.TRIALS] = None

    def plan(self, *, fit: bool = False) -> FederatedPlan:
        """Return the schedule with its cost."""
        trials = None if self.trials is None else parse_trials(self.trials)
        return plan.plan_federated(**self.without(), group_size=self.group_size, trials=trials, fit=fit)

    def plan_of_one(self) -> FederatedPlan:
        """Return the plan of one run of those who hold one unit, and of one release."""
        return plan.plan_federated(**self.without("releases_per_period"))

    def claim(self) -> dict[str, Any]:
        """One run, or the best of several, for those who hold so many units."""
        found = self.plan_of_one()
        release = found.release if self.trials is None else BestOfTrials(found.release, parse_trials(self.trials))
        asked = {"relation": self.relation, "group_size": self.group_size}
        return {"release": release, "delta": found.delta.delta, **asked}

    def answer(self) -> Annotated[dict[str, Any], plan.FederatedPlan, plan.Schedule, responses.FederatedResponse]:
        """The certified interval, the popular closed form term by term, the grade of delta and the limits."""
        return self.describe(self.plan())

    def describe(self, found: FederatedPlan) -> dict[str, Any]:
        """A plan as plain JSON values, with the grade of delta and the limits."""
        grade, sentence = sentences.grade_delta(found.delta.delta, self.population)
        return found.to_json() | {
            "release": codec.to_json(found.release),
            "delta_grade": grade,
            "delta_sentence": sentence,
            "limits": [limit.to_json() for limit in sentences.list_limits(**self.boundary)],
        }

    @property
    def boundary(self) -> dict[str, Any]:
        """Return the conditions of the cost, which do not change it."""
        names = "sampling", "without_replacement", "rounds_per_release", "adaptive_clip", "privacy_unit", "late_replies"
        return {name: getattr(self, name) for name in names}


class FederatedInterpretation(
    FederatedQuestion, path="/federated/interpretation", schema="FederatedInterpretationRequest", work=1.0
):
    """Interpret epsilon of a schedule, against a cap."""

    cap: Annotated[float | None, CAP] = None

    def answer(self) -> Annotated[dict[str, Any], responses.InterpretationResponse]:
        """Return the statements of a report for one run: odds, repeated runs, delta at worst, available under a cap."""
        of_one = [] if self.trials is None else [Message("coverage/one-run").to_json()]
        limits = [limit.message for limit in sentences.list_limits(**self.boundary)]
        return self.plan_of_one().meaning(self.cap).to_json() | {"limits": [*of_one, *limits]}


class FederatedRisk(FederatedQuestion, path="/federated/risk", work=10.0):
    """Bound attacks on a schedule, and group epsilons."""

    def answer(self) -> Annotated[dict[str, Any], responses.RiskMetricsResponse]:
        """True positive rates, and epsilon for those who hold several units, of one run: a report's tables."""
        found, held = self.plan_of_one(), None if self.group_size == 1 else self.group_size
        delta, known = found.delta.delta, found.schedule.unamplified_release()
        reading = plan.compute_risk_metrics(
            found.release, delta=delta, relation=found.relation, known=known, held=held, fit=False
        )
        return list_risk_tables(reading, self.privacy_unit, delta)


class QueriesQuestion(Question, path="/queries", schema="QueriesRequest", work=lambda ask: 0.1 + ask.different / 500):
    """A budget over several queries."""

    epsilon: Annotated[float, parameters.TOTAL_EPSILON]
    queries: Annotated[int, parameters.QUERIES]
    sensitivity: Annotated[float, parameters.SENSITIVITY] = 1.0
    mechanism: Annotated[str, parameters.MECHANISM] = "laplace"
    delta: Annotated[float | None, parameters.TOTAL_DELTA] = None
    delta_cap: Annotated[float | None, parameters.DELTA_CAP] = 1e-6
    queries_used: Annotated[int, parameters.QUERIES_USED] = 0
    weights: Annotated[tuple[float, ...] | None, replace(parameters.WEIGHTS, max_length=1000)] = None
    population: Annotated[int | None, parameters.UNITS] = None
    magnitude: Annotated[float | None, parameters.MAGNITUDE] = None

    @property
    def different(self) -> int:
        """Releases to compose; Gaussian ones merge."""
        return 1 if self.mechanism == "gaussian" else len({*(self.weights or (1.0,))})

    def plan(self) -> QueryPlan:
        """Return the budget, split."""
        given = {name: getattr(self, name) for name in fields.list_fields(QueriesQuestion)}
        policy = DeltaPolicy(given.pop("delta_cap"))
        return plan.queries(**given, policy=policy)

    def claim(self) -> dict[str, Any]:
        """All answers together, at a delta that the budget must have."""
        found = self.plan()
        return {"release": found.release, "delta": found.delta.delta if found.delta else 0.0}

    def answer(self) -> Annotated[dict[str, Any], plan.QueryPlan, responses.QueriesResponse]:
        """Classic, exact and optimal noise; consumed and remaining budget."""
        return self.describe(self.plan())

    def describe(self, found: QueryPlan) -> dict[str, Any]:
        """A plan as plain JSON values, with the grade of delta."""
        grade, sentence = None, None
        if found.delta is not None and self.population is not None:
            grade, sentence = sentences.grade_delta(found.delta.delta, self.population)
        more = {"release": codec.to_json(found.release), "delta_grade": grade, "delta_sentence": sentence}
        return found.to_json() | more


class QueriesInterpretation(
    QueriesQuestion,
    path="/queries/interpretation",
    schema="QueriesInterpretationRequest",
    work=lambda ask: 0.5 + 0.06 * ask.different,
):
    """Interpret epsilon of all queries, against a cap."""

    cap: Annotated[float | None, CAP] = None

    def answer(self) -> Annotated[dict[str, Any], responses.InterpretationResponse]:
        """Return the statements for all answers: odds, repeated plans, delta at worst, available under a cap."""
        return self.plan().meaning(cap=self.cap).to_json() | {"limits": []}


class QueriesRisk(QueriesQuestion, path="/queries/risk", work=lambda ask: 0.5 + 0.3 * ask.different):
    """Bound attacks on all answers, and group epsilons."""

    def answer(self) -> Annotated[dict[str, Any], responses.RiskMetricsResponse]:
        """True positive rates, and epsilon for those who hold several units, of all answers: a report's tables."""
        found = self.plan()
        delta = found.delta.delta if found.delta else 0.0
        reading = plan.compute_risk_metrics(
            found.release, delta=delta, relation=_ADD_OR_REMOVE, known=found.release, fit=False
        )
        return list_risk_tables(reading | {"unamplified_mu": None}, "person", delta)  # nothing is sampled


class Crossover(Question, path="/queries/crossover", schema="CrossoverRequest", work=1.0):
    """Find where Gaussian noise becomes less than Laplace."""

    epsilon: Annotated[float, parameters.TOTAL_EPSILON]
    delta: Annotated[float, Field("total failure probability", "δ", gt=0, lt=1, rounding=DOWN, example=1e-6)]
    queries: Annotated[
        int | None, Field("additional number of queries in the comparison", "Q", ge=1, none_means="none")
    ] = None

    def answer(self) -> Annotated[dict[str, Any], plan.QueryNoiseComparison]:
        """95% errors at unit sensitivity over the number of queries, and where Gaussian noise becomes the smaller."""
        counts = sorted({*_COUNTS, *(() if self.queries is None else (self.queries,))})
        return codec.plain_fields(plan.compare_query_noise(epsilon=self.epsilon, delta=self.delta, counts=counts))


class SensitivityQuestion(Question, path="/sensitivity", schema="SensitivityRequest"):
    """Bound the sensitivity of a count, sum or mean."""

    query: Annotated[str, Field("query type", choices={name: name for name in QUERIES})]
    contributions: Annotated[int, Field("maximum number of rows per unit", ge=1)] = 1
    low: Annotated[float, Field("lower clipping bound")] = 0.0
    high: Annotated[float, Field("upper clipping bound")] = 1.0
    size: Annotated[int | None, Field("declared, public divisor of the mean", ge=1, none_means="no mean")] = None
    relation: Annotated[NeighboringRelation, parameters.RELATION] = _ADD_OR_REMOVE

    def answer(self) -> Annotated[dict[str, Any], plan.QuerySensitivity]:
        """The most one privacy unit can move the answer, and why."""
        given = {name: getattr(self, name) for name in fields.list_fields(SensitivityQuestion)}
        return codec.plain_fields(plan.compute_query_sensitivity(given.pop("query"), **given))


def list_risk_tables(reading: dict[str, Any], privacy_unit: str, delta: float) -> dict[str, Any]:
    """Return what a reading of risk is answered with: a report's tables and sentences."""
    return {
        "rows": codec.plain(sentences.list_risk_rows(reading)),
        "attack_note": sentences.write_attacks(privacy_unit).to_json(),
        "group_rows": sentences.list_group_rows(reading),
        "group_note": sentences.write_copies(delta).to_json(),
    }

"""The federated calculator: what a schedule costs, what people think it costs, and the inverse questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from epsilog.accounting import (
    FederatedClosedForm,
    GaussianDPFit,
    calibrate,
    epsilon as bound_epsilon,
    federated_closed_form,
    max_rounds,
)
from epsilog.mechanisms import (
    BallsInBins,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Release,
    Repeated,
    TrialDistribution,
)
from epsilog.numerics.roots import find_last_integer
from epsilog.plan.interpretation import Interpretation, fit_gaussian_dp_quickly, fit_json, interpret_guarantee
from epsilog.plan.pricing import RELATIVE_WIDTH, TuningCost, bound_schedule_epsilon, formula_json, plan_tuning
from epsilog.plan.sentences import write_formula
from epsilog.terms import (
    CalibrationError,
    DeltaChoice,
    DeltaPolicy,
    Interval,
    NeighboringRelation,
    UnsupportedMechanismError,
    check,
    codec,
    fields,
    parameters,
)
from epsilog.terms.charts import draw_interval_bar
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.terms.notebook import render_html_table

_MOST_EPOCHS = 2**30


@fields.document_fields
@dataclass(frozen=True, slots=True)
class Schedule:
    """The public facts of a federated run with central noise, without its cost."""

    population: Annotated[int, parameters.POPULATION]
    cohort_size: Annotated[int, parameters.COHORT_SIZE]
    rounds: Annotated[int, parameters.ROUNDS]
    noise_multiplier: Annotated[float, parameters.NOISE_MULTIPLIER]
    sampling: Annotated[str, parameters.SAMPLING] = "poisson"
    clip_norm: Annotated[float, parameters.CLIP_NORM] = 1.0

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise on the sum, in its own unit (sigma C)."""
        return self.noise_multiplier * self.clip_norm

    @property
    def sampling_probability(self) -> float:
        """Return the share of units expected in a round (q = m / N)."""
        return self.cohort_size / self.population

    def closed_form(self, delta: float, rounds: int | None = None) -> FederatedClosedForm:
        """Return the popular closed form, whole or after the first rounds: an estimate, never charged."""
        q, noise = self.sampling_probability, self.noise_multiplier
        rounds = self.rounds if rounds is None else rounds
        return federated_closed_form(sampling_probability=q, noise_multiplier=noise, rounds=rounds, delta=delta)

    @property
    def bins(self) -> int:
        """Round in an epoch, for balls-in-bins: N / m, rounded down (fewer bins never cost less)."""
        return max(1, self.population // self.cohort_size)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        more = {"sampling_probability": self.sampling_probability, "noise_stddev": self.noise_stddev}
        return fields.write_fields(self) | more

    def step(self) -> Release:
        """One round, where rounds are independent of each other."""
        noise = Gaussian(self.noise_multiplier)
        if self.sampling == "balls-in-bins":
            raise UnsupportedMechanismError(self, method="composition", reason="the rounds of an epoch are dependent")
        if self.sampling == "fixed-size":
            return FixedSizeSampled(noise, self.cohort_size, self.population)
        return PoissonSampled(noise, self.sampling_probability)

    def unamplified_release(self) -> Release:
        """Return the whole schedule with known participation."""
        return Repeated(Gaussian(self.noise_multiplier), self.rounds)

    def after(self, rounds: int) -> Release:
        """Return the first rounds as one release."""
        return replace(self, rounds=rounds).release()

    def release(self) -> Release:
        """Return the whole schedule as one release."""
        if self.sampling == "balls-in-bins":
            return BallsInBins(Gaussian(self.noise_multiplier), bins=self.bins, epochs=-(-self.rounds // self.bins))
        return Repeated(self.step(), self.rounds)


@dataclass(frozen=True, slots=True)
class FederatedPlan:
    """A schedule with its cost.

    Attributes:
        schedule: the public facts.
        delta: the failure probability used, why, and what is wrong with it.
        relation: which data sets are neighbors.
        privacy_unit: what one neighbor differs in.
        closed_form: the popular closed form, term by term: an estimate, never charged.
        epsilon: the certified interval for one run.
        unamplified: the same with known participation.
        releases_per_period: models trained and released in a reporting period on the same population.
        cumulative: the certified interval for all releases of a period together.
        group_size: the most units that one person holds.
        group_interval: the certified interval of one run for such a person; ``epsilon`` where that is one unit.
        fit: the mu of Gaussian DP that one run comes close to, with both errors; None where it was not asked for, or
            none comes close.
        tuning_cost: what the best of several runs costs; None for one run.
    """

    schedule: Schedule
    delta: DeltaChoice
    relation: NeighboringRelation
    privacy_unit: str
    closed_form: FederatedClosedForm
    epsilon: Interval
    unamplified: Interval
    releases_per_period: int
    cumulative: Interval
    group_size: int = 1
    group_interval: Interval | None = None
    fit: GaussianDPFit | None = None
    tuning_cost: TuningCost | None = None

    @property
    def release(self) -> Release:
        """Return the release of one run for accounting; without noise every sampled unit is exposed."""
        return self.schedule.release() if self.schedule.noise_multiplier > 0 else self.schedule.unamplified_release()

    def meaning(self, cap: float | None = None) -> Interpretation:
        """Interpret the cost of one run for one person; ``cap`` is the policy's cap on epsilon."""
        return interpret_guarantee(
            self.release,
            self.epsilon,
            delta=self.delta.delta,
            relation=self.relation,
            privacy_unit=self.privacy_unit,
            population=self.schedule.population,
            cap=cap,
        )

    @property
    def closed_form_note(self) -> Message:
        """Return whether the closed form under-reports."""
        return write_formula(self.closed_form.total, self.epsilon)

    def _repr_html_(self) -> str:
        rows = [
            ("epsilon", format_upper(self.epsilon.upper), f"certified, at delta {format_upper(self.delta.delta)}"),
            ("lower bound", format_lower(self.epsilon.lower), self.epsilon.method),
            ("if participation is known", format_upper(self.unamplified.upper), "no amplification by sampling"),
            ("closed form", f"{self.closed_form.total:.4g}", "an estimate, never charged"),
            ("releases together", format_upper(self.cumulative.upper), f"{self.releases_per_period} in a period"),
            ("compared with the closed form", "", str(self.closed_form_note)),
        ]
        drawn = draw_interval_bar(
            self.epsilon.lower,
            self.epsilon.upper,
            title=f"epsilon: between {format_lower(self.epsilon.lower)} and {format_upper(self.epsilon.upper)}; "
            f"the closed form says {self.closed_form.total:.4g}",
            estimate=("closed form", self.closed_form.total),
        )
        return drawn + render_html_table(f"one {self.privacy_unit}, {self.relation}", rows)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; infinite numbers are the text "inf"."""
        document = codec.plain_fields(self) | self.schedule.to_json()
        document |= {
            "closed_form": formula_json(self.closed_form),
            "fit": self.fit and fit_json(self.fit),
            "closed_form_note": self.closed_form_note.to_json(),
        }
        absent = {name for name in ("group_interval", "fit", "tuning_cost") if document[name] is None} | {"schedule"}
        absent |= {"group_size"} if self.group_interval is None else set()
        return {name: value for name, value in document.items() if name not in absent}


def plan_federated(
    *,
    population: int,
    cohort_size: int,
    rounds: int,
    noise_multiplier: float,
    delta: float | None = None,
    sampling: str = "poisson",
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: str = "client",
    releases_per_period: int = 1,
    clip_norm: float = 1.0,
    policy: DeltaPolicy | None = None,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
    fit: bool = False,
    trials: TrialDistribution | None = None,
) -> FederatedPlan:
    """Compute the cost of a federated schedule of the central model.

    Args:
        population: number of privacy units; declared, public (N).
        cohort_size: expected number of units per round (m).
        rounds: training rounds (T).
        noise_multiplier: noise standard deviation of the sum, divided by the clip norm (sigma).
        delta: failure probability; blank means min(1/N, the cap), and the plan says so.
        sampling: sampling method that the code uses for each cohort: "poisson", "fixed-size" or "balls-in-bins".
        relation: neighboring relation.
        privacy_unit: what two neighboring data sets differ in.
        releases_per_period: runs on the same population that are released per period.
        clip_norm: L2 clip norm of one unit's contribution; does not affect epsilon (C).
        policy: the delta policy; its default caps delta at 1e-6.
        relative_width: the target relative width of the interval.
        group_size: the most units that one person holds; adds the cost for that person.
        fit: whether to look for the mu that comes close, too, which takes a fraction of a second.
        trials: the distribution of the number of runs if only the best is released; adds the cost of tuning.

    Returns:
        The plan; only ``epsilon.upper`` may be claimed.

    Raises:
        UnsupportedMechanismError: no proof covers the sampling scheme under this relation.

    >>> policy = DeltaPolicy(None)
    >>> plan = plan_federated(population=50_000, cohort_size=500, rounds=200, noise_multiplier=1.2, policy=policy)
    >>> round(plan.closed_form.total, 4)
    0.5621
    """
    schedule = Schedule(population, cohort_size, rounds, noise_multiplier, sampling, clip_norm)
    privacy_unit = parameters.PRIVACY_UNIT.rule(str)(privacy_unit=privacy_unit)
    releases_per_period = parameters.RELEASES_PER_PERIOD.rule(int)(releases_per_period=releases_per_period)
    relative_width = check.in_open_interval(0, 1)(relative_width=relative_width)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    decision = (policy or DeltaPolicy()).choose_delta(delta, population=population)

    def bound_cost(count: int, group_size: int = 1) -> Interval:
        return bound_schedule_epsilon(
            schedule, decision.delta, relation, count=count, relative_width=relative_width, group_size=group_size
        )

    asked: dict[str, Any] = {"delta": decision.delta, "relation": relation, "relative_width": relative_width}
    first, group_size = bound_cost(1), check.integer(1)(group_size=group_size)
    return FederatedPlan(
        schedule=schedule,
        delta=decision,
        relation=relation,
        privacy_unit=privacy_unit,
        closed_form=schedule.closed_form(decision.delta),
        epsilon=first,
        unamplified=bound_epsilon(schedule.unamplified_release(), **asked),
        releases_per_period=releases_per_period,
        cumulative=first if releases_per_period == 1 else bound_cost(releases_per_period),
        group_size=group_size,
        group_interval=None if group_size == 1 else bound_cost(1, group_size),
        fit=_fit_gaussian_dp(schedule, relation) if check.boolean()(fit=fit) else None,
        tuning_cost=None if trials is None else plan_tuning(schedule.release(), trials, **asked),
    )


def _fit_gaussian_dp(schedule: Schedule, relation: NeighboringRelation) -> GaussianDPFit | None:
    return None if schedule.noise_multiplier == 0 else fit_gaussian_dp_quickly(schedule.release(), relation)


def calibrate_noise(
    *,
    epsilon: float,
    population: int,
    cohort_size: int,
    rounds: int,
    delta: float | None = None,
    sampling: str = "poisson",
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    policy: DeltaPolicy | None = None,
) -> float:
    """Return the least noise multiplier that keeps a schedule within ``epsilon``, on the certified side.

    Raises:
        CalibrationError: no noise meets the goal.

    >>> 0.83 < calibrate_noise(epsilon=2.0, population=50_000, cohort_size=500, rounds=200) < 0.85
    True
    """
    epsilon = parameters.EPSILON.rule(float)(epsilon=epsilon)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    decision = (policy or DeltaPolicy()).choose_delta(delta, population=population)
    schedule = Schedule(population, cohort_size, rounds, 1.0, sampling)

    def release(noise: float) -> Release:
        return replace(schedule, noise_multiplier=noise).release()

    return calibrate(release, epsilon=epsilon, delta=decision.delta, relation=relation, relative_width=RELATIVE_WIDTH)


def calibrate_rounds(
    *,
    epsilon: float,
    population: int,
    cohort_size: int,
    noise_multiplier: float,
    delta: float | None = None,
    sampling: str = "poisson",
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    policy: DeltaPolicy | None = None,
) -> int:
    """Return the most rounds that stay within ``epsilon``, on the certified side; 0 if not even one fits.

    Raises:
        CalibrationError: any number of rounds fits.
        UnsupportedMechanismError: no proof covers one round.

    >>> calibrate_rounds(epsilon=2.0, population=50_000, cohort_size=500, noise_multiplier=1.2) > 200
    True
    """
    epsilon = parameters.EPSILON.rule(float)(epsilon=epsilon)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    decision = (policy or DeltaPolicy()).choose_delta(delta, population=population)
    schedule = Schedule(population, cohort_size, 1, noise_multiplier, sampling)
    if sampling == "balls-in-bins":
        return _count_epochs(schedule, epsilon=epsilon, delta=decision.delta, relation=relation)
    step, delta = schedule.step(), decision.delta
    return max_rounds(step, epsilon=epsilon, delta=delta, relation=relation, relative_width=RELATIVE_WIDTH)


def _count_epochs(schedule: Schedule, *, epsilon: float, delta: float, relation: NeighboringRelation) -> int:
    """The rounds of the most epochs that fit: with balls-in-bins the rounds of an epoch cost what the epoch costs."""

    def fits(epochs: int) -> bool:
        release = replace(schedule, rounds=epochs * schedule.bins).release()
        return bound_epsilon(release, delta=delta, relation=relation, relative_width=RELATIVE_WIDTH).upper <= epsilon

    epochs = find_last_integer(fits, limit=_MOST_EPOCHS)
    if epochs == _MOST_EPOCHS:
        raise CalibrationError(f"any number of rounds meets epsilon {epsilon:g}")
    return epochs * schedule.bins


@dataclass(frozen=True, slots=True)
class EpsilonCurvePoint:
    """What the first ``rounds`` rounds cost: the certified interval, and what the closed form says."""

    rounds: int
    epsilon: Interval
    closed_form: float


def compute_epsilon_curve(
    plan: FederatedPlan, *, points: int = 12, relative_width: float = 0.02
) -> tuple[EpsilonCurvePoint, ...]:
    """Epsilon over rounds, at evenly spaced rounds up to the plan's own.

    Args:
        plan: a schedule with its cost.
        points: the maximum number of rounds to compute.
        relative_width: the target relative width of each interval.

    >>> plan = plan_federated(population=1000, cohort_size=10, rounds=4, noise_multiplier=2.0)
    >>> [point.rounds for point in compute_epsilon_curve(plan)]
    [1, 2, 3, 4]
    """
    points = check.integer(2)(points=points)
    schedule, delta = plan.schedule, plan.delta.delta
    rounds = _space_rounds(schedule.rounds, points)
    bounds = (
        bound_schedule_epsilon(schedule, delta, plan.relation, rounds=n, relative_width=relative_width) for n in rounds
    )
    return tuple(map(EpsilonCurvePoint, rounds, bounds, (schedule.closed_form(delta, n).total for n in rounds)))


def _space_rounds(last: int, points: int) -> Sequence[int]:
    if last <= points:
        return range(1, last + 1)
    return sorted({1, *(-(-last * i // (points - 1)) for i in range(1, points))})

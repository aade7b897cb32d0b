"""The query calculator: one budget over several noisy answers, the classic way and the best way side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import (
    calibrate,
    classic_gaussian_stddev,
    delta as bound_delta,
    epsilon as bound_epsilon,
    gaussian_mu,
)
from epsilog.mechanisms import Composed, Gaussian, Laplace, Release, Repeated
from epsilog.numerics.rounding import PLANNED
from epsilog.plan.consumed_budget import (
    ConsumedBudget,
    bucket_shares,
    cap_at_total,
    compute_consumed_budget,
    count_used_queries,
)
from epsilog.plan.interpretation import Interpretation as Meaning, interpret_guarantee
from epsilog.plan.sentences import list_query_limits
from epsilog.terms import CheckError, DeltaChoice, DeltaPolicy, Finding, Interval, Status, check, codec, parameters
from epsilog.terms.charts import draw_budget_gauge
from epsilog.terms.formatting import format_upper
from epsilog.terms.messages import Message
from epsilog.terms.notebook import render_html_table

_NORMAL_95 = 1.959963984540054  # half-width of the central 95% of a unit Gaussian
_LAPLACE_95 = math.log(20)  # half-width of the central 95% of a unit Laplace: P(|x| > t) = exp(-t)
_WIDEST = 1e12  # between two weights; beyond, a share is lost in the round-off of the others
_LEAST_SHARE = 1e-290  # of epsilon, for one query; its noise must still be a number


@dataclass(frozen=True, slots=True)
class QueryNoise:
    """The noise of one query, in the query's own unit.

    Attributes:
        scale: Laplace scale b, or Gaussian standard deviation.
        expected_error: mean of the noise's absolute value.
        error_95: the noise stays within this with probability 95%.
    """

    scale: float
    expected_error: float
    error_95: float

    @classmethod
    def of(cls, mechanism: str, scale: float) -> QueryNoise:
        """Return the noise of a mechanism at a scale.

        >>> round(QueryNoise.of("gaussian", 10.0).error_95, 3)
        19.6
        """
        if mechanism == "laplace":
            return cls(scale, scale, scale * _LAPLACE_95)
        return cls(scale, scale * math.sqrt(2 / math.pi), scale * _NORMAL_95)


@dataclass(frozen=True, slots=True)
class QueryShare:
    """The part of the budget for each of ``count`` equal queries.

    Attributes:
        count: how many queries are alike.
        weight: the share of one of them, relative to the others.
        epsilon: the epsilon of one of them under the classic split, in nats.
        classic: the noise by the classic formula.
        exact: the noise by the exact calibration of the same (epsilon, delta); equals ``classic`` for Laplace.
        optimal: the noise when all queries are composed tightly and only the total counts.
    """

    count: int
    weight: float
    epsilon: float
    classic: QueryNoise
    exact: QueryNoise
    optimal: QueryNoise


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A budget over several queries.

    Attributes:
        epsilon: the total, in nats.
        delta: the failure probability, why, and what is wrong with it; None for Laplace without delta.
        mechanism: "laplace" or "gaussian".
        sensitivity: the most one privacy unit can move an answer (L1 for Laplace, L2 for Gaussian).
        shares: groups of equal queries, in the order in which they are asked.
        queries_used: how many were answered already, in order.
        consumed: what these cost, for each way to set the noise.
        classic_total_delta: what the classic Gaussian formula really spends in delta over all queries (Q delta).
        findings: notices for the reader, each with its code.
        magnitude: a typical true answer, to compare errors with; None if not said.
    """

    epsilon: float
    delta: DeltaChoice | None
    mechanism: str
    sensitivity: float
    shares: tuple[QueryShare, ...]
    queries_used: int
    consumed: ConsumedBudget
    classic_total_delta: float
    findings: tuple[Finding, ...]
    magnitude: float | None = None

    @property
    def queries(self) -> int:
        """Queries planned."""
        return sum(share.count for share in self.shares)

    @property
    def queries_left(self) -> int:
        """Queries of this plan that may still be asked, each with its own noise; together they stay in the budget."""
        return max(0, self.queries - self.queries_used)

    @property
    def remaining(self) -> float:
        """Return a lower bound on the remaining epsilon after the used queries, if they had the optimal noise.

        A further release of pure epsilon up to this fits the budget, since (epsilon, delta)- and (epsilon', 0)-DP
        compose to their sum. The rest of the plan (``queries_left``) fits too, though its cost alone may exceed this:
        costs are not additive. Negative if more queries were used than planned.
        """
        left = self.epsilon - self.consumed.optimal.upper
        return (
            max(left, 0.0) if self.covers_used_queries else left
        )  # a plan that is kept never overdraws, whatever the rounding

    @property
    def covers_used_queries(self) -> bool:
        """Return whether what was used fits the plan."""
        return self.queries_used <= self.queries

    @property
    def noise_reduction(self) -> float:
        """Return how many times less noise the first query needs when composed optimally."""
        classic, optimal = self.shares[0].classic.scale, self.shares[0].optimal.scale
        return 1.0 if classic == optimal else classic / optimal

    @property
    def release(self) -> Release:
        """Return all answers together, with the optimal noise, of what has a sensitivity of 1."""
        noise = Laplace if self.mechanism == "laplace" else Gaussian
        counts: dict[float, int] = {}
        for share in self.shares:
            scale = share.optimal.scale / self.sensitivity
            counts[scale] = counts.get(scale, 0) + share.count
        return Composed([Repeated(noise(scale), count) for scale, count in counts.items()])

    @property
    def interval(self) -> Interval:
        """Return the certified interval of all answers together, never above what was planned."""
        delta = 0.0 if self.delta is None else self.delta.delta
        found = cap_at_total(self.epsilon, bound_epsilon(self.release, delta=delta))
        return replace(found, assumptions=(*found.assumptions, *list_query_limits(self.mechanism)))

    def meaning(self, privacy_unit: str = "person", cap: float | None = None) -> Meaning:
        """Return what all answers together mean for one person, if each is asked once and with the optimal noise.

        Args:
            privacy_unit: the unit of the sensitivity.
            cap: the policy's cap on epsilon, for the available amount.
        """
        return interpret_guarantee(
            self.release,
            self.interval,
            delta=0.0 if self.delta is None else self.delta.delta,
            relation=None,
            privacy_unit=privacy_unit,
            subject="answers",
            cap=cap,
        )

    def _repr_html_(self) -> str:
        rows = [(s.count, *(f"{noise.scale:.6g}" for noise in (s.classic, s.exact, s.optimal))) for s in self.shares]
        title = f"{self.queries} queries within epsilon {self.epsilon:g}: noise scales ({self.mechanism})"
        spent = self.consumed.optimal.upper
        label = (
            f"{self.queries_used} of {self.queries} queries: at most {format_upper(spent)} of epsilon {self.epsilon:g}"
        )
        drawn = draw_budget_gauge([("used", spent)], self.epsilon, title=label)
        return drawn + render_html_table(title, rows, ["queries", "classic", "exact", "optimal"])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        typical = self.magnitude
        return codec.plain_fields(self) | {
            "queries": self.queries,
            "queries_left": self.queries_left,
            "remaining": codec.encode(self.remaining),
            "compatible": self.covers_used_queries,
            "saving": codec.encode(self.noise_reduction),
            "relative_error_95": typical and codec.encode(self.shares[0].optimal.error_95 / abs(typical)),
        }


def _for_each(epsilons: Sequence[float], find: Callable[[float], float]) -> list[float]:
    """Return what is found for each, once for those that are equal."""
    found = {each: find(each) for each in set(epsilons)}
    return [found[each] for each in epsilons]


def queries(
    *,
    epsilon: float,
    queries: int,
    sensitivity: float = 1.0,
    mechanism: str = "laplace",
    delta: float | None = None,
    queries_used: int = 0,
    weights: Sequence[float] | None = None,
    population: int | None = None,
    magnitude: float | None = None,
    policy: DeltaPolicy | None = None,
) -> QueryPlan:
    """Split a budget over queries.

    Args:
        epsilon: the total, in nats.
        queries: how many queries are planned (Q).
        sensitivity: the most one privacy unit can move an answer, in the answer's unit.
        mechanism: "laplace" or "gaussian".
        delta: total failure probability; needed for Gaussian unless ``population`` is given. For Laplace it may be
            left blank (pure DP) or given, which lets composition save noise.
        queries_used: how many were answered already.
        weights: relative shares of epsilon, one for each query, all above 0; blank means even.
        population: privacy units; turns a blank Gaussian delta into min(1/N, policy cap), and checks a given one.
        magnitude: a typical true answer, not 0, to compare errors with.
        policy: the delta policy; its default caps delta at 1e-6.

    Returns:
        The plan. Asking more than planned is a finding (an incompatible plan), not an error.

    Raises:
        CalibrationError: no noise meets the goal.

    >>> plan = queries(epsilon=1.0, queries=100, queries_used=40)
    >>> plan.shares[0].classic.scale, round(plan.consumed.optimal.upper, 12), round(plan.remaining, 12)
    (100.0, 0.4, 0.6)
    """
    epsilon = parameters.TOTAL_EPSILON.rule(float)(epsilon=epsilon)
    sensitivity = parameters.SENSITIVITY.rule(float)(sensitivity=sensitivity)
    queries = parameters.QUERIES.rule(int)(queries=queries)
    queries_used = parameters.QUERIES_USED.rule(int)(queries_used=queries_used)
    mechanism = parameters.MECHANISM.rule(str)(mechanism=mechanism)
    magnitude = check.optional(parameters.MAGNITUDE.rule(float))(magnitude=magnitude)
    population = check.optional(parameters.UNITS.rule(int))(population=population)
    if magnitude == 0:
        raise CheckError("magnitude", "other than 0", "0")
    groups = _groups(weights, queries)
    decision = _delta(delta, mechanism=mechanism, population=population, policy=policy)
    at = decision.delta if decision else 0.0
    parts = _parts(groups)
    epsilons = [epsilon * part for _, part in parts]
    if min(epsilons) < _LEAST_SHARE:
        raise CheckError("epsilon", f"at least {_LEAST_SHARE:g} for each query", repr(epsilon))
    scales = {  # by how the noise is found
        "classic": _for_each(epsilons, lambda each: _classic(mechanism, each, at)),
        "exact": _for_each(epsilons, lambda each: _exact(mechanism, each, at)),
        "optimal": _optimal(mechanism, epsilon, at, parts),
    }
    noises = ([QueryNoise.of(mechanism, sensitivity * one) for one in found] for found in scales.values())
    shares = tuple(QueryShare(*group, *share) for group, *share in zip(groups, epsilons, *noises, strict=True))
    counts = count_used_queries([count for count, _ in groups], queries_used)
    used = compute_consumed_budget(mechanism, at, counts=counts, epsilons=epsilons, **scales)
    faults = _classic_faults(max(epsilons), queries, at) if mechanism == "gaussian" else ()
    if at > 0 and queries_used <= queries:
        used = replace(used, optimal=cap_at_total(epsilon, used.optimal))
    return QueryPlan(
        epsilon=epsilon,
        delta=decision,
        mechanism=mechanism,
        sensitivity=sensitivity,
        shares=shares,
        queries_used=queries_used,
        consumed=used,
        classic_total_delta=min(1.0, queries * at) if mechanism == "gaussian" else 0.0,
        findings=(*(decision.findings if decision else ()), *_overuse(queries, queries_used), *faults),
        magnitude=magnitude,
    )


@dataclass(frozen=True, slots=True)
class CrossoverRow:
    """The 95% error of one of Q equal queries, for unit sensitivity, by mechanism.

    Attributes:
        queries: how many queries share the budget (Q).
        laplace_pure: Laplace noise by the plain split, which needs no delta.
        laplace_optimal: Laplace noise when only the total counts.
        gaussian_classic: Gaussian noise by the textbook formula.
        gaussian_optimal: Gaussian noise when only the total counts.
    """

    queries: int
    laplace_pure: float
    laplace_optimal: float
    gaussian_classic: float
    gaussian_optimal: float


@dataclass(frozen=True, slots=True)
class QueryNoiseComparison:
    """Laplace against Gaussian over the number of queries.

    Attributes:
        rows: errors at the numbers of queries asked for.
        against_pure: the fewest queries from which Gaussian noise has the smaller 95% error than pure Laplace.
        against_optimal: the first row from which it stays below optimally composed Laplace too; None if none does.
    """

    rows: tuple[CrossoverRow, ...]
    against_pure: int
    against_optimal: int | None


def compare_query_noise(
    *, epsilon: float, delta: float, counts: Sequence[int] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
) -> QueryNoiseComparison:
    """Compare Laplace and Gaussian noise for equal queries under one budget.

    Args:
        epsilon: the total, in nats.
        delta: the total failure probability, in (0, 1).
        counts: the numbers of queries to compare at, rising.

    >>> compare_query_noise(epsilon=1.0, delta=1e-6, counts=(1, 10)).against_pure
    8
    """
    epsilon = check.positive(check.DOWN)(epsilon=epsilon)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    stddev = 1 / gaussian_mu(epsilon=epsilon, delta=delta)
    rows = []
    for count in check.sequence_of(check.integer(1))(counts=counts):
        laplace = _optimal("laplace", epsilon, delta, [(count, 1 / count)])[0]
        rows.append(
            CrossoverRow(
                queries=count,
                laplace_pure=_LAPLACE_95 * count / epsilon,
                laplace_optimal=_LAPLACE_95 * laplace,
                gaussian_classic=_NORMAL_95 * classic_gaussian_stddev(epsilon=epsilon / count, delta=delta / count),
                gaussian_optimal=_NORMAL_95 * stddev * math.sqrt(count),
            )
        )
    above = [row.gaussian_optimal >= row.laplace_optimal for row in rows]
    first = len(above) - next((i for i, worse in enumerate(reversed(above)) if worse), len(above))
    ratio = _NORMAL_95 * stddev * epsilon / _LAPLACE_95  # Gaussian below pure Laplace once sqrt(Q) exceeds this
    return QueryNoiseComparison(
        rows=tuple(rows),
        against_pure=max(1, math.floor(ratio * ratio) + 1),
        against_optimal=rows[first].queries if first < len(rows) else None,
    )


def _groups(weights: Sequence[float] | None, queries: int) -> list[tuple[int, float]]:
    """Equal queries as (count, weight of one), in order."""
    if weights is None:
        return [(queries, 1.0)]
    if len(weights) != queries:
        raise CheckError("weights", f"one for each of {queries} queries", f"{len(weights)}")
    groups = [(1, weight) for weight in check.sequence_of(check.positive())(weights=weights)]
    least, most = (extreme(weight for _, weight in groups) for extreme in (min, max))
    if least < most / _WIDEST:
        raise CheckError("weights", f"within a factor {_WIDEST:g} of each other", f"{least!r} and {most!r}")
    return groups


def _parts(groups: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """(count, share of the total of one query); over the largest weight, since a sum of weights may overflow."""
    largest = max(weight for _, weight in groups)
    total = math.fsum(count * (weight / largest) for count, weight in groups)
    return [(count, weight / largest / total) for count, weight in groups]


def _delta(
    delta: float | None, *, mechanism: str, population: int | None, policy: DeltaPolicy | None
) -> DeltaChoice | None:
    if population is not None and (delta is not None or mechanism == "gaussian"):
        return (policy or DeltaPolicy()).choose_delta(delta, population=population)
    if delta is not None:
        delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
        return DeltaChoice(delta, "as given; no population was named to compare it with 1/N")
    if mechanism == "gaussian":
        raise CheckError("delta", "in (0, 1) for the Gaussian mechanism, or population given", "None")
    return None


def _classic(mechanism: str, epsilon: float, delta: float) -> float:
    return 1 / epsilon if mechanism == "laplace" else classic_gaussian_stddev(epsilon=epsilon, delta=delta)


def _exact(mechanism: str, epsilon: float, delta: float) -> float:
    if mechanism == "laplace":
        return 1 / epsilon
    return _gaussian_stddev(epsilon, delta)


def _gaussian_stddev(epsilon: float, delta: float) -> float:
    """Exact, on the safe side (Balle & Wang 2018)."""
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    return (1 + PLANNED) / mu if mu > 0 else math.inf


def _optimal(mechanism: str, epsilon: float, delta: float, groups: Sequence[tuple[int, float]]) -> list[float]:
    """Noise for unit sensitivity when only the total counts: one common scale over each query's share, calibrated.

    ``groups`` are (count, share of the total of one query). For pure DP the sum of 1/b is all there is, so the classic
    split is optimal.
    """
    split = [1 / (epsilon * share) for _, share in groups]
    if mechanism == "gaussian":  # sum of mu_i^2 = mu^2 with mu_i = common * share
        norm = math.sqrt(math.fsum(count * share * share for count, share in groups))
        stddev = _gaussian_stddev(epsilon, delta)
        return [stddev * norm / share for _, share in groups]
    if delta == 0:
        return split

    coarse = bucket_shares(groups)

    def release(scale: float) -> Release:
        return Composed([Repeated(Laplace(scale / share), count) for count, share in coarse])

    scale = calibrate(release, epsilon=epsilon, delta=delta)
    return [min(scale / share, plain) for (_, share), plain in zip(groups, split, strict=True)]  # both are proofs


def _overuse(queries: int, used: int) -> tuple[Finding, ...]:
    if used <= queries:
        return ()
    return (Finding.of(Message.of("queries/too-many", planned=queries, used=used), Status.FAILED),)


def _classic_faults(worst: float, queries: int, delta: float) -> Iterator[Finding]:
    """Where the classic Gaussian formula spends more than it says; ``worst`` is the largest epsilon of one query."""
    if queries > 1:
        total = Message.of("classic-formula/delta-for-each", total_delta=queries * delta)
        yield Finding.of(total, Status.WARNED)
    real = bound_delta(Gaussian(_classic("gaussian", worst, delta)), epsilon=worst)
    if real.lower > delta:
        found: dict[str, float] = {"delta": real.lower, "epsilon": worst, "factor": real.lower / delta}
        yield Finding.of(Message.of("classic-formula/delta-exceeded", **found), Status.FAILED)

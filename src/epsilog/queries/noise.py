"""Plan the noise of a query: sensitivities in whole steps of a grid, noise calibrated to a cost or to an error.

The sensitivity of a mechanism is the largest change by adding or removing one unit; under replace-one, accountants
double it. If the contributions of a unit have one sign, replacing it changes a sum by less than twice that. So half of
that change is stated here. The proofs are in docs/how-to/answer-queries.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

from epsilog.accounting import epsilon as accounted_epsilon, mu as accounted_mu, rho as accounted_rho
from epsilog.ledger import Amounts
from epsilog.mechanisms import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GaussianDP,
    PureDP,
    Release,
    ZeroConcentratedDP,
)
from epsilog.numerics.rounding import MU, round_up
from epsilog.queries.choices import bound_difference_shift, bound_threshold_shift
from epsilog.queries.query_types import (
    Count,
    CountAbove,
    FirstCategoryAbove,
    Histogram,
    Mean,
    MostCommonCategory,
    Query,
    Sum,
    build_value_grid,
)
from epsilog.terms import CalibrationError, CheckError, NeighboringRelation, check

__all__ = [
    "CONFIDENCE",
    "Noise",
    "NoisePlan",
    "NoisySum",
    "Number",
    "compute_half_width",
    "compute_noisy_max_margin",
    "compute_sparse_vector_margin",
    "list_noisy_sums",
    "parse_exact_parameter",
    "plan_noise",
    "round_midpoint_down",
]

Noise = DiscreteLaplace | DiscreteGaussian | Gaussian  # the last is rounded to whole steps
Number = str | float | Fraction | Decimal  # a decimal string, or a number

CONFIDENCE = 0.95
_MAX_SCALE = 2.0**45  # in steps
_MAX_SUMMED_STDDEV = 50.0  # in steps; up to it, the tail of the discrete Gaussian is summed
_TAIL_STDDEVS = 12  # summed; the rest is below 1e-30
_ROUNDING = 1 + 1e-9  # above the rounding error of a tail
_REPLACE = NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Sums over the rows with noise of one distribution."""

    step: Fraction  # of the grid, in the unit of the result
    low: int  # the least contribution of a row, in steps; at most 0
    high: int  # the largest one; at least 0
    cells: int = 1  # number of sums; a row contributes to at most one of them

    def sensitivity(self, rows: int, relation: NeighboringRelation) -> int:
        """Return the sensitivity of one sum, or of cells of which one unit changes one.

        Args:
            rows: how many rows one unit has, at most.
            relation: the neighboring relation.
        """
        if relation is not _REPLACE:
            return rows * max(-self.low, self.high)
        return -(-rows * (self.high - self.low) // 2)  # the accountant doubles it


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The noise of a query, known before the data."""

    release: Release  # the release that is charged
    parts: tuple[NoisySum, ...]  # the sums over the rows
    noises: tuple[Noise, ...] = ()  # the noise of each sum; empty for a selection
    spread: int = 0  # of a selection, the bound of ``bound_difference_shift`` or ``bound_threshold_shift``


def list_noisy_sums(query: Query, rows: int, relation: NeighboringRelation) -> tuple[NoisySum, ...]:
    """Return the sums of a query.

    A count has whole steps. If that would round half of a sensitivity up to twice its size, the steps are finer.
    """
    count = _plan_count(2 if relation is _REPLACE and rows % 2 else 1)
    match query:
        case Count() | CountAbove():
            return (count,)
        case Sum(bounds=bounds):
            step, low, high = build_value_grid(bounds)
            return (NoisySum(step, min(low, 0), max(high, 0)),)
        case Mean(bounds=bounds, population=population):
            step, low, high = build_value_grid(bounds)
            middle = round_midpoint_down(low, high)
            centered = NoisySum(step, low - middle, high - middle)
            return (centered,) if population is not None else (centered, count)
        case Histogram():
            return (_plan_count(1, cells=len(query.labels)),)
        case MostCommonCategory(categories=categories) | FirstCategoryAbove(categories=categories):
            return (_plan_count(1, cells=len(categories)),)
    raise CheckError("query", "a question that epsilog.queries has", repr(query))


def round_midpoint_down(low: int, high: int) -> int:
    """Return the grid point in the middle of two, rounded down."""
    return (low + high) // 2


def _plan_count(steps: int, *, cells: int = 1) -> NoisySum:
    return NoisySum(Fraction(1, steps), 0, steps, cells)


def plan_noise(
    query: Query,
    *,
    rows: int,
    relation: NeighboringRelation,
    kinds: frozenset[str],
    epsilon: Number | None = None,
    rho: Number | None = None,
    mu: Number | None = None,
    error: float | None = None,
) -> NoisePlan:
    """Find the noise for a cost, or the least cost for an error.

    Args:
        query: the query.
        rows: how many rows one unit has, at most.
        relation: the neighboring relation.
        kinds: of the budgets. If all are zcdp, rdp or gdp, a rho, a mu or an error gives Gaussian noise: rounded to the
            grid if one of them is gdp, else discrete. Everything else gives discrete Laplace noise.
        epsilon: the largest cost, of a pure guarantee.
        rho: the largest cost, of zCDP, if no budget is gdp.
        mu: the largest cost, of Gaussian DP, if a budget is gdp.
        error: the half-width of the interval.

    Raises:
        CheckError: not exactly one of the four is given, or this query or these budgets do not support it.
    """
    stated = {"epsilon": epsilon, "rho": rho, "mu": mu, "error": error}
    if sum(value is not None for value in stated.values()) != 1:
        given = ", ".join(name for name, value in stated.items() if value is not None) or "none"
        raise CheckError("price", "one of epsilon, rho, mu and error", given)
    if isinstance(query, MostCommonCategory | FirstCategoryAbove):
        return _plan_selection(query, rows, relation, epsilon)
    kind: type[Noise] = DiscreteLaplace
    if epsilon is None and kinds <= {"zcdp", "rdp", "gdp"}:
        kind = Gaussian if "gdp" in kinds else DiscreteGaussian
    if rho is not None and kind is not DiscreteGaussian:
        raise CheckError("price", "epsilon, mu or error, unless every budget is zcdp or rdp", "rho")
    if mu is not None and kind is not Gaussian:
        raise CheckError("price", "epsilon, rho or error, unless budgets are gdp, or gdp with zcdp and rdp", "mu")
    cost = _CostLimit(epsilon, rho, None if mu is None else _square(mu))
    parts = list_noisy_sums(query, rows, relation)
    if isinstance(query, Histogram) and (relation is _REPLACE or rows > 1):
        return _plan_histogram(query, parts[0], rows, relation, cost=cost, error=error, kind=kind)
    shifts = [check.integer(1)(sensitivity=part.sensitivity(rows, relation)) for part in parts]
    if error is not None:
        noises = [_fit_noise_to_error(query, parts, shifts[0], error, kind=kind)]
    else:
        noises = _fit_noise_to_cost(shifts, relation, cost)
    release = noises[0] if len(noises) == 1 else Composed(noises)
    return NoisePlan(release, parts, tuple(noises))


@dataclass(frozen=True, slots=True)
class _CostLimit:
    """The largest cost; at most one of these is given."""

    epsilon: Number | None
    rho: Number | None
    mu_squared: Fraction | None


def _square(mu: Number) -> Fraction:
    """Return the exact square of a mu."""
    try:
        found = Fraction(mu) if isinstance(mu, str) else check.exact_rational()(mu=mu)
    except (ValueError, ZeroDivisionError):
        raise CheckError("mu", "a finite number", repr(mu)[:80]) from None
    if found <= 0:
        raise CheckError("mu", "above 0", repr(mu)[:80])
    return found**2


def _plan_histogram(
    query: Query,
    part: NoisySum,
    rows: int,
    relation: NeighboringRelation,
    *,
    cost: _CostLimit,
    error: float | None,
    kind: type[Noise],
) -> NoisePlan:
    """Plan a histogram in which one unit changes several cells; its stated guarantee is charged.

    The accountant's discrete noise is that of one count. The counts of one unit are at least 0, and their sum is at
    most ``rows``. So a unit changes the cells by at most ``rows`` in L1 and L2 norm. Replacing a unit changes them by
    at most 2 times that in L1 norm, and sqrt(2) times that in L2 norm.

    Source:
        Discrete Laplace noise: the triangle inequality, cell by cell. Discrete Gaussian noise: Canonne, Kamath &
        Steinke 2020 (arXiv:2004.00010), Theorem 14. Rounded Gaussian noise: Dong, Roth & Su 2022, Theorem 2.7, for the
        whole vector before rounding.
    """
    units = 2 if relation is _REPLACE else 1
    norm, squared = units * rows, units * rows**2
    if error is not None:
        scale = float(_fit_noise_to_error(query, (part,), rows, error, kind=kind).scale)
    elif cost.rho is not None:
        scale = _check_scale(_widen(math.sqrt(squared / (2 * _round_down(_round_to_units("rho", cost.rho))))))
    elif cost.mu_squared is not None:
        scale = _check_scale(_widen(math.sqrt(squared / _round_down(_round_to_units("mu_squared", cost.mu_squared)))))
    else:
        assert cost.epsilon is not None, "a cost is an epsilon, a rho or a mu"
        scale = _check_scale(_widen(norm / _round_down(_round_to_units("epsilon", cost.epsilon))))
    if kind is Gaussian:
        noise = Gaussian(scale)
        return NoisePlan(GaussianDP(_round_up_root(Fraction(squared) / Fraction(scale) ** 2)), (part,), (noise,))
    if kind is DiscreteGaussian:
        stated = _round_up_loss("rho", Fraction(squared) / (2 * Fraction(scale) ** 2))
        return NoisePlan(ZeroConcentratedDP(stated), (part,), (DiscreteGaussian(scale, rows),))
    return NoisePlan(
        PureDP(_round_up_loss("epsilon", norm / Fraction(scale))), (part,), (DiscreteLaplace(scale, rows),)
    )


def parse_exact_parameter(stated: float) -> Fraction:
    """Return the exact value of a stated parameter: the smaller of the double and of the decimal that is charged."""
    return min(Fraction(stated), Fraction(repr(stated)))


def _round_up_loss(quantity: str, loss: Fraction) -> float:
    """Round a privacy loss up to the ledger's smallest unit."""
    stated = float(Amounts.from_charge({quantity: loss})[quantity])
    while parse_exact_parameter(stated) < loss:
        stated = math.nextafter(stated, math.inf)
    return stated


def _round_up_root(loss: Fraction) -> float:
    """Return the square root of a loss, rounded up."""
    stated = math.sqrt(loss)
    while parse_exact_parameter(stated) ** 2 < loss:
        stated = math.nextafter(stated, math.inf)
    return stated


def _round_down(cost: Fraction) -> float:
    """Return a double with a decimal, which the ledger charges, of at most the cost."""
    found = float(cost)
    return found if Fraction(repr(found)) <= cost else math.nextafter(found, 0.0)


def _widen(scale: float) -> float:
    """Widen a scale by more than the rounding errors of its computation."""
    return scale * (1 + 2.0**-50)


def _plan_selection(
    query: MostCommonCategory | FirstCategoryAbove, rows: int, relation: NeighboringRelation, epsilon: Number | None
) -> NoisePlan:
    if epsilon is None:
        raise CheckError("price", "epsilon for a choice", "another")
    stated = PureDP(_round_down(_round_to_units("epsilon", epsilon)))
    bound_shift = bound_difference_shift if isinstance(query, MostCommonCategory) else bound_threshold_shift
    return NoisePlan(stated, list_noisy_sums(query, rows, relation), spread=bound_shift(rows, relation))


def _round_to_units(quantity: str, value: Number) -> Fraction:
    """Round a cost down to the ledger's smallest unit, so that the charge is at most the given cost."""
    found = Fraction(Amounts.from_cap({quantity: value})[quantity])
    if found == 0:
        raise CheckError(quantity, "above 0", repr(value))
    return found


def _fit_noise_to_cost(shifts: list[int], relation: NeighboringRelation, cost: _CostLimit) -> list[Noise]:
    """Return the least noise with an accounted cost within the limit; the parts share it evenly."""
    units, parts = 2 if relation is _REPLACE else 1, len(shifts)
    if cost.mu_squared is not None:
        whole = _round_to_units("mu_squared", cost.mu_squared)
        multiplier = units * math.sqrt(parts / float(whole))
        gaussians: list[Noise] = [Gaussian(_check_scale(multiplier * steps) / steps, float(steps)) for steps in shifts]
        return _enlarge_until_fits(gaussians, lambda release: _mu_squared(release, relation) <= whole)
    if cost.rho is not None:
        whole = _round_to_units("rho", cost.rho)
        scales = [_check_scale(units * steps / math.sqrt(2 * float(whole / parts))) for steps in shifts]
        noises: list[Noise] = [DiscreteGaussian(scale, steps) for scale, steps in zip(scales, shifts, strict=True)]
        return _enlarge_until_fits(noises, lambda release: Fraction(accounted_rho(release, relation)) <= whole)
    assert cost.epsilon is not None, "a cost is an epsilon, a rho or a mu"
    whole = _round_to_units("epsilon", cost.epsilon)
    scales = [_check_scale(float(units * steps * parts / whole)) for steps in shifts]
    laplace: list[Noise] = [DiscreteLaplace(scale, steps) for scale, steps in zip(scales, shifts, strict=True)]
    return _enlarge_until_fits(
        laplace, lambda release: Fraction(accounted_epsilon(release, delta=0.0, relation=relation).upper) <= whole
    )


def _mu_squared(release: Release, relation: NeighboringRelation) -> Fraction:
    """Return the cost for a gdp budget."""
    found = accounted_mu(release, relation)
    assert found is not None, "Gaussians have a mu"
    return Fraction(round_up(found, MU)) ** 2


def _enlarge_until_fits(noises: list[Noise], fits: Callable[[Release], bool]) -> list[Noise]:
    """Enlarge noises slightly until their accounted cost fits."""
    for power in range(-51, -30):
        if fits(Composed(noises)):
            return noises
        noises = [noise.with_scale(_check_scale(noise.scale * (1 + 2.0**power))) for noise in noises]
    raise CalibrationError("calibration failed: no noise has an accounted cost within the limit; raise the limit")


def _check_scale(scale: float) -> float:
    if not 0 < scale <= _MAX_SCALE:
        raise CheckError("price", f"such that noise is within {_MAX_SCALE:g} steps of the grid", f"{scale:g}")
    return scale


def _make_noise(kind: type[Noise], scale: float, sensitivity: int) -> Noise:
    """Return noise of one kind with at most this scale."""
    if kind is not Gaussian:
        return kind(scale, sensitivity)
    noise = Gaussian(scale / sensitivity, float(sensitivity))
    return noise if noise.scale <= scale else Gaussian(math.nextafter(noise.noise_multiplier, 0.0), noise.sensitivity)


def compute_half_width(noise: Noise, *, miss: float = 1 - CONFIDENCE, one_sided: bool = False) -> int:
    """Return the least h, in steps, that the size of noise exceeds with probability at most ``miss``; rounded up.

    Args:
        noise: the noise.
        miss: the probability, in (0, 1).
        one_sided: whether only noise above h counts.

    >>> compute_half_width(DiscreteLaplace(10.0)), compute_half_width(DiscreteGaussian(10.0))
    (30, 20)
    """
    miss = check.in_open_interval(0, 1)(miss=miss) / _ROUNDING * (1 if one_sided else 0.5)
    tails = {DiscreteLaplace: _laplace_tail, DiscreteGaussian: _gaussian_tail, Gaussian: _rounded_tail}
    tail = tails[type(noise)]
    low, high = -1, 1
    while tail(noise.scale, high) > miss:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(noise.scale, middle) > miss else (low, middle)
    return high


def _laplace_tail(scale: float, h: int) -> float:
    """Return the probability that noise is above h."""
    return math.exp(-(h + 1) / scale) / (1 + math.exp(-1 / scale))


def _gaussian_tail(stddev: float, h: int) -> float:
    """Return the probability that noise is above h, or an upper bound.

    The sum of decreasing weights is at most their integral from one step earlier. The sum of all weights is at least
    their integral: Poisson's summation formula multiplies it by 1 + 2 exp(-2 pi^2 stddev^2) + ...
    """
    if stddev > _MAX_SUMMED_STDDEV:
        return NormalDist().cdf(-h / stddev)
    last = math.ceil(_TAIL_STDDEVS * stddev) + 1
    weights = [math.exp(-(k**2) / (2 * stddev**2)) for k in range(last + 1)]
    return math.fsum(weights[h + 1 :]) / (2 * math.fsum(weights) - 1)


def _rounded_tail(stddev: float, h: int) -> float:
    """Return the probability that rounded Gaussian noise is above h."""
    return NormalDist().cdf(-(h + 0.5) / stddev)


def _fit_noise_to_error(
    query: Query, parts: tuple[NoisySum, ...], sensitivity: int, error: float, *, kind: type[Noise]
) -> Noise:
    """Return the largest noise with a half-width of at most the error; it has the least cost."""
    error = check.positive()(error=error)
    if len(parts) > 1:
        raise CheckError("price", "epsilon, rho or mu for a mean over a count that is not public", "error")
    steps = Fraction(error) / parts[0].step
    if isinstance(query, Mean):
        assert query.population is not None, "a mean of one part has a public count"
        steps = (Fraction(error) - parts[0].step / 2) / parts[0].step * query.population
    one_sided = isinstance(query, CountAbove)
    width = math.floor(steps) - one_sided

    def fits(scale: float) -> bool:
        return compute_half_width(_make_noise(kind, scale, sensitivity), one_sided=one_sided) <= width

    low, high = 2.0**-4, 2.0**-4
    if width < 0 or not fits(low):
        raise CheckError("error", "at least a step or two of the grid", repr(error))
    while fits(high) and high < _MAX_SCALE:
        low, high = high, 2 * high
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _make_noise(kind, low, sensitivity)


def compute_sparse_vector_margin(scale: Fraction, cells: int) -> int:
    """Bound how far the reported count is below the threshold, and earlier ones above it, with 95% confidence.

    Each draw is within its half-width except with its share of the probability to miss, and two draws decide at a time.
    """
    return 2 * compute_half_width(DiscreteLaplace(float(scale) * _ROUNDING), miss=(1 - CONFIDENCE) / (cells + 1))


def compute_noisy_max_margin(epsilon: float, cells: int, spread: int) -> int:
    """Bound how far the selected count is below the largest one, with 95% confidence.

    The selection is report-noisy-max with exponential noise of scale spread / epsilon. A count that is t below the
    largest one is selected only if its noise is above t.
    """
    if cells == 1:
        return 0
    return math.ceil(spread / epsilon * math.log((cells - 1) / (1 - CONFIDENCE)) * _ROUNDING)

"""Which noise pays for a question: sensitivities in whole steps of a grid, calibrated to a price, or to an error.

Sensitivities are what the terms say they are: what adding or removing one unit moves, and accountants double them where
one unit is replaced. A replaced unit moves a sum by less than twice that where its contributions have one sign, so half
of that move is what is stated here. The proofs are in docs/how-to/answer-questions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

from epsilog.accounting import epsilon as accounted_epsilon
from epsilog.accounting import mu as accounted_mu
from epsilog.accounting import rho as accounted_rho
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
from epsilog.queries.noisy_max import bound_difference_shift
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
from epsilog.queries.sparse_vector import bound_threshold_shift
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
_LARGEST_SCALE = 2.0**45  # in steps; noise beyond it drowns everything
_EXACT = 50.0  # standard deviations in steps up to which the Gaussian's tail is summed
_REACH = 12  # standard deviations that such a sum goes: what lies beyond is below 1e-30
_ROUNDING = 1 + 1e-9  # more than what the doubles of a tail are off
_REPLACE = NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Sums over the rows that get noise of one law.

    Attributes:
        step: of the grid, in the answer's own unit.
        low: the least that a row adds to a sum, in steps; at most 0.
        high: the most; at least 0.
        cells: how many sums there are; a row adds to one of them at most.
    """

    step: Fraction
    low: int
    high: int
    cells: int = 1

    def sensitivity(self, rows: int, relation: NeighboringRelation) -> int:
        """What a release of one sum states, or of cells of which a neighbour moves one.

        Args:
            rows: the most rows that one unit adds.
            relation: which data sets are neighbours.
        """
        if relation is not _REPLACE:
            return rows * max(-self.low, self.high)
        return -(-rows * (self.high - self.low) // 2)  # the accountant doubles half of the move


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """How a question is answered, known before any data is.

    Attributes:
        release: what is charged.
        parts: the sums that are taken.
        noises: what each of them gets; none for a choice, which has no noise of its own.
        spread: of a choice, how far a neighbour moves the difference of two counts; of a first count, the two draws
            that decide.
    """

    release: Release
    parts: tuple[NoisySum, ...]
    noises: tuple[Noise, ...] = ()
    spread: int = 0


def list_noisy_sums(query: Query, rows: int, relation: NeighboringRelation) -> tuple[NoisySum, ...]:
    """The sums that answer a question.

    Counts are of whole steps. Where that would round half of a sensitivity up to twice itself, steps are finer.
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
            about = NoisySum(step, low - middle, high - middle)
            return (about,) if population is not None else (about, count)
        case Histogram():
            return (_plan_count(1, cells=len(query.labels)),)
        case MostCommonCategory(categories=categories) | FirstCategoryAbove(categories=categories):
            return (_plan_count(1, cells=len(categories)),)
    raise CheckError("query", "a question that epsilog.queries has", repr(query))


def round_midpoint_down(low: int, high: int) -> int:
    """The grid point in the middle of two, or just below it."""
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
    """Finds the noise for a price, or the least price for an error.

    Args:
        query: what is asked.
        rows: the most rows that one unit adds.
        relation: which data sets are neighbours.
        kinds: of the budgets that pay. Where all are zcdp, rdp or gdp, a rho, a mu or an error gets Gaussian noise:
            rounded to the grid where one of them is gdp, else discrete. All else gets discrete Laplace noise.
        epsilon: what may be charged, of a pure guarantee.
        rho: what may be charged, of zCDP, where none of the budgets is gdp.
        mu: what may be charged, of Gaussian DP, where one of the budgets is gdp.
        error: the half-width that is wanted of the answer's interval.

    Raises:
        CheckError: not exactly one of the four, or one that this question or these budgets cannot be asked with.
    """
    stated = {"epsilon": epsilon, "rho": rho, "mu": mu, "error": error}
    if sum(value is not None for value in stated.values()) != 1:
        said = ", ".join(name for name, value in stated.items() if value is not None) or "none"
        raise CheckError("price", "one of epsilon, rho, mu and error", said)
    if isinstance(query, MostCommonCategory | FirstCategoryAbove):
        return _plan_selection(query, rows, relation, epsilon)
    law: type[Noise] = DiscreteLaplace
    if epsilon is None and kinds <= {"zcdp", "rdp", "gdp"}:
        law = Gaussian if "gdp" in kinds else DiscreteGaussian
    if rho is not None and law is not DiscreteGaussian:
        raise CheckError("price", "epsilon, mu or error, unless every budget is zcdp or rdp", "rho")
    if mu is not None and law is not Gaussian:
        raise CheckError("price", "epsilon, rho or error, unless budgets are gdp, or gdp beside zcdp and rdp", "mu")
    price = _CostLimit(epsilon, rho, None if mu is None else _square(mu))
    parts = list_noisy_sums(query, rows, relation)
    if isinstance(query, Histogram) and (relation is _REPLACE or rows > 1):
        return _of_many_cells(query, parts[0], rows, relation, price=price, error=error, law=law)
    moves = [check.integer(1)(sensitivity=part.sensitivity(rows, relation)) for part in parts]
    if error is not None:
        noises = [_for_error(query, parts, moves[0], error, law=law)]
    else:
        noises = _fit_noise_to_cost(moves, relation, price)
    release = noises[0] if len(noises) == 1 else Composed(noises)
    return NoisePlan(release, parts, tuple(noises))


@dataclass(frozen=True, slots=True)
class _CostLimit:
    """What may be charged: at most one of these is stated."""

    epsilon: Number | None
    rho: Number | None
    mu_squared: Fraction | None


def _square(mu: Number) -> Fraction:
    """The square of a mu, as it was said."""
    try:
        found = Fraction(mu) if isinstance(mu, str) else check.exact_rational()(mu=mu)
    except (ValueError, ZeroDivisionError):
        raise CheckError("mu", "a finite number", repr(mu)[:80]) from None
    if found <= 0:
        raise CheckError("mu", "above 0", repr(mu)[:80])
    return found**2


def _of_many_cells(
    query: Query,
    part: NoisySum,
    rows: int,
    relation: NeighboringRelation,
    *,
    price: _CostLimit,
    error: float | None,
    law: type[Noise],
) -> NoisePlan:
    """A histogram in which one neighbour moves several cells: charged by its statement.

    The accountant's discrete noise is that of one count. Counts of one unit are no less than 0 and add up to at most
    ``rows``: so a unit moves the cells by ``rows`` in L1 norm and in L2 norm; two of them, one in the place of the
    other, by 2 and by the root of 2 times that.

    Source:
        Discrete Laplace noise: the triangle inequality, cell by cell. Discrete Gaussian noise: Canonne, Kamath &
        Steinke 2020 (arXiv:2004.00010), Theorem 14. Rounded Gaussian noise: Dong, Roth & Su 2022, Theorem 2.7, for the
        whole vector, before it is rounded.
    """
    far = 2 if relation is _REPLACE else 1
    norm, squared = far * rows, far * rows**2
    if error is not None:
        scale = float(_for_error(query, (part,), rows, error, law=law).scale)
    elif price.rho is not None:
        scale = _scale(_up(math.sqrt(squared / (2 * _float_within(_round_to_units("rho", price.rho))))))
    elif price.mu_squared is not None:
        scale = _scale(_up(math.sqrt(squared / _float_within(_round_to_units("mu_squared", price.mu_squared)))))
    else:
        assert price.epsilon is not None, "a price is an epsilon, a rho or a mu"
        scale = _scale(_up(norm / _float_within(_round_to_units("epsilon", price.epsilon))))
    if law is Gaussian:
        noise = Gaussian(scale)
        return NoisePlan(GaussianDP(_root_of(Fraction(squared) / Fraction(scale) ** 2)), (part,), (noise,))
    if law is DiscreteGaussian:
        stated = _statement("rho", Fraction(squared) / (2 * Fraction(scale) ** 2))
        return NoisePlan(ZeroConcentratedDP(stated), (part,), (DiscreteGaussian(scale, rows),))
    return NoisePlan(PureDP(_statement("epsilon", norm / Fraction(scale))), (part,), (DiscreteLaplace(scale, rows),))


def parse_exact_parameter(stated: float) -> Fraction:
    """What a stated number promises, read as the double that it is and as the decimal that the ledger charges."""
    return min(Fraction(stated), Fraction(repr(stated)))


def _statement(quantity: str, loss: Fraction) -> float:
    """The number to state for a loss: whole units of the ledger's money, and no less."""
    stated = float(Amounts.from_charge({quantity: loss})[quantity])
    while parse_exact_parameter(stated) < loss:
        stated = math.nextafter(stated, math.inf)
    return stated


def _root_of(loss: Fraction) -> float:
    """The mu to state for its square, and no less."""
    stated = math.sqrt(loss)
    while parse_exact_parameter(stated) ** 2 < loss:
        stated = math.nextafter(stated, math.inf)
    return stated


def _float_within(price: Fraction) -> float:
    """A double near a price that the ledger charges, by its decimal, no more than that."""
    found = float(price)
    return found if Fraction(repr(found)) <= price else math.nextafter(found, 0.0)


def _up(scale: float) -> float:
    """A scale with room for the few roundings on the way to it."""
    return scale * (1 + 2.0**-50)


def _plan_selection(
    query: MostCommonCategory | FirstCategoryAbove, rows: int, relation: NeighboringRelation, epsilon: Number | None
) -> NoisePlan:
    if epsilon is None:
        raise CheckError("price", "epsilon for a choice", "another")
    stated = PureDP(_float_within(_round_to_units("epsilon", epsilon)))
    moved = bound_difference_shift if isinstance(query, MostCommonCategory) else bound_threshold_shift
    return NoisePlan(stated, list_noisy_sums(query, rows, relation), spread=moved(rows, relation))


def _round_to_units(quantity: str, value: Number) -> Fraction:
    """A price in whole units of the ledger's money, rounded down, so that what is charged is at most what was said."""
    found = Fraction(Amounts.from_cap({quantity: value})[quantity])
    if found == 0:
        raise CheckError(quantity, "above 0", repr(value))
    return found


def _fit_noise_to_cost(moves: list[int], relation: NeighboringRelation, price: _CostLimit) -> list[Noise]:
    """The least noise that the accountant prices at what was said, which the parts share evenly."""
    far = 2 if relation is _REPLACE else 1
    if price.mu_squared is not None:
        whole = _round_to_units("mu_squared", price.mu_squared)
        multiplier = far * math.sqrt(len(moves) / float(whole))
        gaussians: list[Noise] = [Gaussian(_scale(multiplier * steps) / steps, float(steps)) for steps in moves]
        return _enlarge_until_fits(gaussians, lambda release: _mu_squared(release, relation) <= whole)
    if price.rho is not None:
        whole = _round_to_units("rho", price.rho)
        noises: list[Noise] = []
        for steps in moves:
            guess = far * steps / math.sqrt(2 * float(whole / len(moves)))
            noises.append(DiscreteGaussian(_scale(guess), steps))
        return _enlarge_until_fits(noises, lambda release: Fraction(accounted_rho(release, relation)) <= whole)
    assert price.epsilon is not None, "a price is an epsilon, a rho or a mu"
    whole = _round_to_units("epsilon", price.epsilon)
    laplace: list[Noise] = [DiscreteLaplace(_scale(float(far * steps * len(moves) / whole)), steps) for steps in moves]
    return _enlarge_until_fits(
        laplace, lambda release: Fraction(accounted_epsilon(release, delta=0.0, relation=relation).upper) <= whole
    )


def _mu_squared(release: Release, relation: NeighboringRelation) -> Fraction:
    """What a gdp budget is charged."""
    found = accounted_mu(release, relation)
    assert found is not None, "Gaussians have a mu"
    return Fraction(round_up(found, MU)) ** 2


def _enlarge_until_fits(noises: list[Noise], fits: Callable[[Release], bool]) -> list[Noise]:
    """The same noises, larger by as little as it takes until the accountant's price of them fits."""
    for power in range(-51, -30):
        if fits(Composed(noises)):
            return noises
        noises = [_larger(noise, 1 + 2.0**power) for noise in noises]
    raise CalibrationError("no noise was found that the accountant prices at what was said")


def _scale(scale: float) -> float:
    if not 0 < scale <= _LARGEST_SCALE:
        raise CheckError("price", f"such that noise is within {_LARGEST_SCALE:g} steps of the grid", f"{scale:g}")
    return scale


def _larger(noise: Noise, factor: float) -> Noise:
    return noise.with_scale(_scale(noise.scale * factor))


def _make_noise(law: type[Noise], scale: float, sensitivity: int) -> Noise:
    """Noise of a law, of at most this scale."""
    if law is not Gaussian:
        return law(scale, sensitivity)
    made = Gaussian(scale / sensitivity, float(sensitivity))
    return made if made.scale <= scale else Gaussian(math.nextafter(made.noise_multiplier, 0.0), made.sensitivity)


def compute_half_width(noise: Noise, *, miss: float = 1 - CONFIDENCE, one_sided: bool = False) -> int:
    """The least h, in steps, that noise exceeds in size with at most the chance ``miss``; rounded towards more.

    Args:
        noise: the law.
        miss: the chance, in (0, 1).
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
    """The chance that noise is above h."""
    return math.exp(-(h + 1) / scale) / (1 + math.exp(-1 / scale))


def _gaussian_tail(stddev: float, h: int) -> float:
    """The same, or a bound of it.

    A falling weight sums to no more than its integral from one step before. All weights sum to at least theirs: by
    Poisson's summation formula to that times 1 + 2 exp(-2 pi^2 stddev^2) + ...
    """
    if stddev > _EXACT:
        return NormalDist().cdf(-h / stddev)
    far = math.ceil(_REACH * stddev) + 1
    weights = [math.exp(-(k**2) / (2 * stddev**2)) for k in range(far + 1)]
    return math.fsum(weights[h + 1 :]) / (2 * math.fsum(weights) - 1)


def _rounded_tail(stddev: float, h: int) -> float:
    """The chance that the normal law, rounded, is above h."""
    return NormalDist().cdf(-(h + 0.5) / stddev)


def _for_error(query: Query, parts: tuple[NoisySum, ...], sensitivity: int, error: float, *, law: type[Noise]) -> Noise:
    """The most noise whose half-width is at most the error; its price is the least that such an answer has."""
    error = check.positive()(error=error)
    if len(parts) > 1:
        raise CheckError("price", "epsilon, rho or mu for a mean over a count that is not public", "error")
    steps = Fraction(error) / parts[0].step
    if isinstance(query, Mean):
        assert query.population is not None, "a mean of one part has a public count"
        steps = (Fraction(error) - parts[0].step / 2) / parts[0].step * query.population
    one_sided = isinstance(query, CountAbove)
    wanted = math.floor(steps) - one_sided

    def fits(scale: float) -> bool:
        return compute_half_width(_make_noise(law, scale, sensitivity), one_sided=one_sided) <= wanted

    low, high = 2.0**-4, 2.0**-4
    if wanted < 0 or not fits(low):
        raise CheckError("error", "at least a step or two of the grid", repr(error))
    while fits(high) and high < _LARGEST_SCALE:
        low, high = high, 2 * high
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _make_noise(law, low, sensitivity)


def compute_sparse_vector_margin(scale: Fraction, cells: int) -> int:
    """How far the count that is shown is below the threshold at most, and those passed over above, with 95% confidence.

    Each of the draws stays within its own half-width but for its share of the chance to miss, and two decide at a time.
    """
    return 2 * compute_half_width(DiscreteLaplace(float(scale) * _ROUNDING), miss=(1 - CONFIDENCE) / (cells + 1))


def compute_noisy_max_margin(epsilon: float, cells: int, moved: int) -> int:
    """How far below the largest count the chosen one is at most, with 95% confidence.

    The choice is that of the largest count under exponential noise of scale moved / epsilon: one that lies t below is
    chosen only if its own noise is above t.
    """
    if cells == 1:
        return 0
    return math.ceil(moved / epsilon * math.log((cells - 1) / (1 - CONFIDENCE)) * _ROUNDING)

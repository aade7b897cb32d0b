"""Half-widths against mpmath, and prices for errors that are as low as they can be."""

import math
from fractions import Fraction

import mpmath
import pytest

from epsilog.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian
from epsilog.queries import Count, CountAbove, Histogram, Mean, MostCommonCategory, Sum
from epsilog.queries.noise import compute_half_width, plan_noise
from epsilog.terms import CheckError, NeighboringRelation

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
LAWS = {"pure": DiscreteLaplace, "zcdp": DiscreteGaussian, "gdp": Gaussian}


def beyond(noise, h, *, one_sided):
    """The exact chance that noise is above h, or above it in size."""
    scale = mpmath.mpf(noise.scale)
    if isinstance(noise, Gaussian):  # rounded: above h is at h + 1/2 or above
        return (1 if one_sided else 2) * mpmath.ncdf(-(h + mpmath.mpf("0.5")) / scale)
    if isinstance(noise, DiscreteLaplace):
        weight = lambda k: mpmath.exp(-abs(k) / scale)  # noqa: E731
    else:
        weight = lambda k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2))  # noqa: E731
    reach = math.ceil(60 * float(scale)) + 5
    total = mpmath.fsum(weight(k) for k in range(-reach, reach + 1))
    tail = mpmath.fsum(weight(k) for k in range(h + 1, reach + 1)) / total
    return tail if one_sided else 2 * tail


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian, Gaussian])
@pytest.mark.parametrize(
    "scale", [0.1, 0.3, 1.0, 2.5, 7.0, *(pytest.param(scale, marks=pytest.mark.slow) for scale in (40.0, 90.0))]
)
def test_a_half_width_is_the_least_that_holds(law, scale, one_sided):
    h = compute_half_width(law(scale), one_sided=one_sided)
    assert beyond(law(scale), h, one_sided=one_sided) <= 0.05
    if h > 0 and not (law is DiscreteGaussian and scale > 50):  # beyond, a bound stands for the sum
        assert beyond(law(scale), h - 1, one_sided=one_sided) > 0.05


@pytest.mark.parametrize("kind", ["pure", "zcdp", "gdp"])
@pytest.mark.parametrize(
    "query",
    [Count(), CountAbove(10), Sum("v", (0, 50)), Mean("v", (0, 50), population=400), Histogram("v", categories=("a",))],
    ids=lambda query: type(query).__name__,
)
@pytest.mark.parametrize("error", [3.0, 17.5])
def test_an_error_is_met_and_costs_the_least(query, kind, error):
    plan = plan_noise(query, rows=1, relation=ADD, kinds=frozenset({kind}), error=error)
    (part,), (noise,) = plan.parts, plan.noises
    one_sided = isinstance(query, CountAbove)
    divided = query.population if isinstance(query, Mean) else 1
    rounding = part.step / 2 if isinstance(query, Mean) else 0

    def wide(law):
        return (compute_half_width(law, one_sided=one_sided) + one_sided) * part.step / divided + rounding

    assert wide(noise) <= Fraction(error)

    def larger(factor):
        of_itself = noise.sensitivity if isinstance(noise, Gaussian) else 1
        return type(noise)(noise.scale / of_itself * factor, noise.sensitivity)

    assert isinstance(noise, LAWS[kind])
    assert wide(larger(1.02)) > Fraction(error) or part.step / divided < 1e-3
    assert wide(larger(1.2)) > Fraction(error)


@pytest.mark.parametrize(
    ("query", "kinds", "price", "said"),
    [
        (Count(), {"pure"}, {}, "price must be one of epsilon, rho, mu and error, got none"),
        (Count(), {"pure"}, {"epsilon": 1, "error": 2.0}, "got epsilon, error"),
        (
            Count(),
            {"pure"},
            {"rho": 1},
            "price must be epsilon, mu or error, unless every budget is zcdp or rdp, got rho",
        ),
        (Count(), {"pure", "zcdp"}, {"rho": 1}, "price must be epsilon, mu or error"),
        (Count(), {"gdp"}, {"rho": 1}, "price must be epsilon, mu or error"),
        (Count(), {"zcdp"}, {"mu": 1}, "price must be epsilon, rho or error, unless budgets are gdp"),
        (Count(), {"gdp", "pure"}, {"mu": 1}, "price must be epsilon, rho or error, unless budgets are gdp"),
        (Count(), {"gdp"}, {"mu": 0}, "mu must be above 0"),
        (Count(), {"gdp"}, {"mu": "-1/2"}, "mu must be above 0"),
        (Count(), {"gdp"}, {"mu": "much"}, "mu must be a finite number"),
        (Count(), {"gdp"}, {"mu": "1/0"}, "mu must be a finite number"),
        (Count(), {"gdp"}, {"mu": float("nan")}, "mu must be a finite number"),
        (Count(), {"gdp"}, {"mu": float("inf")}, "mu must be a finite number"),
        (Count(), {"gdp"}, {"mu": "1e-9"}, "mu_squared must be 0 or at least one unit"),
        (Count(), {"pure"}, {"epsilon": "1e-12"}, "epsilon must be 0 or at least one unit"),
        (Count(), {"pure"}, {"epsilon": 0}, "epsilon must be above 0"),
        (Count(), {"pure"}, {"epsilon": float("nan")}, "epsilon must be finite"),
        (CountAbove(3), {"pure"}, {"error": 0.5}, "error must be at least"),
        (Count(), {"pure"}, {"error": float("nan")}, "error must be finite"),
        (Sum("v", (0, 1)), {"pure"}, {"error": 1e40}, None),
        (Mean("v", (0, 1)), {"pure"}, {"error": 1.0}, "price must be epsilon, rho or mu for a mean"),
        (MostCommonCategory("v", ("a",)), {"zcdp"}, {"rho": 1}, "price must be epsilon for a choice"),
    ],
)
def test_prices_that_cannot_be_asked_with_are_refused(query, kinds, price, said):
    def plan():
        return plan_noise(query, rows=1, relation=ADD, kinds=frozenset(kinds), **price)

    if said is None:
        assert plan().release
    else:
        with pytest.raises(CheckError, match=said):
            plan()

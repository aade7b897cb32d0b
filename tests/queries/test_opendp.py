"""OpenDP as a witness: its maps and noise beside ours. The lock file has it; where it is missing, this is skipped."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

dp = pytest.importorskip("opendp.prelude")

from scipy.special import chdtrc  # noqa: E402

from epsilog.accounting import epsilon, rho  # noqa: E402
from epsilog.mechanisms import DiscreteGaussian, DiscreteLaplace  # noqa: E402
from epsilog.mechanisms.sampling import discrete_gaussian, discrete_laplace  # noqa: E402
from epsilog.queries.contributions import sum_contributions  # noqa: E402
from epsilog.queries.noise import NoisySum, compute_half_width, list_noisy_sums  # noqa: E402
from epsilog.queries.query_types import Histogram, Sum, build_value_grid  # noqa: E402
from epsilog.terms import NeighboringRelation  # noqa: E402

pytestmark = pytest.mark.slow
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
WHOLE = {"T": int}


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib")


def measured(make, scale):
    return make(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=scale)


@pytest.mark.parametrize("scale", [0.7, 3.0, 250.0])
@pytest.mark.parametrize("moved", [1, 2, 7])
def test_noise_costs_the_same(scale, moved):
    theirs = measured(dp.m.make_laplace, scale).map(moved)
    assert epsilon(DiscreteLaplace(scale, moved), delta=0.0, relation=ADD).upper == pytest.approx(theirs, rel=1e-12)
    theirs = measured(dp.m.make_gaussian, scale).map(moved)
    assert rho(DiscreteGaussian(scale, moved), ADD) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("bounds", [(-3, 5), (2, 7), (-9, -4), (-5, 5)])
@pytest.mark.parametrize("rows", [1, 4])
def test_clamped_sums_move_as_far(bounds, rows):
    """Theirs under symmetric distance; a replaced row counts twice there, and keeps its place under change-one."""
    clamp = dp.t.make_clamp(dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(), bounds)
    (part,) = list_noisy_sums(Sum("v", bounds), rows, ADD)
    assert part.sensitivity(rows, ADD) * part.step == (clamp >> dp.t.then_sum()).map(rows)
    sized = dp.vector_domain(dp.atom_domain(bounds=bounds), size=10)
    change_one = dp.t.make_sum(sized, dp.symmetric_distance()).map(2 * rows)
    low, high = bounds
    if low <= 0 <= high:  # else ours has room for a row that stays out
        assert 2 * part.sensitivity(rows, REPLACE) * part.step == change_one
    else:
        assert 2 * part.sensitivity(rows, REPLACE) * part.step > change_one


def test_a_clamped_sum_is_the_same_number():
    values = [-7, 3, 100, 2, 0, 41]
    clamp = dp.t.make_clamp(dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(), (-3, 50))
    query = Sum("v", (-3, 50))
    ((ours,),) = sum_contributions({"v": values}, query, list_noisy_sums(query, 1, ADD), unit=None, rows=1)
    assert ours * build_value_grid(query.bounds)[0] == (clamp >> dp.t.then_sum())(values)


def test_counts_by_category_are_the_same():
    names, values = ["a", "b", "c"], ["a", "b", "a", "z", "c", "a"]
    count = dp.t.make_count_by_categories(
        dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance(), names, null_category=False
    )
    query = Histogram("v", categories=tuple(names))
    parts = list_noisy_sums(query, 1, ADD)
    assert sum_contributions({"v": values}, query, parts, unit=None, rows=1) == [count(values)]
    assert parts == (NoisySum(Fraction(1), 0, 1, 3),)
    assert parts[0].sensitivity(1, ADD) == count.map(1)


@pytest.mark.extended  # beside exact laws: tests/mechanisms/test_sampling.py
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_noise_has_the_same_law(law):
    """Chi-square of two samples, false alarm 1e-6; a control with 30% more noise fails. OpenDP takes no seed."""
    below = random.Random(8).randrange  # noqa: S311
    draw, make = {
        "laplace": (discrete_laplace, dp.m.make_laplace),
        "gaussian": (discrete_gaussian, dp.m.make_gaussian),
    }[law]
    theirs = [measured(make, 2.5)(0) for _ in range(8000)]

    def p_value(ours):
        mine, yours = (Counter(max(-6, min(6, k)) for k in draws) for draws in (ours, theirs))
        return chdtrc(12, sum((mine[k] - yours[k]) ** 2 / (mine[k] + yours[k]) for k in range(-6, 7)))

    assert p_value([draw(2.5, below=below) for _ in range(8000)]) > 1e-6
    assert p_value([draw(3.25, below=below) for _ in range(8000)]) < 1e-6


def test_error_bars_are_as_wide():
    for scale in (1.0, 10.0, 33.3):
        theirs = dp.discrete_laplacian_scale_to_accuracy(scale, 0.05)
        assert (
            compute_half_width(DiscreteLaplace(scale)) == math.ceil(theirs) - 1
        )  # theirs is the least that noise stays below
        theirs = dp.discrete_gaussian_scale_to_accuracy(scale, 0.05)
        assert compute_half_width(DiscreteGaussian(scale)) == math.ceil(theirs) - 1

"""OpenDP as a witness: its maps and noise beside ours. The lock file has it; where it is missing, this is skipped."""

import math
from fractions import Fraction

import pytest

dp = pytest.importorskip("opendp.prelude")

from epsilog.accounting import epsilon, rho  # noqa: E402
from epsilog.mechanisms import DiscreteGaussian, DiscreteLaplace  # noqa: E402
from epsilog.queries.contributions import sum_contributions  # noqa: E402
from epsilog.queries.noise import NoisySum, compute_half_width, list_noisy_sums  # noqa: E402
from epsilog.queries.query_types import Histogram, Sum  # noqa: E402
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


def test_error_bars_are_as_wide():
    for scale in (1.0, 10.0, 33.3):
        theirs = dp.discrete_laplacian_scale_to_accuracy(scale, 0.05)
        assert (
            compute_half_width(DiscreteLaplace(scale)) == math.ceil(theirs) - 1
        )  # theirs is the least that noise stays below
        theirs = dp.discrete_gaussian_scale_to_accuracy(scale, 0.05)
        assert compute_half_width(DiscreteGaussian(scale)) == math.ceil(theirs) - 1

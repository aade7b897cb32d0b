"""OpenDP as a witness: its maps and noise beside ours. The lock file has it; where it is missing, this is skipped."""

import pytest

dp = pytest.importorskip("opendp.prelude")

from epsilog.accounting import epsilon, rho  # noqa: E402
from epsilog.mechanisms import DiscreteGaussian, DiscreteLaplace  # noqa: E402
from epsilog.queries.noise import list_noisy_sums  # noqa: E402
from epsilog.queries.query_types import Sum  # noqa: E402
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

"""Schedules that change: against constant runs, closed forms of Gaussians, golden numbers, every order of stretches."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epsilog import plan
from epsilog.accounting import fl_formula, gaussian_epsilon
from epsilog.plan import Schedule
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, UnsupportedMechanismError, codec

FREE = DeltaPolicy(None)
PILOT, MAIN = Schedule(50_000, 250, 50, 1.5), Schedule(60_000, 900, 100, 1.2)
everybody = st.builds(
    lambda n, rounds, noise: Schedule(n, n, rounds, noise), st.integers(1, 10**6), st.integers(1, 40), st.floats(2, 40)
)  # nobody is hidden: plain Gaussians, whose composition is known


def overlap(one, other):
    return one.lower <= other.upper and other.lower <= one.upper


@pytest.mark.parametrize(("many", "few", "epsilon"), [((500, 19), (500, 1), 2.63), ((100, 82), (900, 2), 5.77)])
def test_what_averages_hide(many, few, epsilon):
    """Golden numbers of docs/pitfalls.md: the mean q is .01 in both, for which 1.83 is right."""
    run = [Schedule(1000, cohort, rounds, 1.0) for rounds, cohort in (many, few)]
    found = plan.stretches(run, delta=1e-5, policy=FREE)
    assert found.epsilon.upper == pytest.approx(epsilon, abs=0.01)
    assert found.average.sampling_probability == pytest.approx(0.01)
    assert found.average.epsilon.upper == pytest.approx(1.83, abs=0.01)
    assert found.average.formula.total == pytest.approx(1.617, abs=1e-3)
    assert found.formula is None
    assert "Averages are never charged" in found.verdict


@given(parts=st.lists(everybody, min_size=1, max_size=4))
@settings(max_examples=10, deadline=None)
def test_gaussians_compose_as_their_squares_add(parts):
    """mu^2 = sum T/sigma^2 (Dong et al. 2019, Corollary 3.3), and so do the shares."""
    found = plan.stretches(parts, delta=1e-6)
    squares = [part.rounds / part.noise_multiplier**2 for part in parts]
    known = gaussian_epsilon(math.sqrt(math.fsum(squares)), 1e-6)[1]
    assert found.epsilon.upper == pytest.approx(known, rel=1e-6)
    assert found.epsilon.upper == pytest.approx(found.unamplified.upper, rel=1e-6)
    assert found.shares == pytest.approx([square / sum(squares) for square in squares])


@pytest.mark.slow
def test_a_run_cut_in_stretches_costs_what_it_costs_whole():
    whole = plan.federated(population=60_000, cohort_size=900, rounds=100, noise_multiplier=1.2)
    cut = plan.stretches([Schedule(60_000, 900, rounds, 1.2) for rounds in (7, 43, 50)])
    assert overlap(whole.epsilon, cut.epsilon)
    assert cut.formula == whole.formula
    assert cut.average is None
    assert cut.verdict == whole.verdict
    assert cut.shares == pytest.approx((0.07, 0.43, 0.5))
    assert cut.neighbors == "Neighbours differ in one client, in all stretches at once."


@pytest.mark.slow
def test_no_order_of_stretches_is_cheaper_and_none_is_free():
    parts = [PILOT, MAIN, Schedule(55_000, 1200, 20, 0.9)]
    found = [plan.stretches(order).epsilon for order in (parts, parts[::-1], [*parts[1:], parts[0]])]
    assert all(overlap(one, other) for one, other in itertools.combinations(found, 2))
    for left in itertools.combinations(parts, 2):  # who joins late or leaves early is in fewer
        assert plan.stretches(left).epsilon.upper < found[0].lower
    assert sum(plan.stretches(parts).shares) == pytest.approx(1)


@pytest.mark.slow
def test_what_was_spent_rises_to_the_whole():
    found = plan.stretches([PILOT, MAIN])
    points = plan.stretch_curve(found, points=6)
    assert [point.rounds for point in points] == sorted({point.rounds for point in points})
    assert {50, 150} <= {point.rounds for point in points}
    assert [point.stretch for point in points] == [1 if point.rounds <= 50 else 2 for point in points]
    assert all(low.epsilon.lower <= high.epsilon.upper for low, high in itertools.pairwise(points))
    assert overlap(points[-1].epsilon, found.epsilon)
    ends = plan.stretch_curve(found, points=None)
    assert [(end.stretch, end.rounds) for end in ends] == [(1, 50), (2, 150)]
    assert ends[0].to_json().keys() == {"stretch", "rounds", "lower", "upper"}


@pytest.mark.parametrize("points", [2, 3, 5, 9, 40])
@pytest.mark.parametrize("rounds", [(1,), (1, 1, 1), (1000,), (3, 500, 1, 40), (2,) * 30])
def test_the_rounds_of_a_curve_are_few_and_end_with_the_last(points, rounds):
    from epsilog.plan.changing import _places

    ends = list(itertools.accumulate(rounds))
    places = _places(ends, points)
    assert places == sorted(set(places))
    assert places[0] == 1
    assert places[-1] == ends[-1]
    assert len(places) <= max(points, 1 + (len(ends) if len(ends) < points else 0))
    if len(ends) < points:
        assert set(ends) <= set(places)


def test_delta_is_held_against_the_largest_population():
    parts = [Schedule(100, 100, 1, 9.0), Schedule(4000, 4000, 1, 9.0)]
    found = plan.stretches(parts, policy=FREE)
    assert found.delta.delta == 1 / 4000 < 1 / 100
    assert "1/4000, the largest N" in found.neighbors
    more = plan.stretches(parts, policy=FREE, enrolled=4100)
    assert more.delta.delta == 1 / 4100
    assert "1/4100, the units enrolled" in more.neighbors
    with pytest.raises(CheckError, match="enrolled must be at least 4000"):
        plan.stretches(parts, enrolled=3999)


def test_little_noise_in_one_stretch_is_priced_with_its_sampling_and_none_is_no_privacy():
    little = plan.stretches([Schedule(1000, 10, 2, 0.1), MAIN])
    assert 0.8 * little.unamplified.upper > little.epsilon.upper > plan.stretches([MAIN]).epsilon.upper
    none = plan.stretches([Schedule(1000, 10, 2, 0.0), MAIN])
    assert none.epsilon.upper == none.unamplified.upper == math.inf
    assert (none.shares, none.average, none.formula) == (None, None, None)
    assert none.verdict == "Without noise in every stretch there is no privacy."
    assert none.to_json()["epsilon"]["upper"] == "inf"


def test_a_stretch_has_no_price_where_its_sampling_has_none():
    fixed = Schedule(1000, 10, 2, 3.0, "fixed-size")
    with pytest.raises(UnsupportedMechanismError):
        plan.stretches([fixed, MAIN])
    found = plan.stretches([fixed, Schedule(900, 30, 2, 3.0, "fixed-size")], relation=NeighboringRelation.REPLACE_ONE)
    assert math.isfinite(found.epsilon.upper)
    assert (found.shares, found.average) == (None, None)
    assert found.verdict.startswith("The closed form is for one q and one sigma")


def test_the_whole_is_one_release_that_says_what_it_is():
    found = plan.stretches([Schedule(90, 90, 2, 3.0), Schedule(90, 90, 5, 4.0)])
    document = found.to_json()
    assert codec.from_json(document["release"]) == found.release
    assert document["rounds"] == found.rounds == 7
    assert [one["rounds"] for one in document["stretches"]] == [2, 5]
    steady = plan.stretches([Schedule(90, 9, 2, 3.0), Schedule(190, 19, 5, 3.0)], delta=1e-7)
    assert steady.formula == fl_formula(sampling_probability=0.1, noise_multiplier=3.0, rounds=7, delta=1e-7)


@pytest.mark.parametrize(
    ("parts", "named", "wrong"),
    [
        ([], {}, "schedules must be 1 to 100"),
        ([MAIN] * 101, {}, "schedules must be 1 to 100"),
        ([MAIN, None], {}, r"schedules\[1\] must be a Schedule"),
        ([MAIN], {"delta": 2}, "delta must be"),
        ([MAIN], {"privacy_unit": " "}, "privacy_unit must be"),
        ([MAIN], {"gap": 0}, "gap must be"),
    ],
)
def test_bad_stretches_are_refused_by_name(parts, named, wrong):
    with pytest.raises(ValueError, match=f"^{wrong}"):
        plan.stretches(parts, **named)

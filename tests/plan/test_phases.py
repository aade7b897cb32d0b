"""Schedules that change: against constant runs, closed forms of Gaussians, golden numbers, every order of phases."""

import itertools
import math

import pytest
from hypothesis import given, settings, strategies as st

from epsilog import plan
from epsilog.accounting import gaussian_epsilon
from epsilog.plan import Schedule
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, UnsupportedMechanismError, codec
from epsilog.terms.formatting import format_lower, format_upper

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
    assert plan.plan_phases(run, delta=1e-5, policy=FREE).epsilon.upper == pytest.approx(epsilon, abs=0.01)


@given(parts=st.lists(everybody, min_size=1, max_size=4))
@settings(max_examples=10, deadline=None)
def test_gaussians_compose_as_their_squares_add(parts):
    """mu^2 = sum T/sigma^2 (Dong et al. 2019, Corollary 3.3)."""
    found = plan.plan_phases(parts, delta=1e-6)
    squares = [part.rounds / part.noise_multiplier**2 for part in parts]
    known = gaussian_epsilon(math.sqrt(math.fsum(squares)), 1e-6)[1]
    assert found.epsilon.upper == pytest.approx(known, rel=1e-6)
    assert found.epsilon.upper == pytest.approx(found.unamplified.upper, rel=1e-6)


@pytest.mark.slow
def test_a_run_cut_in_phases_costs_what_it_costs_whole():
    whole = plan.plan_federated(population=60_000, cohort_size=900, rounds=100, noise_multiplier=1.2)
    cut = plan.plan_phases([Schedule(60_000, 900, rounds, 1.2) for rounds in (7, 43, 50)])
    assert overlap(whole.epsilon, cut.epsilon)
    assert cut.neighbor_note.id == "phases/one-population"


@pytest.mark.slow
def test_no_order_of_phases_is_cheaper_and_none_is_free():
    parts = [PILOT, MAIN, Schedule(55_000, 1200, 20, 0.9)]
    found = [plan.plan_phases(order).epsilon for order in (parts, parts[::-1], [*parts[1:], parts[0]])]
    assert all(overlap(one, other) for one, other in itertools.combinations(found, 2))
    for left in itertools.combinations(parts, 2):  # who joins late or leaves early is in fewer
        assert plan.plan_phases(left).epsilon.upper < found[0].lower


def test_delta_is_compared_with_the_largest_population():
    parts = [Schedule(100, 100, 1, 9.0), Schedule(4000, 4000, 1, 9.0)]
    found = plan.plan_phases(parts, policy=FREE)
    assert found.delta.delta == 1 / 4000 < 1 / 100
    assert (found.neighbor_note.id, dict(found.neighbor_note.params)["enrolled"]) == ("phases/largest-population", 4000)
    more = plan.plan_phases(parts, policy=FREE, total_population=4100)
    assert more.delta.delta == 1 / 4100
    assert (more.neighbor_note.id, dict(more.neighbor_note.params)["enrolled"]) == ("phases/stated-population", 4100)
    with pytest.raises(CheckError, match="total_population must be at least 4000"):
        plan.plan_phases(parts, total_population=3999)


def test_little_noise_in_one_phase_is_priced_with_its_sampling_and_none_is_no_privacy():
    little = plan.plan_phases([Schedule(1000, 10, 2, 0.1), MAIN])
    assert 0.8 * little.unamplified.upper > little.epsilon.upper > plan.plan_phases([MAIN]).epsilon.upper
    none = plan.plan_phases([Schedule(1000, 10, 2, 0.0), MAIN])
    assert none.epsilon.upper == none.unamplified.upper == math.inf
    assert none.to_json()["epsilon"]["upper"] == "inf"


def test_a_phase_has_no_price_where_its_sampling_has_none():
    fixed = Schedule(1000, 10, 2, 3.0, "fixed-size")
    with pytest.raises(UnsupportedMechanismError):
        plan.plan_phases([fixed, MAIN])
    both = [fixed, Schedule(900, 30, 2, 3.0, "fixed-size")]
    assert math.isfinite(plan.plan_phases(both, relation=NeighboringRelation.REPLACE_ONE).epsilon.upper)


def test_the_whole_is_one_release_that_says_what_it_is():
    found = plan.plan_phases([Schedule(90, 90, 2, 3.0), Schedule(90, 90, 5, 4.0)])
    document = found.to_json()
    assert codec.from_json(document["release"]) == found.release
    assert document["rounds"] == found.rounds == 7
    assert [one["rounds"] for one in document["phases"]] == [2, 5]


@pytest.mark.parametrize(
    ("parts", "named", "wrong"),
    [
        ([], {}, "phases must be 1 to 100"),
        ([MAIN] * 101, {}, "phases must be 1 to 100"),
        ([MAIN, None], {}, r"phases\[1\] must be a Schedule"),
        ([MAIN], {"delta": 2}, "delta must be"),
        ([MAIN], {"privacy_unit": " "}, "privacy_unit must be"),
        ([MAIN], {"relative_width": 0}, "relative_width must be"),
    ],
)
def test_bad_phases_are_refused_by_name(parts, named, wrong):
    with pytest.raises(ValueError, match=f"^{wrong}"):
        plan.plan_phases(parts, **named)


def test_a_notebook_shows_both_sides():
    found = plan.plan_phases([Schedule(1000, 1000, 1, 2.0)], delta=1e-6)
    shown = found._repr_html_()
    for label, number in (
        ("epsilon", format_upper(found.epsilon.upper)),
        ("lower bound", format_lower(found.epsilon.lower)),
        ("unamplified", format_upper(found.unamplified.upper)),
    ):
        row = next(row for row in shown.split("<tr") if f">{label}<" in row)
        assert number in row

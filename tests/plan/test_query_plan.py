"""Query plans: the worked example, exact and optimal noise against independent computations, refusals by name."""

import dataclasses
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.extent import amount

from epsilog import plan
from epsilog.accounting import epsilon as bound_epsilon, gaussian_delta, gaussian_epsilon
from epsilog.mechanisms import Composed, Gaussian, Laplace, PureDP
from epsilog.plan.query_plan import QueryNoise
from epsilog.terms import DeltaPolicy


def test_the_worked_example():
    found = plan.queries(epsilon=1.0, queries=100, queries_used=40)
    share = found.shares[0]
    assert (share.count, share.epsilon, share.classic.scale) == (100, 0.01, 100.0)
    assert found.consumed.split == pytest.approx(0.4)
    assert found.consumed.optimal.upper == found.consumed.classic.upper == pytest.approx(0.4)
    assert found.remaining == pytest.approx(0.6)
    assert found.queries_left == 60
    assert found.noise_reduction == 1.0  # pure DP: the plain split is optimal


@pytest.mark.parametrize(
    ("queries", "classic", "optimal"), [(10, 53.0, 13.36), (100, 529.9, 42.25), (1000, 5298.8, 133.6)]
)
def test_gaussian_noise_even_and_optimal(queries, classic, optimal):
    share = plan.queries(epsilon=1.0, queries=queries, mechanism="gaussian", delta=1e-6).shares[0]
    assert share.classic.scale == pytest.approx(classic, rel=1e-3)
    assert share.optimal.scale == pytest.approx(optimal, rel=1e-3)
    assert share.optimal.scale < share.exact.scale < share.classic.scale


@pytest.mark.parametrize(("used", "cost"), [(1, 0.0850), (40, 0.6112), (100, 1.0)])
def test_what_is_consumed_is_priced_at_the_noise_that_is_recommended(used, cost):
    found = plan.queries(epsilon=1.0, queries=100, mechanism="gaussian", delta=1e-6, queries_used=used)
    share, consumed = found.shares[0], found.consumed
    assert consumed.optimal.upper == pytest.approx(cost, rel=1e-3)
    for noise, interval in ((share.classic, consumed.classic), (share.exact, consumed.exact)):
        assert interval.upper == pytest.approx(gaussian_epsilon(math.sqrt(used) / noise.scale, 1e-6)[1], rel=1e-9)
    truth = gaussian_epsilon(math.sqrt(used) / share.optimal.scale, 1e-6)
    assert consumed.optimal.lower <= truth[1] * (1 + 1e-9)
    assert truth[0] * (1 - 1e-9) <= consumed.optimal.upper <= 1.0
    assert found.remaining == pytest.approx(1.0 - cost, abs=1e-4)
    assert consumed.split == pytest.approx(used / 100)  # which says nothing about the noise that is recommended


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    epsilon=st.floats(0.1, 5),
    weights=st.lists(st.sampled_from([1.0, 1.1, 2.0, 3.0, 7.0]), min_size=2, max_size=8),
    mechanism=st.sampled_from(["laplace", "gaussian"]),
    data=st.data(),
)
def test_what_remains_can_be_spent(epsilon, weights, mechanism, data):
    used = data.draw(st.integers(0, len(weights)))
    found = plan.queries(
        epsilon=epsilon, queries=len(weights), mechanism=mechanism, delta=1e-5, weights=weights, queries_used=used
    )
    kind = Laplace if mechanism == "laplace" else Gaussian
    asked = [kind(share.optimal.scale) for share in found.shares[:used]]
    further = Composed([*asked, PureDP(found.remaining)])
    assert bound_epsilon(further, delta=1e-5).lower <= epsilon  # what remains is no more than a pure release may cost
    assert bound_epsilon(Composed(asked), delta=1e-5).lower <= found.consumed.optimal.upper <= epsilon
    if used:
        louder = Composed([kind(0.98 * share.optimal.scale) for share in found.shares])
        assert bound_epsilon(louder, delta=1e-5).upper > epsilon * 0.99  # and the noise is no more than is needed


@pytest.mark.slow
def test_hundreds_of_different_weights_are_priced_in_steps_on_the_safe_side():
    rng = np.random.default_rng(7)
    count = amount(60, 300)
    weights = rng.uniform(0.1, 10, count).tolist()  # several in most of the 48 steps
    found = plan.queries(epsilon=1.0, queries=count, weights=weights, delta=1e-6, queries_used=count)
    exact = bound_epsilon(Composed([Laplace(share.optimal.scale) for share in found.shares]), delta=1e-6)
    assert 0.9 < exact.upper <= 1.0  # every share by itself: within the budget, and hardly less than it
    assert exact.lower <= found.consumed.optimal.upper <= 1.0


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    epsilon=st.floats(0.05, 10),
    delta=st.floats(1e-9, 1e-2),
    weights=st.lists(st.floats(0.1, 10), min_size=1, max_size=6),
)
def test_weighted_gaussian_noise_keeps_the_promise(epsilon, delta, weights):
    found = plan.queries(
        epsilon=epsilon, queries=len(weights), mechanism="gaussian", delta=delta, weights=weights, sensitivity=3.0
    )
    mu = math.sqrt(math.fsum((3.0 / share.optimal.scale) ** 2 for share in found.shares))
    assert gaussian_delta(mu, epsilon)[1] <= delta
    assert gaussian_delta(mu * 1.001, epsilon)[0] > delta  # and hardly any noise is wasted
    ratio = found.shares[0].optimal.scale * weights[0]
    assert all(share.optimal.scale * share.weight == pytest.approx(ratio) for share in found.shares)


def test_exact_gaussian_meets_its_delta_in_high_precision():
    share = plan.queries(epsilon=2.0, queries=1, mechanism="gaussian", delta=1e-8).shares[0]
    with mpmath.workdps(50):
        mu, eps = 1 / mpmath.mpf(share.exact.scale), mpmath.mpf(2)
        truth = mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)
    assert truth <= 1e-8
    assert truth >= 1e-8 * (1 - 1e-9)


@pytest.mark.slow
def test_optimal_laplace_keeps_the_promise_and_saves():
    found = plan.queries(epsilon=1.0, queries=100, delta=1e-6)
    assert found.shares[0].optimal.scale < 50
    total = bound_epsilon(Composed([Laplace(found.shares[0].optimal.scale)] * 100), delta=1e-6, relative_width=1e-4)
    assert total.upper <= 1.0


def test_a_million_queries_are_one_share():
    found = plan.queries(epsilon=1.0, queries=10**6, mechanism="gaussian", delta=1e-6, queries_used=10**5)
    assert len(found.shares) == 1
    assert found.queries == 10**6
    assert found.consumed.split == pytest.approx(0.1)
    assert found.queries_left == 900_000


def test_asking_more_than_planned_is_a_finding():
    found = plan.queries(epsilon=1.0, queries=4, queries_used=6)
    assert not found.covers_used_queries
    assert found.remaining == pytest.approx(-0.5)
    (told,) = found.findings
    assert (told.code, told.status) == ("queries/too-many", "failed")
    assert dict(told.values) == {"planned": 4, "used": 6}


def test_weighted_use_is_counted_in_order():
    found = plan.queries(epsilon=1.0, queries=3, weights=[2.0, 1.0, 1.0], queries_used=2)
    assert found.consumed.split == pytest.approx(0.75)
    assert found.consumed.optimal.upper == pytest.approx(0.75)


def test_the_classic_formula_is_caught():
    found = plan.queries(epsilon=20.0, queries=1, mechanism="gaussian", delta=1e-5)
    broken = {finding.code: finding for finding in found.findings}["classic-formula/delta-exceeded"]
    assert (broken.status, broken.code) == ("failed", "classic-formula/delta-exceeded")
    assert found.shares[0].exact.scale > found.shares[0].classic.scale


def test_errors_against_a_typical_answer():
    found = plan.queries(epsilon=1.0, queries=1, magnitude=-300.0).to_json()
    assert found["relative_error_95"] == pytest.approx(math.log(20) / 300)


def test_population_fills_and_checks_delta():
    assert plan.queries(epsilon=1.0, queries=1, mechanism="gaussian", population=500).delta.delta == 1e-6
    loose = plan.queries(
        epsilon=1.0, queries=1, mechanism="gaussian", population=500, delta=0.01, policy=DeltaPolicy(None)
    )
    assert loose.findings[0].code == "delta/too-large"
    assert loose.findings[0].code == "delta/too-large"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"mechanism": "gaussian"}, "delta"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1e-300, 1e300]}, "weights"),
        ({"weights": [5e-324, 1.0]}, "weights"),
        ({"weights": [1.0, 1.1e12]}, "weights"),
        ({"epsilon": 5e-324}, "epsilon"),
        ({"epsilon": 1e-280, "queries": 2**53 - 1}, "epsilon"),
        ({"magnitude": 0.0}, "magnitude"),
    ],
)
def test_bad_input_is_refused_by_name(changed, name):
    with pytest.raises(ValueError, match=rf"^{name}(\[\d\])? must be"):
        plan.queries(**{"epsilon": 1.0, "queries": 2} | changed)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "unit", [5e-324, 1.7e308, *(pytest.param(unit, marks=pytest.mark.slow) for unit in (1e-300, 1.0))]
)
def test_only_the_ratios_of_weights_count_at_any_size(mechanism, unit):
    even = plan.queries(epsilon=1.0, queries=3, mechanism=mechanism, delta=1e-6, queries_used=1)
    found = plan.queries(
        epsilon=1.0, queries=3, mechanism=mechanism, delta=1e-6, queries_used=1, weights=[unit, unit, unit]
    )
    assert [share.optimal.scale for share in found.shares] == pytest.approx([even.shares[0].optimal.scale] * 3)
    assert found.consumed.optimal.upper == pytest.approx(even.consumed.optimal.upper)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_past_all_numbers_is_still_json(mechanism):
    found = plan.queries(
        epsilon=1e-280, queries=1, mechanism=mechanism, delta=1e-6, sensitivity=1e300, queries_used=5, magnitude=5e-324
    )
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.slow
def test_crossover_agrees_with_its_rows():
    found = plan.compare_query_noise(epsilon=1.0, delta=1e-6, counts=range(1, 16))
    first = next(row.queries for row in found.rows if row.gaussian_optimal < row.laplace_pure)
    assert found.against_pure == first
    assert found.against_optimal is not None
    assert found.against_optimal >= first


def test_what_the_classic_formula_really_spends_is_told():
    """Where every query gets the whole delta, Q queries spend Q of it; one query alone spends what it says."""
    found = plan.queries(epsilon=1.0, queries=100, mechanism="gaussian", delta=1e-6)
    (told,) = found.findings
    assert (told.code, told.status) == ("classic-formula/delta-for-each", "warned")
    assert dict(told.values) == {"total_delta": pytest.approx(1e-4)}
    assert found.classic_total_delta == pytest.approx(1e-4)
    assert plan.queries(epsilon=0.5, queries=1, mechanism="gaussian", delta=1e-6).findings == ()
    two = plan.queries(epsilon=0.5, queries=2, mechanism="gaussian", delta=1e-6)
    assert [told.values for told in two.findings] == [(("total_delta", 2e-06),)]
    assert plan.queries(epsilon=0.5, queries=5, delta=1e-6).findings == ()  # Laplace noise has no classic delta
    assert plan.queries(epsilon=0.5, queries=5, delta=1e-6).classic_total_delta == 0.0
    many = plan.queries(epsilon=1.0, queries=10**7, mechanism="gaussian", delta=1e-6)
    assert many.classic_total_delta == 1.0


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("used", [100, 61])
def test_a_hundred_weights_are_priced_one_by_one_where_the_price_is_a_sum(used):
    """Gaussian noise, and Laplace noise without delta: no steps, however many different scales there are."""
    weights = [1 + i / 10 for i in range(100)]
    found = plan.queries(epsilon=1.0, queries=100, mechanism="gaussian", delta=1e-6, weights=weights, queries_used=used)
    for way in ("classic", "exact", "optimal"):
        mu = math.sqrt(math.fsum(getattr(share, way).scale ** -2 for share in found.shares[:used]))
        assert getattr(found.consumed, way).upper == pytest.approx(gaussian_epsilon(mu, 1e-6)[1], rel=1e-9)
    found = plan.queries(epsilon=1.0, queries=100, weights=weights, queries_used=used)
    part = math.fsum(weights[:used]) / math.fsum(weights)
    assert found.consumed.optimal.upper == pytest.approx(part, rel=1e-12)


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(("mechanism", "used"), [("gaussian", 41), ("laplace", 44), ("gaussian", 400)])
def test_more_than_was_planned_costs_more_than_the_budget(mechanism, used):
    """A plan that is kept costs at most its budget; one that is not is shown at its whole price."""
    kept = plan.queries(epsilon=1.0, queries=40, mechanism=mechanism, delta=1e-6, queries_used=40)
    assert kept.consumed.optimal.upper <= 1.0
    assert kept.remaining >= 0.0
    found = plan.queries(epsilon=1.0, queries=40, mechanism=mechanism, delta=1e-6, queries_used=used)
    assert found.consumed.optimal.upper > 1.0
    assert found.consumed.optimal.upper == pytest.approx((used / 40) ** 0.5, rel=0.35)
    assert found.remaining == 1.0 - found.consumed.optimal.upper < 0.0
    assert found.queries_left == 0


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("queries", [1, 100])
def test_what_is_saved_is_the_ratio_of_the_noises_that_are_shown(mechanism, queries):
    found = plan.queries(epsilon=1.0, queries=queries, mechanism=mechanism, delta=1e-6, magnitude=50.0)
    document, share = found.to_json(), found.shares[0]
    assert found.noise_reduction == document["saving"] == pytest.approx(share.classic.scale / share.optimal.scale)
    assert found.noise_reduction > (1.2 if queries > 1 else 1.0 if mechanism == "gaussian" else 0.9)
    for way in ("classic", "exact", "optimal"):
        assert document["shares"][0][way] == dataclasses.asdict(getattr(share, way))
    assert document["relative_error_95"] == pytest.approx(share.optimal.error_95 / 50)


def test_without_any_noise_nothing_is_saved():
    """Where neither way has a finite scale, their ratio says nothing."""
    noise = QueryNoise(math.inf, math.inf, math.inf)
    share = dataclasses.replace(plan.queries(epsilon=1.0, queries=1).shares[0], classic=noise, optimal=noise)
    assert dataclasses.replace(plan.queries(epsilon=1.0, queries=1), shares=(share,)).noise_reduction == 1.0


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_release_holds_every_answer_with_its_own_noise(mechanism):
    found = plan.queries(
        epsilon=1.0, queries=4, sensitivity=3.0, mechanism=mechanism, delta=1e-6, weights=(1.0, 2.5, 1.0, 0.5)
    )
    kind = Laplace if mechanism == "laplace" else Gaussian
    answers = Composed([kind(share.optimal.scale / 3.0) for share in found.shares for _ in range(share.count)])
    assert sum(share.count for share in found.shares) == 4
    assert bound_epsilon(found.release, delta=1e-6) == bound_epsilon(answers, delta=1e-6)
    assert 0.9 < found.interval.lower <= found.interval.upper <= 1.0

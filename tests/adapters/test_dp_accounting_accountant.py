"""Our accountant for dp-accounting: their contract, their calibration, and numbers that never fall below theirs."""

import math

import numpy as np
import pytest
from scipy import stats

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting import dp_event as events  # noqa: E402
from dp_accounting import privacy_accountant_test  # noqa: E402

import epsilog as ep  # noqa: E402
from epsilog.adapters.dp_accounting import CertifiedAccountant  # noqa: E402

Theirs = dp_accounting.NeighboringRelation
SGD = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)), 1000)
SAMPLED_RESPONSE = events.PoissonSampledDpEvent(0.01, events.RandomizedResponseDpEvent(0.5, 2))
WITHOUT_REPLACEMENT = events.SampledWithoutReplacementDpEvent(1000, 10, events.GaussianDpEvent(1.0))


class TestTheirContract(privacy_accountant_test.PrivacyAccountantTest):
    """The tests that dp-accounting ships for every accountant, run against ours under each relation."""

    def _make_test_accountants(self):
        return [CertifiedAccountant(), *(CertifiedAccountant(relation) for relation in Theirs)]


def test_it_is_one_of_theirs_and_defaults_to_add_or_remove():
    accountant = CertifiedAccountant()
    assert isinstance(accountant, dp_accounting.PrivacyAccountant)
    assert accountant.neighboring_relation is Theirs.ADD_OR_REMOVE_ONE
    assert accountant.compose(SGD, 2).ledger == events.SelfComposedDpEvent(SGD.event, 2000)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (SGD, Theirs.ADD_OR_REMOVE_ONE),
        (SGD, Theirs.REPLACE_SPECIAL),
        (events.SelfComposedDpEvent(events.LaplaceDpEvent(5.0), 20), Theirs.ADD_OR_REMOVE_ONE),
        (events.SelfComposedDpEvent(events.DiscreteLaplaceDpEvent(0.1, 2), 20), Theirs.ADD_OR_REMOVE_ONE),
        (events.GaussianDpEvent(2.0), Theirs.REPLACE_ONE),
        (SGD, Theirs.REPLACE_ONE),
    ],
    ids=str,
)
def test_their_loss_distributions_lie_in_our_interval(event, relation):
    """Their grid of 1e-4 errs upwards by at most 1e-4 in epsilon per composition step: hence the width."""
    ours = CertifiedAccountant(relation, relative_width=0.001).compose(event)
    theirs = dp_accounting.pld.PLDAccountant(relation).compose(event)
    interval = ours.interval(1e-6)
    assert interval.lower <= theirs.get_epsilon(1e-6) <= interval.upper * 1.002
    assert ours.get_epsilon(1e-6) == interval.upper
    assert ours.get_delta(1.0) == pytest.approx(theirs.get_delta(1.0), rel=0.02)
    assert ours.get_delta(interval.upper) <= 1e-6 * 1.01


def told_apart(noise_multiplier, epsilon):
    """Delta of their event's own words: clip 1, noise of that deviation on the sum, and a 1 replaced by a -1.

    The best test is a threshold, so its error rates, two normal tails, are all there is to it.
    """
    at = np.linspace(-40, 40, 800_001)
    hit, false_alarm_rate = stats.norm.sf(at, 1, noise_multiplier), stats.norm.sf(at, -1, noise_multiplier)
    return float(np.max(hit - math.exp(epsilon) * false_alarm_rate))


@pytest.mark.slow
def test_under_replace_one_a_clipped_sum_moves_twice():
    """``GaussianDpEvent`` divides by the clip norm; their loss distributions double it, Renyi forgets to."""
    event = events.GaussianDpEvent(2.0)
    ours = CertifiedAccountant(Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert told_apart(2.0, ours) == pytest.approx(1e-5, rel=1e-3)
    assert dp_accounting.pld.PLDAccountant(Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-5) == pytest.approx(
        ours, rel=1e-3
    )
    renyi = dp_accounting.rdp.RdpAccountant(neighboring_relation=Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert told_apart(2.0, renyi) > 100 * 1e-5
    assert CertifiedAccountant(Theirs.REPLACE_SPECIAL).compose(event).get_epsilon(1e-5) < renyi < ours / 2


@pytest.mark.parametrize(
    "event",
    [
        events.LaplaceDpEvent(2.0),
        events.SampledWithoutReplacementDpEvent(1000, 1000, events.GaussianDpEvent(2.0)),
        pytest.param(
            events.SampledWithoutReplacementDpEvent(1000, 100, events.GaussianDpEvent(2.0)), marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_their_renyi_orders_fall_below_our_lower_bound_under_replace_one(event):
    ours = CertifiedAccountant(Theirs.REPLACE_ONE).compose(event).interval(1e-5)
    renyi = dp_accounting.rdp.RdpAccountant(neighboring_relation=Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert renyi < 0.6 * ours.lower


def test_counts_multiply_wherever_they_stand():
    """Randomized response, whose count dp-accounting 0.6.0 forgets."""
    event = events.RandomizedResponseDpEvent(0.5, 2)
    times = CertifiedAccountant(Theirs.REPLACE_ONE).compose(event, 30)
    nested = CertifiedAccountant(Theirs.REPLACE_ONE).compose(
        events.ComposedDpEvent([events.SelfComposedDpEvent(event, 10)]), 3
    )
    listed = CertifiedAccountant(Theirs.REPLACE_ONE)
    for _ in range(30):
        listed.compose(event)
    expected = ep.epsilon(
        ep.Repeated(ep.mechanisms.RandomizedResponse(0.5, categories=2), 30),
        delta=1e-6,
        relation=ep.NeighboringRelation.REPLACE_ONE,
    ).upper
    assert times.get_epsilon(1e-6) == nested.get_epsilon(1e-6) == listed.get_epsilon(1e-6) == expected
    assert expected > CertifiedAccountant(Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-6) * 5


@pytest.mark.parametrize(
    ("event", "relation", "culprit"),
    [
        (events.ComposedDpEvent([SGD, WITHOUT_REPLACEMENT]), Theirs.ADD_OR_REMOVE_ONE, WITHOUT_REPLACEMENT),
        (events.ZCDpEvent(0.1, xi=0.5), Theirs.ADD_OR_REMOVE_ONE, events.ZCDpEvent(0.1, xi=0.5)),
        (
            events.SelfComposedDpEvent(events.RandomizedResponseDpEvent(0.5, 2), 3),
            Theirs.ADD_OR_REMOVE_ONE,
            events.RandomizedResponseDpEvent(0.5, 2),
        ),
    ],
    ids=str,
)
def test_what_has_no_proof_is_named_and_changes_nothing(event, relation, culprit):
    accountant = CertifiedAccountant(relation).compose(events.GaussianDpEvent(1.0))
    before = accountant.get_epsilon(1e-6)
    assert accountant._maybe_compose(event, 1, False).invalid_event == culprit
    assert not accountant.supports(event)
    with pytest.raises(dp_accounting.UnsupportedEventError, match="no proven bound"):
        accountant.compose(event)
    assert accountant.get_epsilon(1e-6) == before


def test_a_sample_without_a_pair_hides_nothing():
    found, told = (
        CertifiedAccountant(Theirs.REPLACE_ONE).compose(event).get_epsilon(1e-6)
        for event in (SAMPLED_RESPONSE, SAMPLED_RESPONSE.event)
    )
    assert found == pytest.approx(told, rel=1e-9)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_an_epsilon_out_of_range_is_an_error(bad):
    with pytest.raises(ValueError, match="epsilon must be"):
        CertifiedAccountant().compose(SGD).get_delta(bad)


def test_the_far_ends():
    sampled, laplace = CertifiedAccountant().compose(SGD), CertifiedAccountant().compose(events.LaplaceDpEvent(1.0))
    assert sampled.get_epsilon(0) == math.inf
    assert sampled.get_epsilon(1) == 0
    assert laplace.get_epsilon(0) == pytest.approx(1.0)
    assert laplace.get_delta(math.inf) == laplace.get_delta(1.1) == 0 < laplace.get_delta(0.9)


@pytest.mark.slow
def test_their_calibration_lands_on_our_certified_side():
    noise = dp_accounting.calibrate_dp_mechanism(
        CertifiedAccountant,
        lambda z: events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(z)), 1000),
        2.0,
        1e-6,
        dp_accounting.LowerEndpointAndGuess(0.5, 1.0),
        tol=1e-3,
    )
    make = lambda z: ep.Repeated(ep.PoissonSampled(ep.Gaussian(z), 0.01), 1000)  # noqa: E731
    assert ep.epsilon(make(noise), delta=1e-6).upper <= 2.0 < ep.epsilon(make(noise * 0.97), delta=1e-6).lower
    assert noise == pytest.approx(ep.calibrate(make, epsilon=2.0, delta=1e-6), rel=0.01)


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 1.0), (4.0, 0.0), (10.0, math.inf)])
def test_repeat_and_select_costs_at_most_what_theirs_says(mean, shape):
    """Their Renyi bound is an upper one, and so is ours: it may be smaller, and not below what we know from below."""
    select = events.RepeatAndSelectDpEvent(events.GaussianDpEvent(4.0), mean, shape)
    theirs = dp_accounting.rdp.RdpAccountant(list(np.linspace(1.1, 60, 120))).compose(select).get_epsilon(1e-6)
    ours = CertifiedAccountant().compose(select).interval(1e-6)
    assert ours.lower <= ours.upper <= theirs
    assert ours.lower > ep.epsilon(ep.Gaussian(4.0), delta=1e-6).upper, "choosing costs something"


def test_repeat_and_select_composes_with_others_and_with_itself():
    """At most what both cost at half of delta each, and no less than the selection alone."""
    noise = events.GaussianDpEvent(4.0)
    select = events.RepeatAndSelectDpEvent(noise, 10.0, 1.0)
    alone = CertifiedAccountant().compose(select).interval(1e-6)
    for first, second in ((select, noise), (noise, select), (select, select)):
        apart = sum(CertifiedAccountant().compose(one).interval(5e-7).upper for one in (first, second))
        both = CertifiedAccountant().compose(first).compose(second).interval(1e-6)
        assert alone.lower <= both.lower <= both.upper <= apart
    assert CertifiedAccountant().compose(select, 2).interval(1e-6).upper == both.upper

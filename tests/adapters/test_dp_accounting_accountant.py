"""Our accountant for dp-accounting: their contract, their calibration, and numbers that never fall below theirs."""

import math

import numpy as np
import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting import (  # noqa: E402
    dp_event as events,
    privacy_accountant_test,
)

import epsilog as ep  # noqa: E402
from epsilog.adapters.dp_accounting import CertifiedAccountant  # noqa: E402

Theirs = dp_accounting.NeighboringRelation
SGD = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)), 1000)
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
        (events.GaussianDpEvent(2.0), Theirs.REPLACE_ONE),
        (events.SelfComposedDpEvent(events.DiscreteLaplaceDpEvent(0.1, 2), 20), Theirs.ADD_OR_REMOVE_ONE),
        *(pytest.param(SGD, relation, marks=pytest.mark.extended) for relation in Theirs),
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

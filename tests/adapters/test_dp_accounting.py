"""Our terms and dp-accounting's events mean the same thing, in both directions."""

import math

import attr
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

dp_accounting = pytest.importorskip("dp_accounting")

from epsilog import epsilon, mechanisms, terms  # noqa: E402
from epsilog.adapters.dp_accounting import from_event, to_event  # noqa: E402

SAMPLES = [
    mechanisms.Gaussian(1.5),
    mechanisms.Laplace(2.0),
    mechanisms.DiscreteLaplace(2.0, sensitivity=3),
    mechanisms.RandomizedResponse(0.25, categories=4),
    mechanisms.ZeroConcentratedDP(0.1),
    mechanisms.MixtureOfGaussians(2.0, (0.0, 1.0, 3.0), (0.5, 0.25, 0.25)),
    mechanisms.Repeated(mechanisms.PoissonSampled(mechanisms.Gaussian(1.0), 0.01), 1000),
    mechanisms.Composed([mechanisms.Laplace(2.0), mechanisms.Repeated(mechanisms.Gaussian(3.0), 7)]),
    mechanisms.FixedSizeSampled(mechanisms.Gaussian(1.0), 30, 2400),
    mechanisms.TruncatedPoissonSampled(mechanisms.Gaussian(1.0), 0.01, 10_000, 120),
    mechanisms.Composed([]),
    mechanisms.Gaussian(0.0),
]


@pytest.mark.parametrize("release", SAMPLES, ids=repr)
def test_round_trip(release):
    assert from_event(to_event(release)) == release


class Later:
    """dp-accounting's events after 0.6.0 (its repository, August 2026): names and fields, as attrs classes."""

    EpsilonDeltaDpEvent = attr.make_class("EpsilonDeltaDpEvent", ["epsilon", "delta"], frozen=True)
    DiscreteGaussianDpEvent = attr.make_class(
        "DiscreteGaussianDpEvent",
        {"sigma": attr.ib(), "sensitivity": attr.ib(default=1.0), "dimension": attr.ib(default=None)},
        frozen=True,
    )
    ExponentialMechanismDpEvent = attr.make_class("ExponentialMechanismDpEvent", ["epsilon"], frozen=True)
    PermuteAndFlipDpEvent = attr.make_class("PermuteAndFlipDpEvent", ["epsilon"], frozen=True)


@pytest.mark.parametrize(
    "release",
    [
        mechanisms.PureDP(0.5),
        mechanisms.ApproximateDP(0.5, 1e-6),
        mechanisms.DiscreteGaussian(3.0, sensitivity=2),
        mechanisms.ExponentialMechanism(1.0),
        mechanisms.ReportNoisyMax(1.0, "exponential"),
    ],
    ids=repr,
)
def test_later_events_go_both_ways_where_they_exist(release, monkeypatch):
    if hasattr(dp_accounting.dp_event, "EpsilonDeltaDpEvent"):
        pytest.fail("dp-accounting has the later events: take its own instead of these")
    with pytest.raises(terms.UnsupportedMechanismError):
        to_event(release)
    for name in (
        "EpsilonDeltaDpEvent",
        "DiscreteGaussianDpEvent",
        "ExponentialMechanismDpEvent",
        "PermuteAndFlipDpEvent",
    ):
        monkeypatch.setattr(dp_accounting.dp_event, name, getattr(Later, name), raising=False)
    assert from_event(to_event(release)) == release


def test_later_events_without_a_proof_are_refused_or_read_as_their_statement():
    flipped = epsilon(from_event(Later.PermuteAndFlipDpEvent(0.7)), delta=0.01)
    assert flipped.upper == epsilon(mechanisms.PureDP(0.7), delta=0.01).upper
    assert flipped.lower < flipped.upper  # what attains the statement is no permute-and-flip
    for event in (
        Later.DiscreteGaussianDpEvent(3.0),  # of unknown dimension
        Later.DiscreteGaussianDpEvent(3.0, 1.0, 2),
        Later.DiscreteGaussianDpEvent(3.0, 1.5, 1),
    ):
        with pytest.raises(terms.UnsupportedMechanismError):
            from_event(event)


@pytest.mark.parametrize(
    "event",
    [
        dp_accounting.ZCDpEvent(0.1, xi=0.1),
        dp_accounting.SelfComposedDpEvent(dp_accounting.UnsupportedDpEvent(), 3),
        dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, 8),
        dp_accounting.SampledWithReplacementDpEvent(100, 10, dp_accounting.GaussianDpEvent(1.0)),
    ],
    ids=repr,
)
def test_what_has_no_counterpart_is_refused(event):
    with pytest.raises(terms.UnsupportedMechanismError, match="conversion of dp-accounting events"):
        from_event(event)


@pytest.mark.parametrize(
    "release",
    [mechanisms.PureDP(1.0), mechanisms.GaussianDP(1.0), mechanisms.Repeated(mechanisms.DiscreteGaussian(1.0), 2)],
)
def test_what_they_have_no_words_for_is_refused(release):
    with pytest.raises(terms.UnsupportedMechanismError):
        to_event(release)


LAWS = [
    mechanisms.NegativeBinomialTrialCount(1.0, 0.1),
    mechanisms.NegativeBinomialTrialCount(0.0, 0.01),
    mechanisms.NegativeBinomialTrialCount(0.5, 0.3),
    mechanisms.NegativeBinomialTrialCount(7.0, 0.999),
    mechanisms.PoissonTrialCount(10.0),
    mechanisms.BinomialTrialCount(1, 1.0),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_repeat_and_select_goes_both_ways_and_never_to_fewer_trials(law):
    again = from_event(to_event(mechanisms.BestOfTrials(mechanisms.Gaussian(2.0), law)))
    assert again.release == mechanisms.Gaussian(2.0)
    if not isinstance(law, mechanisms.NegativeBinomialTrialCount):
        assert again.trials == law
        return
    assert again.trials.shape == law.shape
    assert again.trials.stopping_probability <= law.stopping_probability * (1 + 1e-15)
    assert again.trials.stopping_probability == pytest.approx(law.stopping_probability, rel=1e-9)


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 1.0), (1.5, 0.0), (300.0, 0.5), (2.0, 40.0)])
def test_the_stopping_probability_is_theirs(mean, shape):
    from dp_accounting.rdp import rdp_privacy_accountant as theirs

    event = dp_accounting.dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(1.0), mean, shape)
    found = from_event(event).trials
    assert found.stopping_probability == pytest.approx(theirs._gamma_truncated_negative_binomial(shape, mean), rel=1e-8)
    assert theirs._truncated_negative_binomial_mean(found.stopping_probability, shape) >= mean * (1 - 1e-14)


@pytest.mark.parametrize(("mean", "shape"), [(10.0, -0.5), (0.5, 1.0), (0.5, float("inf")), (1e300, 1.0)])
def test_repeat_and_select_that_is_none_is_refused(mean, shape):
    event = dp_accounting.dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(1.0), mean, shape)
    with pytest.raises(terms.UnsupportedMechanismError):
        from_event(event)


@pytest.mark.parametrize(
    "law",
    [
        mechanisms.BinomialTrialCount(8, 0.5),
        mechanisms.NegativeBinomialTrialCount(-0.5, 0.1),
        mechanisms.PoissonTrialCount(0.5),
    ],
    ids=repr,
)
def test_laws_without_an_event_are_refused(law):
    with pytest.raises(terms.UnsupportedMechanismError):
        to_event(mechanisms.BestOfTrials(mechanisms.Gaussian(1.0), law))


@pytest.mark.parametrize("odd", [None, "", {}, 1, math.nan, np.array(1.0)], ids=repr)
def test_events_that_are_no_series_are_refused(odd):
    with pytest.raises(terms.CheckError, match="events must be a series of events"):
        from_event(attr.evolve(dp_accounting.dp_event.ComposedDpEvent([]), events=odd))


def test_an_event_that_is_nested_too_deeply_is_refused():
    event = dp_accounting.dp_event.GaussianDpEvent(1.0)
    for _ in range(5000):
        event = dp_accounting.dp_event.SelfComposedDpEvent(event, 1)
    with pytest.raises(terms.CheckError, match="event must be nested less deeply"):
        from_event(event)

"""dp-accounting's own test file of its PLD accountant (0.6.0, in the wheel), run against ours, and what deviates.

Each deviation has its reason, and is held: a test of theirs that deviates must fail, and one of ours says what happens
instead. Cases that the file has after 0.6.0 stand below with their figures.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from unittest import mock

import attr
import numpy as np
import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting import dp_event as events  # noqa: E402
from dp_accounting.pld import (  # noqa: E402
    pld_privacy_accountant,
    pld_privacy_accountant_test as theirs,
)

from epsilog.adapters.dp_accounting import CertifiedAccountant, from_event  # noqa: E402
from epsilog.terms import CheckError, NeighboringRelation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

Theirs = dp_accounting.NeighboringRelation
MIXTURES = "mixtures of several sensitivities have no term here: refused with that reason"
REPLACED = "a bound is proved under replace-one, where they have none: the record moves the answer twice as far"
EXACT = "a record that is not sampled is hidden: delta is the chance to be sampled, not 1"
WORDS = "refused as theirs is, with a reason in other words"
DEVIATIONS = {
    "test_additive_noise_mechanisms_with_zero_noise_multiplier3": EXACT,
    "test_additive_noise_mechanisms_with_zero_noise_multiplier4": EXACT,
    "test_composition_errors_for_neighboring_relation0": WORDS,
    "test_composition_errors_for_neighboring_relation1": REPLACED,
    "test_composition_errors_for_neighboring_relation2": REPLACED,
    "test_composition_errors_for_neighboring_relation3": REPLACED,
    "test_composition_errors_for_neighboring_relation4": WORDS,
    "test_poisson_subsampling_laplace_not_supported_for_replace_one": REPLACED,
    "test_mixture_of_gaussians_basic": MIXTURES,
    "test_truncated_subsampled_gaussian_basic": "the bound is looser for samples from four records: 19.70 for 17.90",
}


def deviating(name, reason):
    def test(self):
        with pytest.raises((AssertionError, dp_accounting.UnsupportedEventError)):
            getattr(super(TestTheirFile, self), name)()

    test.__doc__ = f"It fails: {reason}."
    return test


@pytest.mark.slow
class TestTheirFile(theirs.PldPrivacyAccountantTest):
    """Every test of the file, with our accountant in the place of theirs."""

    def setUp(self):
        super().setUp()
        ours = mock.patch.object(pld_privacy_accountant, "PLDAccountant", CertifiedAccountant)
        ours.start()
        self.addCleanup(ours.stop)

    def test_it_is_ours_that_is_tested(self):
        assert isinstance(self._make_test_accountants()[0], CertifiedAccountant)


for name, reason in DEVIATIONS.items():
    assert hasattr(theirs.PldPrivacyAccountantTest, name), name
    setattr(TestTheirFile, name, deviating(name, reason))


@pytest.mark.parametrize("event", [events.LaplaceDpEvent(1.0), events.DiscreteLaplaceDpEvent(0.1, 1)])
def test_under_replace_one_a_record_moves_the_answer_twice_as_far(event):
    far = (
        attr.evolve(event, noise_multiplier=0.5)
        if hasattr(event, "noise_multiplier")
        else attr.evolve(event, sensitivity=2)
    )
    theirs = pld_privacy_accountant.PLDAccountant().compose(far)
    ours = CertifiedAccountant(Theirs.REPLACE_ONE).compose(event).interval(0.01)
    assert ours.lower <= theirs.get_epsilon(0.01) <= ours.upper + 1e-3


@pytest.mark.parametrize(
    ("event", "relation", "says"),
    [
        (events.RandomizedResponseDpEvent(0.1, 3), Theirs.ADD_OR_REMOVE_ONE, "its neighbors replace one unit"),
        (events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]), Theirs.REPLACE_ONE, "joins, leaves or"),
        (events.SingleEpochTreeAggregationDpEvent(1.0, 4), Theirs.ADD_OR_REMOVE_ONE, "a special one"),
        (events.SampledWithReplacementDpEvent(9, 2, events.GaussianDpEvent(1.0)), Theirs.REPLACE_ONE, "several times"),
        (events.ZCDpEvent(1.0, 0.5), Theirs.ADD_OR_REMOVE_ONE, "xi"),
        (
            events.PoissonSampledDpEvent(0.1, events.RandomizedResponseDpEvent(0.5, 2)),
            Theirs.REPLACE_SPECIAL,
            "not one outside",
        ),
    ],
    ids=str,
)
def test_what_is_refused_says_why(event, relation, says):
    accountant = CertifiedAccountant(relation)
    assert not accountant.supports(event)
    with pytest.raises(dp_accounting.UnsupportedEventError, match=says):
        accountant.compose(event)


# ---- after 0.6.0 (google/differential-privacy, August 2026) ----------------------------------------------------------

EpsilonDelta = attr.make_class("EpsilonDeltaDpEvent", ["epsilon", "delta"], bases=(events.DpEvent,), frozen=True)
RandomAllocation = attr.make_class(
    "RandomAllocationDpEvent", ["event", "num_selected", "num_steps"], bases=(events.DpEvent,), frozen=True
)
"""Fields as in google/differential-privacy, pull request 414."""


@pytest.mark.parametrize(
    ("parts", "rate", "expected"),
    [
        ([EpsilonDelta(1.0, 0.0), EpsilonDelta(2.0, 0.0)], 0.1, 0.8286),
        ([EpsilonDelta(1.0, 0.1), EpsilonDelta(2.0, 0.2)], 0.1, 0.91938),
        ([events.GaussianDpEvent(math.sqrt(3))] * 3, 0.1, 0.38914),
        ([events.GaussianDpEvent(0)], 0.1, 1.0),
        ([events.MixtureOfGaussiansDpEvent(0, [1, 2], [0.5, 0.5])], 0.1, 1.0),
        ([events.NonPrivateDpEvent()], 0.1, 1.0),
        ([events.PoissonSampledDpEvent(0, events.GaussianDpEvent(0))], 0.5, 0.5),
        ([events.MixtureOfGaussiansDpEvent(1, [0], [1.0])], 0.5, 0.5),
    ],
    ids=str,
)
def test_true_positive_rates_are_those_of_their_file(parts, rate, expected):
    """Theirs are upper bounds by a grid, to three digits; ours are no higher than that."""
    accountant = CertifiedAccountant()
    for part in parts:
        accountant.compose(part)
    assert accountant.get_true_positive_rates(rate) == pytest.approx(expected, abs=1e-3)
    rates = np.array([[rate], [0.9]])
    found = accountant.get_true_positive_rates(rates, deltas=np.array([0.1]))
    assert found.shape == rates.shape
    assert found[0, 0] == accountant.get_true_positive_rates(rate)
    assert (rates <= found).all()


def mixture(*parts):
    return events.MixtureOfGaussiansDpEvent(2.0, *(list(each) for each in zip(*parts, strict=True)))


FOUR, TWO = events.GaussianDpEvent(4.0), events.GaussianDpEvent(2.0)


@pytest.mark.parametrize("relation", [Theirs.ADD_OR_REMOVE_ONE, Theirs.REPLACE_SPECIAL])
@pytest.mark.parametrize(
    ("event", "plain"),
    [
        (mixture((0.0, 0.75), (0.5, 0.25)), events.PoissonSampledDpEvent(0.25, FOUR)),
        (mixture((0.5, 1.0)), FOUR),
        (mixture((0.5, 0.25), (0.0, 0.5), (0.5, 0.25), (3.0, 0.0)), events.PoissonSampledDpEvent(0.5, FOUR)),
        (RandomAllocation(TWO, 4, 4), events.SelfComposedDpEvent(TWO, 4)),
        (RandomAllocation(TWO, 0, 4), events.NoOpDpEvent()),
    ],
    ids=str,
)
def test_an_event_that_is_another_costs_the_same(event, plain, relation):
    ours, other = (CertifiedAccountant(relation).compose(one, 3).interval(1e-4) for one in (event, plain))
    assert (ours.lower, ours.upper) == (other.lower, other.upper)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("moves", "chances", "count", "relation"),
    [
        ([0.0, 1.0], [0.8, 0.2], 5, Theirs.ADD_OR_REMOVE_ONE),
        ([0.5, 2.0, 0.5, 0.0], [0.25, 0.05, 0.1, 0.6], 1, Theirs.REPLACE_SPECIAL),
        ([1.0, 3.0], [0.99, 0.01], 1, Theirs.ADD_OR_REMOVE_ONE),
    ],
)
def test_their_mixture_lies_in_our_interval(moves, chances, count, relation):
    event = events.MixtureOfGaussiansDpEvent(1.5, moves, chances)
    theirs = pld_privacy_accountant.PLDAccountant(relation, value_discretization_interval=5e-3).compose(event, count)
    ours = CertifiedAccountant(relation).compose(event, count).interval(1e-5)
    assert ours.relative_width < 0.003
    assert ours.lower <= theirs.get_epsilon(1e-5) <= ours.upper + 2e-4 * count


def test_random_allocation_to_one_step_is_balls_in_bins():
    import epsilog as ep
    from epsilog.adapters.dp_accounting import from_event

    event = RandomAllocation(events.GaussianDpEvent(2.0), 1, 8)
    assert from_event(event) == ep.mechanisms.BallsInBins(ep.Gaussian(2.0), 8)
    assert CertifiedAccountant().supports(event)
    several = RandomAllocation(events.GaussianDpEvent(2.0), 2, 8)
    assert "several steps" in CertifiedAccountant()._maybe_compose(several, 1, do_compose=False).error_message


@pytest.mark.parametrize(("steps", "depth"), [(1, 1), (2, 2), (3, 2), (4, 3), ([1, 7, 2], 3), (1024, 11), ([8, 0], 4)])
def test_trees_cost_what_their_renyi_bound_says(steps, depth):
    """A record moves as many nodes as a tree is deep, at most; that is one Gaussian release each."""
    event = events.SingleEpochTreeAggregationDpEvent(4.0, steps)
    ours = CertifiedAccountant(Theirs.REPLACE_SPECIAL).compose(event)
    nodes = CertifiedAccountant(Theirs.REPLACE_SPECIAL).compose(events.GaussianDpEvent(4.0), depth)
    renyi = dp_accounting.rdp.RdpAccountant(neighboring_relation=Theirs.REPLACE_SPECIAL).compose(event)
    assert ours.get_epsilon(1e-5) == nodes.get_epsilon(1e-5) <= renyi.get_epsilon(1e-5)
    assert ours.get_epsilon(1e-5) > 0.8 * renyi.get_epsilon(1e-5)
    assert ours.interval(1e-5).lower == 0  # a tree need not attain it


@pytest.mark.parametrize(("noise", "buckets"), [(0.1, 2), (0.5, 3), (0.9, 10), (0.99, 4), (0.25, 1)])
def test_randomized_response_of_a_special_record_is_bounded_by_their_loss_distribution(noise, buckets):
    event = events.RandomizedResponseDpEvent(noise, buckets)
    ours = CertifiedAccountant(Theirs.REPLACE_SPECIAL).compose(event)
    theirs = pld_privacy_accountant.PLDAccountant(Theirs.REPLACE_SPECIAL).compose(event)
    largest = max(buckets * (1 - noise) + noise, 1 / noise) if buckets > 1 else 1.0
    assert ours.get_epsilon(0.0) == pytest.approx(math.log(largest), abs=1e-12)
    assert ours.get_epsilon(0.0) == pytest.approx(theirs.get_epsilon(0.0), abs=2e-4)
    for delta in (1e-6, 0.01):
        assert theirs.get_epsilon(delta) <= ours.get_epsilon(delta) + 2e-4
        assert ours.interval(delta).lower == 0


@pytest.mark.parametrize("chance", [1 - 2.0**-53, 1 - 2.0**-40, 1 - 1e-9, 0.75, 0.5, 1e-9, 1e-300, 5e-324])
@pytest.mark.parametrize("buckets", [2, 3, 1000])
def test_the_loss_of_a_special_record_is_never_below_its_logarithm(chance, buckets):
    found = from_event(events.RandomizedResponseDpEvent(chance, buckets), NeighboringRelation.ZERO_OUT).epsilon
    exact = Fraction(chance)
    with localcontext(prec=2000):
        ratios = [Decimal(one.numerator) / one.denominator for one in (buckets * (1 - exact) + exact, 1 / exact)]
    with localcontext(prec=80):
        assert 0 <= Decimal(found) / max(ratios).ln() - 1 < Decimal("1e-14")


# ---- supports() never raises -----------------------------------------------------------------------------------------

BAD = [0, -1, math.nan, math.inf, None, "x", 10**400, True, [1], np.array(1.0), {}]
G = events.GaussianDpEvent(1.0)
MADE = [
    events.GaussianDpEvent,
    events.LaplaceDpEvent,
    lambda bad: events.DiscreteLaplaceDpEvent(bad, 1),
    lambda bad: events.DiscreteLaplaceDpEvent(1.0, bad),
    lambda bad: events.RandomizedResponseDpEvent(bad, 2),
    lambda bad: events.RandomizedResponseDpEvent(0.5, bad),
    events.ZCDpEvent,
    lambda bad: events.ZCDpEvent(1.0, bad),
    lambda bad: events.PoissonSampledDpEvent(bad, G),
    lambda bad: events.PoissonSampledDpEvent(0.5, bad),
    lambda bad: events.SampledWithoutReplacementDpEvent(bad, 1, G),
    lambda bad: events.SampledWithoutReplacementDpEvent(10, bad, G),
    lambda bad: events.TruncatedSubsampledGaussianDpEvent(bad, 0.5, 3, 1.0),
    lambda bad: events.TruncatedSubsampledGaussianDpEvent(10, bad, 3, 1.0),
    lambda bad: events.TruncatedSubsampledGaussianDpEvent(10, 0.5, bad, 1.0),
    lambda bad: events.TruncatedSubsampledGaussianDpEvent(10, 0.5, 3, bad),
    lambda bad: events.SelfComposedDpEvent(G, bad),
    lambda bad: events.SelfComposedDpEvent(bad, 3),
    lambda bad: events.ComposedDpEvent([G, bad]),
    events.ComposedDpEvent,
    lambda bad: events.RepeatAndSelectDpEvent(G, bad, 1.0),
    lambda bad: events.RepeatAndSelectDpEvent(G, 2.0, bad),
    lambda bad: events.MixtureOfGaussiansDpEvent(bad, [0.0, 1.0], [0.5, 0.5]),
    lambda bad: events.MixtureOfGaussiansDpEvent(1.0, [bad, 1.0], [0.5, 0.5]),
    lambda bad: events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [bad, 0.5]),
    lambda bad: events.MixtureOfGaussiansDpEvent(1.0, bad, bad),
    lambda bad: events.SingleEpochTreeAggregationDpEvent(bad, 4),
    lambda bad: events.SingleEpochTreeAggregationDpEvent(1.0, bad),
    lambda bad: RandomAllocation(G, bad, 4),
    lambda bad: RandomAllocation(G, 1, bad),
    lambda bad: RandomAllocation(bad, 1, 4),
    lambda bad: EpsilonDelta(bad, 0.0),
    lambda bad: bad,
]


@pytest.mark.parametrize("place", range(len(MADE)))
def test_supports_answers_whatever_an_event_holds(place):
    for relation in (Theirs.ADD_OR_REMOVE_ONE, Theirs.REPLACE_SPECIAL):
        accountant = CertifiedAccountant(relation)
        for bad in BAD:
            event = MADE[place](bad)
            assert accountant.supports(event) in (True, False)
            if isinstance(event, events.DpEvent) and not accountant.supports(event):
                with pytest.raises((dp_accounting.UnsupportedEventError, CheckError)):
                    accountant.compose(event)
        assert accountant.get_epsilon(0.1) == 0  # nothing was composed

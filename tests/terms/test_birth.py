"""Bad parameters fail at birth, and the message names the argument, its bound and what was given."""

import dataclasses
import math
import pickle
import re
from pathlib import Path

import pytest

from epsilog import mechanisms, schemes, terms
from epsilog.terms import CheckError, DeltaPolicy, Interval, NeighboringRelation, check

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mechanisms.Gaussian(-1.0), "noise_multiplier must be finite and at least 0, got -1.0"),
        (lambda: mechanisms.Gaussian(math.nan), "noise_multiplier must be finite and at least 0, got nan"),
        (lambda: mechanisms.Gaussian(math.inf), "noise_multiplier must be finite"),
        (lambda: mechanisms.Gaussian("1"), "noise_multiplier must be a number, got '1'"),
        (lambda: mechanisms.Gaussian(1.0, sensitivity=0), "sensitivity must be finite and above 0, got 0"),
        (
            lambda: mechanisms.PoissonSampled(mechanisms.Gaussian(1.0), 1.5),
            r"sampling_probability must be in \[0, 1\], got 1.5",
        ),
        (lambda: mechanisms.PoissonSampled(mechanisms.Gaussian(1.0), math.nan), "sampling_probability must be"),
        (
            lambda: mechanisms.FixedSizeSampled(mechanisms.Gaussian(1.0), 11, 10),
            r"sample_size must be in \[0, 10\], got 11",
        ),
        (lambda: mechanisms.MixtureOfGaussians(1.0, [], []), "sensitivities must be 1 to 4096 numbers, got 0"),
        (
            lambda: mechanisms.MixtureOfGaussians(1.0, [0.0] * 4097, [0.0] * 4097),
            "sensitivities must be 1 to 4096 numbers",
        ),
        (lambda: mechanisms.MixtureOfGaussians(1.0, [1.0], [0.5, 0.5]), "as many as sensitivities, 1, got 2"),
        (lambda: mechanisms.MixtureOfGaussians(1.0, [1.0, 2.0], [0.5, 0.6]), "must add up to 1, got 1.1"),
        (lambda: mechanisms.MixtureOfGaussians(1.0, [1.0, 2.0], [0.5, 0.5 - 1e-9]), "must add up to 1, got 0.99999999"),
        (
            lambda: mechanisms.MixtureOfGaussians(1.0, [-1.0], [1.0]),
            r"sensitivities\[0\] must be finite and at least 0",
        ),
        (lambda: mechanisms.MixtureOfGaussians(1.0, [1.0], [1.5]), r"sampling_probabilities\[0\] must be in \[0, 1\]"),
        (
            lambda: mechanisms.TruncatedPoissonSampled(mechanisms.Gaussian(1.0), 1.1, 9, 1),
            r"sampling_probability must be in",
        ),
        (
            lambda: mechanisms.TruncatedPoissonSampled(mechanisms.Gaussian(1.0), 0.1, 9, 0),
            "max_batch_size must be at least 1",
        ),
        (lambda: mechanisms.Repeated(mechanisms.Gaussian(1.0), 0), "count must be at least 1, got 0"),
        (lambda: mechanisms.Repeated(mechanisms.Gaussian(1.0), 2.0), "count must be a whole number, got 2.0"),
        (lambda: mechanisms.NegativeBinomialTrialCount(-1.0, 0.5), r"shape must be in \(-1, 1e\+06\), got -1.0"),
        (
            lambda: mechanisms.NegativeBinomialTrialCount(1.0, 1.0),
            r"stopping_probability must be in \[1e-09, 1\), got 1.0",
        ),
        (lambda: mechanisms.PoissonTrialCount(0.0), r"mean must be in \(0, 1e\+09\), got 0.0"),
        (lambda: mechanisms.BinomialTrialCount(0, 0.5), r"most must be in \[1, 1000000\], got 0"),
        (lambda: mechanisms.BinomialTrialCount(5, 0.0), r"probability must be in \(0, 1\], got 0.0"),
        (lambda: mechanisms.BestOfTrials(mechanisms.Gaussian(1.0), 5), "trials must be a TrialDistribution"),
        (lambda: mechanisms.Grouped(mechanisms.Gaussian(1.0), 0), "units must be at least 1, got 0"),
        (lambda: mechanisms.Composed([1.0]), r"releases\[0\] must be a Release"),
        (lambda: mechanisms.ApproximateDP(1.0, 1.5), r"delta must be in \[0, 1\], got 1.5"),
        (lambda: mechanisms.RandomizedResponse(0.5, categories=1), "categories must be at least 2, got 1"),
        (lambda: schemes.ClientLevelCentral(10, 0.1, 0, 1.0, 1.0), "rounds must be at least 1, got 0"),
        (
            lambda: schemes.ExampleLevelClientSide(10, 11, 5, 1, 0.5, 1, 1.0, 1.0),
            r"cohort_size must be in \[1, 10\], got 11",
        ),
        (
            lambda: schemes.ExampleLevelClientSide(10, 5, 5, 6, 0.5, 1, 1.0, 1.0),
            r"max_participations must be in \[1, 5\]",
        ),
        (
            lambda: schemes.ExampleLevelClientSide(10, 5, 5, 1, 0.0, 1, 1.0, 1.0),
            r"batch_probability must be in \(0, 1\], got 0.0",
        ),
        (lambda: terms.Guarantee(1.0, 1.0, ADD_OR_REMOVE, "person", 10), r"delta must be in \[0, 1\), got 1.0"),
        (lambda: terms.Guarantee(1.0, 0.1, ADD_OR_REMOVE, " ", 10), "privacy_unit must be a string"),
        (lambda: Interval(math.nan, 1.0, "m", ADD_OR_REMOVE), "lower must be at least 0, got nan"),
        (lambda: Interval(0.0, math.nan, "m", ADD_OR_REMOVE), "upper must be at least 0, got nan"),
        (lambda: Interval(1.0, 0.5, "m", ADD_OR_REMOVE), "upper must be at least lower"),
        (lambda: Interval(0.0, 1.0, "m", ADD_OR_REMOVE, estimate=2.0), "estimate must be in"),
        (lambda: terms.RoundRecord(1, "00", 1.0, 1.0, (math.nan,), 0.0, 0.0), r"padding\[0\] must be finite"),
        (lambda: terms.RoundRecord(1, "00", 1.0, 1.0, (), math.inf, 0.0), "test_loss must be finite"),
        (lambda: terms.RoundRecord(1, "00", 1.0, 1.0, (), 0.0, None), "test_loss and test_score must both be there"),
        (lambda: mechanisms.DenseStrategy(()), "rows must not be empty"),
        (lambda: mechanisms.DenseStrategy(((1.0,), (1.0,))), "row 1 must have 2 entries, got 1"),
        (lambda: mechanisms.DenseStrategy(((1.0,), (0.5, 0.0))), "rows must be finite and above 0"),
        (lambda: terms.CustodyRecord(1, (), 0.0, 0.0, non_finite_updates=-1), "non_finite_updates must be at least 0"),
    ],
)
def test_out_of_range_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_booleans_are_not_numbers():
    with pytest.raises(ValueError, match="delta must be a number, got True"):
        check.in_closed_interval(0, 1)(delta=True)


def test_local_steps_round_epochs_over_probability():
    scheme = schemes.ExampleLevelClientSide(10, 5, 5, 2, 0.3, 1, 1.0, 1.0)
    assert scheme.local_steps == 3
    assert scheme.release().count == 6


@pytest.mark.parametrize(
    ("cap", "given", "population", "used", "warned"),
    [
        (1e-6, None, 50_000, 1e-6, False),
        (None, None, 50_000, 2e-5, True),
        (1e-6, 1e-5, 1_000, 1e-6, False),
        (None, 1e-3, 1_000, 1e-3, True),
        (1e-6, 1e-9, 1_000, 1e-9, False),
        (1e-6, None, 10**9, 1e-9, True),
    ],
)
def test_delta_policy(cap, given, population, used, warned):
    decision = DeltaPolicy(cap).choose_delta(given, population=population)
    assert decision.delta == used
    assert bool(decision.findings) is warned
    assert decision.rationale


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan, 2.0])
def test_delta_outside_its_range_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        DeltaPolicy().choose_delta(delta, population=100)


@pytest.mark.parametrize("cap", [None, 1.5])
def test_one_unit_alone_leaves_no_room_for_a_delta(cap):
    if cap is None:
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 1.0 \(population 1 and no cap\)"):
            DeltaPolicy(None).choose_delta(None, population=1)
    assert DeltaPolicy(None).choose_delta(None, population=2).delta == 0.5
    assert DeltaPolicy(0.1).choose_delta(None, population=1).delta == 0.1


def test_interval_shows_its_sides():
    interval = Interval(
        1.0, math.inf, "RDP", ADD_OR_REMOVE, given=(("delta", 1e-5),), assumptions=("Poisson <sampling>",)
    )
    assert "epsilon in [1, inf] at delta 1e-05" in str(interval)
    assert "&lt;sampling&gt;" in interval._repr_html_()
    assert math.isnan(interval.relative_width)
    assert Interval(1.0, 1.25, "RDP", ADD_OR_REMOVE).relative_width == pytest.approx(0.2)


SGD = mechanisms.PoissonSampled(mechanisms.Gaussian(1.0), 0.5)
CENTRAL = schemes.ClientLevelCentral(10, 0.1, 5, 1.0, 1.0)
CLIENT_SIDE = schemes.ExampleLevelClientSide(10, 1, 5, 1, 0.5, 1, 1.0, 1.0)
STRATEGY = mechanisms.ToeplitzStrategy((1.0,))


@pytest.mark.parametrize(
    ("term", "least"),
    [
        (mechanisms.Repeated(SGD, 3), {"count": 1}),
        (terms.Guarantee(1.0, 0.1, ADD_OR_REMOVE, "person", 10), {"population": 1, "epsilon": 0, "delta": 0}),
        (mechanisms.BallsInBinsParticipation(3), {"cycle_length": 1}),
        (mechanisms.BoundedParticipation(3, 3), {"max_participations": 1, "min_separation": 1}),
        (mechanisms.MinSepParticipation(3, 0.5), {"min_separation": 1}),
        (mechanisms.CyclicPoissonParticipation(3, 0.5), {"cycle_length": 1}),
        (mechanisms.RandomAllocationParticipation(3), {"participations": 1}),
        (mechanisms.MatrixMechanism(STRATEGY, mechanisms.BallsInBinsParticipation(3), 3, 1.0), {"rounds": 1}),
        (mechanisms.Gaussian(1.0), {"noise_multiplier": 0}),
        (mechanisms.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)), {"noise_stddev": 0}),
        (mechanisms.Laplace(1.0), {"noise_multiplier": 0}),
        (mechanisms.DiscreteGaussian(1.0, 3), {"sensitivity": 1, "noise_stddev": 0}),
        (mechanisms.DiscreteLaplace(1.0, 3), {"sensitivity": 1, "noise_scale": 0}),
        (mechanisms.RandomizedResponse(0.5, 3), {"categories": 2, "flip_probability": 0}),
        (mechanisms.Staircase(1.0, 0.5, 2.0), {"gamma": 0}),
        (mechanisms.ReportNoisyMax(1.0, "gumbel"), {"epsilon": 0}),
        (mechanisms.SparseVector(2.0, 3.0, 2), {"threshold_noise_multiplier": 0, "positives": 1}),
        (mechanisms.PureDP(1.0), {"epsilon": 0}),
        (mechanisms.ApproximateDP(1.0, 0.1), {"epsilon": 0, "delta": 0}),
        (mechanisms.ZeroConcentratedDP(1.0), {"rho": 0}),
        (mechanisms.GaussianDP(1.0), {"mu": 0}),
        (SGD, {"sampling_probability": 0}),
        (mechanisms.FixedSizeSampled(mechanisms.Gaussian(1.0), 0, 10), {"population": 1, "sample_size": 0}),
        (mechanisms.BallsInBins(mechanisms.Gaussian(1.0), bins=3, epochs=3), {"bins": 1, "epochs": 1}),
        (mechanisms.Shuffled(mechanisms.RandomizedResponse(0.5), 3), {"population": 1}),
        (CENTRAL, {"clients": 1, "rounds": 1, "noise_multiplier": 0}),
        (CLIENT_SIDE, dict.fromkeys(("clients", "cohort_size", "rounds", "max_participations", "epochs"), 1)),
        (terms.RoundRecord(3, "00", 1.0, 1.0, (), 0.0, 0.0), {"round": 1, "noise_stddev": 0}),
        (terms.CustodyRecord(3, (), 1.0, 0.5, 3, 3), {"round": 1, "largest_norm": 0, "clipped_fraction": 0}),
        (terms.CustodyRecord(3, (), 1.0, 0.5, 3, 3), {"non_finite_updates": 0, "unusable_rows": 0}),
    ],
)
def test_the_least_of_each_number_is_taken_and_what_is_below_it_is_not(term, least):
    for name, value in least.items():
        assert getattr(dataclasses.replace(term, **{name: value}), name) == value
        below = value - 1 if isinstance(getattr(term, name), int) else -5e-324
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            dataclasses.replace(term, **{name: below})


@pytest.mark.parametrize(
    ("term", "names"),
    [
        (mechanisms.Gaussian(1.0), ["sensitivity"]),
        (mechanisms.Laplace(1.0), ["sensitivity"]),
        (CENTRAL, ["clip_norm", "sampling_probability"]),
        (CLIENT_SIDE, ["clip_norm", "batch_probability"]),
        (terms.RoundRecord(3, "00", 1.0, 1.0, (), 0.0, 0.0), ["clip_norm"]),
    ],
)
def test_what_is_divided_by_is_above_0(term, names):
    for name in names:
        assert getattr(dataclasses.replace(term, **{name: 5e-324}), name) == 5e-324
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            dataclasses.replace(term, **{name: 0.0})


def test_a_scheme_without_a_part_is_an_error_that_names_it():
    class Silent(schemes.Scheme):
        __slots__ = ()

    with pytest.raises(TypeError, match="Silent must define step"):
        Silent().step()
    with pytest.raises(TypeError, match="Silent must define noisy_sums, called with 3 rounds"):
        Silent().noisy_sums(3)


def test_a_refusal_carries_field_bound_and_value_between_processes_too():
    with pytest.raises(CheckError) as refused:
        check.sequence_of(check.in_unit_interval())(weights=[1.0, 1.5])
    for error in (refused.value, pickle.loads(pickle.dumps(refused.value))):  # noqa: S301 - our own
        assert (error.field, error.bound, error.value) == ("weights[1]", "in (0, 1]", "1.5")
        assert str(error) == "weights[1] must be in (0, 1], got 1.5"


def test_nothing_says_in_words_alone_which_field_is_out_of_which_bound():
    """What reads as a field, its bound and its value is a CheckError."""
    words = re.compile(r'raise ValueError\(\s*f?"[a-z_]+ must (?:be|have|hold|name) [^"]*, got ')
    source = Path(terms.__file__).parents[1]
    told = {str(file.relative_to(source)) for file in source.rglob("*.py") if words.search(file.read_text())}
    assert not told

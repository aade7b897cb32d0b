"""Bad parameters fail at birth: what one field forbids another, and what the message says (bounds: test_fields)."""

import dataclasses
import math
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.terms.test_codec import SAMPLES

from epsilog import mechanisms, schemes, terms
from epsilog.mechanisms import DenseStrategy, Gaussian, MixtureOfGaussians, ToeplitzStrategy
from epsilog.schemes import ExampleLevelClientSide
from epsilog.terms import CheckError, DeltaPolicy, Finding, Interval, NeighboringRelation, Status, check
from epsilog.terms.formatting import format_lower, format_upper

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Gaussian(-1.0), "noise_multiplier must be finite and at least 0, got -1.0"),
        (lambda: Gaussian("1"), "noise_multiplier must be a number, got '1'"),
        (lambda: mechanisms.PoissonSampled(Gaussian(1.0), 1.5), r"sampling_probability must be in \[0, 1\], got 1.5"),
        (lambda: mechanisms.FixedSizeSampled(Gaussian(1.0), 11, 10), r"sample_size must be in \[0, 10\], got 11"),
        (lambda: MixtureOfGaussians(1.0, [], []), "sensitivities must be 1 to 4096 numbers, got 0"),
        (lambda: MixtureOfGaussians(1.0, [0.0] * 4097, [0.0] * 4097), "sensitivities must be 1 to 4096 numbers"),
        (lambda: MixtureOfGaussians(1.0, [1.0], [0.5, 0.5]), "as many as sensitivities, 1, got 2"),
        (lambda: MixtureOfGaussians(1.0, [1.0, 2.0], [0.5, 0.6]), "must add up to 1, got 1.1"),
        (lambda: MixtureOfGaussians(1.0, [1.0, 2.0], [0.5, 0.5 - 1e-9]), "must add up to 1, got 0.99999999"),
        (lambda: mechanisms.Repeated(Gaussian(1.0), 2.0), "count must be a whole number, got 2.0"),
        (lambda: mechanisms.BestOfTrials(Gaussian(1.0), 5), "trials must be a TrialDistribution"),
        (lambda: mechanisms.Composed([1.0]), r"releases\[0\] must be a Release"),
        (lambda: ExampleLevelClientSide(10, 11, 5, 1, 0.5, 1, 1.0, 1.0), r"cohort_size must be in \[1, 10\], got 11"),
        (lambda: ExampleLevelClientSide(10, 5, 5, 6, 0.5, 1, 1.0, 1.0), r"max_participations must be in \[1, 5\]"),
        (lambda: terms.Guarantee(-5e-324, 0.1, ADD_OR_REMOVE, "person", 10), "epsilon must be finite and at least 0"),
        (lambda: terms.Guarantee(1.0, 1.0, ADD_OR_REMOVE, "person", 10), r"delta must be in \[0, 1\), got 1.0"),
        (lambda: terms.Guarantee(1.0, 0.1, ADD_OR_REMOVE, "person", 0), "population must be at least 1"),
        (lambda: terms.Guarantee(1.0, 0.1, ADD_OR_REMOVE, " ", 10), "privacy_unit must be a string"),
        (lambda: Interval(math.nan, 1.0, "m", ADD_OR_REMOVE), "lower must be at least 0, got nan"),
        (lambda: Interval(0.0, math.nan, "m", ADD_OR_REMOVE), "upper must be at least 0, got nan"),
        (lambda: Interval(1.0, 0.5, "m", ADD_OR_REMOVE), "upper must be at least lower"),
        (lambda: Interval(0.0, 1.0, "m", ADD_OR_REMOVE, estimate=2.0), "estimate must be in"),
        (lambda: terms.RoundRecord(1, "00", 1.0, 1.0, (), 0.0, None), "test_loss and test_score must both be there"),
        *((lambda wrong=wrong: ToeplitzStrategy(wrong), "coefficients") for wrong in ((), (0.0,), (0.0, 1.0))),
        *((lambda wrong=wrong: DenseStrategy(wrong), "rows") for wrong in ((), ((1.0, 1.0),), ((0.0,),), ((),))),
        (lambda: DenseStrategy(((1.0,), (1.0,))), "row 1 must have 2 entries, got 1"),
        (lambda: DenseStrategy(((1.0,), (0.5, 0.0))), "rows must be finite and above 0"),
        (lambda: DenseStrategy(((1.0,), (-1.0, 1.0))), "rows"),
        *(
            (lambda code=code: Finding(code, Status.FAILED, "It is weak."), "code must be words as check/outcome")
            for code in ("", "noise", "noise too weak", "noise/Too-weak", "noise/too-weak\n", "/weak", None, 7)
        ),
        *(
            (lambda rate=rate: Finding("a/b", Status.FAILED, "x.", false_alarm_rate=rate), "false_alarm_rate")
            for rate in (-0.1, 1.0, math.nan)
        ),
        (lambda: check.in_closed_interval(0, 1)(delta=True), "delta must be a number, got True"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_local_steps_round_epochs_over_probability():
    scheme = ExampleLevelClientSide(10, 5, 5, 2, 0.3, 1, 1.0, 1.0)
    assert scheme.local_steps == 3
    assert scheme.release().count == 6


@pytest.mark.parametrize(
    "scheme", [one for one in SAMPLES if isinstance(one, schemes.Scheme)], ids=lambda one: one.kind
)
def test_a_step_with_a_share_of_the_noise_is_that_of_a_scheme_with_so_much_less(scheme):
    less = dataclasses.replace(scheme, noise_multiplier=scheme.noise_multiplier / 4)
    noise, quarter, fourth = (
        getattr(step, "release", step) for step in (scheme.step(), scheme.step(0.25), less.step())
    )
    assert quarter != noise
    if scheme.accounted_multiplier == scheme.noise_multiplier:  # no second release has noise of its own
        assert quarter == fourth


@pytest.mark.parametrize(
    ("cap", "given", "population", "used", "says"),
    [
        (1e-6, None, 50_000, 1e-6, "is the policy cap"),
        (1e-6, None, 10**8, 1e-8, "is 1/N"),
        (1e-6, None, 10**6, 1e-6, "is 1/N"),
        (None, None, 50_000, 2e-5, "is 1/N"),
        (None, None, 2, 0.5, "is 1/N"),
        (0.25, None, 1, 0.25, "is the policy cap"),
        (1e-6, 1e-7, 100, 1e-7, "as given"),
        (1e-6, 1e-6, 100, 1e-6, "as given"),
        (1e-6, 1e-3, 100, 1e-6, "given as 0.001, lowered to the policy cap 1e-06"),
        (None, 0.75, 1, 0.75, "as given"),
    ],
)
def test_the_delta_that_is_used(cap, given, population, used, says):
    found = DeltaPolicy(cap).choose_delta(given, population=population)
    assert found.delta == used
    assert says in found.rationale
    assert [finding.code for finding in found.findings] == ["delta/too-large"] * (used >= 1 / population)
    numbers = {"delta": used, "one_over_n": 1 / population}
    assert all(dict(finding.values) == numbers for finding in found.findings)


def test_a_given_delta_is_a_probability_of_a_whole_population():
    for delta in (0.0, 1.0, -1e-9, math.nan, math.inf):
        for cap in (1e-6, None):
            with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
                DeltaPolicy(cap).choose_delta(delta, population=100)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 1.0 \(population 1 and no cap\)"):
        DeltaPolicy(None).choose_delta(None, population=1)
    for population in (0, -1, 1.5):
        with pytest.raises(ValueError, match="population must be"):
            DeltaPolicy().choose_delta(None, population=population)


def test_interval_shows_its_sides():
    interval = Interval(
        1.0, math.inf, "RDP", ADD_OR_REMOVE, given=(("delta", 1e-5),), assumptions=("Poisson <sampling>",)
    )
    assert "epsilon in [1, inf] at delta 1e-05" in str(interval)
    assert "&lt;sampling&gt;" in interval._repr_html_()
    assert math.isnan(interval.relative_width)
    assert Interval(1.0, 1.25, "RDP", ADD_OR_REMOVE).relative_width == pytest.approx(0.2)


@given(st.floats(1e-300, 1e300), st.integers(1, 10))
def test_shown_bounds_never_flatter(value, digits):
    assert float(format_lower(value, digits)) <= value <= float(format_upper(value, digits))
    assert float(format_upper(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


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
        assert str(error) == "weights[1] must be in (0, 1], got 1.5"
        said = {"message": "must be in (0, 1]", "bound": "in (0, 1]", "value": "1.5"}
        assert error.under("parts[2]").to_json() == {"field": "parts[2].weights[1]"} | said
    again = pickle.loads(pickle.dumps(CheckError("count", "5 at least", "3", verb="have")))  # noqa: S301
    assert str(again) == "count must have 5 at least, got 3"


def test_nothing_says_in_words_alone_which_field_is_out_of_which_bound():
    """What reads as a field, its bound and its value is a CheckError."""
    words = re.compile(r'raise ValueError\(\s*f?"[a-z_]+ must (?:be|have|hold|name) [^"]*, got ')
    source = Path(terms.__file__).parents[1]
    told = {str(file.relative_to(source)) for file in source.rglob("*.py") if words.search(file.read_text())}
    assert not told

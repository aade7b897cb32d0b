"""Calibration stays where its parameter has a meaning, whichever way the cost goes, and says what is wrong."""

import math

import pytest

from epsilog.accounting import calibrate, calibration
from epsilog.accounting.account import compute_interval
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    DiscreteLaplace,
    Gaussian,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import EpsilonAt
from epsilog.terms import CalibrationError, NeighboringRelation

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
GOAL = {"epsilon": 1.0, "delta": 1e-6}


def sgd(noise, share, rounds):
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


def meets(release, relation=ADD):
    return compute_interval(Composition.of(release, relation), EpsilonAt(1e-6), above=True)[0].upper <= 1.0


@pytest.mark.slow
def test_a_probability_needs_no_bounds():
    share = calibrate(lambda q: sgd(1.0, q, 100), **GOAL)
    assert meets(sgd(1.0, share, 100))
    assert not meets(sgd(1.0, share * (1 + 3e-5), 100))


def test_a_cost_that_falls_inside_the_unit_interval():
    flip = calibrate(lambda f: Repeated(RandomizedResponse(f, categories=3), 100), relation=REPLACE, **GOAL)
    assert 0.98 < flip < 1
    assert meets(Repeated(RandomizedResponse(flip, categories=3), 100), REPLACE)
    assert not meets(Repeated(RandomizedResponse(flip * (1 - 3e-5), categories=3), 100), REPLACE)


@pytest.mark.parametrize(
    ("make", "exact"),
    [
        (lambda count: Repeated(Gaussian(10.0), count), 5),
        (lambda sensitivity: DiscreteLaplace(30.0, sensitivity), 30),
        pytest.param(lambda bins: BallsInBins(Gaussian(1.0), bins), 79, marks=pytest.mark.extended),
    ],
)
def test_whole_numbers_are_exact_whether_the_cost_grows_or_falls(make, exact):
    found = calibrate(make, integer=True, **GOAL)
    assert found == exact
    assert isinstance(found, int)
    assert meets(make(found))
    assert meets(make(found - 1)) != meets(make(found + 1))


@pytest.mark.slow
def test_costs_too_small_to_tell_apart_do_not_mislead_it():
    assert calibrate(lambda n: Repeated(PureDP(1e-30), n), integer=True, **GOAL) == 2**53 - 1
    with pytest.raises(CalibrationError, match="every value tried meets the goal"):
        calibrate(lambda n: Repeated(PureDP(0.0), n), integer=True, **GOAL)


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({"high": 2.0}, r"sampling_probability must be in \[0, 1\], got 2.0"),
        ({"low": 1.5}, r"sampling_probability must be in \[0, 1\], got 1.5"),
        ({"low": 0.5, "high": 0.2}, "low must be below high"),
        ({"low": 0.0}, "low must be finite and above 0"),
        ({"high": float("nan")}, "high must be finite"),
        ({"high": 0.5, "integer": True}, "high must be a whole number"),
        ({"low": 0.1, "high": 2.0}, r"sampling_probability must be in \[0, 1\], got 2.0"),
        ({"low": 1.0, "high": 1.5, "integer": True}, "high must be a whole number"),
    ],
)
def test_an_end_that_was_given_says_what_is_wrong_with_it(bounds, complaint):
    with pytest.raises(ValueError, match=complaint):
        calibrate(lambda q: sgd(1.0, q, 100), **GOAL, **bounds)


@pytest.mark.slow
def test_a_given_end_is_never_passed():
    with pytest.raises(CalibrationError, match="no value tried meets the goal") as caught:
        calibrate(lambda q: sgd(1.0, q, 100), low=0.4, **GOAL)
    assert caught.value.bracket == (0.4, 1.0)
    with pytest.raises(CalibrationError, match="no value tried meets the goal") as caught:
        calibrate(lambda q: Composed([PureDP(2.0), sgd(20.0, q, 2)]), **GOAL)
    assert caught.value.bracket is not None
    assert caught.value.bracket[1] == 1.0


def test_a_parameter_without_a_meaning_anywhere_is_an_error_that_quotes_the_reason():
    with pytest.raises(ValueError, match="low and high are needed: noise_multiplier must be finite and at least 0"):
        calibrate(lambda z: Gaussian(-z), **GOAL)
    with pytest.raises(ValueError, match="low and high are needed: bins must be a whole number"):
        calibrate(lambda bins: BallsInBins(Gaussian(1.0), bins), **GOAL)


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("scale", [1e-17, 1e-9, 1e-3, 1e3, 1e9, 1e17])
def test_a_domain_is_found_however_far_it_lies(scale):
    """Here the parameter has a meaning within two powers of ten only."""

    def make(at):
        if not 0.1 * scale <= at <= 10 * scale:
            raise ValueError(f"parameter must be about {scale}, got {at}")
        return Gaussian(at / scale)

    assert calibrate(make, **GOAL) == pytest.approx(scale * calibrate(Gaussian, **GOAL), rel=1e-4)


def jump(below, above):
    return lambda at: below if at < 7.3 else above


def flat(at):
    """Meets the goal so flatly that all interpolation stays on one side of it."""
    return math.copysign(abs(math.log(7.3 / at)) ** 9, 7.3 - at)


@pytest.mark.parametrize("cost", [jump(0.01, -49.0), jump(40.0, -0.01), jump(1e-9, -1e-9), flat], ids="123f")
def test_a_search_ends_where_parabolas_see_nothing(cost):
    """The bracket is halved wherever they do not narrow it; the last case takes too many values otherwise."""
    meaning = calibration._Meaning(Gaussian, calibration._Grid(integer=False, digits=None, tolerance=1e-5))
    found = calibration._search(meaning, cost, 1e-9, 1e9)
    assert 7.3 <= found <= 7.3 * (1 + 2e-5)

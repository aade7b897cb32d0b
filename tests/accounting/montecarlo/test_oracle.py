"""The deterministic delta of balls-in-bins: values known to many digits, limits, and what is refused."""

import math

import pytest

from epsilog.accounting import gaussian_delta
from epsilog.accounting.montecarlo import oracle
from epsilog.terms import CalibrationError

KNOWN = [  # 45-digit Laplace inversions, two quadratures agreeing to 20 digits (docs/accounting/balls-in-bins.md, 9)
    (16, 1.0, 0.5, "remove", 1.23158183785586557e-2, 1e-9),
    (16, 1.0, 2.0, "remove", 3.30405199324208e-6, 1e-9),
    (100, 1.0, 1.0, "remove", 3.01577448140393e-7, 1e-9),
    (10000, 0.4, 1.0, "remove", 1.81083018091646e-3, 1e-9),
    (16, 1.0, 0.5389392649, "add", 5.113822318330297e-03, 1e-9),  # vertical contour in doubles, 12 digits
    (2, 0.7, 1.0, "add", 0.17061143551054195, 1e-9),  # nested 20-digit quadrature over both bins
    (2, 2.0, 0.3, "remove", 0.04841658333064952, 1e-9),
    (16, 1.0, 1.3511, "add", 9.898486e-08, 3e-7),
    (16, 1.0, 1.0, "remove", 6.87625191183830599e-4, 1e-9),
    (16, 1.0, 3.0, "remove", 1.33807762267e-8, 1e-9),
    (100, 0.6, 1.0, "remove", 4.86850803598440e-3, 1e-9),
    (100, 0.6, 4.0, "remove", 2.06106634431560e-6, 1e-9),
    (1000, 0.5, 2.0, "remove", 1.24904234597915e-4, 1e-9),
    (1000, 0.35, 8.0, "remove", 3.079798e-5, 3e-7),
    (10000, 0.4, 4.0, "remove", 1.02647438346749e-5, 1e-9),
]


def priced(bins, stddev, epsilon, direction="remove", **more):
    return oracle.compute_balls_in_bins_delta(
        bins=bins, noise_stddev=stddev, epsilon=epsilon, direction=direction, **more
    )


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_known_values(known):
    *given, delta, digits = known
    found = priced(*given)
    assert found.value == pytest.approx(delta, rel=digits)
    assert found.lower <= delta * (1 + digits)
    assert found.upper >= delta * (1 - digits)
    assert found.upper - found.lower < 1e-8 * delta


@pytest.mark.slow
def test_limits():
    for epsilon in (0.0, 3.0, 12.0):
        assert priced(1, 0.8, epsilon).value == pytest.approx(gaussian_delta(1 / 0.8, epsilon)[1], rel=1e-9)
    assert priced(16, 2.0, 1.0, epochs=4) == priced(16, 1.0, 1.0)
    assert priced(3, 0.0, 2.0).value == 1.0
    for bins, stddev, epsilon in ((20_000, 4.6, 9.0), (2, 5.0, 10.0), (1, 5.0, 10.0)):  # what underflows is not 0
        tiny = priced(bins, stddev, epsilon)
        assert tiny.lower <= tiny.value <= tiny.upper
        assert 0 < tiny.upper < 1e-300


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [0.3, pytest.param(3.0, marks=pytest.mark.extended)])
def test_both_directions_agree_at_epsilon_zero_and_remove_is_worse_above(stddev):
    assert priced(20, stddev, 0.0).value == pytest.approx(priced(20, stddev, 0.0, "add").value, rel=1e-8)
    assert priced(20, stddev, 0.5).lower > priced(20, stddev, 0.5, "add").upper


@pytest.mark.parametrize(
    "bad", [{"bins": 0}, {"stddev": -1.0}, {"epsilon": math.nan}, {"direction": "both"}, {"epochs": 0}]
)
def test_bad_input_is_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        priced(**({"bins": 4, "stddev": 1.0, "epsilon": 1.0} | bad))


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_an_answer_outside_its_proven_brackets_is_refused(monkeypatch, factor):
    integrate = oracle._evaluate_method
    monkeypatch.setattr(
        oracle, "_evaluate_method", lambda *given: (factor * integrate(*given)[0], integrate(*given)[1])
    )
    for direction in oracle.DIRECTIONS:
        with pytest.raises(CalibrationError, match="outside its brackets"):
            priced(16, 1.0, 1.0, direction)


@pytest.mark.parametrize(
    ("value", "kept"), [(0.25, True), (0.0, True), (-1e-9, False), (math.nan, False), (math.inf, False)]
)
def test_a_method_that_breaks_down_claims_nothing(value, kept):
    found, error = oracle._evaluate_method(lambda *_: (value, 1.0), 4, 0.5, 1.0)
    assert (found == value and error < 1e-10) if kept else (math.isnan(found) and error == math.inf)

import math

import pytest

from epsilog.accounting.montecarlo import oracle
from epsilog.terms import CalibrationError

EXACT_REMOVE = [  # 45-digit Laplace inversions, two quadratures agreeing to 20 digits (docs/montecarlo/oracle.md)
    (16, 1.0, 0.5, 1.23158183785586557e-2),
    (16, 1.0, 1.0, 6.87625191183830599e-4),
    (16, 1.0, 2.0, 3.30405199324208e-6),
    (16, 1.0, 3.0, 1.33807762267e-8),
    (100, 0.6, 1.0, 4.86850803598440e-3),
    (100, 0.6, 4.0, 2.06106634431560e-6),
    (100, 1.0, 0.5, 4.40890803386304e-5),
    (100, 1.0, 1.0, 3.01577448140393e-7),
    (1000, 0.5, 0.5, 5.94321706060277e-3),
    (1000, 0.5, 1.0, 1.27693169784961e-3),
    (1000, 0.5, 2.0, 1.24904234597915e-4),
    (1000, 0.5, 4.0, 1.29665457898002e-6),
    (10000, 0.4, 1.0, 1.81083018091646e-3),
    (10000, 0.4, 4.0, 1.02647438346749e-5),
]


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(
    ("bins", "stddev", "epsilon", "delta"),
    [
        *EXACT_REMOVE[::3],
        *(pytest.param(*row, marks=pytest.mark.slow) for row in EXACT_REMOVE if row not in EXACT_REMOVE[::3]),
    ],
)
def test_known_values_to_nine_digits(bins, stddev, epsilon, delta):
    found = oracle.balls_in_bins_delta(bins=bins, noise_stddev=stddev, epsilon=epsilon)
    assert found.value == pytest.approx(delta, rel=1e-9)
    assert found.lower <= delta * (1 + 1e-11)
    assert found.upper >= delta * (1 - 1e-11)


def mixture_delta_by_integration(stddev, epsilon, direction):
    """Two bins: the loss depends on x_1 and x_2; nested 30-digit quadrature, nothing shared with the oracle."""
    import mpmath as mp

    mp.mp.dps = 20
    t, e = 1 / mp.mpf(stddev), mp.e ** mp.mpf(epsilon)

    def call(strike):  # E (Y - strike)^+ for a lognormal of mean 1
        if strike <= 0:
            return 1 - strike
        d = (-mp.log(strike) + t * t / 2) / t
        return mp.ncdf(d) - strike * mp.ncdf(d - t)

    def over(strike):  # E (Y_1 + Y_2 - strike)^+
        pdf = lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)  # noqa: E731
        kink = (mp.log(strike) + t * t / 2) / t
        points = sorted([mp.mpf(-12), kink - 3, kink - 1, kink, kink + 1, kink + 3, mp.mpf(14)])
        return mp.quad(lambda x: pdf(x) * call(strike - mp.exp(t * x - t * t / 2)), points)

    if direction == "remove":
        return float(over(2 * e) / 2)
    strike = 2 / e
    return float(e / 2 * (over(strike) - (2 - strike)))


@pytest.mark.slow
@pytest.mark.parametrize("direction", oracle.DIRECTIONS)
@pytest.mark.parametrize(("stddev", "epsilon"), [(0.7, 1.0), (2.0, 0.3), (1.0, 0.0)])
def test_two_bins_by_plain_integration(stddev, epsilon, direction):
    found = oracle.balls_in_bins_delta(bins=2, noise_stddev=stddev, epsilon=epsilon, direction=direction)
    assert found.value == pytest.approx(mixture_delta_by_integration(stddev, epsilon, direction), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 12.0])
def test_one_bin_is_the_gaussian(epsilon):
    found = oracle.balls_in_bins_delta(bins=1, noise_stddev=0.8, epsilon=epsilon)
    mu = 1 / 0.8
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    exact = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert found.value == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
def test_epochs_with_fixed_bins_are_less_noise():
    often = oracle.balls_in_bins_delta(bins=16, noise_stddev=2.0, epsilon=1.0, epochs=4)
    assert often == oracle.balls_in_bins_delta(bins=16, noise_stddev=1.0, epsilon=1.0)


@pytest.mark.slow
def test_both_directions_agree_at_epsilon_zero_and_remove_is_worse_above():
    for stddev in (0.3, 1.0, 3.0):
        at = {
            d: oracle.balls_in_bins_delta(bins=20, noise_stddev=stddev, epsilon=0.0, direction=d)
            for d in ("remove", "add")
        }
        assert at["remove"].value == pytest.approx(at["add"].value, rel=1e-8)
        above = {
            d: oracle.balls_in_bins_delta(bins=20, noise_stddev=stddev, epsilon=0.5, direction=d)
            for d in ("remove", "add")
        }
        assert above["remove"].lower > above["add"].upper


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(
    ("bins", "stddev", "epsilon", "direction", "delta"),
    [
        (16, 1.0, 0.5389392649, "add", 5.113822318330297e-03),  # vertical contour in doubles, 12 digits
        (16, 1.0, 1.3511, "add", 9.898486e-08),
        (1000, 0.35, 8.0, "remove", 3.079798e-5),
        (1000, 0.6, 2.0, "remove", 1.254623e-6),
    ],
)
def test_more_known_values(bins, stddev, epsilon, direction, delta):
    found = oracle.balls_in_bins_delta(bins=bins, noise_stddev=stddev, epsilon=epsilon, direction=direction)
    assert found.value == pytest.approx(delta, rel=3e-7)


def test_no_noise_gives_no_privacy_and_out_of_reach_gives_brackets():
    assert oracle.balls_in_bins_delta(bins=3, noise_stddev=0.0, epsilon=2.0).value == 1.0
    tiny = oracle.balls_in_bins_delta(bins=20_000, noise_stddev=4.6, epsilon=9.0)
    assert tiny.lower <= tiny.value <= tiny.upper < 1e-200


@pytest.mark.parametrize(
    "bad",
    [
        {"bins": 0},
        {"noise_stddev": -1.0},
        {"epsilon": -0.1},
        {"epsilon": math.nan},
        {"direction": "both"},
        {"epochs": 0},
    ],
)
def test_bad_input_is_named(bad):
    good = {"bins": 4, "noise_stddev": 1.0, "epsilon": 1.0, "direction": "add", "epochs": 1}
    with pytest.raises(ValueError, match=next(iter(bad))):
        oracle.balls_in_bins_delta(**(good | bad))


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(("factor", "refused"), [(1.0, False), (1e-6, True), (1e6, True)])
@pytest.mark.parametrize("direction", oracle.DIRECTIONS)
def test_an_answer_outside_its_proven_brackets_is_refused(monkeypatch, factor, refused, direction):
    priced = oracle._priced

    def off(*given):
        value, error = priced(*given)
        return factor * value, error

    monkeypatch.setattr(oracle, "_priced", off)
    asked = {"bins": 16, "noise_stddev": 1.0, "epsilon": 1.0, "direction": direction}
    if refused:
        with pytest.raises(CalibrationError, match="outside its brackets"):
            oracle.balls_in_bins_delta(**asked)
    else:
        assert oracle.balls_in_bins_delta(**asked).value > 0

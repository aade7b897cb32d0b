"""Chi-square against the exact laws; each test has a false-alarm rate of 1e-6 and a control that must fail."""

import math
import random
import secrets
from collections import Counter
from fractions import Fraction

import pytest
from scipy.special import chdtrc, ndtr
from tests.extent import amount

from epsilog.mechanisms import (
    BinomialTrialCount,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    NegativeBinomialTrialCount,
    PoissonTrialCount,
    PureDP,
)
from epsilog.mechanisms.sampling import discrete_gaussian, discrete_laplace, exp_coin, rounded_gaussian
from epsilog.queries import run_best_of_trials
from epsilog.terms import CheckError, UnsupportedMechanismError

FALSE_ALARM = 1e-6


def rounded(k, scale):
    """The chance of the normal law between k - 1/2 and k + 1/2, by its upper end on the side of k."""
    far = (abs(k) - 0.5) / float(scale)
    return ndtr(-far) - ndtr(-far - 1 / float(scale))


LAWS = {
    "laplace": (discrete_laplace, lambda k, scale: math.exp(-abs(k) / scale)),
    "gaussian": (discrete_gaussian, lambda k, scale: math.exp(-(k**2) / (2 * scale**2))),
    "rounded": (rounded_gaussian, rounded),
}


def p_value(draws, weight):
    """Chi-square of integer draws against a law given up to a factor; cells expecting under 10 are pooled."""
    support = range(-400, 401)
    total = math.fsum(weight(k) for k in support)
    counts = Counter(draws)
    statistic, cells, pooled_expected, pooled_seen = 0.0, 0, 0.0, len(draws)
    for k in support:
        expected = len(draws) * weight(k) / total
        if expected >= 10:
            statistic += (counts[k] - expected) ** 2 / expected
            cells += 1
            pooled_expected -= expected
            pooled_seen -= counts[k]
    pooled_expected += len(draws)
    if pooled_expected > 5:
        statistic += (pooled_seen - pooled_expected) ** 2 / pooled_expected
        cells += 1
    return chdtrc(cells - 1, statistic)


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "scale", [2.5, *(pytest.param(scale, marks=pytest.mark.slow) for scale in (0.3, Fraction(2, 3), 1, 17))]
)
def test_draws_follow_their_law_and_not_one_30_percent_off(law, scale):
    draw, weight = LAWS[law]
    below = random.Random(20).randrange  # noqa: S311
    draws = [draw(scale, below=below) for _ in range(amount(2500, 4000))]
    assert p_value(draws, lambda k: weight(k, scale)) > FALSE_ALARM
    assert p_value(draws, lambda k: weight(k, 1.3 * scale)) < FALSE_ALARM
    assert p_value([k + 1 for k in draws], lambda k: weight(k, scale)) < FALSE_ALARM or scale > 10


@pytest.mark.slow
def test_the_default_randomness_is_the_operating_system_s():
    for law in (discrete_laplace, discrete_gaussian, rounded_gaussian):
        assert law.__kwdefaults__ == {"below": secrets.randbelow}


def test_as_many_digits_are_drawn_as_the_answer_has():
    """At a scale of 10^30 the first 32 binary digits leave all but the first few decimal ones open."""
    asked, real = Counter(), random.Random(3).randrange  # noqa: S311

    def below(n):
        asked[n] += 1
        return real(n)

    draws = [rounded_gaussian(Fraction(10) ** 30, below=below) for _ in range(60)]
    assert asked[1 << 32] > 4 * len(draws)
    assert len({draw % 10**6 for draw in draws}) > 55
    assert {draw % 2 for draw in draws} == {0, 1}


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_the_coin_shows_heads_with_probability_exp_minus_x(exponent):
    below = random.Random(5).randrange  # noqa: S311
    tosses = 6000
    heads = sum(exp_coin(*exponent.as_integer_ratio(), below) for _ in range(tosses))
    p = math.exp(-exponent)
    assert abs(heads - tosses * p) <= 5 * math.sqrt(tosses * p * (1 - p))  # 5 standard errors: 6e-7
    assert abs(heads - tosses * p / 1.3) > 5 * math.sqrt(tosses * p / 1.3 * (1 - p / 1.3))


@pytest.mark.slow
def test_a_count_gets_the_noise_that_its_release_describes():
    below = random.Random(6).randrange  # noqa: S311
    for release, weight in (
        (DiscreteLaplace(noise_scale=1.5), lambda k: math.exp(-abs(k - 7) / 1.5)),
        (DiscreteGaussian(noise_stddev=1.5), lambda k: math.exp(-((k - 7) ** 2) / 4.5)),
        (Gaussian(noise_multiplier=0.5, sensitivity=3.0), lambda k: rounded(k - 7, 1.5)),
    ):
        draws = [7 + release.sample(below) for _ in range(2000)]
        assert p_value(draws, weight) > FALSE_ALARM
    assert DiscreteLaplace(noise_scale=0).sample() == DiscreteGaussian(noise_stddev=0).sample() == 0
    assert release.sample.__func__.__defaults__ == (secrets.randbelow,)


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian, rounded_gaussian])
def test_bad_scales_are_refused(draw, scale):
    with pytest.raises(ValueError, match="noise_"):
        draw(scale)


def test_what_has_no_exact_sampler_is_refused():
    with pytest.raises(UnsupportedMechanismError, match="exact sampling"):
        PureDP(1.0).sample()


def chance(law, k):
    """The law of a number of trials, up to a factor, from its definition."""
    match law:
        case _ if k < 0:
            return 0.0
        case NegativeBinomialTrialCount(shape, stops):
            return math.prod((i + shape) / (i + 1) for i in range(1, k)) * (1 - stops) ** k if k else 0.0
        case PoissonTrialCount(mean):
            return math.exp(k * math.log(mean) - math.lgamma(k + 1))
        case BinomialTrialCount(most, p):
            return math.comb(most, k) * p**k * (1 - p) ** (most - k) if k <= most else 0.0


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(
    ("law", "other"),
    [
        (NegativeBinomialTrialCount(1.0, 0.2), NegativeBinomialTrialCount(1.0, 0.26)),
        (NegativeBinomialTrialCount(0.0, 0.1), NegativeBinomialTrialCount(0.2, 0.1)),
        (NegativeBinomialTrialCount(-0.5, 0.05), NegativeBinomialTrialCount(-0.3, 0.05)),
        (NegativeBinomialTrialCount(2.5, 0.4), NegativeBinomialTrialCount(2.0, 0.4)),
        (PoissonTrialCount(3.7), PoissonTrialCount(3.2)),
        (PoissonTrialCount(0.6), PoissonTrialCount(0.8)),
        (BinomialTrialCount(9, 0.3), BinomialTrialCount(9, 0.35)),
    ],
    ids=["geometric", "logarithmic", "below-0", "above-1", "poisson", "few", "binomial"],
)
def test_the_number_of_trials_follows_its_law_and_not_one_beside_it(law, other):
    below = random.Random(21).randrange  # noqa: S311
    draws = [law.draw(below) for _ in range(4000)]
    assert p_value(draws, lambda k: chance(law, k)) > FALSE_ALARM
    assert p_value(draws, lambda k: chance(other, k)) < FALSE_ALARM
    assert type(law).draw.__defaults__ == (secrets.randbelow,)
    assert run_best_of_trials.__kwdefaults__ == {"below": secrets.randbelow}


@pytest.mark.parametrize("law", [NegativeBinomialTrialCount(1.0, 1e-7), PoissonTrialCount(1e7)])
def test_what_takes_for_ever_is_refused(law):
    with pytest.raises(CheckError):
        law.draw()


def test_the_best_trial_alone_is_told():
    def trials(*scores):
        left = iter(scores)
        return lambda: (score := next(left), f"model of {score}")

    assert run_best_of_trials(trials(0.5, 2.0, math.nan, -1.0, 2.0), BinomialTrialCount(5, 1.0)) == "model of 2.0"
    assert (
        run_best_of_trials(trials(math.nan, -math.inf), BinomialTrialCount(2, 1.0)) == "model of nan"
    )  # of equals the first
    assert run_best_of_trials(trials(), PoissonTrialCount(1e-9), below=lambda _: 0) is None

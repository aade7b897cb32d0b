"""True positive rates of the best test: against Neyman and Pearson on all outcomes, integrals, and closed forms."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from tests.extent import amount

from epsilog.accounting import profile
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
RATES = (1e-6, 0.01, 0.1, 0.3, 0.7, 0.99)


def best_test(p, q, fpr):
    """The largest P(A) with Q(A) = fpr: outcomes by falling ratio, the last one in part."""
    p, q = (law[(p > 0) | (q > 0)] for law in (p, q))
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
    p, q = np.append(0, np.cumsum(p[order])), np.append(0, np.cumsum(q[order]))
    return float(np.interp(fpr, q, p)) if fpr > 0 else float(p[q == 0].max())


def composed(*pairs):
    p, q = np.ones(1), np.ones(1)
    for a, b in pairs:
        p, q = np.outer(p, a).ravel(), np.outer(q, b).ravel()
    return p, q


def response(epsilon, delta=0.0):
    often = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = np.array([often, 1 - often]) * (1 - delta)
    return np.append(p, [delta, 0]), np.append(p[::-1], [0, delta])


def discrete_laplace(scale, shift):
    k = np.arange(-60, 61 + shift)
    p, q = np.exp(-abs(k - shift) / scale), np.exp(-abs(k) / scale)
    return p / p.sum(), q / q.sum()


def sampled(pair, share):
    p, q = pair
    return (1 - share) * q + share * p, q


DISCRETE = [
    (PureDP(1.0), composed(response(1.0))),
    (Repeated(PureDP(0.7), 5), composed(*[response(0.7)] * 5)),
    (ApproximateDP(1.0, 0.1), composed(response(1.0, 0.1))),
    (Repeated(PoissonSampled(PureDP(2.0), 0.3), 6), composed(*[sampled(response(2.0), 0.3)] * 6)),
    (PoissonSampled(ApproximateDP(1.0, 0.1), 0.5), composed(sampled(response(1.0, 0.1), 0.5))),
    (Repeated(DiscreteLaplace(1.5, 2), 2), composed(*[discrete_laplace(1.5, 2)] * 2)),
    (
        Composed([DiscreteLaplace(2.0, 1), PoissonSampled(DiscreteLaplace(0.7, 1), 0.2)]),
        composed(discrete_laplace(2.0, 1), sampled(discrete_laplace(0.7, 1), 0.2)),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("release", "pair"), DISCRETE)
def test_all_outcomes_counted(release, pair):
    for fpr in RATES if len(pair[0]) < 50 else (0.01, 0.7):
        truth = max(best_test(*pair, fpr), best_test(*pair[::-1], fpr))
        found = profile(release).tpr(fpr)
        assert found.lower <= truth * (1 + 1e-11)
        assert found.upper >= truth * (1 - 1e-11)
        assert found.upper - found.lower <= 0.002 * found.upper


@pytest.mark.parametrize("fpr", [1e-100, 1e-12, 1e-4, 0.01, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
def test_gaussians(mu, fpr):
    truth = float(ndtr(ndtri(fpr) + mu))
    for release in (Gaussian(1 / mu), Repeated(Gaussian(2 / mu), 4)):
        found = profile(release).tpr(fpr)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9)
        assert found.upper - found.lower <= 0.002 * found.upper


def test_fnr_is_the_rest():
    hits, misses = profile(Laplace(1.0)).tpr(0.1), profile(Laplace(1.0)).tradeoff(0.1)
    assert (misses.lower, misses.upper) == (1 - hits.upper, 1 - hits.lower)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "bins", "fpr", "truth"),
    [
        pytest.param(0.4, 30, 0.01, 0.192477, marks=pytest.mark.slow),
        pytest.param(0.4, 30, 0.3, 0.725744, marks=pytest.mark.slow),
        pytest.param(0.4, 30, 0.9, 0.997777, marks=pytest.mark.slow),
        pytest.param(1.0, 10, 0.01, 0.0290077, marks=pytest.mark.slow),
        (1.0, 10, 0.3, 0.4456522),
        pytest.param(1.0, 10, 0.9, 0.9547188, marks=pytest.mark.slow),
    ],
)
def test_balls_in_bins(noise, bins, fpr, truth):
    """The sum of lognormals by a transform of 2^22 cells, in both orders; steps halved, the digits stand."""
    found = profile(BallsInBins(Gaussian(noise), bins)).tpr(fpr)
    assert found.lower <= truth * (1 + 2e-6)
    assert found.upper >= truth * (1 - 2e-6)
    assert found.upper - found.lower <= 0.002 * found.upper


@cache
def threshold_rates(noise, share):
    """Chances to be above a threshold without and with the unit, at very many of them."""
    x = np.linspace(-60, 60, 2_000_001)
    without = ndtr(-x)
    return without, (1 - share) * without + share * ndtr(1 / noise - x)


def sampled_gaussian(noise, share, fpr):
    """Both orders of one round, by bisecting the threshold."""
    without, with_it = threshold_rates(noise, share)
    return max(np.interp(fpr, without[::-1], with_it[::-1]), np.interp(fpr, 1 - with_it, 1 - without))


@pytest.mark.slow_beyond(5)
@pytest.mark.parametrize("fpr", [0.01, 0.3, 0.9])
@pytest.mark.parametrize(("noise", "share"), [(0.3, 0.3), (1.0, 0.1), (2.0, 0.9)])
def test_one_sampled_gaussian(noise, share, fpr):
    truth = sampled_gaussian(noise, share, fpr)
    found = profile(PoissonSampled(Gaussian(noise), share)).tpr(fpr)
    assert found.lower <= truth * (1 + 1e-7)
    assert found.upper >= truth * (1 - 1e-7)
    assert found.upper - found.lower <= 0.002 * found.upper


def two_outputs(lean, s):
    """An exponential mechanism of range s between two outputs: losses t = lean s and t - s."""
    t = lean * s
    often = math.expm1(t - s) / math.expm1(-s)
    p = np.array([often, 1 - often])
    return p, p * np.exp([-t, s - t])


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.extended)])
def test_exponential_mechanisms(count):
    """What any instance of two outputs attains is allowed; what is said to be attained some instance attains."""
    release = Repeated(ExponentialMechanism(1.0), count)
    leans = np.linspace(0.001, 0.999, amount(250, 999))
    for fpr in (0.01, 0.3, 0.8):
        found = profile(release).tpr(fpr)
        truth = max(best_test(*composed(*[two_outputs(lean, 1.0)] * count), fpr) for lean in leans)
        assert found.lower <= truth * (1 + 1e-3)  # the grid may miss the best instance by a little
        assert found.upper >= truth
        assert found.lower >= 0.93 * truth  # ten instances are looked at in a composition


@pytest.mark.slow
def test_samples_of_a_fixed_size():
    """Whatever the data sets attain: both orders, and orders turned round at every other release."""
    release = Repeated(FixedSizeSampled(RandomizedResponse(0.5, 2), 1, 4), 4)
    p, q = response(math.log(3.0))
    removed, added = sampled((p, q), 0.25), (p, 0.75 * p + 0.25 * q)
    for fpr in (0.01, 0.9):
        found = profile(release, relation=REPLACE).tpr(fpr)
        mixes = [composed(*[removed] * k, *[added] * (4 - k)) for k in (0, 2, 4)]
        truth = max(best_test(*mix, fpr) for mix in mixes)
        assert 0.995 * truth < found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth


@pytest.mark.parametrize(
    ("release", "least", "most"),
    [
        (ApproximateDP(1.0, 0.1), 0.1, 0.1),
        (Repeated(ApproximateDP(0.5, 0.01), 3), 1 - 0.99**3, 1 - 0.99**3),
        (PoissonSampled(ApproximateDP(1.0, 0.1), 0.5), 0.05, 0.05),
        (Composed([ApproximateDP(1.0, 0.01), Gaussian(3.0)]), 0.01, 0.01),
        (Gaussian(1.0), 0.0, 1e-300),
        (PureDP(1.0), 0.0, 1e-300),
        (Gaussian(0.0), 1.0, 1.0),
        (Composed([]), 0.0, 1e-300),
    ],
)
@pytest.mark.parametrize("fpr", [0.0, 5e-324, 1e-320])
def test_no_false_positive_is_allowed(release, least, most, fpr):
    """Only outcomes that one of the two cannot produce are then safe to name."""
    found = profile(release).tpr(fpr)
    assert found.lower == pytest.approx(least, rel=1e-9, abs=1e-300)
    assert found.upper == pytest.approx(most, rel=1e-3, abs=1e-200)


def test_all_false_positives_are_allowed():
    for release in (Gaussian(1.0), PureDP(1.0), PoissonSampled(Laplace(1.0), 0.1)):
        assert profile(release).tpr(1.0).lower == profile(release).tpr(1.0).upper == 1

"""Curves side by side: against closed forms on a fine grid, and against what an excess means for tests."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import epsilog as ep
from epsilog.accounting import compare_profiles, fit_gaussian_dp, mu
from epsilog.accounting.comparison import PointComparison, ProfileComparison, _excess, _sample_curves
from epsilog.mechanisms import (
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.numerics.questions import Bounds
from epsilog.plan import compute_risk_metrics
from epsilog.terms import CheckError, Interval, NeighboringRelation, UnsupportedMechanismError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
RARE = PoissonSampled(Gaussian(0.3), 0.001)


def gaussian_curve(mean):
    return lambda at: ndtr(mean / 2 - at / mean) - np.exp(at) * ndtr(-mean / 2 - at / mean)


def laplace_curve(noise):
    return lambda at: np.maximum(-np.expm1((at - 1 / noise) / 2), 0)


def pure_curve(stated):
    return lambda at: np.maximum(np.exp(stated) - np.exp(at), 0) / (1 + np.exp(stated))


CURVES = {
    "gaussian 0.5": gaussian_curve(0.5),
    "gaussian 2": gaussian_curve(2.0),
    "laplace 1": laplace_curve(1.0),
    "laplace 0.3": laplace_curve(0.3),
    "pure 1": pure_curve(1.0),
}


def true_excess(one, other):
    at = np.linspace(0, 14, 40_001)
    return float(np.maximum((one(at) - other(at)) / (1 + np.exp(at)), 0).max())


def exactly(curve):
    return lambda at: Bounds(float(curve(at)), float(curve(at)))


@pytest.mark.parametrize("one", CURVES)
@pytest.mark.parametrize("other", CURVES)
def test_an_excess_is_bounded_and_near(one, other):
    ours, theirs = _sample_curves([exactly(CURVES[one]), exactly(CURVES[other])], 1e-3)
    true = true_excess(CURVES[one], CURVES[other])
    assert true <= _excess(ours, theirs) <= true + 5e-4
    if true > 0.01:  # the control: against a curve that is a little worse the bound is too small
        worse = [at._replace(low=at.low + 0.3 * true * (1 + at.t), high=at.high + 1) for at in theirs]
        assert _excess(ours, worse) < true


@pytest.mark.slow
@pytest.mark.parametrize(
    "release",
    [Laplace(1.0), pytest.param(Repeated(PoissonSampled(Gaussian(1.0), 0.05), 60), marks=pytest.mark.extended)],
    ids=["laplace", "sgd"],
)
def test_no_test_does_better_than_the_fit_says_nor_much_worse(release):
    fit, curve = fit_gaussian_dp(release), ep.profile(release)
    assert fit.slack <= 1e-3

    def best(fpr):
        return float(ndtr(fit.mu + ndtri(fpr))) if fpr < 1 else 1.0

    for fpr in (0.003, 0.03, 0.3, 0.8):
        rate = curve.tpr(fpr)
        assert rate.lower <= best(fpr + fit.slack) + fit.slack + 1e-9
        if fpr > fit.regret:
            assert best(fpr - fit.regret) - fit.regret <= rate.upper + 1e-9
    weaker = 0.8 * fit.mu  # a mu that is a fifth off is noticed
    assert max(curve.tpr(x).lower - ndtr(weaker + ndtri(x + fit.slack)) for x in (0.03, 0.3)) > fit.slack


def test_where_mu_is_exact_everybody_says_the_same():
    release = Repeated(Gaussian(8.0), 16)
    fit = fit_gaussian_dp(release)
    assert (fit.mu, fit.error) == (mu(release), 0.0) == (0.5, 0.0)
    told = compute_risk_metrics(release, delta=1e-6, relation=ADD, known=release)
    assert told["mu"] == fit.mu == ep.profile(release).mu()
    assert fit_gaussian_dp(GaussianDP(0.3)).mu == 0.3
    assert math.isinf(fit_gaussian_dp(Gaussian(0.0)).mu)


@pytest.mark.slow
def test_the_smaller_epsilon_may_be_the_easier_one_to_attack():
    found = compare_profiles(RARE, Gaussian(0.85))
    assert found.at_deltas[1].first.lower > 8
    assert found.at_deltas[1].second.upper < 6
    assert found.at_fprs[1].first.upper < 0.011
    assert found.at_fprs[1].second.lower > 0.12
    assert found.outcome == "neither"
    turned = compare_profiles(Gaussian(0.85), RARE)
    assert (turned.first_excess, turned.second_excess) == (found.second_excess, found.first_excess)
    assert {at.better for at in found.at_deltas} == {"first", "second"}


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        (Gaussian(2.0), Gaussian(1.0), "first"),
        (Laplace(1.0), Laplace(2.0), "second"),
        (Gaussian(2.0), GaussianDP(0.5), "alike"),
        (PureDP(1.0), Laplace(1.0), "second"),
    ],
    ids=["more-noise", "less-noise", "the-same", "within"],
)
def test_outcomes(one, other, outcome):
    assert compare_profiles(one, other, deltas=[1e-3], fprs=[0.01, 0.2]).outcome == outcome


def test_what_cannot_be_priced_or_carried_is_refused():
    with pytest.raises(UnsupportedMechanismError):
        compare_profiles(Gaussian(1.0), RandomizedResponse(0.5))
    for tolerance in (1e-5, 0.2, math.nan):
        with pytest.raises(CheckError):
            compare_profiles(Gaussian(1.0), Gaussian(2.0), tolerance=tolerance)
        with pytest.raises(CheckError):
            fit_gaussian_dp(Laplace(1.0), slack=tolerance)
    with pytest.raises(CheckError):
        compare_profiles(Gaussian(1.0), Gaussian(2.0), deltas=[0.0])


@pytest.mark.parametrize(
    ("better", "excesses", "verdict"),
    [
        ({"first"}, (0.0, 1.0), "first"),
        ({"first"}, (1.0, 1.0), "open"),
        ({"second"}, (1.0, 0.0), "second"),
        ({"second"}, (1.0, 1.0), "open"),
        ({"first", "second"}, (0.0, 1.0), "neither"),
        ({"first"}, (0.0, 0.0), "alike"),
        (set(), (0.0, 1.0), "open"),
    ],
)
def test_a_release_is_better_only_if_it_is_nowhere_easier_to_attack(better, excesses, verdict):
    def one(value):
        return Interval(value, value, method="exact", assumptions=(), relation=ADD, quantity="epsilon")

    points = [
        PointComparison(one(1.0), one({"first": 2.0, "second": 0.5, "open": 1.0}[name])) for name in sorted(better)
    ]
    points.append(PointComparison(one(1.0), one(1.0)))
    assert ProfileComparison(tuple(points), (), *excesses, tolerance=0.5).outcome == verdict

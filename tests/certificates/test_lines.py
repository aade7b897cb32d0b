"""Weights and hints in doubles against closed forms of a Gaussian loss."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from epsilog.certificates.lines import LossDistribution, chernoff, find_line, find_tilt, log_moment, weigh

MU, EPSILON = 1.5, 3.0
DELTA = norm.cdf(MU / 2 - EPSILON / MU) - math.exp(EPSILON) * norm.cdf(-MU / 2 - EPSILON / MU)  # Balle & Wang 2018


def gaussian_losses(mu=MU, count=1):
    """The loss of a Gaussian mechanism: N(mu^2 / 2, mu^2)."""
    losses = np.linspace(mu * mu / 2 - 9 * mu, mu * mu / 2 + 9 * mu, 4001)
    return LossDistribution(losses, norm.logpdf(losses, mu * mu / 2, mu) + math.log(losses[1] - losses[0]), count)


PARTS = [[gaussian_losses()], [gaussian_losses(MU / 4, 16)], [gaussian_losses(MU / 5, 9), gaussian_losses(0.8 * MU)]]


@pytest.mark.parametrize("distributions", PARTS)
def test_moments_and_weights_are_the_closed_forms(distributions):
    assert log_moment(distributions, 2.0) == pytest.approx(2 * 3 * MU**2 / 2, rel=1e-9)
    theta = find_tilt(distributions, EPSILON)
    assert chernoff(distributions, EPSILON, theta) >= math.log(DELTA)
    found = weigh(distributions, EPSILON, theta)
    assert found.log_delta == pytest.approx(math.log(DELTA), abs=0.03)
    density = norm.pdf(EPSILON, MU**2 / 2, MU) / DELTA
    assert found.curvature == pytest.approx(max(density, theta * (theta + 1)), rel=0.03)
    assert [share.sum() for share in found.shares] == pytest.approx([1.0] * len(distributions))


def test_a_share_is_the_distribution_of_one_loss_given_the_whole():
    """Of 16 equal Gaussian losses whose sum is epsilon, each has mean epsilon / 16 and 15/16 of its variance."""
    distribution = gaussian_losses(MU / 4, 16)
    (share,) = weigh([distribution], EPSILON, find_tilt([distribution], EPSILON)).shares
    mean = float(share @ distribution.losses)
    assert mean == pytest.approx(EPSILON / 16, rel=0.02)
    assert float(share @ (distribution.losses - mean) ** 2) == pytest.approx((MU / 4) ** 2 * 15 / 16, rel=0.05)


@pytest.mark.parametrize("distributions", PARTS)
@pytest.mark.parametrize("margin", [0.3, 0.01])
def test_a_line_bounds_delta_within_its_margin(distributions, margin):
    theta = find_tilt(distributions, EPSILON)
    curvature = weigh(distributions, EPSILON, theta).curvature
    hints, bound = find_line(distributions, EPSILON, DELTA, theta=theta, curvature=curvature, margin=margin)
    assert 0 <= bound <= 1.1 * margin
    assert all(hint >= 1 for hint in hints)
    assert hints[-1] < 2000


def test_a_smaller_margin_takes_more_terms():
    distributions = PARTS[1]
    theta = find_tilt(distributions, EPSILON)
    found = [
        find_line(distributions, EPSILON, DELTA, theta=theta, curvature=theta * (theta + 1), margin=margin)[0][-1]
        for margin in (0.3, 0.03, 0.003)
    ]
    assert found == sorted(found)

"""Mixes: what each part adds, and the attacker's ROC bound against the exact one."""

import pytest
from scipy.special import ndtr, ndtri

from epsilog import plan
from epsilog.accounting import gaussian_delta
from epsilog.mechanisms import Gaussian


def test_mix_and_profile():
    both = plan.plan_composition([Gaussian(4.0), Gaussian(3.0)], delta=1e-6)
    assert both.parts[0].without.upper == both.parts[1].alone.upper
    assert both.epsilon.upper < both.parts[0].alone.upper + both.parts[1].alone.upper
    view = plan.compute_profile_view(Gaussian(1.0), delta=1e-6)
    assert view.advantage.upper == pytest.approx(gaussian_delta(1.0, 0.0)[1])


@pytest.mark.parametrize("fpr", [0.0, 0.001, 0.01, 0.1, 0.5, 1.0])
def test_the_roc_bound_lies_above_the_exact_one_and_near_it(fpr):
    exact = float(ndtr(1.0 + ndtri(fpr)))  # Neyman-Pearson for unit Gaussians one apart
    bound = plan.compute_profile_view(Gaussian(1.0), delta=1e-6, points=60).true_positive_rate(fpr)
    assert exact <= bound <= exact + 0.02

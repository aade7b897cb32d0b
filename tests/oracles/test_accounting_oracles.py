"""Independent libraries as witnesses: their one-sided answers must be compatible with our interval.

dp-accounting 0.6.0 reports an upper bound within its grid's error; its accountant ignores the count of randomized
response, so the distributions are composed directly. prv-accountant reports [lower, estimate, upper] for removal only.
"""

import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
)
from epsilog.terms import NeighboringRelation

pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
GRID = 1e-4

WITNESSED = [
    (Repeated(Laplace(10.0), 50), lambda: pld.from_laplace_mechanism(10.0, value_discretization_interval=GRID), 50),
    (
        Repeated(PoissonSampled(Laplace(2.0), 0.05), 200),
        lambda: pld.from_laplace_mechanism(2.0, value_discretization_interval=GRID, sampling_prob=0.05),
        200,
    ),
    (
        Repeated(PoissonSampled(Gaussian(1.0), 0.02), 300),
        lambda: pld.from_gaussian_mechanism(1.0, value_discretization_interval=GRID, sampling_prob=0.02),
        300,
    ),
    (
        Repeated(DiscreteLaplace(15.0, 4), 40),
        lambda: pld.from_discrete_laplace_mechanism(1 / 15.0, sensitivity=4, value_discretization_interval=GRID),
        40,
    ),
    (
        Repeated(DiscreteGaussian(8.0, 3), 30),
        lambda: pld.from_discrete_gaussian_mechanism(8.0, sensitivity=3, value_discretization_interval=GRID),
        30,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("release", "distribution", "count"), WITNESSED)
def test_dp_accounting_agrees_within_its_grid(release, distribution, count):
    theirs = distribution().self_compose(count).get_epsilon_for_delta(1e-6)
    found = epsilon(release, delta=1e-6)
    assert found.lower <= theirs * (1 + 1e-6)
    assert theirs <= found.upper * 1.01 + count * GRID  # and theirs is no further above than its grid explains


@pytest.mark.slow
def test_randomized_response_composed_by_dp_accounting():
    theirs = (
        pld.from_randomized_response(0.5, 4, value_discretization_interval=GRID)
        .self_compose(40)
        .get_epsilon_for_delta(1e-6)
    )
    release = Repeated(RandomizedResponse(0.5, 4), 40)
    found = epsilon(release, delta=1e-6, relation=NeighboringRelation.REPLACE_ONE)
    assert found.lower <= theirs * (1 + 1e-6)
    assert theirs <= found.upper * 1.001 + 40 * GRID


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_prv_accountant_holds_our_value():
    prv = pytest.importorskip("prv_accountant")
    mechanism = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=1.0, sampling_probability=0.01)
    accountant = prv.PRVAccountant(prvs=[mechanism], max_self_compositions=[1000], eps_error=0.01, delta_error=1e-10)
    low, _, high = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[1000])
    found = epsilon(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), delta=1e-5)
    assert low <= found.upper
    assert found.lower <= high

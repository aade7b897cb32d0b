"""What parts state adds up as their theorems say: rho, mu, Renyi divergences, pure epsilons; repeated and mixed."""

import math
from itertools import combinations

import numpy as np
import pytest

from epsilog.accounting import delta, mu, rdp, rho
from epsilog.mechanisms import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    PureDP,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
RHO = [  # release, rho under add-or-remove-one, rho under replace-one: from the papers' statements
    (Gaussian(2.0), 1 / 8, 4 / 8),
    (Gaussian(3.0, sensitivity=1.5), 1 / 18, 4 / 18),
    (DiscreteGaussian(2.0), 1 / 8, 4 / 8),
    (DiscreteGaussian(4.0, sensitivity=2), 1 / 8, 4 / 8),
    (ZeroConcentratedDP(0.3), 0.3, 0.3),
    (GaussianDP(0.5), 1 / 8, 1 / 8),
    (PureDP(0.5), 1 / 8, 1 / 8),
    (Laplace(2.0), 1 / 8, 1 / 2),
    (DiscreteLaplace(8.0, sensitivity=4), 1 / 8, 1 / 2),
    (ExponentialMechanism(0.5), 1 / 32, 1 / 32),
    (ExponentialMechanism(0.5, monotone=True), 1 / 128, 1 / 128),
]


@pytest.mark.parametrize(("release", "added", "replaced"), RHO, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_rho_of_a_part_is_its_theorems_and_grows_with_its_count(release, added, replaced, count):
    for relation, one in ((ADD, added), (REPLACE, replaced)):
        try:
            found = rho(Repeated(release, count), relation)
        except UnsupportedMechanismError:
            assert relation is REPLACE
            continue
        assert count * one <= found * (1 + 1e-15) <= count * one * (1 + 1e-12)


@pytest.mark.parametrize("pair", list(combinations(range(len(RHO)), 2)), ids=str)
def test_rhos_of_unlike_parts_add_up(pair):
    (one, first, _), (other, second, _) = (RHO[at] for at in pair)
    mixed = Composed([Repeated(one, 2), Repeated(other, 3), one])
    assert 3 * first + 3 * second <= rho(mixed) * (1 + 1e-15) <= (3 * first + 3 * second) * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_mus_add_up_in_squares_and_are_none_beside_anything_else(count):
    assert mu(Repeated(Gaussian(2.0), count)) == pytest.approx(math.sqrt(count) / 2, rel=1e-12)
    assert mu(Repeated(GaussianDP(0.25), count)) == pytest.approx(math.sqrt(count) / 4, rel=1e-12)
    mixed = Composed([Repeated(Gaussian(2.0), count), GaussianDP(0.25), Gaussian(4.0)])
    assert mu(mixed) == pytest.approx(math.sqrt(count / 4 + 1 / 16 + 1 / 16), rel=1e-12)
    assert mu(Gaussian(2.0), REPLACE) == pytest.approx(1.0, rel=1e-12)
    for other in (PureDP(0.5), ZeroConcentratedDP(0.1), Laplace(3.0)):
        assert mu(Composed([Gaussian(2.0), other])) is None
        assert mu(Composed([other, Gaussian(2.0)])) is None
    assert mu(Gaussian(0.0)) in {None, math.inf}


@pytest.mark.parametrize("count", [1, 3])
def test_divergences_of_parts_are_their_definition_and_add_up(count):
    """Laplace by integrals, randomized response by sums, Gaussians and zCDP in closed form."""
    from scipy.integrate import quad

    orders = np.array([1.5, 2.0, 8.0, 32.0])

    def of(release):
        return rdp(Repeated(release, count), orders, relation=ADD) / count

    assert of(Gaussian(3.0)) == pytest.approx(orders / 18, rel=1e-9)
    assert of(ZeroConcentratedDP(0.25)) == pytest.approx(orders / 4, rel=1e-9)

    def laplace(order, scale=2.0):
        def density(x):
            return math.exp(-(order * abs(x) - (order - 1) * abs(x - 1)) / scale) / (2 * scale)

        return math.log(sum(quad(density, *ends)[0] for ends in ((-400, 0), (0, 1), (1, 400)))) / (order - 1)

    assert of(Laplace(2.0)) == pytest.approx([laplace(order) for order in orders], rel=1e-6)

    def answered(order, flip=0.4, categories=3):
        rare = flip / categories
        often = 1 - (categories - 1) * rare
        sums = often**order * rare ** (1 - order) + rare**order * often ** (1 - order) + (categories - 2) * rare
        return math.log(sums) / (order - 1)

    found = rdp(Repeated(RandomizedResponse(0.4, 3), count), orders, relation=REPLACE) / count
    assert found == pytest.approx([answered(order) for order in orders], rel=1e-9)
    mixed = rdp(Composed([Gaussian(3.0), Repeated(Laplace(2.0), 2), ZeroConcentratedDP(0.25)]), orders, relation=ADD)
    assert mixed == pytest.approx(
        orders / 18 + 2 * np.array([laplace(order) for order in orders]) + orders / 4, rel=1e-6
    )


@pytest.mark.parametrize("release", [Laplace(0.0), DiscreteLaplace(0.0)])
def test_noise_of_nothing_has_no_rho(release):
    assert rho(release) == math.inf


@pytest.mark.parametrize(("answers", "within"), [(98, True), (104, False)])
def test_residues_bear_as_many_pure_answers_as_the_ledger_s_page_says(answers, within):
    many, budget = Repeated(PureDP(0.1), answers), GaussianDP(1.0)
    points = (0.0, 0.5, 1.0, 2.0, 3.0)
    below = [delta(many, epsilon=at).upper <= delta(budget, epsilon=at).upper for at in points]
    assert all(below) is within

"""Staircase noise: its law against the density itself, at every shift, and against another library's composition."""

import math

import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, profile, rho
from epsilog.mechanisms import Composed, Gaussian, Laplace, PoissonSampled, PureDP, Repeated, Staircase
from epsilog.numerics.noise import build_staircase_pair
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
PARTS = 40  # of the sensitivity: a grid on which gamma and all shifts lie


def heights(eps, gamma, x):
    """The density, straight from the paper: whole steps, then whether the first part of the step is over."""
    step, rest = np.divmod(np.abs(x), 1.0)
    a = (1 - math.exp(-eps)) / (2 * (gamma + math.exp(-eps) * (1 - gamma)))
    return a * np.exp(-eps * step) * np.where(rest < gamma, 1.0, math.exp(-eps))


def divergence(eps, gamma, shift, at):
    """Delta by summing over the middles of a grid on which everything is constant."""
    far = int(60 / min(eps, 1)) + 4
    x = (np.arange(-far * PARTS, far * PARTS) + 0.5) / PARTS
    surplus = heights(eps, gamma, x - shift) - math.exp(at) * heights(eps, gamma, x)
    return float(np.maximum(surplus, 0).sum()) / PARTS


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.4, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_shift_up_to_the_whole_one_loses_more_and_the_whole_one_loses_what_is_said(eps, gamma, steps):
    law = build_staircase_pair(eps, gamma, steps)
    assert law.p.sum() == pytest.approx(1, rel=1e-12)
    assert law.p == pytest.approx((law.p * np.exp(-law.u))[::-1], rel=1e-12, abs=1e-300)
    for at in (-0.7 * eps, 0.0, 0.2 * eps, eps, 1.5 * eps, 2.9 * eps):
        claimed = float(np.sum(np.maximum(law.p * -np.expm1(at - law.u), 0)))
        found = [divergence(eps, gamma, k / PARTS, at) for k in range(0, steps * PARTS + 1, 10)]
        assert found[-1] == pytest.approx(claimed, rel=1e-9, abs=1e-12)
        assert np.all(np.diff(found) >= -1e-12)  # it grows with the shift


@pytest.mark.parametrize(("relation", "steps"), [(ADD, 1), (ZERO, 1), (REPLACE, 2)])
def test_the_accountant_asks_for_the_shift_of_the_relation(relation, steps):
    for at in (0.0, 0.4, 1.2, 1.9):
        found = delta(Staircase(1.0, 0.3, sensitivity=7.0), epsilon=at, relation=relation)
        exact = divergence(1.0, 0.3, steps, at)
        assert found.lower - 1e-13 <= exact <= found.upper + 1e-13
        assert found.upper - found.lower <= 1e-9
    assert epsilon(Staircase(1.0, 0.3), delta=0, relation=relation).upper == steps


def test_the_middle_gamma_is_randomized_response_and_others_lose_less():
    statement = epsilon(Repeated(PureDP(0.5), 30), delta=1e-6)
    middle = epsilon(Repeated(Staircase(0.5, 0.5), 30), delta=1e-6)
    assert middle.upper == pytest.approx(statement.upper, rel=1e-6)
    for gamma in (0.0, 0.2, None, 0.9, 1.0):
        assert epsilon(Repeated(Staircase(0.5, gamma), 30), delta=1e-6).upper < 0.9999 * statement.lower
    assert Staircase(2.0).gamma == pytest.approx(1 / (1 + math.e))


@pytest.mark.slow
def test_a_composition_is_what_dp_accounting_makes_of_the_heights():
    from dp_accounting.pld import privacy_loss_distribution as theirs

    x = (np.arange(-40 * PARTS, 40 * PARTS) + 0.5) / PARTS
    p, q = heights(1.0, 0.2, x - 2) / PARTS, heights(1.0, 0.2, x) / PARTS
    tables = [dict(enumerate(np.log(law).tolist())) for law in (q, p)]
    oracle = theirs.from_two_probability_mass_functions(*tables, value_discretization_interval=1e-3).self_compose(8)
    found = epsilon(Repeated(Staircase(1.0, 0.2), 8), delta=1e-4, relation=REPLACE)
    assert found.relative_width <= 1e-6
    assert oracle.get_epsilon_for_delta(1e-4) == pytest.approx(found.upper, abs=0.01)  # they round each loss up


def test_renyi_divergences_and_rho_are_not_below_the_sums():
    x = (np.arange(-80 * PARTS, 80 * PARTS) + 0.5) / PARTS
    for relation, steps in ((ADD, 1), (REPLACE, 2)):
        p, q = heights(1.0, 0.7, x - steps), heights(1.0, 0.7, x)
        for order, claimed in zip((1.5, 2.0, 8.0), profile(Staircase(1.0, 0.7), relation=relation).rdp(
            np.array([1.5, 2.0, 8.0])
        ), strict=True):  # fmt: skip
            exact = math.log(float((p**order * q ** (1 - order)).sum()) / PARTS) / (order - 1)
            assert exact <= claimed * (1 + 1e-12)
            if steps == 1:
                assert claimed == pytest.approx(exact, rel=1e-9)
        assert rho(Staircase(1.0, 0.7), relation) == pytest.approx(steps**2 / 2)


def test_it_composes_with_what_has_no_lattice():
    alone = epsilon(Repeated(Staircase(0.5), 4), delta=1e-6)
    mixed = epsilon(Composed([Repeated(Staircase(0.5), 4), Gaussian(4.0), Laplace(9.0)]), delta=1e-6)
    assert alone.upper < mixed.lower
    assert mixed.relative_width < 0.02
    sampled = epsilon(Repeated(PoissonSampled(Staircase(0.5), 0.1), 4), delta=1e-6)
    assert 0 < sampled.lower <= sampled.upper < 0.3 * alone.lower

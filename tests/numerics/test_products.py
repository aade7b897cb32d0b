"""Several releases on one sample, against integrals, enumerations, and the one Gaussian that several are."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from epsilog.accounting import delta, epsilon
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import (
    Composed,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    ReportNoisyMax,
)
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition
from epsilog.numerics.products import build_product_pair
from epsilog.numerics.questions import DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def both_ways(base, share, at):
    """Delta of a sampled release at a loss, from the base's delta at any real loss."""
    removed = share * base(math.log1p(math.expm1(at) / share))
    left = 1 - math.exp(at) * (1 - share)
    added = left * base(at + math.log(share / left)) if left > 0 else 0.0
    return max(removed, added)


def with_laplace(other, loss):
    """The delta, at any real loss, of a release beside one of Laplace noise whose largest loss is ``loss``."""

    def found(at):
        ends = 0.5 * other(at - loss) + 0.5 * math.exp(-loss) * other(at + loss)
        inner = quad(lambda u: 0.25 * math.exp((u - loss) / 2) * other(at - u), -loss, loss, limit=200)[0]
        return ends + inner

    return found


def laplace(loss):
    def found(at):
        if at >= loss:
            return 0.0
        return -math.expm1((at - loss) / 2) if at > -loss else -math.expm1(at)

    return found


def gaussian(mu):
    return lambda at: sum(gaussian_delta(mu, at)) / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "base"),
    [
        (Repeated(Laplace(0.8), 2), with_laplace(laplace(1.25), 1.25)),
        (Composed([Laplace(2.0), Laplace(0.5)]), with_laplace(laplace(0.5), 2.0)),
        (Composed([Gaussian(1.0), Laplace(20.0)]), with_laplace(gaussian(1.0), 0.05)),
        (Composed([Laplace(0.5), Gaussian(3.0), Gaussian(4.0)]), with_laplace(gaussian(5 / 12), 2.0)),
    ],
)
def test_one_round_is_what_an_integral_says(release, base):
    for share, relation in ((0.01, ADD), (0.5, ZERO)):
        for at in (0.0, 0.3):
            truth = both_ways(base, share, at)
            found = delta(PoissonSampled(release, share), epsilon=at, relation=relation)
            assert found.lower <= truth * (1 + 1e-8)
            assert truth <= found.upper * (1 + 1e-8)
            assert found.upper - found.lower <= 0.01 * truth + 1e-12


@pytest.mark.slow
def test_discrete_noises_and_responses_are_what_an_enumeration_says():
    reports = RandomizedResponse(0.5, 3)
    row = {0: 2 / 3, 1: 1 / 6, 2: 1 / 6}, {0: 1 / 6, 1: 2 / 3, 2: 1 / 6}
    for at in (0.05, 0.2):
        lifted = math.exp(math.log1p(math.expm1(at) / 0.1))
        truth = 0.1 * sum(
            max(math.prod(row[0][x] for x in seen) - lifted * math.prod(row[1][x] for x in seen), 0)
            for seen in itertools.product(range(3), repeat=3)
        )
        found = delta(FixedSizeSampled(Repeated(reports, 3), 10, 100), epsilon=at, relation=REPLACE)
        assert found.lower <= truth * (1 + 1e-12)
        assert truth <= found.upper * (1 + 1e-12)
        assert found.upper < 1.001 * truth
    k, spread = np.arange(-200, 202), math.tanh(0.25)
    p, q = (spread * np.exp(-np.abs(k - shift) / 2) for shift in (1, 0))  # scale 2
    often = 1 / (1 + math.exp(-0.3))
    chances = [(p * a, q * b) for a, b in ((often, 1 - often), (1 - often, often))]  # beside a statement
    base = lambda at: sum(np.maximum(a - math.exp(at) * b, 0).sum() for a, b in chances)  # noqa: E731
    for at in (0.01, 0.1):
        found = delta(PoissonSampled(Composed([DiscreteLaplace(2.0), PureDP(0.3)]), 0.2), epsilon=at, relation=ADD)
        assert found.lower <= both_ways(base, 0.2, at) * (1 + 1e-9)
        assert both_ways(base, 0.2, at) <= found.upper * (1 + 1e-9)
        assert found.relative_width < 0.002


@pytest.mark.slow
@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_a_product_of_gaussians_is_their_gaussian_in_many_rounds(direction):
    parts = [(GaussianPair(0.6), 1), (GaussianPair(0.8), 1)]
    above, below = (DominatingPair(build_product_pair(parts, upper=side), 0.01, direction) for side in (True, False))
    exact = ((DominatingPair(GaussianPair(1.0), 0.01, direction), 1000),)
    for question in (EpsilonAt(1e-6), EpsilonAt(1e-12), DeltaAt(0.5)):
        truth = bound_on_lattice((PairComposition(exact, (exact,)),), question, relative_width=1e-4)
        ours = bound_on_lattice(
            (PairComposition(((above, 1000),), (((below, 1000),),)),), question, relative_width=1e-3
        )
        assert ours.lower <= truth.upper
        assert truth.lower <= ours.upper
        assert ours.upper <= 1.01 * ours.lower


@pytest.mark.parametrize("noise", ["laplace", pytest.param("exponential", marks=pytest.mark.slow)])
def test_a_part_known_from_below_only_by_an_example_lends_a_sample_no_more(noise):
    """What is attained on a sample is at most that share of what is attained without it (Balle et al. 2018)."""
    parts, share, at = Composed([ReportNoisyMax(1.0, noise), Laplace(3.0)]), 0.3, 0.2
    whole = delta(parts, epsilon=at)
    found = delta(PoissonSampled(parts, share), epsilon=math.log1p(share * math.expm1(at)))
    assert whole.lower < 0.9 * whole.upper, "the example is not the worst"
    assert found.lower <= share * whole.lower * (1 + 1e-9)
    assert found.upper == pytest.approx(share * whole.upper, rel=1e-4)


@pytest.mark.slow
def test_next_to_nothing_beside_a_gaussian_adds_next_to_nothing():
    alone = epsilon(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), delta=1e-6)
    beside = epsilon(Repeated(PoissonSampled(Composed([Gaussian(1.0), Laplace(1e6)]), 0.01), 1000), delta=1e-6)
    assert alone.lower <= beside.upper <= 1.001 * alone.upper
    assert beside.lower <= 1.000_01 * alone.upper
    more = epsilon(Repeated(PoissonSampled(Composed([Gaussian(1.0), Laplace(20.0)]), 0.01), 1000), delta=1e-6)
    assert more.lower > alone.upper  # the control: a count that is seen costs


def test_the_ends_of_the_range():
    for one, most in ((Gaussian(1e-3), math.inf), (Laplace(1e-3), 2000.0), (Gaussian(0.0), math.inf)):
        release = PoissonSampled(Composed([one, Laplace(1.0)]), 0.1)
        found = epsilon(release, delta=1e-6)
        assert found.lower <= found.upper <= most
        assert found.upper > 100
    faint = PoissonSampled(Repeated(Laplace(1e120), 2), 0.1)
    assert epsilon(faint, delta=0.0).upper <= 1e-100
    assert delta(faint, epsilon=0.0).upper <= 1e-6
    assert epsilon(PoissonSampled(Repeated(Laplace(1.0), 3), 0.5), delta=0.0).upper == pytest.approx(
        math.log1p(0.5 * math.expm1(3.0)), rel=1e-12
    )

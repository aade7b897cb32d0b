"""Where accountants break: masses that cancel, noise next to none, laws that one point holds, counts beyond memory."""

import math
from contextlib import nullcontext

import mpmath
import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, profile
from epsilog.accounting.inversion.integral import bound_by_inversion
from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.gaussian import gaussian_epsilon
from epsilog.numerics.lattice.composition import compose_on_lattice
from epsilog.numerics.lattice.distribution import LatticeDistribution, connect_dots, merge_outcomes
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.questions import DeltaAt, EpsilonAt
from epsilog.numerics.rounding import UNIT
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


@pytest.fixture(autouse=True)
def many_digits():
    """Whatever other tests have left mpmath at."""
    with mpmath.workdps(40):
        yield


@pytest.mark.parametrize("stated", [20.0, 36.0, 37.0, 100.0, 590.0])
def test_a_statement_with_a_huge_epsilon_still_loses_all_when_it_is_sampled(stated):
    """Being sampled once in ten rounds gives the unit away, with probability 1 - 0.99^10."""
    release = Repeated(PoissonSampled(PureDP(stated), 0.01), 10)
    exact = -math.expm1(10 * math.log1p(-0.01))
    found = delta(release, epsilon=1.0)
    assert found.upper >= exact * (1 - 1e-6)
    assert found.upper <= exact * 1.01
    assert epsilon(release, delta=1e-5).lower > stated - 5


@pytest.mark.parametrize(
    "release", [PureDP(0.001), PureDP(5.0), PureDP(40.0), PureDP(599.0), RandomizedResponse(1e-20, 1000)]
)
def test_both_laws_of_a_statement_are_whole(release):
    law = release.base_pairs(REPLACE)[0]
    assert math.fsum(law.p) == pytest.approx(1, rel=1e-14)
    assert math.fsum(p * math.exp(-u) for p, u in zip(law.p, law.u, strict=True)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(Repeated(PoissonSampled(Gaussian(0.01), 1e-3), 1000), marks=pytest.mark.slow),
        Repeated(PoissonSampled(Gaussian(1e-12), 0.5), 10),
    ],
)
def test_what_no_lattice_holds_is_bounded_loosely_not_refused_nor_hung_on(release):
    found = delta(release, epsilon=1.0)
    assert 0 <= found.lower <= found.upper <= 1
    assert found.upper > 0.5


def test_an_empty_sample_costs_nothing():
    nothing = FixedSizeSampled(Gaussian(1.0), sample_size=0, population=10)
    assert epsilon(Repeated(nothing, 5), delta=1e-6, relation=REPLACE).upper == 0
    assert delta(nothing, epsilon=1.0, relation=REPLACE).upper == 0


def test_what_underflows_is_not_nothing():
    """With noise of 1e8 delta at 1 is about e^-1e16: no double holds it, and 0 would be a lie."""
    assert delta(PoissonSampled(Gaussian(1e8), 0.5), epsilon=1.0).upper > 0
    assert delta(Repeated(PoissonSampled(Gaussian(1e8), 0.5), 10), epsilon=1.0).upper > 0
    assert delta(PureDP(1.0), epsilon=1.0001).upper == 0


def test_groups_at_an_epsilon_whose_exponential_overflows():
    assert profile(PoissonSampled(Gaussian(1.0), 0.1)).group_delta(units=2, epsilon=800.0).upper < 1e-100
    assert profile(PureDP(500.0)).group_delta(units=2, epsilon=800.0).upper == 1
    assert profile(PureDP(1.0)).group_delta(units=2, epsilon=1000.0).upper == 0


def tail(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def exact_delta(pair, at):
    """Delta of a pair of (sampled) Gaussians in 40 digits."""
    mu, share, at = mpmath.mpf(pair.base.mu), mpmath.mpf(pair.sampling_probability), mpmath.mpf(at)
    if pair.direction is AdjacencyType.PLAIN:
        x = at / mu + mu / 2
        return tail(x - mu) - mpmath.exp(at) * tail(x)
    if pair.direction is AdjacencyType.REMOVE:
        if mpmath.expm1(at) <= -share:
            return -mpmath.expm1(at)
        x = mpmath.log1p(mpmath.expm1(at) / share) / mu + mu / 2
        return share * tail(x - mu) - (mpmath.expm1(at) + share) * tail(x)
    if mpmath.expm1(-at) <= -share:
        return mpmath.mpf(0)
    x = -mpmath.log1p(mpmath.expm1(-at) / share) / mu + mu / 2
    return mpmath.exp(at) * ((mpmath.expm1(-at) + share) * tail(x - mu) - share * tail(x))


def random_pair(rng):
    direction = (AdjacencyType.PLAIN, AdjacencyType.REMOVE, AdjacencyType.ADD)[rng.integers(3)]
    share = (
        1.0
        if direction is AdjacencyType.PLAIN
        else float(rng.choice([10 ** rng.uniform(-6, -0.3), 1 - 10 ** rng.uniform(-6, -1)]))
    )
    return DominatingPair(GaussianPair(float(10 ** rng.uniform(-2.5, 1.2))), share, direction)


@pytest.mark.slow
def test_cells_of_a_normal_err_by_no_more_than_they_say():
    """Narrow cells far out included; the control is the error that used to be assumed: 16 u of the larger tail."""
    rng, beyond_assumed = np.random.default_rng(3), 0
    for _ in range(60):
        mu = float(10 ** rng.uniform(-2, 1.5))
        x = np.sort(rng.uniform(-36, 36) + 10 ** rng.uniform(-13, 0) * rng.uniform(-1, 1, 4))
        edges = (x - mu / 2) * mu
        found = GaussianPair(mu).masses(edges)
        cuts = [mpmath.mpf(float(cut)) for cut in edges / mu + mu / 2]
        for mass, error, moved in ((found.q, found.q_error, 0), (found.p, found.p_error, mpmath.mpf(mu))):
            for i in range(3):
                low, high = cuts[i] - moved, cuts[i + 1] - moved
                low, high = (-high, -low) if high < 0 else (low, high)
                off = abs(mpmath.mpf(float(mass[i + 1])) - (tail(low) - tail(high)))
                assert off <= error[i + 1]
                beyond_assumed += off > 16 * UNIT * tail(low)
    assert beyond_assumed > 10


def test_no_edge_is_misplaced_by_more_than_is_said():
    rng = np.random.default_rng(4)
    for _ in range(300):
        pair = random_pair(rng)
        g = np.array([float(rng.uniform(*pair.tail_bounds(1e-30)))])
        u = float(pair.to_base(g)[0])
        if math.isinf(u):
            continue
        mu, share = mpmath.mpf(pair.base.mu), mpmath.mpf(pair.sampling_probability)
        ratio = mpmath.mpf(u / pair.base.mu + pair.base.mu / 2) * mu - mu * mu / 2
        sign = -1 if pair.direction is AdjacencyType.ADD else 1
        loss = sign * mpmath.log(1 - share + share * mpmath.exp(sign * ratio))
        assert abs(loss - mpmath.mpf(float(g[0]))) <= pair.ratio_error(g)


@pytest.mark.slow
def test_a_lattice_law_lies_above_or_below_its_pair():
    rng = np.random.default_rng(5)
    for _ in range(60):
        pair = random_pair(rng)
        low, high = pair.tail_bounds(10 ** rng.uniform(-40, -6))
        step = (high - low) / int(rng.integers(3, 200))
        offset = pair.anchor() if rng.random() < 0.5 else float(rng.uniform(low, high))
        first, last = math.floor((low - offset) / step) - 1, math.ceil((high - offset) / step) + 1
        index = np.unique(np.append(rng.integers(first, last + 1, 150), [first, last]))
        above = connect_dots(pair, index, step=step, offset=offset)
        below = merge_outcomes(
            pair, index, step=step, offset=offset, coarse=float(rng.choice([step, 5 * step, math.inf]))
        )
        for at in rng.uniform(low, high, 6):
            exact = exact_delta(pair, at)
            values = []
            for law in (above, below):
                losses = law.offset + step * law.points
                values.append(
                    law.infinite + float(np.sum(np.where(losses > at, -np.expm1(at - losses), 0) * law.weight))
                )
            assert values[1] * (1 - 1e-13) <= exact <= values[0] * (1 + 1e-13) + 1e-300


def test_composing_agrees_with_convolving():
    """A few laws, and so many that they share their Fourier factors; plain convolution is the oracle."""
    rng = np.random.default_rng(6)
    for size in (1, 2, 3, 12):
        laws, whole, lowest = [], np.ones(1), 0
        for _ in range(size):
            points = np.unique(rng.integers(-6, 9, 6))
            weight = rng.dirichlet(np.ones(len(points)))
            count = int(rng.integers(1, 4))
            laws.append((LatticeDistribution(points, weight, 0.0, 0.0), count))
            dense = np.zeros(points[-1] - points[0] + 1)
            dense[points - points[0]] = weight
            for _ in range(count):
                whole, lowest = np.convolve(whole, dense), lowest + int(points[0])
        losses = 0.1 * (lowest + np.arange(len(whole)))
        upper, lower = (
            compose_on_lattice(laws, step=0.1, theta=1.3, near=1.0, upper=side, nats=30.0) for side in (True, False)
        )
        for at in (-1.05, 0.0, 0.73, 2.0):
            exact = math.fsum(w * -math.expm1(at - loss) for w, loss in zip(whole, losses, strict=True) if loss > at)
            assert lower.delta(at) <= exact * (1 + 1e-12)
            assert upper.delta(at) >= exact * (1 - 1e-12)
            assert upper.delta(at) - lower.delta(at) <= 1e-9 * exact + 1e-14
            assert upper.chernoff(at) >= exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "share", "rounds", "question", "reached"),
    [
        (1.0, 0.01, 1_000, EpsilonAt(1e-5), True),
        (1.0, 0.01, 1_000, DeltaAt(50.0), True),  # 6e-173
        (0.1, 1e-3, 1_000, EpsilonAt(1e-5), False),  # a rare large loss, far from all others
        pytest.param(0.05, 1e-3, 1_000, EpsilonAt(1e-5), False, marks=pytest.mark.slow),
        pytest.param(0.5, 1e-5, 5, EpsilonAt(1e-7), False, marks=pytest.mark.slow),
        pytest.param(1.0, 1e-6, 2, EpsilonAt(1e-10), False, marks=pytest.mark.slow),
        (1.0, 1e-4, 10**7, EpsilonAt(1e-6), True),
    ],
)
def test_the_lattice_is_narrow_and_agrees_where_the_inversion_integral_reaches(noise, share, rounds, question, reached):
    ways = Composition.of(Repeated(PoissonSampled(Gaussian(noise), share), rounds), ADD).orderings()
    lower, upper = bound_on_lattice(ways, question, relative_width=0.002)
    assert upper - lower <= 0.002 * upper
    with nullcontext() if reached else pytest.raises(InversionInfeasibleError):
        low, high = bound_by_inversion(ways, question)
        assert lower <= high * (1 + 1e-9)
        assert low <= upper * (1 + 1e-9)


def test_a_thousand_losses_of_all_but_nothing():
    """All hundred rounds answer truly with chance 2^-100, and then the loss is 100 / scale."""
    lower, upper = bound_on_lattice(
        Composition.of(Repeated(Laplace(0.01), 100), ADD).orderings(), EpsilonAt(1e-100), relative_width=0.002
    )
    assert 10_000 * (1 - 1e-9) <= lower <= 10_000 <= upper <= 10_000 * (1 + 1e-9)
    lower, upper = bound_on_lattice(
        Composition.of(Repeated(Laplace(0.1), 100), ADD).orderings(), EpsilonAt(1e-30), relative_width=0.002
    )
    assert 999 < lower <= upper < 1000
    assert 2.0**-100 * -math.expm1(lower - 1000) <= 1e-30


@pytest.mark.parametrize("at", [100.0, 1000.0, 10_000.0])
def test_far_beyond_what_is_lost_delta_is_next_to_nothing(at):
    lower, upper = bound_on_lattice(
        Composition.of(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), ADD).orderings(),
        DeltaAt(at),
        relative_width=0.002,
    )
    assert lower == 0
    assert 0 < upper < 1e-250
    assert 0 < delta(Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000), epsilon=at).upper < 1e-250


@pytest.mark.slow
def test_rounds_beyond_any_transform_are_bounded_by_chernoff():
    """10^12 rounds are near their Gaussian limit, mu = q sqrt(T (e - 1)); a lattice that memory holds said 303."""
    limit = gaussian_epsilon(math.sqrt(math.e - 1), 1e-6)[1]
    lower, upper = bound_on_lattice(
        Composition.of(Repeated(PoissonSampled(Gaussian(1.0), 1e-6), 10**12), ADD).orderings(),
        EpsilonAt(1e-6),
        relative_width=0.002,
    )
    assert 0 <= lower <= limit * 1.01
    assert 0.99 * limit <= upper <= 1.3 * limit


@pytest.mark.parametrize("noise", [1e162, 1e200, 1e300])
def test_noise_whose_square_overflows_is_still_a_release(noise):
    mu = 3 / noise
    for release in (Repeated(Gaussian(noise), 9), Composed([Gaussian(noise / 3), RandomizedResponse(1.0, 2)])):
        relation = ADD if isinstance(release, Repeated) else REPLACE
        assert epsilon(release, delta=0.0, relation=relation).upper == math.inf
        assert delta(release, epsilon=1.0, relation=relation).upper > 0
        assert delta(release, epsilon=0.0, relation=relation).upper >= mu * 0.39
    assert Composition.of(Repeated(Gaussian(noise), 9), ADD).mu == pytest.approx(mu, rel=1e-15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "release",
    [
        Repeated(PoissonSampled(Gaussian(1e-154), 0.5), 2),
        Repeated(PoissonSampled(Gaussian(1e-200), 0.5), 2),
        PoissonSampled(Gaussian(1e-200), 0.5),
        Composed([Gaussian(1e-200), Laplace(1.0)]),
    ],
    ids=str,
)
def test_noise_whose_square_leaves_the_numbers_hides_next_to_nothing(release):
    assert epsilon(release, delta=1e-5).upper > 1e307  # with noise 1e-154 it is still a double
    assert delta(release, epsilon=1.0).upper >= 0.5


@pytest.mark.filterwarnings("error")
def test_a_statement_that_gives_nothing_away_costs_nothing_beside_others():
    sgd = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 100)
    alone = epsilon(sgd, delta=1e-5)
    assert epsilon(Composed([PureDP(0.0), sgd]), delta=1e-5).upper == pytest.approx(alone.upper, rel=1e-6)
    beside = epsilon(Composed([ApproximateDP(0.0, 1e-9), sgd]), delta=1e-5)
    assert alone.lower < beside.lower <= beside.upper < alone.upper * 1.001


@pytest.mark.slow
def test_merging_gives_up_where_nothing_reaches_its_point():
    """A lower lattice far finer than round-off: it walked on for minutes."""
    found = delta(Repeated(PoissonSampled(Gaussian(118.0), 1e-12), 8_545_711), epsilon=0.0131, relation=REPLACE)
    assert 0 <= found.lower <= found.upper < 1e-100

"""Very many rounds: against sums over binomials, the inversion where both answer, and limits known in closed form."""

import math
from dataclasses import replace
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom, norm

from epsilog.accounting import delta, epsilon
from epsilog.accounting.account import compute_interval
from epsilog.accounting.inversion.integral import bound_by_inversion
from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.accounting.methods import central_limit
from epsilog.accounting.methods.central_limit import bound_by_central_limit
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import DiscretePair, GaussianPair
from epsilog.numerics.gaussian import gaussian_delta, gaussian_epsilon
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition
from epsilog.numerics.questions import DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation


def by_many(release, question, relation=ADD):
    return bound_by_central_limit(Composition.of(release, relation).orderings(), question)


def sampled(base, share, rounds):
    return Repeated(PoissonSampled(base, share), rounds)


def two_losses(eps, share, rounds, at):
    """Delta at ``at`` of so many sampled randomized responses: each has two losses, so their sum is a binomial."""
    found = 0.0
    often, rare = 1 / (1 + math.exp(-eps)), 1 / (1 + math.exp(eps))
    up, down = (math.log1p(share * math.expm1(side * eps)) for side in (1, -1))
    first = (1 - share) * rare + share * often  # removal: the chance of the larger loss under P
    for chance, high, low in ((first, up, down), (often, -down, -up)):
        mean, spread = rounds * chance, math.sqrt(rounds * chance * (1 - chance))
        k = np.arange(max(0, math.floor(mean - 20 * spread)), min(rounds, math.ceil(mean + 20 * spread)) + 1.0)
        log_mass = gammaln(rounds + 1) - gammaln(k + 1) - gammaln(rounds - k + 1)
        log_mass += k * math.log(chance) + (rounds - k) * math.log1p(-chance)
        mass = np.exp(log_mass) / np.sum(np.exp(log_mass))
        loss = k * high + (rounds - k) * low
        found = max(found, float(mass @ -np.expm1(np.minimum(at - loss, 0.0))))
    return found


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize(
    ("eps", "share", "rounds", "goal"),
    [(1.0, 0.01, 10**5, 1e-6), (0.1, 0.5, 10**6, 1e-9), (3.0, 1e-4, 10**8, 1e-3), (1.0, 1e-6, 10**9, 1e-5)],
)
def test_binomials(eps, share, rounds, goal):
    release = sampled(PureDP(eps), share, rounds)
    lower, upper = by_many(release, EpsilonAt(goal))
    assert upper - lower <= 0.01 * upper
    assert two_losses(eps, share, rounds, lower) >= goal * (1 - 1e-6)
    assert two_losses(eps, share, rounds, upper) <= goal * (1 + 1e-6)
    at = (lower + upper) / 2
    low, high = by_many(release, DeltaAt(at))
    assert low * (1 - 1e-6) <= two_losses(eps, share, rounds, at) <= high * (1 + 1e-6)
    assert high - low <= 0.1 * high


def limit(share, spread, rounds):
    """The mu of the normal limit; at 10^12 rounds and more it is exact to the digits that are compared."""
    return share * math.sqrt(rounds * spread)


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(
    ("base", "spread", "share", "rounds", "goal"),
    [
        pytest.param(Gaussian(100.0), math.expm1(1e-4), 1e-5, 10**15, 1e-6, marks=pytest.mark.slow),  # said [0, 147]
        pytest.param(Gaussian(1.0), math.expm1(1.0), 1e-12, 10**12, 1e-9, marks=pytest.mark.slow),  # said [0, 0.02]
        pytest.param(GaussianDP(0.37), math.expm1(0.37**2), 1e-12, 10**13, 1e-8, marks=pytest.mark.slow),
        (PureDP(1.0), math.expm1(1.0) ** 2 * math.exp(-1), 1e-8, 10**15, 1e-6),
        (DiscreteGaussian(20.0), math.expm1(1 / 400), 2.48e-9, 330027137281847, 1e-6),  # said [0, 14.5]
        (DiscreteGaussian(50.0, 3), math.expm1(9 / 2500), 1e-7, 10**13, 1e-40),
    ],
)
def test_limits(base, spread, share, rounds, goal):
    release = sampled(base, share, rounds)
    exact = gaussian_epsilon(limit(share, spread, rounds), goal)[0]
    found = epsilon(release, delta=goal)
    assert found.lower <= exact * (1 + 2e-4)
    assert found.upper >= exact * (1 - 2e-4)
    assert found.upper - found.lower <= 0.01 * found.upper
    assert compute_interval(Composition.of(release, ADD), EpsilonAt(goal), above=True)[0].upper <= found.upper * 1.002
    at = found.upper
    told = delta(release, epsilon=at)
    assert told.lower <= gaussian_delta(limit(share, spread, rounds), at)[1] * 1.02
    assert told.upper <= goal * 1.01


@pytest.mark.slow
def test_next_to_nothing_is_nothing():
    """The total variation is 6.6e-7 at most: at delta 1e-6 epsilon is 0, where a lattice said 0.02."""
    found = epsilon(sampled(Gaussian(1.0), 1e-12, 10**12), delta=1e-6)
    assert (found.lower, found.upper) == (0.0, 0.0)
    total = delta(sampled(Gaussian(1.0), 1e-12, 10**12), epsilon=0.0)
    assert total.lower <= gaussian_delta(limit(1e-12, math.expm1(1.0), 10**12), 0.0)[1] <= total.upper * 1.0001
    assert total.upper <= 1.01 * total.lower


@pytest.mark.slow
def test_the_largest_count():
    """A lattice said only that delta is at most 1."""
    found = delta(sampled(Gaussian(100.0), 1e-6, 2**53 - 1), epsilon=1.0)
    exact = gaussian_delta(limit(1e-6, math.expm1(1e-4), 2**53 - 1), 1.0)[0]
    assert found.lower <= exact <= found.upper <= 1.01 * found.lower


@pytest.mark.parametrize(("most", "rounds"), [(2.6, 10**9), (4.0, 3 * 10**9), (45.0, 10**10)])
def test_the_lattice_is_asked_too_where_a_normal_law_is_far(most, rounds):
    """Under replace-one few rounds decide: the normal law alone said 7.06, 10.4 and 16.3, and 223 to 742 for mu = 2."""
    share = (2.0 if rounds == 10**10 else 0.2) / math.sqrt(rounds * math.expm1(1.0))
    release = sampled(Gaussian(1.0), share, rounds)
    found = epsilon(release, delta=1e-6, relation=REPLACE)
    assert epsilon(release, delta=1e-6).upper <= found.upper <= most


@pytest.mark.slow
def test_where_the_inversion_answers_too_it_lies_inside():
    rng = np.random.default_rng(5)
    for _ in range(4):
        noise, rounds = 10 ** rng.uniform(-0.2, 2), int(10 ** rng.uniform(4, 9))
        share = min(10 ** rng.uniform(-1.5, 1) * noise / math.sqrt(rounds), 1.0)
        release = sampled(Gaussian(noise), share, rounds)
        goal = 10 ** rng.uniform(-30, -1)
        for question in (EpsilonAt(goal), DeltaAt(10 ** rng.uniform(-3, 1))):
            exact = bound_by_inversion(Composition.of(release, ADD).orderings(), question)
            lower, upper = by_many(release, question)
            assert lower <= exact.upper * (1 + 1e-9), (release, question)
            assert upper >= exact.lower * (1 - 1e-9), (release, question)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "relation"),
    [
        (Repeated(Laplace(300.0), 10**6), ADD),
        (Repeated(RandomizedResponse(0.999, categories=5), 10**6), REPLACE),
        (Repeated(DiscreteLaplace(300.0), 10**6), ADD),
        (Repeated(ApproximateDP(1e-3, 1e-13), 10**6), ADD),
        (sampled(ApproximateDP(1e-1, 1e-10), 1e-3, 10**6), ADD),
        (sampled(Laplace(2.0), 1e-4, 10**6), ADD),
        (sampled(ExponentialMechanism(0.01), 1e-2, 10**6), ADD),
        (sampled(Gaussian(10.0), 1e-3, 10**6), REPLACE),
        (Composed([sampled(Laplace(2.0), 1e-3, 10**5), Repeated(PureDP(1e-3), 10**5)]), ADD),
    ],
)
def test_other_laws_agree_with_the_lattice(release, relation):
    ways = Composition.of(release, relation).orderings()
    for question in (EpsilonAt(1e-6), DeltaAt(0.5)):
        lower, upper = bound_by_central_limit(ways, question)
        on_lattice = bound_on_lattice(ways, question, relative_width=0.01)
        assert lower <= on_lattice.upper * (1 + 1e-9)
        assert upper >= on_lattice.lower * (1 - 1e-9)


def test_what_a_lower_law_leaves_out_is_not_counted_as_there():
    """A thousandth of each round left out leaves (1 - 1e-3)^10000 of all: no delta from below can be more."""
    above = ApproximateDP(0.01, 1e-3).base_pairs(ADD)[0]
    below = replace(above, infinity_mass=0.0)
    whole, part = (((DominatingPair(law, 0.5, AdjacencyType.REMOVE), 20_000),) for law in (above, below))
    left = (1 - 1e-3) ** 20_000
    lower, upper = bound_by_central_limit([PairComposition(whole, (part,))], DeltaAt(0.0))
    assert lower <= left
    assert bound_by_central_limit([PairComposition(part, (part,))], DeltaAt(0.0)).lower > left  # if it were not told
    assert upper >= 1 - (1 - 5e-4) ** 20_000


@pytest.mark.slow
def test_few_rounds_are_refused_and_rare_large_losses_leave_it_wide_but_right():
    with pytest.raises(InversionInfeasibleError):
        by_many(sampled(Gaussian(1.0), 0.1, 100), EpsilonAt(1e-6))
    release = sampled(Gaussian(0.2), 1e-5, 10**5)
    lower, upper = by_many(release, EpsilonAt(1e-5))
    found = epsilon(release, delta=1e-5)
    assert lower <= found.upper
    assert upper >= found.lower


@pytest.mark.slow
def test_merging_gives_up_where_nothing_reaches_its_point():
    """A lower lattice far finer than round-off: it walked on for minutes."""
    found = delta(sampled(Gaussian(118.0), 1e-12, 8_545_711), epsilon=0.0131, relation=REPLACE)
    assert 0 <= found.lower <= found.upper < 1e-100


@pytest.mark.parametrize("count", [1, 300_000, 300_001])
def test_more_atoms_than_can_be_summed_are_out_of_reach(count):
    u = np.linspace(-1.0, 1.0, count)
    law = DiscretePair(u, np.exp(u / 2) / np.exp(u / 2).sum())
    if count > 300_000:
        with pytest.raises(InversionInfeasibleError, match="atoms beyond reach"):
            central_limit._atoms(law, count)
    else:
        (low, high), (least, most) = central_limit._atoms(law, count)
        assert len(low) == len(high) == count
        assert least.sum() <= most.sum()


@pytest.mark.parametrize("power", [-30.0, -1.5, 0.5, 1.25, 3.0, 40.0])
@pytest.mark.parametrize("x", [-0.3, -0.0199, -1e-4, 1e-9, 3e-4, 0.0199, 0.0201, 0.5])
def test_what_is_left_of_a_power_and_of_a_logarithm_is_right_near_no_loss_too(x, power):
    with mpmath.workdps(50):
        at, log = mpmath.mpf(x), mpmath.log1p(x)
        rise = float((1 + at) ** power - 1 - power * at)
        turn = float((1 + at) ** power * log - at)
    given = np.array([x]), np.array([math.log1p(x)])
    assert central_limit._rise(*given, power)[0] == pytest.approx(rise, rel=1e-9)
    assert central_limit._turn(*given, power)[0] == pytest.approx(turn, rel=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("theta", [0.2, 1.0])
@pytest.mark.parametrize("direction", [AdjacencyType.REMOVE, AdjacencyType.ADD])
def test_coarse_cells_hold_the_tilted_moments_of_a_gaussian(mu, theta, direction):
    """Its loss is N(mu^2 / 2, mu^2) under the first of the pair, and tilted it is N((theta + 1 / 2) mu^2, mu^2)."""
    found = central_limit._moments(
        central_limit._cells(DominatingPair(GaussianPair(mu), 1.0, direction), 1e-150, 20_000, 0.0), theta
    )
    exact = {
        "log_total": theta * (theta + 1) * mu**2 / 2,
        "mean": (theta + 0.5) * mu**2,
        "variance": mu**2,
    }
    for name, value in exact.items():
        low, high = getattr(found, name)
        assert low <= value <= high, name
        assert high - low <= 0.5 * value, name
    assert mu**3 * 2 * math.sqrt(2 / math.pi) <= found.third <= 2 * mu**3 * 2 * math.sqrt(2 / math.pi)


@pytest.mark.parametrize("rounds", [100, 10_000, 10**6])
def test_the_normal_error_covers_the_jumps_of_a_binomial(rounds):
    """A sum of coins is a step function: where it rises most it is half of that away from any normal distribution."""
    loss, theta = 0.1, 0.5
    pair = DominatingPair(PureDP(loss).base_pairs(ADD)[0])
    found = central_limit.TiltedComposition([(central_limit._cells(pair, 1e-300, 100, 0.0), rounds)], theta)
    coins = binom(rounds, 1 / (1 + math.exp(-(1 + 2 * theta) * loss)))
    jump = coins.pmf(math.floor(coins.mean())) / 2
    assert jump <= found._error <= 2 * jump


@pytest.mark.parametrize("third", [0.0, 0.01])
@pytest.mark.parametrize(
    ("mean", "variance"), [((0.9, 1.1), (1.0, 1.0)), ((1.0, 1.0), (0.8, 1.2)), ((0.8, 1.3), (0.5, 2))]
)
def test_the_normal_error_covers_every_mean_and_variance_within_their_bounds(monkeypatch, mean, variance, third):
    moments = central_limit._Moments((0.0, 0.0), mean, variance, third)
    monkeypatch.setattr(central_limit, "_moments", lambda *_: moments)
    found = central_limit.TiltedComposition([(SimpleNamespace(infinite=(0.0, 0.0)), 1)], 1.0)
    x = np.linspace(-10, 10, 4_001)
    middle = norm(found.mean, found.deviation).cdf(x)
    for at in mean:
        for square in variance:
            far = float(np.abs(norm(at, math.sqrt(square)).cdf(x) - middle).max())
            assert far + 0.4 * third / max(variance) ** 1.5 <= found._error

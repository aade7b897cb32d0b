"""Finite laws against brute force in many digits, from one end of the doubles to the other: nothing may be outside."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from tests.extent import amount
from tests.oracles import finite_laws as oracle

from epsilog.accounting import delta, epsilon, profile
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    DiscreteGaussian,
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
from epsilog.numerics.gaussian import bisect_doubles, gaussian_delta, gaussian_epsilon, gaussian_mu
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
OWN = mpf(10) ** -50  # what the oracle rounds by
LARGEST = 2**53


def contains(found, truth):
    return found.lower * (1 - OWN) <= truth <= found.upper * (1 + OWN)


def log_uniform(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def pick(rng, among):
    return among[rng.integers(len(among))]


def shares(rng):
    """Sampling probabilities and flips: next to 0, next to 1, and between."""
    return pick(rng, [log_uniform(rng, 1e-30, 1), 1 - log_uniform(rng, 2.0**-53, 0.5), rng.uniform(1e-3, 0.999)])


def statements(rng):
    return pick(rng, [log_uniform(rng, 1e-8, 5), log_uniform(rng, 1e-320, 700), rng.uniform(500, 1000)])


def responses(rng):
    flip = pick(rng, [rng.uniform(1e-6, 1), 1 - log_uniform(rng, 2.0**-53, 1), log_uniform(rng, 1e-320, 1)])
    return RandomizedResponse(flip, max(2, int(log_uniform(rng, 2, LARGEST))))


def both(pair, share):
    return [oracle.sampled(pair, share, removed=removed) for removed in (True, False)]


def most(pairs, count, at):
    return max(oracle.delta(pair, count, at) for pair in pairs)


def widest(pairs, count):
    return max(oracle.largest_loss(pair, count) for pair in pairs)


def check_epsilon(release, pairs, count, at, relation=ADD):
    """Both ends of an epsilon are tested by the oracle's delta there."""
    found = epsilon(release, delta=at, relation=relation)
    assert found.lower == 0 or most(pairs, count, found.lower) >= at * (1 - OWN), (release, at)
    assert found.upper == math.inf or most(pairs, count, found.upper) <= at * (1 + OWN), (release, at)
    return found


def test_randomized_response_that_is_next_to_noise():
    found = epsilon(RandomizedResponse(0.9999999999982817, 10**12), delta=0.0, relation=REPLACE)
    assert found.lower <= 1.00000380635166746 <= found.upper
    assert found.relative_width < 1e-14


@pytest.mark.slow
def test_any_randomized_response_holds_its_largest_loss_and_its_deltas():
    rng = np.random.default_rng(1)
    for _ in range(amount(100, 300)):
        release = responses(rng)
        pair = oracle.randomized_response(release.flip_probability, release.categories)
        truth = oracle.largest_loss(pair, 1)
        found = epsilon(release, delta=0.0, relation=REPLACE)
        assert contains(found, truth), release
        assert found.relative_width < 1e-14
        at = float(truth) * rng.random()
        found = delta(release, epsilon=at, relation=REPLACE)
        assert contains(found, oracle.delta(pair, 1, at)), (release, at)


def test_the_divergence_of_any_randomized_response_is_no_less_than_it_is():
    rng = np.random.default_rng(2)
    orders = [1.0001, 1.5, 2.0, 31.0, 1000.0]
    for _ in range(60):
        release = responses(rng)
        pair = oracle.randomized_response(release.flip_probability, release.categories)
        found = profile(release, relation=REPLACE).rdp(orders)
        for order, bound in zip(orders, found, strict=True):
            with mpmath.workdps(oracle.DIGITS):
                total = sum(p ** mpf(order) * q ** (1 - mpf(order)) for p, q in pair)
                truth = mpmath.log(total) / (mpf(order) - 1)
            assert truth <= float(bound) <= truth * (1 + mpf("1e-11")), (release, order)


@pytest.mark.parametrize(
    ("stated", "share", "count", "exact"),
    [
        (1.2, 1e-6, 10**6, 2.32011423126944266),
        (1.0, 1e-17, 10**15, 0.0171828182845904523),
        (1.2, 1e-17, 10**15, 0.0232011692273654748),
    ],
)
def test_the_largest_loss_of_rare_samples(stated, share, count, exact):
    found = epsilon(Repeated(PoissonSampled(PureDP(stated), share), count), delta=0.0)
    assert found.lower <= exact <= found.upper
    assert found.relative_width < 1e-13


@pytest.mark.slow
def test_the_largest_loss_of_any_sampled_finite_law():
    rng = np.random.default_rng(3)
    for _ in range(amount(60, 200)):
        count, relation = int(log_uniform(rng, 1, LARGEST)), (ADD, REPLACE)[rng.integers(2)]
        if relation is REPLACE and rng.random() < 0.5:
            base = responses(rng)
            pair = oracle.randomized_response(base.flip_probability, base.categories)
        else:
            base = PureDP(statements(rng))
            pair = oracle.response(base.epsilon)
        if relation is ADD:
            share = shares(rng)
            release, pairs = PoissonSampled(base, share), both(pair, share)
        else:
            population = int(log_uniform(rng, 2, LARGEST))
            size = pick(rng, [int(log_uniform(rng, 1, population)), population - int(log_uniform(rng, 1, population))])
            if size == 0:
                continue
            release = FixedSizeSampled(base, size, population)
            with mpmath.workdps(500):
                pairs = both(pair, mpf(size) / population)
        found = epsilon(Repeated(release, count), delta=0.0, relation=relation)
        assert contains(found, widest(pairs, count)), (release, count)
        if found.upper > 1e-290:
            assert found.relative_width < 1e-11


@pytest.mark.parametrize("share", [1e-17, 1e-20, 1e-21, 1e-100])
@pytest.mark.parametrize("count", [1, 100])
def test_rare_samples_have_narrow_answers(share, count):
    """Where the largest loss was 0 and intervals did not meet."""
    release = Repeated(PoissonSampled(PureDP(1.2), share), count)
    pairs = both(oracle.response(1.2), share)
    found = delta(release, epsilon=share)
    with mpmath.workdps(2 * oracle.DIGITS):
        assert contains(found, most(pairs, count, share))
    assert found.relative_width < 1e-4
    found = epsilon(release, delta=share / 10)
    assert 0 < found.lower <= found.upper < 1e3 * share
    assert found.relative_width < 1e-4


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_compositions_of_any_two_outcomes_hold_the_truth(seed):
    rng = np.random.default_rng(seed)
    for _ in range(amount(2, 10)):
        base, share, count = PureDP(statements(rng)), shares(rng), int(rng.integers(1, 40, endpoint=True))
        pairs = both(oracle.response(base.epsilon), share)
        release = Repeated(PoissonSampled(base, share), count)
        at = float(widest(pairs, count)) * pick(rng, [0.0, rng.random(), log_uniform(rng, 1e-12, 1)])
        truth = most(pairs, count, at)
        assert contains(delta(release, epsilon=at), truth), (release, at)
        check_epsilon(release, pairs, count, min(max(float(truth), 1e-300) * rng.uniform(0.2, 1.5), 0.999))


@pytest.mark.slow
def test_many_rounds_hold_the_truth():
    """From 10^3 rounds to 2^53, where a lattice has no room for all of them."""
    rng = np.random.default_rng(6)
    for _ in range(amount(4, 10)):
        share, count, stated = shares(rng), int(log_uniform(rng, 1e3, LARGEST)), log_uniform(rng, 1e-3, 30)
        pairs = both(oracle.response(stated), share)
        release = Repeated(PoissonSampled(PureDP(stated), share), count)
        at = float(widest(pairs, count)) * min(1.0, rng.random() * 3 / math.sqrt(count))
        truth = most(pairs, count, at)
        assert contains(delta(release, epsilon=at), truth), (release, at)


@pytest.mark.slow
def test_mixes_hold_the_truth():
    """Rare samples of one statement, others of another beside them, on a lattice that neither has by nature."""
    rng = np.random.default_rng(9)
    for _ in range(10):
        scale, releases, ways = pick(rng, [1.0, log_uniform(rng, 1e-25, 1)]), [], ([], [])
        for _ in range(2):
            stated, count = log_uniform(rng, 1e-3, 8), int(rng.integers(1, 4))
            share = min(scale * log_uniform(rng, 0.05, 20), 0.99)
            releases.append(Repeated(PoissonSampled(PureDP(stated), share), count))
            for way, pair in zip(ways, both(oracle.response(stated), share), strict=True):
                way.append((pair, count))
        largest = max(sum(oracle.largest_loss(pair, count) for pair, count in way) for way in ways)
        at = float(largest) * rng.random()
        found = delta(Composed(releases), epsilon=at)
        assert contains(found, max(oracle.delta_of_mix(way, at) for way in ways)), (releases, at)


@pytest.mark.slow
def test_fixed_size_samples_lie_between_one_order_of_the_neighbors_and_both_together():
    """Both orders occur, so the truth is at least the worse of them; the share is not a double."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        population = int(log_uniform(rng, 2, LARGEST))
        size, stated, count = (
            int(log_uniform(rng, 1, population)),
            log_uniform(rng, 1e-3, 30),
            int(rng.integers(1, 20, endpoint=True)),
        )
        with mpmath.workdps(500):
            pairs = both(oracle.response(stated), mpf(size) / population)
        at = float(widest(pairs, count)) * rng.random()
        found = delta(Repeated(FixedSizeSampled(PureDP(stated), size, population), count), epsilon=at, relation=REPLACE)
        assert most(pairs, count, at) <= found.upper
        if count == 1:
            assert contains(found, most(pairs, 1, at))


@pytest.mark.parametrize(
    "release",
    [
        Repeated(PureDP(700.0), 2),
        Repeated(Laplace(1 / 700), 2),
        Repeated(DiscreteLaplace(1 / 700), 2),
        Repeated(ExponentialMechanism(700.0), 2),
        Repeated(ExponentialMechanism(1400.0, monotone=True), 2),
    ],
    ids=str,
)
def test_losses_whose_exponential_overflows_have_an_end(release):
    assert delta(release, epsilon=1500.0).upper == 0
    assert epsilon(release, delta=0.0).upper == pytest.approx(1400, rel=1e-14)
    assert epsilon(release, delta=0.0).lower == pytest.approx(1400, rel=1e-14)
    assert epsilon(release, delta=1e-6).upper <= 1400 * (1 + 1e-14)


@pytest.mark.parametrize("stated", [600.0, 601.0, 700.0, 745.2, 1e4, 1e300])
def test_a_statement_costs_what_it_states(stated):
    assert (found := epsilon(PureDP(stated), delta=0.0)).lower == found.upper == stated
    assert epsilon(PureDP(stated), delta=1e-9).upper <= stated
    beside = Composed([PureDP(stated), BallsInBins(PoissonSampled(Gaussian(1.0), 0.0), 3)])
    assert (found := epsilon(beside, delta=0.0)).lower == found.upper == stated


def test_epsilons_beyond_all_doubles_are_infinite_above():
    found = epsilon(Repeated(PureDP(1e300), 10**10), delta=0.0)
    assert 1e308 < found.lower < found.upper == math.inf


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "release",
    [
        Repeated(PureDP(1e-320), 3),
        Repeated(ExponentialMechanism(1e-310), 3),
        Repeated(Laplace(1e200), 3),
        Repeated(DiscreteLaplace(1e200), 3),
        Repeated(PoissonSampled(PureDP(1e-200), 1e-200), 3),
        Repeated(PoissonSampled(PureDP(1.0), 5e-324), 3),
        Repeated(PoissonSampled(Laplace(1e200), 1e-30), 3),
    ],
    ids=str,
)
def test_losses_next_to_none_cost_next_to_nothing(release):
    assert 0 <= epsilon(release, delta=1e-9).upper < 1e-190
    assert 0 < epsilon(release, delta=0.0).upper < 1e-190
    assert 0 <= delta(release, epsilon=0.0).upper < 1e-90


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stddev", [1e-200, 1e-3, 0.02, 0.03])
def test_discrete_noise_next_to_none_hides_nothing(stddev):
    found = delta(DiscreteGaussian(stddev), epsilon=10.0)
    assert 1 - 1e-6 < found.lower <= found.upper <= 1
    assert epsilon(DiscreteGaussian(stddev), delta=0.0).lower == math.inf


def test_a_lower_bound_is_where_the_test_failed():
    assert gaussian_epsilon(1.0, 0.38292492254802624)[0] == 0
    assert epsilon(Gaussian(1.0), delta=0.38292492254802624).lower == 0
    with mpmath.workdps(60):
        found = epsilon(PoissonSampled(Gaussian(1.0), 1e-100), delta=1e-103)
        # q delta_G(ln(1 + (e^epsilon - 1) / q)) = delta has this root
        assert found.lower <= mpf("2.2073171798503865e-99") * (1 + mpf(10) ** -13)
        assert found.upper >= mpf("2.2073171798503865e-99") * (1 - mpf(10) ** -13)
    assert found.relative_width < 1e-12


def exact_gaussian_delta(mu, at):
    with mpmath.workdps(60):
        mu, at = mpf(mu), mpf(at)
        return (mpmath.erfc((at / mu - mu / 2) / mpmath.sqrt(2))
                - mpmath.exp(at) * mpmath.erfc((at / mu + mu / 2) / mpmath.sqrt(2))) / 2  # fmt: skip


@pytest.mark.slow
def test_both_ends_of_a_gaussian_hold_their_delta():
    """At deltas around that of epsilon 0 too, where the answer is next to 0."""
    rng = np.random.default_rng(8)
    for _ in range(amount(50, 150)):
        mu = log_uniform(rng, *pick(rng, [(1e-4, 30), (1e-100, 1e18)]))
        start = float(exact_gaussian_delta(mu, 0))
        target = pick(rng, [start * (1 - log_uniform(rng, 1e-17, 1)), log_uniform(rng, 1e-300, 1)])
        if not 0 < target < 1:
            continue
        lower, upper = gaussian_epsilon(mu, target)
        assert exact_gaussian_delta(mu, upper) <= target
        assert lower == 0 or exact_gaussian_delta(mu, lower) >= target
        if mu > 1e3:
            assert lower >= upper * (1 - 1e-2 / mu - 1e-14) - 60 * mu
            continue
        assert lower == 0 or exact_gaussian_delta(mu, lower) <= target * (1 + 1e-9) + 1e-13
        assert lower > 0 or start <= target * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("goal", [(1.0, 1e-6), (1e-9, 1e-12), (30.0, 0.2), (0.0, 1e-9)])
def test_the_largest_mu_meets_its_goal(goal):
    mu = gaussian_mu(epsilon=goal[0], delta=goal[1])
    assert gaussian_delta(mu, goal[0])[1] <= goal[1] < gaussian_delta(mu * (1 + 1e-4), goal[0])[1]


@pytest.mark.parametrize("root", [0.0, 5e-324, 1e-310, 1e-30, 0.1, 1.0, 600.0])
def test_a_bracket_ends_in_neighbors(root):
    below, above = bisect_doubles(lambda x: x >= root, 0.0, 1000.0)
    assert above == (root or 5e-324)
    assert below == math.nextafter(above, 0)

"""Noisy maximum and sparse vector: their claims against the chances themselves, by integration over shared noise."""

import itertools
import math

import numpy as np
import pytest

from epsilog.accounting import delta, epsilon, list_assumptions, profile, rho
from epsilog.mechanisms import (
    Composed,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    ReportNoisyMax,
    SparseVector,
)
from epsilog.terms import NeighboringRelation
from epsilog.terms.messages import Message

ADD, REPLACE, ZERO = NeighboringRelation
GRID = np.linspace(-60, 60, 6_001)
STEP = GRID[1] - GRID[0]


def laplace_below(x, scale):
    return np.where(x < 0, np.exp(np.minimum(x, 0) / scale) / 2, 1 - np.exp(-np.maximum(x, 0) / scale) / 2)


LAWS = {  # density and distribution function, for scale 1
    "laplace": (lambda x: np.exp(-abs(x)) / 2, lambda x: laplace_below(x, 1.0)),
    "exponential": (lambda x: np.where(x >= 0, np.exp(-np.maximum(x, 0)), 0), lambda x: -np.expm1(-np.maximum(x, 0))),
    "gumbel": (lambda x: np.exp(-x - np.exp(-x)), lambda x: np.exp(-np.exp(-x))),
}


def chances(scores, noise):
    """Of each candidate to be the highest: over its own noise, the others below it."""
    density, below = LAWS[noise]
    x = GRID + STEP / 2
    others = [np.prod([below(x + s - t) for j, t in enumerate(scores) if j != i], axis=0) for i, s in enumerate(scores)]
    with np.errstate(over="ignore"):
        found = np.array([float((density(x) * other).sum()) * STEP for other in others])
    return found / found.sum()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["exponential", "laplace", "gumbel"])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_neighbors_of_a_noisy_maximum_lose_more_and_some_lose_nearly_all(noise, monotone):
    eps = 1.6  # of scale 1: a score moves by eps / 2
    rng = np.random.default_rng(3)
    release, worst = ReportNoisyMax(eps, noise, monotone), 0.0
    largest = epsilon(release, delta=0).upper
    assert largest == (eps / 2 if monotone else eps)
    at = 0.4 * largest
    bound, surplus = delta(release, epsilon=at).upper, 0.0
    for trial in range(120):
        scores = rng.uniform(-3, 3, 3)
        moves = rng.choice([0.0, 1.0] if monotone else [-1.0, 1.0], 3) * (-1 if monotone and trial % 2 else 1) * eps / 2
        if trial == 0:
            scores, moves = np.array([8.0, -8.0, -20.0]), np.array([1.0, 0.0 if monotone else -1.0, 0.0]) * eps / 2
        p, q = chances(scores, noise), chances(scores + moves, noise)
        worst = max(worst, float(np.max(abs(np.log(p / q)))))
        surplus = max(surplus, float(np.maximum(p - math.exp(at) * q, 0).sum()))
    assert 0.9 * largest <= worst <= largest * (1 + 1e-3)
    assert delta(release, epsilon=at).lower * 0.5 < surplus <= bound * (1 + 1e-3)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("monotone", [False, True])
def test_from_below_stand_two_candidates_that_change_places(noise, monotone):
    eps = 1.6
    far = (eps / 2 if monotone else eps) / 2
    p, q = chances([far, 0.0], noise), chances([0.0, far], noise)
    release = ReportNoisyMax(eps, noise, monotone)
    for at in (0.0, 0.2, 0.35):
        exact = float(np.maximum(p - math.exp(at) * q, 0).sum())
        found = delta(release, epsilon=at)
        assert found.lower == pytest.approx(exact, rel=2e-3, abs=1e-5)
        assert found.upper >= exact


@pytest.mark.slow
def test_gumbel_noise_is_the_exponential_mechanism_wherever_it_stands():
    for wrap in (
        lambda r: Repeated(r, 5),
        lambda r: PoissonSampled(r, 0.2),
        lambda r: Composed([Gaussian(3.0), r]),
        lambda r: PoissonSampled(Composed([r, Laplace(4.0)]), 0.2),
    ):
        one, other = (wrap(r) for r in (ReportNoisyMax(0.7, "gumbel", True), ExponentialMechanism(0.7, True)))
        first, second = epsilon(one, delta=1e-5), epsilon(other, delta=1e-5)
        assert (first.lower, first.upper, first.method) == (second.lower, second.upper, second.method)
    assert chances([0.3, 0.0, 1.0], "gumbel") == pytest.approx(
        np.exp([0.3, 0, 1]) / np.exp([0.3, 0, 1]).sum(), rel=1e-4
    )
    assert epsilon(ReportNoisyMax(0.7, "gumbel"), delta=1e-5).upper < epsilon(PureDP(0.7), delta=1e-5).upper


def transcript(queries, answers, first, each):
    """The chance of answers to queries (less the threshold), over the threshold's noise."""
    x = GRID + STEP / 2
    total = np.exp(-abs(x) / first) / (2 * first)
    for query, up in zip(queries, answers, strict=True):
        below = laplace_below(x - query, each)
        total = total * ((1 - below) if up else below)
    return float(total.sum()) * STEP


@pytest.mark.slow
@pytest.mark.parametrize(("positives", "monotone"), [(1, False), (2, False), (1, True), (2, True)])
def test_no_answers_of_a_sparse_vector_tell_more_and_a_cheaper_price_would_be_wrong(positives, monotone):
    """Six queries, all transcripts, queries that move against each other or together: none is beyond the price.

    The control: without the factor c, or (with opposite moves) without the factor 2, some transcript is.
    """
    first, each = 1.0, 2.5
    release = SparseVector(first, each, positives, monotone)
    loss = float(release.pure_loss(ADD))
    assert loss == pytest.approx(1 / first + positives * (1 if monotone else 2) / each)
    worst = 0.0
    answers = [a for a in itertools.product((0, 1), repeat=6) if sum(a) <= positives]
    for queries in ([-4.0] * 6, [0.0] * 6, [6.0] * (6 - positives) + [-9.0] * positives):
        for answer in answers:
            ups = [(-1.0 if up else 1.0) for up in answer]
            ways = ([1.0] * 6, [-1.0] * 6, [1.0 - up for up in answer]) if monotone else (ups, [1.0] * 6, [-1.0] * 6)
            for moves in ways:
                p = transcript(queries, answer, first, each)
                q = transcript([a + b for a, b in zip(queries, moves, strict=True)], answer, first, each)
                if min(p, q) > 1e-13:
                    worst = max(worst, abs(math.log(p / q)))
    assert worst <= loss * (1 + 1e-6)
    if not monotone:
        assert worst > 1 / first + positives / each  # the factor 2 is needed
        assert positives == 1 or worst > 1 / first + 2 / each  # and so is c


@pytest.mark.parametrize(("monotone", "down"), [(False, -1.0), (True, 0.0)])
def test_many_queries_below_and_the_last_ones_above_come_close_to_the_price(monotone, down):
    queries, answers = [4.0] * 40 + [0.0] * 2, [0] * 40 + [1] * 2
    p = transcript(queries, answers, 1.0, 2.5)
    q = transcript([5.0] * 40 + [down] * 2, answers, 1.0, 2.5)
    loss = float(SparseVector(1.0, 2.5, 2, monotone).pure_loss(ADD))
    assert 0.999 * loss <= math.log(p / q) <= loss * (1 + 1e-9)


def test_one_query_attains_what_stands_below_a_sparse_vector():
    release = SparseVector(2.0, 3.0)
    exact = transcript([0.5], [1], 2.0, 3.0) - transcript([-0.5], [1], 2.0, 3.0)  # the advantage of one comparison
    found = delta(release, epsilon=0.0)
    assert 0 < found.lower <= exact <= found.upper
    assert found.lower > 0.6 * exact


def test_prices_add_up_exactly_and_no_noise_costs_everything():
    assert epsilon(SparseVector(2.0, 8.0, positives=3), delta=0).upper == 1.25
    assert epsilon(SparseVector(2.0, 8.0, positives=3, monotone=True), delta=0).upper == 0.875
    assert epsilon(Repeated(SparseVector(2.0, 8.0), 3), delta=0).upper == 2.25  # a fresh threshold each time
    mixed = Composed([SparseVector(2.0, 8.0, positives=3), Repeated(Laplace(12.0), 3)])
    assert epsilon(mixed, delta=0).lower == epsilon(mixed, delta=0).upper == 1.5
    for bare in (SparseVector(0.0, 8.0), SparseVector(2.0, 0.0)):
        assert epsilon(bare, delta=1e-6).upper == math.inf
        assert rho(bare) == math.inf
        assert np.all(np.isinf(profile(bare).rdp(np.array([2.0]))))
    assert rho(SparseVector(2.0, 8.0, 3)) == pytest.approx(1.25**2 / 2)
    assert rho(ReportNoisyMax(1.0, "laplace", True)) == pytest.approx(0.125)
    assert rho(ReportNoisyMax(1.0, "gumbel")) == pytest.approx(0.125)
    stated, sparse = profile(PureDP(1.25)), profile(SparseVector(2.0, 8.0, 3))
    assert sparse.rdp(np.array([3.0])) == pytest.approx(stated.rdp(np.array([3.0])))
    assert epsilon(Repeated(SparseVector(2.0, 8.0, 3), 40), delta=1e-6).upper == pytest.approx(
        epsilon(Repeated(PureDP(1.25), 40), delta=1e-6).upper, rel=5e-3
    )


def test_groups_move_scores_and_queries_as_many_times_as_far():
    for one, three in (
        (ReportNoisyMax(0.4, "laplace"), ReportNoisyMax(1.2, "laplace")),
        (SparseVector(6.0, 12.0, 2), SparseVector(2.0, 4.0, 2)),
    ):
        grouped = profile(one).group_epsilon(units=3, delta=1e-6)
        assert grouped.upper == pytest.approx(epsilon(three, delta=1e-6).upper, rel=1e-5)


def test_the_assumptions_say_what_must_not_be_shown():
    assert Message("assumes/sparse-vector") in list_assumptions(SparseVector(1.0, 1.0))
    assert Message("assumes/hidden-scores") in list_assumptions(ReportNoisyMax(1.0, "laplace"))


@pytest.mark.parametrize("release", [ReportNoisyMax(1.0, "laplace"), SparseVector(2.0, 4.0)], ids=["max", "sparse"])
def test_samples_hide_them_where_a_statement_would_be_hidden(release):
    alone = epsilon(release, delta=1e-6)
    assert epsilon(PoissonSampled(release, 0.1), delta=1e-6).upper < 0.3 * alone.upper
    assert epsilon(FixedSizeSampled(release, 5, 50), delta=1e-6, relation=REPLACE).upper < 0.3 * alone.upper
    for relation in (REPLACE, ZERO):
        found = epsilon(PoissonSampled(release, 0.1), delta=1e-6, relation=relation)
        assert found.upper == pytest.approx(alone.upper, rel=1e-9), "where it is not, nothing is"

"""Shuffled reports against every data set of a few units, worked out report by report; and what no proof reaches."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from epsilog.accounting import delta, epsilon, list_assumptions, profile
from epsilog.mechanisms import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PureDP,
    RandomizedResponse,
    Repeated,
    Shuffled,
)
from epsilog.numerics.pairs import DominatingPair
from epsilog.numerics.shuffling import build_attained_pair, build_clone_pair, build_shuffled_response_pair
from epsilog.terms import NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
OWN = 1e-14  # what the enumeration rounds by


def seen(rows):
    """The law of how often each report comes, one unit after the other."""
    law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        after = Counter()
        for counts, chance in law.items():
            for report, one in enumerate(row):
                after[(*counts[:report], counts[report] + 1, *counts[report + 1 :])] += chance * one
        law = after
    return law


def worst(channel, units, epsilons):
    """The largest deltas over all data sets of so many units, and all neighbors."""
    found = np.zeros(len(epsilons))
    for others in itertools.combinations_with_replacement(channel, units - 1):
        laws = [seen([row, *others]) for row in channel]
        for one, other in itertools.permutations(laws, 2):
            p, q = np.array(list(one.values())), np.array([other[counts] for counts in one])
            found = np.maximum(found, [np.maximum(p - math.exp(e) * q, 0).sum() for e in epsilons])
    return found


def response(stated, categories):
    often = math.exp(stated)
    return [[often if x == y else 1.0 for y in range(categories)] for x in range(categories)] / np.float64(
        often + categories - 1
    )


def channels(stated, rng):
    """Randomizers that are epsilon-DP: responses, those with a value that tells nothing, and random ones."""
    two = response(stated, 2)
    yield two
    yield response(stated, 3)
    yield np.vstack([two, [0.5, 0.5]])
    yield np.hstack([0.3 * two, 0.7 * np.ones((2, 1))])  # often a report of nothing
    for _ in range(2):
        base = rng.dirichlet(np.ones(3))
        odds = base * np.exp(stated / 2 * rng.integers(0, 2, (3, 3)))
        yield odds / odds.sum(axis=1, keepdims=True)


def deltas(law, epsilons, *, upper):
    outcomes = DominatingPair(law).outcomes()
    return np.array([outcomes.delta(float(at), upper=upper) for at in epsilons])


@pytest.mark.parametrize("stated", [0.1, 1.0, 3.0])
def test_no_data_set_of_any_randomizer_loses_more_and_some_lose_as_much_as_is_said(stated):
    rng, shares = np.random.default_rng(3), np.array([0.0, 0.05, 0.3, 0.7, 0.99])
    beyond = 0
    for units in (1, 2, 4):
        at = stated * shares
        above, below = (
            deltas(build_clone_pair(stated, units), at, upper=True),
            deltas(build_attained_pair(stated, units), at, upper=False),
        )
        truth = np.zeros(len(at))
        for channel in channels(stated, rng):
            assert np.log(channel.max(axis=0) / channel.min(axis=0)).max() <= stated * (1 + 1e-12)
            truth = np.maximum(truth, worst(channel, units, at))
        assert (truth <= above + OWN).all()
        assert (below <= truth + OWN).all()
        beyond += (truth > deltas(build_clone_pair(stated, 2 * units), at, upper=True) + OWN).sum()
    assert beyond > 5  # the control: twice as many clones are too many


@pytest.mark.parametrize("units", [1, 2, 9, 50])
def test_all_outcomes_of_a_pair_add_up_under_both_sides(units):
    """A composition needs the losses below 0, too, which no delta of one release shows."""
    clones = [build_clone_pair(stated, units, categories=k) for stated in (0.3, 2.0) for k in (2, 5)]
    attained = [build_attained_pair(2.0, units), *(build_shuffled_response_pair(0.5, k, units) for k in (2, 3))]
    for pair in (*clones, *attained):
        of_p, of_q = pair.p.sum() + pair.infinity_mass, (pair.p * np.exp(-pair.u)).sum() + pair.infinity_mass
        assert of_p == pytest.approx(of_q, rel=1e-9)
        assert of_p <= 1 + 1e-9  # of what is attained, an outcome may be left out
        assert of_p == pytest.approx(1.0, rel=1e-9) or any(pair is one for one in attained)


@pytest.mark.parametrize(("flip", "categories"), [(0.5, 2), (0.1, 2), (0.5, 3), (0.8, 4)])
def test_responses_lie_between_their_bounds(flip, categories):
    release = RandomizedResponse(flip, categories)
    alone = epsilon(release, delta=0.0, relation=REPLACE)
    at = alone.lower * np.array([0.0, 0.1, 0.5])
    channel = (1 - flip) * np.eye(categories) + flip / categories
    for units in (1, 2, 3, 5):
        truth = worst(channel, units, at)
        for one, exact in zip(at, truth, strict=True):
            found = delta(Shuffled(release, units), epsilon=float(one), relation=REPLACE)
            assert found.lower <= exact + OWN
            assert exact <= found.upper + OWN
        assert epsilon(Shuffled(release, units), delta=0.0, relation=REPLACE).upper == pytest.approx(alone.upper)
        assert build_shuffled_response_pair(flip, categories, units) is not None
        own, any_of_them = (
            deltas(build_clone_pair(alone.upper, units, categories=k), at, upper=True) for k in (categories, 2)
        )
        assert (own <= any_of_them + OWN).all()
        few = deltas(build_clone_pair(alone.upper, 2 * units, categories=categories), at, upper=True)
        assert units == 1 or (truth > few + OWN).any()  # the control: twice as many units are too many


def summed(stated, categories, units, at):
    """Delta as the mean positive part of a sum of independent numbers, one for each report (docs: shuffling)."""
    odds = math.exp(stated)
    one, other, third = odds - math.exp(at), 1 - odds * math.exp(at), 1 - math.exp(at)
    total = 0.0
    for blanket in range(units + 1):
        whole = binom.pmf(blanket, units, categories / (odds + categories - 1))
        for named in range(blanket + 1) if categories > 2 else [blanket]:
            share = whole * (binom.pmf(named, blanket, 2 / categories) if categories > 2 else 1.0)
            a = np.arange(named + 1)
            worth = one * a + other * (named - a) + third * (blanket - named)
            total += share * float(np.sum(binom.pmf(a, named, 0.5) * np.maximum(worth, 0))) if share > 1e-18 else 0.0
    return total / units


@pytest.mark.slow
@pytest.mark.parametrize(("stated", "categories", "units"), [(1.0, 2, 200), (4.0, 2, 200), (1.0, 5, 30), (2.5, 30, 30)])
def test_laws_of_more_units_are_what_a_sum_of_independent_numbers_says(stated, categories, units):
    at = stated * np.array([0.0, 0.05, 0.3])
    truth = [summed(stated, categories, units, one) for one in at]
    assert deltas(build_clone_pair(stated, units, categories=categories), at, upper=True) == pytest.approx(
        truth, rel=1e-9
    )


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("local", [PureDP(1.0), RandomizedResponse(0.5), Laplace(1.0), ExponentialMechanism(0.7)])
def test_one_report_alone_hides_no_more_than_it_does_and_more_units_never_less(local):
    alone = epsilon(local, delta=1e-4, relation=REPLACE).upper
    found = [epsilon(Shuffled(local, units), delta=1e-4, relation=REPLACE).upper for units in (1, 7, 100, 5000)]
    assert found[0] >= alone * (1 - 1e-12)
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.35 * found[0]
    largest = epsilon(local, delta=0.0, relation=REPLACE).upper
    assert epsilon(Shuffled(local, 100), delta=0.0, relation=REPLACE).upper == pytest.approx(largest)
    assert found[0] <= largest


@pytest.mark.slow
@pytest.mark.parametrize("units", [10**6, pytest.param(1_000, marks=pytest.mark.extended)])
def test_it_is_below_the_closed_form_and_its_two_sides_are_close(units):
    for stated in (0.3, 1.0, 2.0):
        found = epsilon(Shuffled(PureDP(stated), units), delta=1e-6, relation=REPLACE)
        odds = math.exp(stated)  # Feldman, McMillan & Talwar 2020, Theorem 3.1 (arXiv:2012.12803)
        root = 8 * math.sqrt(odds * math.log(4 / 1e-6)) / math.sqrt(units) + 8 * odds / units
        closed = math.log1p((odds - 1) / (odds + 1) * root)
        assert found.upper < 0.6 * closed
        assert found.upper < 1.18 * found.lower
    for categories in (3, 10, 100):
        found = epsilon(Shuffled(RandomizedResponse(0.5, categories), units), delta=1e-6, relation=REPLACE)
        assert found.upper < 1.06 * found.lower


@pytest.mark.slow
def test_it_composes_as_any_pair():
    one = Shuffled(PureDP(1.0), 200)
    twice = delta(Repeated(one, 2), epsilon=0.3, relation=REPLACE)
    law = build_clone_pair(1.0, 200)  # the oracle: all pairs of outcomes
    rare = law.p > 1e-9
    total = law.u[rare][:, None] + law.u[rare]
    mass = law.p[rare][:, None] * law.p[rare]
    exact = float((mass * np.maximum(-np.expm1(0.3 - total), 0)).sum())
    assert exact == pytest.approx(twice.upper, rel=0.01)
    assert exact - 1e-5 <= twice.upper
    beside = epsilon(Composed([one, Gaussian(4.0)]), delta=1e-6, relation=REPLACE)
    assert beside.upper > epsilon(Gaussian(4.0), delta=1e-6, relation=REPLACE).upper
    curve = profile(one, relation=REPLACE)
    assert 0.1 < curve.tpr(0.1).lower <= curve.tpr(0.1).upper < profile(PureDP(1.0), relation=REPLACE).tpr(0.1).lower
    assert any("random order" in str(line) for line in list_assumptions(Shuffled(RandomizedResponse(0.5), 9)))
    assert curve.group_epsilon(units=2, delta=1e-4).upper > curve.epsilon(1e-4).upper

"""Rounds are priced one by one, never at their mean rate, and no what-if is passed off as a guarantee."""

import numpy as np
import pytest

from epsilog.terms import ClientLevelCentral, Guarantee, NeighboringRelation
from epsilog.verify.logs.claims import Claim
from epsilog.verify.logs.pricing import highest_rates, weakest_share, what_ifs
from epsilog.verify.logs.reading import Logs, RoundLog

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
N, T = 1_000_000, 1000


def claim(*, clients=N, rounds=T, q=0.01, noise=1.0):
    scheme = ClientLevelCentral(clients, q, rounds, 1.0, noise)
    return Claim(Guarantee(2.0, 1e-5, ADD, "client", clients), scheme, q * clients)


def told(cohort, of=None, **more):
    logs = Logs(rounds=RoundLog(np.arange(1, cohort.size + 1), cohort=cohort, **more))
    return {one.name: one for one in what_ifs(logs, of or claim(rounds=cohort.size))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "epsilon"),
    [((0.01, 0.01), 1.828), ((0.019, 0.001), 2.63), ((0.082, 0.002), 5.77)],
    ids=["even", "halves", "tenth"],
)
def test_the_same_mean_has_many_prices(rates, epsilon):
    high = 100 if rates[0] > 0.05 else 500
    cohort = np.repeat(np.array(rates) * N, (high, T - high)).astype(np.int64)
    assert abs(cohort.mean() / N - 0.01) < 1e-9
    found = told(cohort)["observed cohorts, round by round"]
    assert found.epsilon == pytest.approx(epsilon, abs=0.01)
    assert "an estimate, not a guarantee" in found.says
    assert found.private


@pytest.mark.slow
def test_the_worst_end_is_worse():
    small = claim(clients=500, rounds=40, q=0.05)
    cohort = np.random.default_rng(1).binomial(500, 0.05, 40)
    ones = np.ones(40, dtype=np.int64)
    found = told(cohort, small)
    worst = "worst end of the observed schedule (95%)"
    assert found[worst].epsilon > found["observed cohorts, round by round"].epsilon
    twice = told(cohort, small, attempts=ones + 1)
    assert twice[worst].epsilon > found[worst].epsilon
    weak = told(cohort, small, noise_stddev=np.where(np.arange(40) == 3, 0.9, 1.0))
    assert weak[worst].epsilon > found[worst].epsilon
    assert weak["observed cohorts, round by round"].epsilon == found["observed cohorts, round by round"].epsilon


def test_upper_ends_hold_for_all_rounds_together():
    draws = np.random.default_rng(2)
    missed = sum((highest_rates(draws.binomial(200, 0.03, 20), 200) < 0.03).any() for _ in range(2000))
    assert missed / 2000 <= 0.025 + 3 * (0.025 * 0.975 / 2000) ** 0.5
    assert (highest_rates(np.array([0, 200]), 200) <= 1).all()
    assert highest_rates(np.array([200]), 200)[0] == 1


def test_the_weakest_noise_is_what_padding_allows():
    of, draws = claim(rounds=20), np.random.default_rng(3)
    quiet = Logs(padding={t: draws.normal(0, 0.9, 64) for t in range(1, 21)})
    assert 0.85 < weakest_share(quiet, of) < 0.9
    loud = Logs(padding={t: draws.normal(0, 1.5, 64) for t in range(1, 21)})
    assert weakest_share(loud, of) == 1.0  # more noise lowers no price
    assert weakest_share(Logs(), of) == 1.0


def test_nothing_was_released_where_nobody_came():
    assert told(np.zeros(3, dtype=np.int64), claim(rounds=3))["observed cohorts, round by round"].epsilon == 0

"""Rounds are priced one by one, never at their mean rate, and no what-if is passed off as a guarantee."""

import numpy as np
import pytest

from epsilog.mechanisms import Composed, Gaussian, PoissonSampled, Repeated
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import Guarantee, NeighboringRelation
from epsilog.verification import Claim, what_if
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.columns import Enrollment, LogData, Rounds
from epsilog.verification.evidence import Evidence
from epsilog.verification.what_if import _down, _up, bound_noise_ratios, bound_sampling_rates, compute_what_ifs

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
N, T = 1_000_000, 1000


def claim(*, clients=N, rounds=T, q=0.01, noise=1.0):
    scheme = ClientLevelCentral(clients, q, rounds, 1.0, noise)
    return Claim(Guarantee(2.0, 1e-5, ADD, "client", clients), scheme, q * clients)


def told(cohort, of=None, **more):
    logs = LogData(rounds=Rounds(np.arange(1, cohort.size + 1), cohort=cohort, **more))
    return {one.name: one for one in compute_what_ifs(Evidence(of or claim(rounds=cohort.size), logs=logs))}


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
    assert "an estimate, not a guarantee" in found.message
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
    missed = sum((bound_sampling_rates(draws.binomial(200, 0.03, 20), 200) < 0.03).any() for _ in range(2000))
    assert missed / 2000 <= 0.025 + 3 * (0.025 * 0.975 / 2000) ** 0.5
    assert (bound_sampling_rates(np.array([0, 200]), 200) <= 1).all()
    assert bound_sampling_rates(np.array([200]), 200)[0] == 1


def test_the_weakest_noise_is_below_that_of_every_round():
    of, draws = claim(rounds=20), np.random.default_rng(3)
    truth, missed = np.where(np.arange(20) % 2, 1.34, 0.45), 0
    for _ in range(60):
        logs = LogData(padding={t: draws.normal(0, truth[t - 1], 24) for t in range(1, 21)})
        shares = bound_noise_ratios(Evidence(of, logs=logs))
        missed += (shares > np.minimum(truth, 1)).any()
    assert missed / 60 <= 0.025 + 3 * (0.025 * 0.975 / 60) ** 0.5
    loud = LogData(padding={t: draws.normal(0, 5.0, 64) for t in range(1, 21)})
    assert bound_noise_ratios(Evidence(of, logs=loud)).min() == 1.0  # more noise lowers no price
    assert bound_noise_ratios(Evidence(of, logs=LogData())).min() == 1.0
    silent = LogData(padding={t: np.zeros(8) for t in range(1, 21)})
    assert bound_noise_ratios(Evidence(of, logs=silent)).min() == 0.0


def test_a_worst_end_is_no_better_than_uneven_noise():
    of = claim(clients=300, rounds=10, q=0.1, noise=2.0)
    cohort, draws = np.full(10, 30), np.random.default_rng(3)
    truth = np.where(np.arange(10) % 2, 1.34, 0.45)
    padding = {t: draws.normal(0, 2.0 * truth[t - 1], 24) for t in range(1, 11)}
    logs = LogData(Rounds(np.arange(1, 11), cohort=cohort), padding=padding)
    worst = {one.name: one for one in compute_what_ifs(Evidence(of, logs=logs))}[
        "worst end of the observed schedule (95%)"
    ]
    rounds = [Repeated(PoissonSampled(Gaussian(2.0 * share), 0.1), 5) for share in (0.45, 1.34)]
    assert worst.epsilon > compute_certified_interval(Composed(rounds), 1e-5, ADD).upper
    assert "no bound" not in worst.message
    del padding[4]
    assert "In 1 rounds no padding" in compute_what_ifs(Evidence(of, logs=logs))[1].message


def test_every_round_is_priced_at_no_less_than_its_own():
    draws = np.random.default_rng(4)
    rates, shares = draws.uniform(0.01, 0.2, 500), draws.uniform(0.3, 1, 500)
    for many in (1, 8, 48):
        assert (_up(rates, many) >= rates).all()
        assert (_down(shares, many) <= shares).all()
        assert np.unique(_up(rates, many)).size <= many + 1


def priced(monkeypatch, logs, of):
    """What is priced at the worst end: rates, shares of the noise and how often."""
    seen = []
    monkeypatch.setattr(what_if, "_build_schedule", lambda rates, shares, _: seen.append((rates, shares)))
    compute_what_ifs(Evidence(of, logs=logs))
    return seen[1]


def test_further_attempts_are_priced_at_the_worst_of_all_rounds(monkeypatch):
    cohort = np.array([10, 90, 30])
    noise, tries = np.array([1.0, 1.0, 0.7]), np.array([1, 3, 1])
    logs = LogData(Rounds(np.arange(1, 4), cohort=cohort, noise_stddev=noise, attempts=tries))
    rates, shares = priced(monkeypatch, logs, claim(clients=300, rounds=3, q=0.1))
    assert rates.size == shares.size == 5
    assert (rates[3:] == rates[:3].max()).all()
    assert rates[3] > 0.3
    assert (shares[3:] == 0.7).all()


def test_rates_are_over_the_fewest_who_may_have_been_drawn_from(monkeypatch):
    there = np.arange(300) < 200
    enrolled = Enrollment([str(i) for i in range(300)], np.zeros(300), np.full(300, np.inf), there, 0, 0.0)
    logs = LogData(Rounds(np.arange(1, 4), cohort=np.array([10, 90, 30])), enrolled=enrolled)
    rates, _ = priced(monkeypatch, logs, claim(clients=300, rounds=3, q=0.1))
    assert (rates > np.array([10, 90, 30]) / 200).all()


def test_nothing_was_released_where_nobody_came():
    assert told(np.zeros(3, dtype=np.int64), claim(rounds=3))["observed cohorts, round by round"].epsilon == 0

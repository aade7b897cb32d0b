"""What a claim means for one person: odds against exact tails, room under a cap, and sentences that are told once."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from epsilog import plan
from epsilog.accounting import epsilon, profile
from epsilog.mechanisms import ApproximateDP, Gaussian, GaussianDP, Laplace, PureDP, Repeated
from epsilog.plan import sentences
from epsilog.terms.messages import KINDS, sentence

RUN = {"population": 50_000, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2}


def tail(mu, log):
    """The exact chance that a Gaussian's privacy loss, N(mu^2 / 2, mu^2), exceeds ``log``."""
    return norm.sf((log - mu * mu / 2) / mu)


class Trinity:
    """The curve of three outcomes: one of ``a`` and ``a / e^x`` under the two laws, its mirror image, and the rest."""

    def __init__(self, a, x):
        self.a, self.x = a, x

    def epsilon(self, delta):
        found = self.x + math.log1p(-delta / self.a) if delta < self.a else 0.0
        return SimpleNamespace(lower=max(found, 0.0), upper=max(found, 0.0))


@pytest.mark.parametrize("delta", [0.19, 0.201, 0.25, 0.29, 0.31])
def test_both_ways_together_move_odds_with_a_chance_of_delta_at_most(delta):
    """Either way alone has at most a chance of .2, so that a bound on one way would tell too little up to .3."""
    told = plan.bound_log_odds_factor(Trinity(0.2, math.log(2.0)), delta)
    beyond = 0.2 + 0.1 if told < math.log(2.0) else 0.0
    assert beyond <= delta


@pytest.mark.slow
@given(mu=st.floats(0.05, 8), delta=st.sampled_from([0.3, 1e-2, 1e-5, 1e-6, 1e-9, 1e-15]))
@example(mu=1.0, delta=0.3)
@settings(max_examples=25, deadline=None)
def test_odds_exceed_what_is_told_with_a_chance_of_delta_at_most(mu, delta):
    told = plan.bound_log_odds_factor(profile(GaussianDP(mu)), delta)

    def beyond(log):
        """The chance that odds move further, either way; the second is in favor of what is not true."""
        return tail(mu, log) + norm.cdf((-log - mu * mu / 2) / mu)

    assert beyond(told) <= delta * (1 + 1e-9)
    exact = brentq(lambda log: beyond(log) - delta, 0, mu * mu / 2 + 40 * mu)
    assert told <= exact + 0.02 + 0.7 * min(mu, 3), "not far from the exact quantile"


def test_epsilon_itself_is_exceeded_more_often_than_delta():
    """The control: whoever reads odds off epsilon promises too much."""
    for mu in (0.3, 1.0, 3.0):
        assert tail(mu, epsilon(GaussianDP(mu), delta=1e-6).upper) > 2e-6, "more than twice as often"


@pytest.mark.parametrize("release", [Laplace(2.0), PureDP(0.5), Repeated(Laplace(20.0), 10)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_odds_of_pure_releases_never_exceed_their_epsilon(release, delta):
    told = plan.bound_log_odds_factor(profile(release), delta)
    assert told <= epsilon(release, delta=0.0).upper
    if delta == 0:
        assert told == epsilon(release, delta=0.0).upper


def test_odds_of_what_fails_with_delta_are_not_bounded_below_it():
    leak = profile(ApproximateDP(0.1, 1e-4))
    assert math.isinf(plan.bound_log_odds_factor(leak, 5e-5))
    assert plan.bound_log_odds_factor(leak, 1e-3) < 4


@given(log=st.floats(0, 50), prior=st.floats(1e-6, 1 - 1e-6))
def test_posteriors_are_bayes(log, prior):
    found = sentences.posterior_probability(prior, log)
    assert found >= prior * (1 - 1e-12)
    if found < 1 - 1e-9:
        assert math.log(found / (1 - found)) - math.log(prior / (1 - prior)) == pytest.approx(log, abs=1e-5)


@pytest.fixture(scope="module")
def planned():
    return plan.plan_federated(**RUN)


def test_room_is_counted_in_such_releases():
    """Held against the accountant's own count; one more does not fit."""
    noise = Gaussian(4.0)
    price = epsilon(noise, delta=1e-6)

    def under(cap):
        return plan.interpret_guarantee(noise, price, delta=1e-6, relation=None, privacy_unit="person", cap=cap)

    for cap in (0.5, 1.2, 1.5, 2.0, 3.1, 7.0):
        found = under(cap)
        together = [
            epsilon(Repeated(noise, k), delta=1e-6).upper
            for k in (found.max_releases_under_cap, found.max_releases_under_cap + 1)
            if k
        ]
        assert together[-1] > cap
        assert all(each <= cap for each in together[:-1])
        assert (found.headroom_note.id == "headroom/none") == (cap < found.epsilon)
    assert under(100.0).max_releases_under_cap == 64
    assert under(None).max_releases_under_cap is None


@pytest.mark.slow
def test_more_releases_cost_more_and_odds_move_further_than_epsilon(planned):
    found = planned.meaning()
    costs = [cost for _, cost in found.releases]
    assert costs == sorted(costs)
    assert costs[0] == found.epsilon == planned.epsilon.upper
    assert found.epsilon < found.log_odds_factor < found.epsilon + 0.3
    assert found.deeper[1] > found.epsilon


@pytest.mark.slow
def test_the_sentences_hold_their_numbers(planned):
    found = planned.meaning(2.0).to_json()
    told = sentence(found["statement"])
    assert told.startswith("The released models are (0.7229, 1e-6)-differentially private for one client (N = 50,000).")
    assert "Adding or removing one client makes any set of results at most 2.07 times as likely, plus 1e-6." in told
    assert KINDS["percent"](found["posteriors"][0]["posterior"]) in sentence(found["odds"])
    assert "0.05 records on average" in sentence(found["delta_notes"][0]), "50,000 times 1e-6"
    assert not any(word in str(found) for word in ("strong", "weak", "safe"))


def test_without_noise_nothing_is_said_to_hold():
    found = plan.plan_federated(**RUN | {"noise_multiplier": 0.0}).meaning(2.0)
    assert (found.statement.id, found.odds.id, found.max_releases_under_cap) == ("claim/none", "odds/unbounded", 0)
    assert [line.id for line in found.delta_notes] == ["delta/none"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {"mechanism": "gaussian", "delta": 1e-6},
        {"mechanism": "laplace"},
        {"mechanism": "laplace", "delta": 1e-6, "weights": [1.0, 2.0, 5.0], "queries": 3},
    ],
)
def test_a_query_plan_means_its_whole_budget(asked):
    planned = plan.queries(**{"epsilon": 1.0, "queries": 100, "sensitivity": 3.0} | asked)
    found = planned.meaning()
    delta = asked.get("delta", 0.0)
    assert found.epsilon == pytest.approx(1.0, rel=1e-3)
    assert epsilon(planned.release, delta=delta).upper <= found.epsilon * (1 + 1e-9)
    assert found.delta == delta
    assert "answers" in str(found.statement)
    assert any("sensitivity" in str(line).lower() for line in found.assumptions)


def test_a_gaussian_alone_is_worded_like_any_claim():
    noise = Gaussian(4.0)
    price = epsilon(noise, delta=1e-6)
    found = plan.interpret_guarantee(noise, price, delta=1e-6, relation=None, privacy_unit="person")
    assert "Changing one person makes any set of results" in str(found.statement)
    with pytest.raises(ValueError, match="cap must be"):
        plan.interpret_guarantee(noise, price, delta=1e-6, relation=None, privacy_unit="person", cap=math.nan)

"""Lower bounds are above the truth as rarely as they say, see what is there, and are others' on the same counts."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import beta, binom
from tests.extent import amount

from epsilog.accounting import epsilon, gaussian_epsilon, profile
from epsilog.mechanisms import Gaussian
from epsilog.terms import CheckError, RecordError
from epsilog.verification.audits import (
    GAUSSIAN,
    ONE_RUN,
    AuditProtocol,
    CanaryAudit,
    Guesses,
    audit_one_run,
    audit_two_datasets,
    bound_p_value,
    build_gaussian_curve,
    build_line_curve,
    count_correct_guesses,
    list_default_guesses,
    list_profile_points,
    read_protocol,
    read_scores,
    refutes_f_dp,
    refutes_profile,
)

peer = pytest.importorskip("jax_privacy.auditing")


def answered(rng, canaries, truth):
    """Randomised response, the mechanism that tells most at its epsilon: scores and coins."""
    coins = rng.random(canaries) < 0.5
    honest = rng.random(canaries) < 1 / (1 + math.exp(-truth))
    return np.where(honest, coins, ~coins) + 1e-9 * rng.random(canaries), coins


def shifted(rng, canaries, mu):
    coins = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * coins, coins


def least_refuting(protocol, curve=None, epsilon=0.0):
    """For each of the guesses the fewest right ones that refute."""
    found = []
    for one in protocol.guesses:
        for correct in range(one.total + 1):
            if curve is None:
                refuted = (
                    bound_p_value(protocol.canaries, one.total, correct, epsilon=epsilon, delta=protocol.delta)
                    <= protocol.level
                )
            else:
                refuted = refutes_f_dp(protocol.canaries, one.total, correct, curve=curve, level=protocol.level)
            if refuted:
                found.append(correct)
                break
        else:
            found.append(math.inf)
    return np.array(found)


def alarms(protocol, least, scored, *, runs, seed):
    """In how many of so many runs any of the guesses refutes."""
    rng, count = np.random.default_rng(seed), 0
    for _ in range(runs):
        scores, coins = scored(rng)
        right = [count_correct_guesses(scores, coins, one) for one in protocol.guesses]
        count += bool((np.array(right) >= least).any())
    return count


@pytest.mark.slow
@pytest.mark.parametrize("method", ["any", "gaussian"])
def test_audits_of_nothing_alarm_as_rarely_as_they_say(method):
    runs = amount(2_500, 10_000)
    protocol = AuditProtocol(200, 1e-5)
    least = least_refuting(protocol, build_gaussian_curve(1e-6) if method == "gaussian" else None)
    found = alarms(protocol, least, lambda rng: shifted(rng, 200, 0.0), runs=runs, seed=1)
    assert 0 < found <= binom.isf(1e-6, runs, 0.05)
    control = alarms(protocol, least, lambda rng: shifted(rng, 200, 1.0), runs=200, seed=2)
    assert control > 150, "what is there is seen"


@pytest.mark.parametrize("truth", [0.0, 0.5, 2.0])
def test_the_bound_is_seldom_above_the_truth_where_a_mechanism_tells_most(truth):
    protocol = AuditProtocol(100, 0.0)
    least = least_refuting(protocol, epsilon=truth + 1e-9)
    found = alarms(protocol, least, lambda rng: answered(rng, 100, truth), runs=2000, seed=3)
    assert found <= binom.isf(1e-6, 2000, 0.05)
    control = alarms(protocol, least, lambda rng: answered(rng, 100, truth + 1.5), runs=100, seed=4)
    assert control > 50


@pytest.mark.slow
def test_the_gaussian_bound_is_seldom_above_the_truth():
    protocol = AuditProtocol(200, 1e-5, method=GAUSSIAN)
    for mu, stronger in ((0.3, 1.5), (0.8, 2.5)):
        least = least_refuting(protocol, build_gaussian_curve(mu))
        found = alarms(protocol, least, lambda rng, mu=mu: shifted(rng, 200, mu), runs=1000, seed=5)
        assert found <= binom.isf(1e-6, 1000, 0.05)
        assert alarms(protocol, least, lambda rng, mu=stronger: shifted(rng, 200, mu), runs=100, seed=6) > 50


def test_the_chance_of_so_many_right_is_the_binomials_and_more_under_delta():
    assert bound_p_value(100, 50, 40, epsilon=0.0, delta=0.0) == pytest.approx(binom.sf(39, 50, 0.5))
    assert bound_p_value(100, 50, 40, epsilon=1.0, delta=0.0) == pytest.approx(binom.sf(39, 50, 1 / (1 + math.exp(-1))))
    for epsilon_, delta in itertools.product((0.0, 1.0, 3.0), (1e-6, 1e-3, 0.1)):
        ours = bound_p_value(100, 50, 40, epsilon=epsilon_, delta=delta)
        assert ours == pytest.approx(peer._one_run_p_value(100, 50, 40, epsilon_, delta), rel=1e-9)
        assert ours >= bound_p_value(100, 50, 40, epsilon=epsilon_, delta=0.0)
    assert bound_p_value(100, 50, 0, epsilon=0.0, delta=0.5) == 1.0


@pytest.mark.slow
@given(st.integers(1, 60), st.data(), st.floats(0, 4), st.floats(0, 0.3))
def test_the_tail_under_delta_is_the_worst_that_any_shift_of_mass_makes(guesses, data, epsilon_, delta):
    correct = data.draw(st.integers(1, guesses))
    law = binom(guesses, 1 / (1 + math.exp(-epsilon_)))
    least = law.sf(correct - 1)
    worst = max((law.sf(correct - i - 1) - least) / i for i in range(1, guesses + 1))
    expected = min(1.0, least + 2 * guesses * delta * worst)
    assert bound_p_value(guesses, guesses, correct, epsilon=epsilon_, delta=delta) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("guesses", "correct"), [(20, 16), (100, 70), (100, 100), (64, 60)])
def test_the_largest_refuted_epsilon_is_the_peers(guesses, correct):
    for level in (0.05, 0.001):
        theirs = peer._epsilon_one_run(0, 100, guesses, correct, level, 1e-5)
        if theirs > 0:
            assert bound_p_value(100, guesses, correct, epsilon=theirs * (1 - 1e-5), delta=1e-5) <= level
            assert bound_p_value(100, guesses, correct, epsilon=theirs * (1 + 1e-4), delta=1e-5) > level
        fdp = peer._epsilon_one_run_fdp(0, 100, guesses, correct, level, 1e-5)
        for share, refuted in ((0.999, True), (1.001, False)):
            if fdp > 0:
                mu = _mu(share * fdp)
                curve = build_gaussian_curve(mu)
                assert refutes_f_dp(100, guesses, correct, curve=curve, level=level) == refuted


def _mu(target):
    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_epsilon(middle, 1e-5)[1] < target else (low, middle)
    return low


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("mu", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("canaries", [200, 1000])
def test_what_leaks_is_seen_as_well_as_by_the_peer_and_never_above_the_truth(canaries, mu):
    ours, bonferroni = {ONE_RUN: [], GAUSSIAN: []}, []
    for seed in range(6):
        scores, coins = shifted(np.random.default_rng(seed), canaries, mu)
        for method, found in ours.items():
            found.append(audit_one_run(scores, coins, AuditProtocol(canaries, 1e-5, method=method)).epsilon)
        bonferroni.append(peer.CanaryScoreAuditor(scores[coins], scores[~coins]).epsilon_one_run(0.05, 1e-5))
    assert np.mean(ours[ONE_RUN]) >= np.mean(bonferroni)
    assert np.mean(ours[GAUSSIAN]) > np.mean(ours[ONE_RUN]), "who knows the law sees more"
    truth = epsilon(Gaussian(1 / mu), delta=1e-5).upper
    assert max(ours[ONE_RUN] + ours[GAUSSIAN]) < truth


def test_a_claim_with_half_the_noise_is_refuted_by_its_profile_and_an_honest_one_is_not():
    claimed = profile(Gaussian(2.0))
    points = [(at, claimed.delta(at).upper) for at in np.linspace(0, 2, 20).tolist()]
    asked = AuditProtocol(2000, 1e-5)
    honest = audit_one_run(*shifted(np.random.default_rng(1), 2000, 0.5), asked)
    halved = audit_one_run(*shifted(np.random.default_rng(1), 2000, 1.0), asked)
    none = audit_one_run(*shifted(np.random.default_rng(1), 2000, 8.0), asked)
    assert not refutes_profile(honest, points)
    assert refutes_profile(halved, points)
    assert not halved.refutes(claimed.epsilon(1e-5).upper), "which one point of it does not show"
    assert not refutes_profile(halved, points[-1:])
    assert none.refutes(claimed.epsilon(1e-5).upper)
    assert not refutes_profile(none, []), "no points claim nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canaries", "mu", "warned"), [(200, 0.5, 0.16), (200, 1.0, 0.08), (200, 2.0, 0.0), (1000, 1.0, 0.88)]
)
def test_half_the_noise_is_seen_as_seldom_as_the_page_says(canaries, mu, warned):
    """As ``verify`` holds it against the claim; four standard deviations of chance. Honest runs warn as stated."""
    claimed = profile(Gaussian(1 / mu))
    points = [(at, claimed.delta(at).upper) for at in np.linspace(0, 12 * mu, 60).tolist()]
    asked, runs, rng, seen = AuditProtocol(canaries, 1e-5), 200, np.random.default_rng(5), {0.5: [0, 0], 1.0: [0, 0]}
    told = lru_cache(
        lambda correct, level: refutes_profile(CanaryAudit(0.0, correct, 0, 0.0, asked), points, level=level)
    )
    for share, warnings_and_failures in seen.items():
        for _ in range(runs):
            scores, coins = shifted(rng, canaries, mu / share)
            correct = tuple(count_correct_guesses(scores, coins, one) for one in asked.guesses)
            for place, level in enumerate((0.05, 2.5e-7)):
                warnings_and_failures[place] += told(correct, level / len(asked.guesses))
    off = 4 * math.sqrt(2 * max(warned * (1 - warned), 1 / runs) / runs)  # the page's figure is of as many runs
    assert abs(seen[0.5][0] / runs - warned) < off
    assert seen[0.5][1] == seen[1.0][1] == 0
    assert seen[1.0][0] <= binom.isf(1e-6, runs, 0.05)


def test_ties_and_the_order_of_lines_tell_nothing():
    coins = np.arange(100) < 50  # a file that lists those inside first
    found = audit_one_run(np.zeros(100), coins, AuditProtocol(100, 0.0))
    assert found.epsilon == 0
    assert found.correct[0] == 0, "every tie is decided against the bound"
    rng = np.random.default_rng(7)
    scores, mixed = shifted(rng, 100, 2.0)
    order = rng.permutation(100)
    assert audit_one_run(scores, mixed, AuditProtocol(100, 1e-5)) == audit_one_run(
        scores[order], mixed[order], AuditProtocol(100, 1e-5)
    )


def test_infinite_scores_are_the_highest_and_the_lowest():
    coins = np.arange(100) % 2 == 0
    found = audit_one_run(np.where(coins, math.inf, -math.inf), coins, AuditProtocol(100, 0.0))
    assert found.epsilon == found.most > 2.5


def test_curves_are_inverse_to_their_claims():
    for mu in (0.1, 1.0, 5.0):
        points = [(e, profile(Gaussian(1 / mu)).delta(e).upper) for e in np.linspace(0, 20, 400)]
        lines = build_line_curve(points)
        for y in (0.01, 0.3, 0.7, 0.99):
            assert lines(y) <= build_gaussian_curve(mu)(y) + 1e-9
            assert lines(y) == pytest.approx(build_gaussian_curve(mu)(y), abs=2e-3)
    exact = build_line_curve([(math.log(3), 0.0)])
    assert exact(0.75) == pytest.approx(0.25)
    assert exact(0.9) == pytest.approx(0.7)
    assert (build_gaussian_curve(1.0)(0.0), build_gaussian_curve(1.0)(1.0)) == (0.0, 1.0)
    told = [(0.0, 0.3), (1.0, 0.0), (299.0, 0.1)]
    says_nothing = [(-0.1, 0.0), (0.5, 1.0), (0.5, -1e-3), (800.0, 0.0), (math.inf, 0.0), (0.5, math.nan)]
    assert list_profile_points([*told, *says_nothing]) == told


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"canaries": 1}, "canaries"),
        ({"canaries": 2.5}, "canaries"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"confidence": 1.0}, "confidence"),
        ({"method": "magic"}, "method"),
        ({"method": GAUSSIAN, "delta": 0.0}, "delta"),
        ({"guesses": ((60, 60),)}, "guesses"),
        ({"guesses": ((0, 0),)}, "guesses"),
        ({"guesses": ((-1, 3),)}, "inside"),
    ],
)
def test_a_protocol_that_says_nothing_is_refused(wrong, told):
    with pytest.raises(CheckError, match=told):
        AuditProtocol(**{"canaries": 100, "delta": 1e-5} | wrong)


@pytest.mark.parametrize(
    ("scores", "coins", "told"),
    [
        ([0.0] * 9, [0] * 10, "scores"),
        ([0.0] * 10, [0] * 9, "included"),
        ([math.nan] * 10, [0] * 10, "NaN"),
        ([0.0] * 10, [2] * 10, "included"),
        ([0.0] * 10, [0.5] * 10, "included"),
        (["x"] * 10, [0] * 10, r"scores\[0\] must be a number"),
    ],
)
def test_scores_that_say_nothing_are_refused(scores, coins, told):
    with pytest.raises(CheckError, match=told):
        audit_one_run(scores, coins, AuditProtocol(10, 0.0))


def test_what_is_said_never_promises():
    for mu in (0.0, 3.0):
        for method in (ONE_RUN, GAUSSIAN):
            found = audit_one_run(*shifted(np.random.default_rng(3), 400, mu), AuditProtocol(400, 1e-5, method=method))
            assert ("proves little" in found.message) == (mu == 0)
            assert "verified" not in found.message
            assert ("if the mechanism is Gaussian" in found.message) == (mu > 0 and method == GAUSSIAN)
            told = found.to_json()
            assert (told["side"], told["epsilon"], told["most"]) == ("lower", found.epsilon, found.most)
            assert [one["correct"] for one in told["guesses"]] == list(found.correct)


def test_files_are_read_or_refused_with_their_line(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("id,score,included\na,1.5,1\nb,-inf,false\n")
    scores, coins = read_scores(path)
    assert (scores.tolist(), coins.tolist()) == ([1.5, -math.inf], [True, False])
    for text, told in (
        ("score\n1\n", "without included"),
        ("score,included\nx,1\n", "line 2, score"),
        ("score,included\n1,1\nnan,1\n", "line 3, score"),
        ("score,included\n1,2\n", "line 2, included"),
        ("score,included\n1\n", "line 2, included"),
        ("", "without score, included"),
    ):
        path.write_text(text)
        with pytest.raises(RecordError, match=told):
            read_scores(path)
    path.write_text("canaries = 100\ndelta = 1e-5\nguesses = [[10, 0], [5, 5]]\n")
    assert read_protocol(path) == AuditProtocol(100, 1e-5, guesses=(Guesses(10, 0), Guesses(5, 5)))
    for text, told in (
        ("canaries = 100", "delta"),
        ("canaries = 100\ndelta = 0.1\nx = 1", "x"),
        ("canaries = 100\ndelta = 0.1\nguesses = [3]", "pairs"),
        ("canaries = 'many'\ndelta = 0.1", "canaries"),
        ("canaries", "protocol|scores"),
    ):
        path.write_text(text)
        with pytest.raises(RecordError, match=told):
            read_protocol(path)


@pytest.mark.slow
def test_two_samples_are_seldom_above_the_truth_and_see_a_shift():
    above, runs = 0, 300
    truth = epsilon(Gaussian(1.0), delta=1e-3).upper
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        above += audit_two_datasets(rng.normal(size=400), rng.normal(size=400) + 0.0, delta=0.0) > 0
        assert audit_two_datasets(rng.normal(size=400) + 1, rng.normal(size=400), delta=1e-3) <= truth
    assert above <= binom.isf(1e-6, runs, 0.05)
    rng = np.random.default_rng(1)
    laplace = [
        audit_two_datasets(rng.laplace(size=20_000), rng.laplace(size=20_000) + s, delta=0.0) for s in (1.0, -1.0)
    ]
    assert all(0.8 < found <= 1.0 for found in laplace), "in either direction"
    turned = audit_two_datasets(rng.laplace(size=20_000) + 1, rng.laplace(size=20_000), delta=0.0)
    assert 0.8 < turned <= 1.0


def test_two_samples_count_the_second_half_at_half_the_level_each():
    one = np.concatenate([np.arange(100) < 90, np.arange(100) < 80]).astype(float)
    other = np.concatenate([np.arange(100) < 10, np.arange(100) < 15]).astype(float)
    often, seldom = beta.ppf(0.05, 80, 21), beta.ppf(0.95, 16, 85)
    found = audit_two_datasets(one, other, delta=0.01, confidence=0.9)
    assert found == pytest.approx(math.log((often - 0.01) / seldom), rel=1e-6)


def test_two_samples_that_say_nothing_are_refused():
    for one, told in (([0.0] * 19, "shape"), ([math.nan] * 20, "NaN"), (np.zeros((20, 2)), "shape")):
        with pytest.raises(CheckError, match=told):
            audit_two_datasets(one, np.zeros(20), delta=0.0)
    assert audit_two_datasets(np.zeros(20), np.zeros(20), delta=0.0) == 0.0
    with pytest.raises(CheckError, match="confidence"):
        audit_two_datasets(np.zeros(20), np.zeros(20), delta=0.0, confidence=1.0)


def test_usual_guesses_fit_any_number():
    for canaries in (2, 3, 15, 16, 17, 1000):
        assert all(1 <= one.total <= canaries for one in list_default_guesses(canaries))
        for most in ((1, 0), (0, canaries), (canaries, 0)):
            assert AuditProtocol(canaries, 0.0, guesses=(most,)).guesses == (Guesses(*most),)

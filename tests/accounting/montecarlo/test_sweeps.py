import json
import math

import numpy as np
import pytest
from scipy import stats

from epsilog.accounting import gaussian_delta, montecarlo
from epsilog.accounting.montecarlo import bounds, certificates, documents, mixtures, oracle, shards, sweeps, tilt
from epsilog.accounting.montecarlo.payoff import BesideProfile, HockeyStick
from epsilog.mechanisms import BallsInBins, BinnedParticipation, Gaussian, MatrixMechanism, ToeplitzStrategy
from epsilog.terms import CalibrationError

BINS = BallsInBins(Gaussian(1.0), bins=16)  # delta(1) = 6.87625e-4 in the remove direction
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def trial(release=BINS, direction="remove", strength=4.0, samples=40_000, epsilon=1.0):
    from epsilog.accounting.montecarlo.pairs import pair_of

    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    return shards.Trial(release, payoff, how, tilt.log_bound(pair_of(release), how, payoff), samples)


# ---- partitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "bins", "energy"), [(1, 5, 0.7), (2, 3, 1.0), (3, 2, 0.3), (4, 6, 0.5)])
def test_moment_by_listing_every_choice_of_modes(order, bins, energy):
    grids = np.indices((bins,) * (order + 1)).reshape(order + 1, -1)
    pairs = sum((grids[i] == grids[j]).astype(float) for i in range(order + 1) for j in range(i))
    joint = mixtures.gaussian_joint(order, energy)
    assert mixtures.log_moment(order, bins, joint) == pytest.approx(math.log(np.exp(energy * pairs).mean()))


def test_drawn_partitions_have_their_law():
    order, bins, energy = 2, 3, 0.8
    joint = mixtures.gaussian_joint(order, energy)
    counts = mixtures.draw_counts(order, bins, joint, np.random.default_rng(1).random(50_000))
    weights = {(3, 0, 0): 3 * math.exp(3 * energy), (2, 1, 0): 18 * math.exp(energy), (1, 1, 1): 6.0}
    seen = [int((counts == np.array(parts)).all(axis=1).sum()) for parts in weights]
    expected = 50_000 * np.array(list(weights.values())) / sum(weights.values())
    assert stats.chisquare(seen, expected).pvalue > 1e-6
    assert stats.chisquare(seen, expected[[1, 0, 2]]).pvalue < 1e-6  # the control: another order of the weights


# ---- certificates ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "exact"), [(BINS, 6.87625191183830599e-4), (BallsInBins(Gaussian(0.6), 100), 4.86850803598440e-3)]
)
def test_certificates_hold_the_exact_value(release, exact):
    found = certificates.certify(release, epsilon=1.0, failure=1e-6, seed=11)
    assert exact in found.interval
    assert found.interval.upper < 1.15 * exact
    assert found.simulation
    other = certificates.certify(release, epsilon=1.0, failure=1e-6)
    assert not other.simulation
    assert other.seed != found.seed
    assert exact in other.interval


@pytest.mark.slow
def test_coverage_of_the_interval():
    """120 certificates at failure 0.2: misses are at most binomial(120, 0.2), which exceeds this once in a million."""
    exact = 6.87625191183830599e-4
    missed = sum(
        exact not in certificates.certify(BINS, epsilon=1.0, failure=0.2, samples=2000, seed=s).interval
        for s in range(120)
    )
    assert missed <= stats.binom.isf(1e-6, 120, 0.2)
    assert missed > 0  # the control: an interval that never misses at failure 0.2 tests nothing


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.2, 0.05])
def test_the_default_draws_reach_the_gap_and_spare_the_direction_that_matters_little(gap):
    found = certificates.certify(BallsInBins(Gaussian(0.8), 16), epsilon=1.0, gap=gap, seed=14)
    assert found.interval.upper <= (1 + 1.2 * gap) * found.interval.estimate  # the pilot's own error allowed for
    remove, add = (part.trial.samples for part in found.evidence)
    assert add < remove / 5 + 1024
    assert certificates._draws(0.0, 0.5, 1e-3, 1e-6) == pytest.approx(500 * math.log(2e6), rel=0.2)


def test_a_certificate_outside_its_brackets_is_refused(monkeypatch):
    monkeypatch.setattr(documents, "run_trials", lambda trials, **_: tuple((0,) * t.shards for t in trials))
    with pytest.raises(CalibrationError, match="misses its brackets"):
        certificates.certify(BINS, epsilon=1.0, samples=10**6, seed=1)


@pytest.mark.slow
def test_composition_with_a_gaussian_beside_one_bin_is_one_gaussian():
    """One bin is a Gaussian of mu = 1 / 0.8; beside another of mu = 0.5 they are one of the root of squares."""
    mu, other, epsilon = 1 / 0.8, 0.5, 1.0
    grid = np.linspace(-8, 8, 4001)
    table = BesideProfile(
        epsilon,
        tuple(grid),
        tuple(
            max(
                gaussian_delta(other, e)[1] if e >= 0 else 1 + math.exp(e) * (gaussian_delta(other, -e)[1] - 1)
                for _ in [0]
            )
            for e in grid
        ),
    )
    truth = gaussian_delta(math.hypot(mu, other), epsilon)[1]
    found = certificates.certify(
        BallsInBins(Gaussian(0.8), bins=1), epsilon=epsilon, beside=(table, table), samples=300_000, seed=12
    )
    assert truth in found.interval
    assert found.interval.upper < 1.1 * truth
    alone = gaussian_delta(mu, epsilon)[1]
    for part in found.evidence:  # the control: the other event is seen
        low, _ = montecarlo.clopper_pearson(hits=part.total, samples=part.trial.samples, failure=1e-6)
        assert low * math.exp(part.trial.log_bound) > alone
    assert found.interval.lower == 0.0  # the table may be far above what it bounds: it proves nothing from below
    again = montecarlo.check_document(json.loads(json.dumps(found.to_json())), shards=1)
    assert again == ()


def test_a_profile_is_read_from_above():
    table = BesideProfile(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, 0.0))
    at = np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 5.0])
    read = np.exp(table.log_value(1.0 - at))
    assert read[0] == 1.0
    assert read[[1, 3]] == pytest.approx([0.5, 0.2])
    assert read[5] == read[6] == 0.0
    # a hockey-stick profile that passes through the points lies below what is read between them
    truth = 1 - 0.5 * math.exp(0.3)
    chord = 0.5 - 0.3 * (math.exp(0.3) - 1) / (math.e - 1)
    assert read[2] == pytest.approx(chord)
    assert truth <= chord
    with pytest.raises(ValueError, match="rise"):
        BesideProfile(1.0, (1.0, 0.0), (0.5, 0.2))
    with pytest.raises(ValueError, match=r"deltas\[1\]"):
        BesideProfile(1.0, (0.0, 1.0), (0.5, math.nan))


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [
        ((-50.0, 50.0), (0.0, 0.0)),
        ((-1.0, 0.0, 1.0), (0.5, 0.1, 0.0)),
        ((-1e-3, 1.0), (9e-4, 0.0)),
        ((-800.0, 0.0), (0.9, 0.0)),
    ],
)
def test_an_impossible_profile_is_refused(epsilons, deltas):
    """Every profile is at least 1 - e^epsilon; a table below would make any certificate [0, 0]."""
    with pytest.raises(ValueError, match=r"at least 1 - e\^epsilon"):
        BesideProfile(1.0, epsilons, deltas)


def test_a_profile_next_to_nothing_adds_nothing():
    """The control: the profile of a release that says nothing, rounded down, is accepted and read from above."""
    epsilons = tuple(float(e) for e in np.linspace(-30, 1, 200))
    deltas = tuple(max(0.0, -math.expm1(e)) * (1 - 2e-16) for e in epsilons)
    table = BesideProfile(1.0, epsilons, deltas)
    losses = np.linspace(-1, 40, 999)
    assert (table.log_value(losses) >= HockeyStick(1.0).log_value(losses)).all()
    found = certificates.certify(BINS, epsilon=1.0, beside=(table, table), samples=20_000, seed=3)
    assert found.interval.upper >= 6.876e-4


@pytest.mark.parametrize("number", [0, 1, 3])
def test_beside_means_one_profile_in_each_direction(number):
    table = BesideProfile(1.0, (0.0, 1.0), (0.5, 0.2))
    with pytest.raises(ValueError, match="beside must hold two"):
        certificates.certify(BINS, epsilon=1.0, beside=(table,) * number, samples=1000, seed=1)


@pytest.mark.slow
def test_deltas_out_of_reach_are_small_and_never_nothing():
    """M far below the least double, and brackets that underflow: what is claimed is above the truth, which is not 0."""
    for noise, epsilon in ((5.0, 400.0), (100.0, 50.0), (1e5, 1.0)):
        found = certificates.certify(BallsInBins(Gaussian(noise), 16), epsilon=epsilon, samples=1000, seed=1)
        assert 0 < found.interval.upper < 1e-100


def test_bounds_that_no_number_holds_are_refused():
    for log_bound in (800.0, -800.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="log_bound must be"):
            shards.Trial(BINS, HockeyStick(1.0), tilt.Tilt("remove"), log_bound, 1000)


# ---- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_finds_the_noise_that_the_oracle_finds():
    found = sweeps.sweep(BINS, epsilon=1.0, delta=1e-3, slack=0.1, seed=13)
    assert found.delta <= 1e-3
    low, high = 0.5, 2.0
    for _ in range(10):  # to 0.15%
        middle = (low + high) / 2
        value = oracle.balls_in_bins_delta(bins=16, noise_stddev=middle, epsilon=1.0).value
        low, high = (middle, high) if value > 1e-3 else (low, middle)
    assert 0.98 * high <= found.noise <= 1.08 * high
    assert found.release == BallsInBins(Gaussian(found.noise), bins=16)


@pytest.mark.slow
def test_the_claim_is_the_integral_over_the_worst_test():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.05, 1.0, 0.95))
    for side in range(2):
        tests = [pair[side] for pair in plan.checks]
        y = np.linspace(0, 5e-3, 200_001)
        worst = np.zeros_like(y)
        for test in tests:
            bound = math.exp(test.trial.log_bound)
            worst = np.maximum(
                worst, np.where(y <= bound, stats.binom.cdf(test.hits, test.trial.samples, np.minimum(y / bound, 1)), 0)
            )
        area = float(np.sum((worst[1:] + worst[:-1]) / 2) * (y[1] - y[0]))
        assert area <= sweeps.envelope_delta(tests) <= 1.01 * area
    assert plan.claim <= 1e-3
    sides = [[pair[side] for pair in plan.checks] for side in range(2)]
    assert plan.claim < max(sweeps.envelope_delta(side) for side in sides)  # draws of their own: theorem 3
    assert plan.claim == max(
        bounds.listed_delta([(one.trial.samples, one.hits, one.trial.bound) for one in side]) for side in sides
    )
    same = [plan.checks[0][0]] * 2
    assert sweeps.envelope_delta(same) == bounds.binomial_delta(
        samples=same[0].trial.samples, hits=same[0].hits, bound=math.exp(same[0].trial.log_bound)
    )


@pytest.mark.slow
def test_repeated_sweeps_release_no_more_than_claimed():
    """300 whole sweeps of nine candidates, true deltas from the oracle: the mean released delta is below the claim."""
    noises = tuple(0.90 * 1.03**j for j in range(8, -1, -1))
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=2, noises=noises, slack=0.3, power=0.9)
    truth = [oracle.balls_in_bins_delta(bins=16, noise_stddev=noise, epsilon=1.0).value for noise in noises]
    released = []
    rng = np.random.default_rng(3)
    chances = []
    for pair, delta in zip(plan.checks, truth, strict=True):
        test = pair[0]
        chances.append(stats.binom.cdf(test.hits, test.trial.samples, delta / math.exp(test.trial.log_bound)))
    for _ in range(20_000):
        passed = np.cumprod(rng.random(len(noises)) < np.array(chances)).sum()
        released.append(truth[passed - 1] if passed else 0.0)
    assert np.mean(released) <= plan.claim
    assert np.mean(released) > 0.6 * plan.claim
    assert max(released) > plan.claim  # single runs may release more: the claim is about the whole procedure
    real = [sweeps.run_sweep(plan, seed=s).chosen for s in range(6)]
    assert all(c is not None for c in real)


@pytest.mark.slow
@pytest.mark.parametrize("slack", [0.05, 0.5, 0.9])
def test_few_draws_still_make_a_plan(slack):
    """With counts of a few hits a small change of the threshold changes none of them."""
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-2, seed=1, slack=slack)
    assert 0.3e-2 < plan.claim <= 1e-2


@pytest.mark.slow
def test_a_fallback_is_counted():
    plain = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0))
    backed = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0), fallback_delta=5e-4)
    assert backed.claim <= 1e-3
    assert backed.checks[0][0].trial.samples > plain.checks[0][0].trial.samples
    with pytest.raises(ValueError, match="fallback_delta"):
        sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1,), fallback_delta=1e-3)


def test_nothing_is_chosen_when_the_first_candidate_fails():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-4, seed=1, noises=(0.5, 0.4), slack=0.5)
    found = sweeps.run_sweep(plan, seed=1)
    assert found.chosen is None
    assert found.noise is None
    assert found.release is None
    assert len(found.evidence) == 2
    assert montecarlo.check_document(json.loads(json.dumps(found.to_json())), shards=1) == ()


def test_a_plan_out_of_order_is_refused():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1, 1.0))
    with pytest.raises(ValueError, match="noises must fall"):
        sweeps.SweepPlan(1.0, 1e-3, plan.noises[::-1], plan.checks)
    with pytest.raises(ValueError, match="checks must"):
        sweeps.SweepPlan(1.0, 1e-3, plan.noises, plan.checks[::-1])


def test_a_plan_about_another_epsilon_or_release_is_refused():
    """The claim is about the candidates that are tested, at the epsilon they are tested at, in both directions."""
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1,))
    with pytest.raises(ValueError, match="checks must be at epsilon"):
        sweeps.SweepPlan(0.5, 1e-3, plan.noises, plan.checks)
    other = sweeps.plan_sweep(BallsInBins(Gaussian(1.0), 99), epsilon=1.0, target_delta=1e-3, seed=1, noises=(1.1,))
    with pytest.raises(ValueError, match="checks must be of one release"):
        sweeps.SweepPlan(1.0, 1e-3, plan.noises, ((plan.checks[0][0], other.checks[0][1]),))
    with pytest.raises(ValueError, match="checks must be of one release"):
        sweeps.SweepPlan(1.0, 1e-3, (1.2,), plan.checks)


def test_a_bound_that_is_not_proven_draws_nothing():
    one = trial()
    loose = shards.Trial(one.release, one.payoff, one.tilt, one.log_bound - 0.1, one.samples)
    with pytest.raises(ValueError, match="log_bound must be at least what is proven"):
        shards.count_hits(loose, 1, 0)


def test_only_entropy_of_its_own_makes_a_claim():
    plan = sweeps.plan_sweep(BINS, epsilon=1.0, target_delta=1e-2, seed=1, noises=(1.1,), slack=0.5)
    assert sweeps.run_sweep(plan, seed=3).simulation
    fresh = [sweeps.run_sweep(plan) for _ in range(2)]
    assert not any(found.simulation for found in fresh)
    assert fresh[0].seed != fresh[1].seed
    for bad in (-1, 2**128, 1.5, True):
        with pytest.raises(ValueError, match="seed must be"):
            sweeps.run_sweep(plan, seed=bad)


def test_the_largest_payoff_of_a_table_by_tilt():
    """At tilt 0 it is 1, as low losses cost all; tilted upwards it is finite only if low losses cost nothing."""
    ends = BesideProfile(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, 0.0))
    goes_on = BesideProfile(1.0, (0.0, 1.0, 2.0), (0.5, 0.2, 0.1))
    assert ends.log_largest(0.0) == goes_on.log_largest(0.0) == 0.0
    assert goes_on.log_largest(1e-9) == math.inf
    losses = np.linspace(-40, 40, 800_001)
    for order in (0.5, 3.0):
        seen = (ends.log_value(losses) - order * losses).max()
        assert seen <= ends.log_largest(order) < seen + order  # a step of the table is 1 wide

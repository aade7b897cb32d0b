"""What is drawn: one contract for every participation, enumerated in small, and deltas that are known.

Statistical assertions fix their seed and allow 4.5 standard errors; each has a control that must fail.
"""

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.accounting.montecarlo.simulated import ALLOWED, mechanism, paths, spread_of

from epsilog.accounting import gaussian_delta
from epsilog.accounting.montecarlo import mixtures, oracle, pairs, tilt
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    DenseStrategy,
    FullParticipation,
    Gaussian,
    Laplace,
    MatrixMechanism,
    MinSepParticipation,
    PoissonSampled,
    RandomAllocationParticipation,
    Repeated,
)
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import UnsupportedMechanismError

NOISE = 1.3
CASES = [
    (MinSepParticipation(3, 0.4), [1.0, 0.5], 7),
    (MinSepParticipation(3, 0.4, warm_start=True), [1.0, 0.5], 7),
    (MinSepParticipation(4, 0.01, warm_start=True), [1.0], 6),
    (MinSepParticipation(2, 1.0, warm_start=True), [1.0, 0.5], 7),
    (MinSepParticipation(1, 0.3), [0.8], 6),
    (CyclicPoissonParticipation(3, 0.6), [1.0, 0.5, 0.2], 7),
    (CyclicPoissonParticipation(2, 1e-6), [1.0], 6),
    (CyclicPoissonParticipation(3, 1.0), [1.0, 0.5], 7),
    (RandomAllocationParticipation(1), [0.8], 1),
    (RandomAllocationParticipation(3), [0.8], 7),
    (RandomAllocationParticipation(5), [0.8], 6),
    (RandomAllocationParticipation(5), [0.8], 5),
]
MIXTURES = [
    (BallsInBinsParticipation(3), [1.0, 0.5, 0.2, 0.1], 7),
    (BallsInBinsParticipation(2), [1.0], 6),
    (BallsInBinsParticipation(4), [1.0], 6),
    (FullParticipation(), [1.0, 0.5], 3),
]


def columns(column, rounds):
    """What each round's participation adds to the outputs; shape (rounds, rounds)."""
    return np.array(
        [[column[t - s] if 0 <= t - s < len(column) else 0.0 for t in range(rounds)] for s in range(rounds)]
    )


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("far", [3.0, 20_000.0])
@pytest.mark.filterwarnings("error")
def test_losses_are_the_log_of_the_mean_over_paths_however_far_out(case, far):
    participation, column, rounds = case
    ratio = np.random.default_rng(1).uniform(-far, far, (rounds, 12))
    ratio[:, 0], ratio[:, 1] = far, -far
    found = pairs.build_simulated_pair(mechanism(column, participation, rounds, NOISE)).loss(ratio)
    with mpmath.workdps(60):
        for at, loss in zip(ratio.T, found, strict=True):
            total = mpmath.fsum(
                w * mpmath.exp(mpmath.fsum(at[t] for t in s)) for s, w in paths(participation, rounds).items()
            )
            assert loss == pytest.approx(float(mpmath.log(total)), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("case", [*CASES, *MIXTURES], ids=str)
def test_energies_ratios_and_brackets_are_those_of_the_matrix(case):
    participation, column, rounds = case
    matrix, chances = columns(column, rounds), paths(participation, rounds)
    pair = pairs.build_simulated_pair(mechanism(column, participation, rounds, NOISE))
    means = {taken: matrix[list(taken)].sum(axis=0) / NOISE for taken in chances}
    mean = sum(w * means[taken] for taken, w in chances.items())
    assert pair.mean_energy == pytest.approx(sum(w * means[taken] @ means[taken] for taken, w in chances.items()))
    assert pair.mean_field_energy == pytest.approx(mean @ mean)
    fullest = max(math.sqrt(m @ m) for m in means.values())
    for direction in AdjacencyType.REMOVE, AdjacencyType.ADD:
        low, high = pair.brackets(1.0, direction)
        assert high == pytest.approx(gaussian_delta(fullest, 1.0)[1])
        assert low == 0 or (len(column) == 1 and rounds % participation.cycle_length == 0 and low < high)
    if isinstance(pair, mixtures.BallsInBinsPair):
        modes = np.array(list(means.values()))
        np.testing.assert_allclose(np.sort(pair.gram, axis=None), np.sort(modes @ modes.T, axis=None), atol=1e-12)
        return
    x = np.random.default_rng(3).standard_normal((rounds, 3))
    energy = (matrix**2).sum(axis=1)[:, None]
    np.testing.assert_allclose(pair.ratios(x / NOISE), (2 * matrix @ x - energy) / (2 * NOISE**2), atol=1e-12)
    taken = pair.sample_participation(np.random.default_rng(4), 20_000).astype(float)
    joint = [[sum(w for s, w in chances.items() if {i, j} <= {*s}) for i in range(rounds)] for j in range(rounds)]
    together = np.array(joint)
    error = np.sqrt(together * (1 - together).clip(0) / 20_000) + 1e-9
    assert (np.abs(taken @ taken.T / 20_000 - together) <= ALLOWED * error).all()


@pytest.mark.parametrize("case", [*CASES, *MIXTURES], ids=str)
@pytest.mark.parametrize(("direction", "strength"), [("remove", 0.0), ("remove", 2.0), ("add", 0.0), ("add", 2.0)])
def test_one_over_the_ratio_has_mean_one_under_every_tilt(case, direction, strength):
    """E_P[Q / P] = E_Q[P / Q] = 1: each loss with its own weight. The control: without weights; losses 30% off."""
    participation, column, rounds = case
    pair = pairs.build_simulated_pair(mechanism(column, participation, rounds, 2.5))
    if direction == "remove" and strength > pair.largest_tilt:
        return
    how, rng = tilt.Tilt(direction, strength), np.random.Generator(np.random.Philox(12))
    loss, log_weight = tilt.draw_weighted_losses(pair, how, rng, 20_000, floor=-math.inf)
    mean, error = spread_of(np.exp(log_weight - loss))
    assert abs(mean - 1) <= ALLOWED * error + 1e-12
    if loss.std() > 0.05:
        off, error = spread_of(np.exp(-loss if strength else -0.7 * loss))
        assert abs(off - 1) > ALLOWED * error


@pytest.mark.parametrize(
    ("release", "order"),
    [
        (mechanism([1.0], BallsInBinsParticipation(3), 3, 1.1), 2),
        (mechanism([1.0], BallsInBinsParticipation(2), 4, 1.1), 3),
        (mechanism([1.0], CyclicPoissonParticipation(2, 0.4), 4, 1.1), 1),
        (mechanism([1.0], CyclicPoissonParticipation(3, 0.7), 3, 1.1), 2),
        (mechanism([1.0], CyclicPoissonParticipation(2, 1.0), 4, 1.1), 2),
        (mechanism([1.0, 0.5], BallsInBinsParticipation(3), 5, 1.1), 2),
    ],
    ids=str,
)
def test_the_moment_by_listing_every_choice_of_paths(release, order):
    """Where the modes are drawn at once it is the Renyi moment itself; where one by one, a bound on it."""
    chances = paths(release.participation, release.rounds)
    matrix = columns(release.strategy.coefficients, release.rounds) / 1.1
    means = [(w, matrix[list(taken)].sum(axis=0)) for taken, w in chances.items()]
    total = sum(
        math.prod(w for w, _ in choice) * math.exp(sum(a @ b for (_, a), (_, b) in itertools.combinations(choice, 2)))
        for choice in itertools.product(means, repeat=order + 1)
    )
    pair = pairs.build_simulated_pair(release)
    found = pair.log_moment(order)
    assert order <= pair.largest_tilt  # else the tests of tilts pass it over
    if len(release.strategy.coefficients) == 1:
        assert found == pytest.approx(math.log(total))
    else:
        assert math.log(total) <= found <= 1.2 * math.log(total)


def test_drawn_partitions_have_their_law():
    order, bins, energy = 2, 3, 0.8
    joint = mixtures.gaussian_joint(order, energy)
    counts = mixtures.draw_counts(order, bins, joint, np.random.default_rng(1).random(50_000))
    weights = {(3, 0, 0): 3 * math.exp(3 * energy), (2, 1, 0): 18 * math.exp(energy), (1, 1, 1): 6.0}
    seen = [int((counts == np.array(parts)).all(axis=1).sum()) for parts in weights]
    expected = 50_000 * np.array(list(weights.values())) / sum(weights.values())
    assert stats.chisquare(seen, expected).pvalue > 1e-6
    assert stats.chisquare(seen, expected[[1, 0, 2]]).pvalue < 1e-6  # the control: another order of the weights


@pytest.mark.parametrize("bins", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_modes_of_a_tilt_have_their_law(bins, monkeypatch):
    """Pairs of modes, read off draws without noise: i uniform, j in proportion to e^(H_ij) (chi-square, 1e-6)."""
    rng = np.random.default_rng(bins)
    modes = rng.random((bins, bins)) + 0.2 * np.eye(bins)
    pair = mixtures.BallsInBinsPair(modes @ modes.T / 3)
    pair.noise = lambda _, count: np.zeros((count, bins))
    centers = []
    monkeypatch.setattr(mixtures, "log_mean_exp", lambda fields: centers.append(fields + pair.half) or fields[:, 0])
    tilt.draw_weighted_losses(pair, tilt.Tilt("remove", 1.0), rng, 40_000, floor=0.0)
    sums = pair.gram[:, None, :] + pair.gram[None, :, :]
    upper = np.triu_indices(bins)
    seen = np.array([(np.abs(centers[0] - sums[i, j]).max(axis=1) < 1e-9).sum() for i, j in zip(*upper, strict=True)])
    first = np.exp(pair.gram) / np.exp(pair.gram).sum(axis=1, keepdims=True) / bins
    law = ((first + first.T) * (1 - np.eye(bins) / 2))[upper] * 40_000
    assert seen.sum() == 40_000
    assert stats.chisquare(seen, law).pvalue > 1e-6
    assert stats.chisquare(seen, np.roll(law, 1)).pvalue < 1e-6  # the control


# ---- deltas that are known -------------------------------------------------------------------------------------------


def estimate(pair, direction, epsilon, *, draws, strength):
    """Mean and standard error of the estimator, and its bound."""
    rng = np.random.Generator(np.random.Philox(7))
    payoff = HockeyStick(epsilon)
    how = tilt.choose_tilt(pair, payoff, direction) if strength is None else tilt.Tilt(direction, strength)
    log_m = tilt.bound_log_value(pair, how, payoff)
    logs = [tilt.draw_log_values(pair, how, payoff, rng, 4096, log_m=log_m) for _ in range(-(-draws // 4096))]
    return *spread_of(np.exp(np.concatenate(logs))), math.exp(log_m)


def binned(bins):
    return lambda noise: BallsInBins(Gaussian(noise), bins)


def banded(rounds, bins, bands):
    raw = np.cumprod([1.0, *((2 * i - 1) / (2 * i) for i in range(1, bands))])
    return lambda noise: mechanism(raw / np.linalg.norm(raw), BallsInBinsParticipation(bins), rounds, noise)


def by_integral(bins):
    def delta(noise, epsilon, direction):
        return oracle.compute_balls_in_bins_delta(
            bins=bins, noise_stddev=noise, epsilon=epsilon, direction=direction
        ).value, 0

    return delta


@cache
def composed(noise):
    from dp_accounting.pld import privacy_loss_distribution as pld

    single = pld.from_gaussian_mechanism(noise, sampling_prob=0.05, value_discretization_interval=1e-4)
    return single.self_compose(40)


def by_composition(noise, epsilon, direction):
    """Of 40 rounds of Poisson sampling, by another library."""
    side = composed(noise)._pmf_remove if direction == "remove" else composed(noise)._pmf_add
    return side.get_delta_for_epsilon(epsilon), 0


def by_grid(noise, epsilon, direction):
    """Of two rounds of three, by a sum over a grid of all outputs."""
    axis = np.linspace(-7, 8, 121)
    x = np.stack([grid.ravel() for grid in np.meshgrid(axis, axis, axis, indexing="ij")]) / noise
    base = np.exp(-(x**2).sum(axis=0) / 2) * ((axis[1] - axis[0]) / noise / math.sqrt(2 * math.pi)) ** 3
    each = [np.exp(x[list(s)].sum(axis=0) / noise - noise**-2) for s in itertools.combinations(range(3), 2)]
    first, second = (base * np.mean(each, axis=0), base)[:: 1 if direction == "remove" else -1]
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum()), 1e-5


def stated(delta, error):  # drawn by other code
    return lambda *_: (delta, error)


def spaced(noise):
    return mechanism([1.0], MinSepParticipation(1, 0.05), 40, noise)


def poisson(noise):
    return Repeated(PoissonSampled(Gaussian(noise), 0.05), 40)


def two_of_three(noise):
    return mechanism([1.0], RandomAllocationParticipation(2), 3, noise)


KNOWN = [  # the release of a noise; noise, epsilon, direction; strength (None: the best), draws; the delta
    (binned(16), 1.0, 0.5, "remove", 0.0, 100_000, by_integral(16)),
    (binned(100), 0.6, 0.5, "add", 0.0, 100_000, by_integral(100)),
    (binned(16), 1.0, 2.0, "remove", 4.0, 60_000, by_integral(16)),
    (binned(100), 0.6, 4.0, "remove", 2.0, 60_000, by_integral(100)),
    (binned(1), 0.8, 4.0, "remove", 3.0, 60_000, by_integral(1)),
    (binned(16), 1.0, 1.0, "add", 8.0, 60_000, by_integral(16)),
    (binned(100), 0.6, 0.5, "add", 15.0, 60_000, by_integral(100)),
    (banded(400, 100, 16), 1.0, 4.0, "remove", None, 24_000, stated(4.078e-4, 0.021e-4)),
    (banded(400, 100, 16), 2.0, 2.0, "remove", None, 24_000, stated(1.252e-7, 0.025e-7)),
    (banded(1000, 100, 32), 3.0, 2.0, "remove", None, 24_000, stated(1.287e-5, 0.007e-5)),
    (banded(100, 10, 4), 2.0, 1.0, "remove", None, 24_000, stated(0.1378, 0.0002)),
    (banded(1000, 200, 1000), 4.0, 4.0, "remove", None, 24_000, stated(1.5785e-13, 0.0082e-13)),
    (spaced, 1.0, 1.0, "remove", 0.0, 100_000, by_composition),
    (spaced, 1.0, 1.0, "add", None, 100_000, by_composition),
    (poisson, 1.0, 4.0, "remove", None, 24_000, by_composition),
    (two_of_three, 1.0, 0.5, "remove", 0.0, 40_000, by_grid),
    (two_of_three, 1.0, 0.5, "add", 3.0, 40_000, by_grid),
]


@pytest.mark.slow
@pytest.mark.every(4)
@pytest.mark.parametrize("known", KNOWN, ids=[f"{each[0].__name__}-{each[1:5]}" for each in KNOWN])
def test_draws_agree_with_what_is_known_and_noise_off_by_a_third_does_not(known):
    of, noise, epsilon, direction, strength, draws, delta = known
    truth, unsure = delta(noise, epsilon, direction)
    found, control = (
        estimate(pairs.build_simulated_pair(of(z)), direction, epsilon, draws=draws, strength=strength)
        for z in (noise, 1.3 * noise)
    )
    assert abs(found[0] - truth) <= ALLOWED * math.hypot(found[1], unsure)
    assert found[1] < 0.1 * truth
    assert truth <= found[2]
    assert abs(control[0] - truth) > ALLOWED * math.hypot(control[1], unsure)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [3.0, 1e6])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.filterwarnings("error")
def test_mixtures_are_the_log_of_the_mean_over_modes(far, sign):
    fields = np.random.default_rng(2).uniform(-far, far, (30, 5))
    fields[0], fields[1] = far, -far
    with mpmath.workdps(60):
        direct = sign * np.array([float(mpmath.log(mpmath.fsum(map(mpmath.exp, row)) / 5)) for row in fields])
    for floor in (-np.inf, -far / 2, 0.0, far / 2):
        found = mixtures._log_mean_exp(fields, sign=sign, floor=floor)
        kept = np.isfinite(found)
        assert kept[direct > floor].all()  # what is above the floor is never left out
        assert found[kept] == pytest.approx(direct[kept], rel=1e-12, abs=1e-9)
        lost = mixtures._log_mean_exp(np.array([[np.nan, 1.0], [1.0, np.nan]]), sign=sign, floor=floor)
        assert np.isnan(lost).all()  # nor taken for a harmless one


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("gram", [np.eye(16), 0.7 * np.eye(16) + 0.3], ids=["alike", "correlated"])
def test_draws_in_chunks_are_all_drawn_and_from_one_law(monkeypatch, direction, gram):
    """Any prefix is a fair sample: false alarms 1e-4, at a seed that passes; the control is half a deviation off."""
    monkeypatch.setattr(mixtures, "_CHUNK", 16 * 1000)
    pair = mixtures.BallsInBinsPair(gram)
    loss, log_weight = pair.draw(np.random.default_rng(5), 6500, direction, floor=-math.inf, shift=0.5)
    assert np.isfinite(loss).all()
    for values in (loss, log_weight) if direction == "add" else (loss,):
        assert len(np.unique(values)) == 6500
        assert stats.ks_2samp(values[:1000], values[1000:]).pvalue > 1e-4
        moved = values[1000:] + 0.5 * values.std()
        assert stats.ks_2samp(values[:1000], moved).pvalue < 1e-4


def test_dense_and_toeplitz_strategies_agree():
    column, rounds = (1.0, 0.5, 0.25), 7
    rows = tuple(tuple(column[t - s] if t - s < 3 else 0.0 for s in range(t + 1)) for t in range(rounds))
    one = pairs.compute_bin_gram(MatrixMechanism(DenseStrategy(rows), BallsInBinsParticipation(3), rounds, 1.0), 3)
    other = pairs.compute_bin_gram(mechanism(column, BallsInBinsParticipation(3), rounds, 1.0), 3)
    np.testing.assert_allclose(one, other, atol=1e-15)


def test_a_singular_gram_gets_noise_on_the_safe_side():
    pair = mixtures.BallsInBinsPair(np.ones((3, 3)))  # three equal modes
    assert 1 < np.diag(pair.gram).min() <= np.diag(pair.gram).max() < 1 + 1e-9
    mean, error, _ = estimate(pair, "remove", 0.5, draws=40_000, strength=0.0)
    assert abs(mean - gaussian_delta(1.0, 0.5)[1]) <= ALLOWED * error


HUGE = 2**53 - 1
REFUSED = {
    "provable|need no simulation|no noise|banded|overlap": [
        Gaussian(1.0),
        BallsInBins(Laplace(1.0), 4),
        BallsInBins(Gaussian(0.0), 4),
        mechanism([1.0, 0.5, 0.5], MinSepParticipation(2, 0.5), 8, 1.0),
        mechanism([1.0, 0.5, 0.5], CyclicPoissonParticipation(2, 0.5), 8, 1.0),
        MatrixMechanism(DenseStrategy(((1.0,), (0.5, 1.0))), CyclicPoissonParticipation(2, 0.5), 2, 1.0),
    ],
    "memory": [
        Repeated(PoissonSampled(Gaussian(1.0), 0.1), HUGE),
        Repeated(PoissonSampled(Gaussian(1.0), 0.1), 70_000),
        BallsInBins(Gaussian(1.0), 9_000),
        mechanism([1.0], FullParticipation(), HUGE, 1.0),
        mechanism([1.0], BallsInBinsParticipation(2**20), 2**7, 1.0),
        mechanism([1.0], BallsInBinsParticipation(8_000), 2**16, 1.0),
        mechanism([1.0], MinSepParticipation(HUGE, 0.5), 8, 1.0),
        mechanism([1.0], MinSepParticipation(2, 0.5), HUGE, 1.0),
        mechanism([1.0], CyclicPoissonParticipation(HUGE, 0.5), 8, 1.0),
        mechanism([1.0], CyclicPoissonParticipation(2, 0.5), HUGE, 1.0),
        mechanism([1.0], RandomAllocationParticipation(2), HUGE, 1.0),
    ],
    "simulated": [
        of(noise)
        for noise in (5e-324, 1e-160, 1e-100, 1e-7, 1e160)
        for of in (
            lambda noise: Repeated(PoissonSampled(Gaussian(noise), 0.1), 10),
            lambda noise: BallsInBins(Gaussian(noise), 4),
            lambda noise: mechanism([1.0, 0.5], MinSepParticipation(2, 0.5), 8, noise),
            lambda noise: mechanism([1.0, 0.5], BallsInBinsParticipation(4), 8, noise),
            lambda noise: mechanism([1.0, 0.5], FullParticipation(), 8, noise),
        )
    ],
}


@pytest.mark.parametrize(("says", "release"), [(says, one) for says, ones in REFUSED.items() for one in ones], ids=str)
@pytest.mark.filterwarnings("error")
def test_what_has_no_proof_no_room_or_no_digits_is_refused(says, release):
    with pytest.raises(UnsupportedMechanismError, match=says):
        pairs.build_simulated_pair(release)


@pytest.mark.parametrize(
    "release",
    [
        mechanism([1.0], MinSepParticipation(1, 0.5), 4, 1.0),
        mechanism([1.0], CyclicPoissonParticipation(3, 0.5), 4, 1.0),  # not whole cycles
        mechanism([1.0, 0.5], CyclicPoissonParticipation(2, 0.5), 4, 1.0),  # correlated noise
    ],
)
def test_a_renyi_tilt_without_a_bound_is_refused(release):
    pair, how = pairs.build_simulated_pair(release), tilt.Tilt("remove", 2.0)
    with pytest.raises(UnsupportedMechanismError):
        tilt.bound_log_value(pair, how, HockeyStick(1.0))
    with pytest.raises(UnsupportedMechanismError):
        tilt.draw_weighted_losses(pair, how, np.random.default_rng(1), 5, floor=1.0)
    assert tilt.choose_tilt(pair, HockeyStick(1.0), "remove").strength == 0


def test_leaving_the_bound_is_an_error(monkeypatch):
    pair = pairs.build_simulated_pair(BallsInBins(Gaussian(1.0), 4))
    for bad in (np.nan, 50.0):
        monkeypatch.setattr(tilt, "draw_weighted_losses", lambda *_, bad=bad, **__: (np.full(3, 5.0), np.full(3, bad)))
        with pytest.raises(ArithmeticError, match="left its bounds"):
            tilt.draw_log_values(pair, tilt.Tilt("remove"), HockeyStick(1.0), np.random.default_rng(16), 3, log_m=0.0)

"""Samplers, losses. Statistical assertions fix their seed and allow 4.5 standard errors: false alarms 7e-6 each."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from epsilog.accounting import gaussian_delta
from epsilog.accounting.montecarlo import mixtures, oracle, pairs, tilt
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.mechanisms import (
    BallsInBins,
    BinnedParticipation,
    ChosenParticipation,
    CyclicParticipation,
    DenseStrategy,
    EveryRound,
    Gaussian,
    Laplace,
    MatrixMechanism,
    PoissonSampled,
    Repeated,
    SpacedParticipation,
    ToeplitzStrategy,
)
from epsilog.terms import UnsupportedMechanismError

ALLOWED = 4.5


def square_root_column(bands):
    column = [1.0]
    for i in range(1, bands):
        column.append(column[-1] * (2 * i - 1) / (2 * i))
    return tuple(float(c) for c in np.array(column) / np.linalg.norm(column))


def mechanism(column, participation, rounds, noise):
    return MatrixMechanism(ToeplitzStrategy(tuple(column)), participation, rounds, noise)


def bins_loss(column, bins, x, noise=1.0):
    """The loss of balls-in-bins at output x, straight from the densities."""
    rounds = len(x)
    matrix = np.zeros((rounds, rounds))
    for t in range(rounds):
        for j, value in enumerate(column[: rounds - t]):
            matrix[t + j, t] = value
    modes = [matrix[:, i::bins].sum(axis=1) for i in range(bins)]
    logs = [(2 * m @ x - m @ m) / (2 * noise**2) for m in modes]
    return math.log(sum(math.exp(v) for v in logs) / bins)


def estimate(pair, direction, epsilon, *, draws, seed, strength=0.0):
    """Mean and standard error of the estimator."""
    rng = np.random.Generator(np.random.Philox(seed))
    how, payoff = tilt.Tilt(direction, strength), HockeyStick(epsilon)
    log_m = tilt.log_bound(pair, how, payoff)
    logs = [tilt.log_values(pair, how, payoff, rng, 4096, log_m=log_m) for _ in range(-(-draws // 4096))]
    values = np.exp(np.concatenate(logs))
    return values.mean(), values.std() / math.sqrt(values.size)


def agrees(found, truth):
    return abs(found[0] - truth) <= ALLOWED * found[1]


@pytest.mark.parametrize(
    ("x", "column", "loss"),
    [
        ([1, 0, 1, 0], [1.0], 0.43378083),
        ([1, 0.5, 1, 0.5], [1, 0.5], 0.90529740),
        ([1, 1, 1, 1], [1, 1, 0.5, 0.5], 1.57997608),
    ],
)
def test_balls_in_bins_losses_of_the_reference(x, column, loss):
    x = np.array(x, dtype=float)
    assert bins_loss(column, 2, x) == pytest.approx(loss, abs=1e-8)
    gram = pairs.bin_gram(mechanism(column, BinnedParticipation(2), 4, 1.0), 2)
    modes = np.array(
        [[column[t - s] if 0 <= t - s < len(column) else 0 for t in range(4)] for s in range(4)], dtype=float
    )
    fields = np.array([[(modes[0] + modes[2]) @ x, (modes[1] + modes[3]) @ x]]) - np.diag(gram) / 2
    assert mixtures.log_mean_exp(fields)[0] == pytest.approx(loss, abs=1e-8)


@pytest.mark.parametrize(
    ("participation", "x", "column", "loss"),
    [
        (SpacedParticipation(2, 0.5), [1, 1, 1], [1.0], 0.60705606),
        (SpacedParticipation(2, 0.5), [1, 1, 1], [1, 0.5], 0.92397989),
        (SpacedParticipation(2, 0.5, warm_start=True), [1, 1, 1], [1, 0.5], 0.83293984),
        (CyclicParticipation(2, 0.5), [1, 0, 1], [1.0], 0.24576433),
        (CyclicParticipation(2, 0.5), [1, 0.5, 1], [1, 0.5], 0.44686029),
        (CyclicParticipation(2, 1 / 3), [1, 0.5, 1], [1, 0.5], 0.30744898),
    ],
)
def test_path_losses_of_the_reference(participation, x, column, loss):
    pair = pairs.pair_of(mechanism(column, participation, 3, 1.0))
    found = pair.loss(pair.ratios(np.array(x, dtype=float)[:, None]))
    assert found[0] == pytest.approx(loss, abs=1e-8)


def test_cyclic_poisson_with_certain_coins_is_balls_in_bins_loss_by_loss():
    rng = np.random.default_rng(1)
    for _ in range(50):
        bins, rounds = int(rng.integers(1, 6)), int(rng.integers(1, 14))
        column, noise = rng.random(int(rng.integers(1, bins + 1))) + 0.1, float(rng.uniform(0.5, 2))
        x = rng.standard_normal(rounds)
        pair = pairs.pair_of(mechanism(column, CyclicParticipation(bins, 1.0), rounds, noise))
        found = pair.loss(pair.ratios(x[:, None] / noise))
        assert found[0] == pytest.approx(bins_loss(column, bins, x, noise), abs=1e-9)


def test_warm_spaced_sampling_with_certain_coins_is_balls_in_bins_loss_by_loss():
    rng = np.random.default_rng(2)
    for _ in range(30):
        bins, rounds = int(rng.integers(1, 6)), int(rng.integers(6, 14))
        column, noise = rng.random(int(rng.integers(1, bins + 1))) + 0.1, float(rng.uniform(0.5, 2))
        x = rng.standard_normal(rounds)
        pair = pairs.pair_of(mechanism(column, SpacedParticipation(bins, 1.0, warm_start=True), rounds, noise))
        found = pair.loss(pair.ratios(x[:, None] / noise))
        assert found[0] == pytest.approx(bins_loss(column, bins, x, noise), abs=1e-9)


@pytest.mark.parametrize(
    "participation",
    [
        SpacedParticipation(3, 0.4),
        SpacedParticipation(3, 0.4, warm_start=True),
        SpacedParticipation(1, 0.2),
        CyclicParticipation(3, 0.6),
    ],
)
def test_the_loss_is_the_ratio_of_enumerated_paths(participation):
    """Every participation of seven rounds with its probability, against the recursion."""
    rounds, column, noise = 7, [1.0] if participation == SpacedParticipation(1, 0.2) else [1.0, 0.5], 1.3
    b = getattr(participation, "min_separation", None) or participation.cycle_length
    p = participation.probability
    paths = {}

    def spaced(t, free_from, chance, taken):
        if t == rounds:
            paths[taken] = paths.get(taken, 0) + chance
        elif t < free_from:
            spaced(t + 1, free_from, chance, taken)
        else:
            spaced(t + 1, free_from, chance * (1 - p), taken)
            spaced(t + 1, t + b, chance * p, (*taken, t))

    def cyclic(t, slot, chance, taken):
        if t == rounds:
            paths[taken] = paths.get(taken, 0) + chance
        elif t % b != slot:
            cyclic(t + 1, slot, chance, taken)
        else:
            cyclic(t + 1, slot, chance * (1 - p), taken)
            cyclic(t + 1, slot, chance * p, (*taken, t))

    if isinstance(participation, CyclicParticipation):
        for slot in range(b):
            cyclic(0, slot, 1 / b, ())
    elif participation.warm_start:
        for start, weight in enumerate([1.0] + [p] * (b - 1)):
            spaced(0, start, weight / (1 + (b - 1) * p), ())
    else:
        spaced(0, 0, 1.0, ())
    assert sum(paths.values()) == pytest.approx(1)
    pair = pairs.pair_of(mechanism(column, participation, rounds, noise))
    columns = np.array(
        [[column[t - s] if 0 <= t - s < len(column) else 0 for t in range(rounds)] for s in range(rounds)]
    )
    x = np.random.default_rng(3).standard_normal((rounds, 5)) + 0.3
    means = {path: columns[list(path)].sum(axis=0) for path in paths}
    direct = [
        math.log(sum(w * math.exp((2 * means[s] @ v - means[s] @ means[s]) / (2 * noise**2)) for s, w in paths.items()))
        for v in x.T
    ]
    np.testing.assert_allclose(pair.loss(pair.ratios(x / noise)), direct, atol=1e-10)
    energy = {s: means[s] @ means[s] / noise**2 for s in paths}
    mean = sum(w * means[s] for s, w in paths.items())
    assert pair.mean_energy == pytest.approx(sum(w * energy[s] for s, w in paths.items()))
    assert pair.mean_field_energy == pytest.approx(mean @ mean / noise**2)
    assert pair.brackets(1.0, "remove")[1] == pytest.approx(gaussian_delta(math.sqrt(max(energy.values())), 1.0)[1])
    taken = pair.taken(np.random.default_rng(4), 40_000)
    chance = np.array([sum(w for s, w in paths.items() if t in s) for t in range(rounds)])
    error = np.sqrt(chance * (1 - chance) / 40_000) + 1e-12
    assert (np.abs(taken.mean(axis=1) - chance) <= ALLOWED * error).all()


@pytest.mark.parametrize(("rounds", "often"), [(7, 1), (7, 3), (6, 5), (5, 5), (1, 1)])
def test_the_loss_of_k_rounds_of_all_is_the_ratio_of_enumerated_sets(rounds, often):
    """Every set of k rounds, against the recursion; and how often each round, and each pair of them, is taken."""
    noise, height = 1.3, 0.8
    pair = pairs.pair_of(mechanism([height], ChosenParticipation(often), rounds, noise))
    x = np.random.default_rng(3).standard_normal((rounds, 5)) * 3
    sets = list(itertools.combinations(range(rounds), often))
    direct = [
        math.log(
            sum(math.exp((2 * height * v[list(s)].sum() - often * height**2) / (2 * noise**2)) for s in sets)
            / len(sets)
        )
        for v in x.T
    ]
    np.testing.assert_allclose(pair.loss(pair.ratios(x / noise)), direct, atol=1e-10)
    energy = often * height**2 / noise**2
    assert pair.mean_energy == pytest.approx(energy)
    assert pair.mean_field_energy == pytest.approx(energy * often / rounds)
    assert pair.brackets(1.0, "remove") == (0.0, pytest.approx(gaussian_delta(math.sqrt(energy), 1.0)[1]))
    taken = pair.taken(np.random.default_rng(4), 20_000).astype(float)
    assert (taken.sum(axis=0) == often).all()
    together = taken @ taken.T / 20_000
    chance = often * (often - 1) / max(rounds * (rounds - 1), 1)
    expected = np.full((rounds, rounds), chance) + np.diag(np.full(rounds, often / rounds - chance))
    assert (np.abs(together - expected) <= ALLOWED * np.sqrt(expected * (1 - expected) / 20_000) + 1e-12).all()


def test_one_round_of_all_is_balls_in_bins_and_all_rounds_are_a_gaussian():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((9, 4))
    one = pairs.pair_of(mechanism([1.0], ChosenParticipation(1), 9, 1.1))
    assert one.loss(one.ratios(x / 1.1)) == pytest.approx([bins_loss([1.0], 9, v, 1.1) for v in x.T])
    every = pairs.pair_of(mechanism([1.0], ChosenParticipation(9), 9, 1.1))
    assert every.loss(every.ratios(x / 1.1)) == pytest.approx(x.sum(axis=0) / 1.1**2 - 9 / (2 * 1.1**2))


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "strength"), [("remove", 0.0), ("add", 0.0), ("add", 3.0)])
def test_draws_of_k_rounds_agree_with_integrals_and_noise_off_by_a_third_does_not(direction, strength):
    """Two rounds of two coordinates' three, with delta by a sum over a grid of all outputs."""
    noise, epsilon, rounds = 1.0, 0.5, 3
    axis = np.linspace(-7, 8, 151)
    x = np.stack([grid.ravel() for grid in np.meshgrid(axis, axis, axis, indexing="ij")])
    pair = pairs.pair_of(mechanism([1.0], ChosenParticipation(2), rounds, noise))
    base = np.exp(-(x**2).sum(axis=0) / 2) / (2 * math.pi) ** 1.5 * (axis[1] - axis[0]) ** 3
    sets = itertools.combinations(range(rounds), 2)
    ratio = np.mean([np.exp(x[list(s)].sum(axis=0) - 1) for s in sets], axis=0)
    first, second = (base * ratio, base) if direction == "remove" else (base, base * ratio)
    truth = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    assert agrees(estimate(pair, direction, epsilon, draws=40_000, seed=8, strength=strength), truth)
    other = pairs.pair_of(mechanism([1.0], ChosenParticipation(2), rounds, 1.3 * noise))
    assert not agrees(estimate(other, direction, epsilon, draws=40_000, seed=8, strength=strength), truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bins", "noise", "epsilon", "direction"),
    [
        (16, 1.0, 0.5, "remove"),
        (16, 1.0, 1.0, "add"),
        (100, 0.6, 1.0, "remove"),
        (100, 0.6, 0.5, "add"),
        (1, 0.8, 1.0, "remove"),
        (1, 0.8, 1.0, "add"),
    ],
)
def test_plain_draws_agree_with_the_oracle_and_noise_off_by_a_third_does_not(bins, noise, epsilon, direction):
    truth = oracle.balls_in_bins_delta(bins=bins, noise_stddev=noise, epsilon=epsilon, direction=direction).value
    pair = pairs.pair_of(BallsInBins(Gaussian(noise), bins))
    assert agrees(estimate(pair, direction, epsilon, draws=100_000, seed=5), truth)
    control = pairs.pair_of(BallsInBins(Gaussian(1.3 * noise), bins))
    assert not agrees(estimate(control, direction, epsilon, draws=100_000, seed=5), truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bins", "noise", "epsilon", "direction", "strength"),
    [
        (16, 1.0, 2.0, "remove", 4.0),
        (16, 1.0, 3.0, "remove", 6.0),
        (100, 0.6, 4.0, "remove", 2.0),
        (100, 1.0, 1.0, "remove", 8.0),
        (1, 0.8, 4.0, "remove", 3.0),
        (16, 1.0, 1.0, "add", 8.0),
        (100, 0.6, 0.5, "add", 15.0),
        (1, 0.8, 4.0, "add", 3.0),
    ],
)
def test_tilted_draws_agree_with_the_oracle_and_noise_off_by_a_third_does_not(
    bins, noise, epsilon, direction, strength
):
    truth = oracle.balls_in_bins_delta(bins=bins, noise_stddev=noise, epsilon=epsilon, direction=direction).value
    pair = pairs.pair_of(BallsInBins(Gaussian(noise), bins))
    found = estimate(pair, direction, epsilon, draws=60_000, seed=6, strength=strength)
    assert found[1] < 0.1 * truth
    assert agrees(found, truth)
    assert math.exp(tilt.log_bound(pair, tilt.Tilt(direction, strength), HockeyStick(epsilon))) >= truth
    control = pairs.pair_of(BallsInBins(Gaussian(1.3 * noise), bins))
    assert not agrees(estimate(control, direction, epsilon, draws=60_000, seed=6, strength=strength), truth)


MATRIX_CASES = [  # rounds, bins, bands, noise, epsilon, delta, its standard error: drawn by other code
    (400, 100, 16, 1.0, 1.0, 0.09559, 0.00020),
    (400, 100, 16, 1.0, 4.0, 4.078e-4, 0.021e-4),
    (400, 100, 16, 1.0, 8.0, 1.816e-8, 0.018e-8),
    (400, 100, 16, 2.0, 1.0, 5.502e-4, 0.023e-4),
    (400, 100, 16, 2.0, 2.0, 1.252e-7, 0.025e-7),
    (1000, 100, 32, 3.0, 1.0, 5.838e-3, 0.015e-3),
    (1000, 100, 32, 3.0, 2.0, 1.287e-5, 0.007e-5),
    (1000, 200, 1000, 4.0, 1.0, 1.2360e-2, 0.0026e-2),
    (1000, 200, 1000, 4.0, 2.0, 5.421e-5, 0.017e-5),
    (1000, 200, 1000, 4.0, 4.0, 1.5785e-13, 0.0082e-13),
    (100, 10, 4, 2.0, 1.0, 0.1378, 0.0002),
    (100, 10, 4, 2.0, 2.0, 2.990e-2, 0.009e-2),
    (100, 10, 4, 2.0, 4.0, 3.921e-4, 0.017e-4),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", MATRIX_CASES, ids=str)
def test_matrix_mechanisms(case):
    rounds, bins, bands, noise, epsilon, delta, error = case
    release = mechanism(square_root_column(bands), BinnedParticipation(bins), rounds, noise)
    pair = pairs.pair_of(release)
    best = tilt.choose_tilt(pair, HockeyStick(epsilon), "remove")
    found = estimate(pair, "remove", epsilon, draws=24_000, seed=7, strength=best.strength)
    assert abs(found[0] - delta) <= ALLOWED * math.hypot(found[1], error)
    assert found[1] < 0.1 * delta
    assert delta <= math.exp(tilt.log_bound(pair, best, HockeyStick(epsilon)))


@cache
def composed_by_another(noise, q, rounds):
    from dp_accounting.pld import privacy_loss_distribution as pld

    single = pld.from_gaussian_mechanism(noise, sampling_prob=q, value_discretization_interval=1e-4)
    return single.self_compose(rounds)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_spaced_sampling_with_separation_one_is_poisson(direction):
    noise, q, rounds, epsilon = 1.0, 0.05, 40, 1.0
    composed = composed_by_another(noise, q, rounds)
    side = composed._pmf_remove if direction == "remove" else composed._pmf_add
    truth = side.get_delta_for_epsilon(epsilon)
    pair = pairs.pair_of(mechanism([1.0], SpacedParticipation(1, q), rounds, noise))
    strength = 0.0 if direction == "remove" else tilt.choose_tilt(pair, HockeyStick(epsilon), "add").strength
    assert agrees(estimate(pair, direction, epsilon, draws=100_000, seed=8, strength=strength), truth)
    control = pairs.pair_of(mechanism([1.0], SpacedParticipation(1, q), rounds, 1.3 * noise))
    assert not agrees(estimate(control, direction, epsilon, draws=100_000, seed=8, strength=strength), truth)


@pytest.mark.slow
def test_add_direction_of_paths_agrees_shifted_and_plain():
    for participation in (SpacedParticipation(4, 0.3, warm_start=True), CyclicParticipation(4, 0.5)):
        pair = pairs.pair_of(mechanism([1.0, 0.6, 0.2], participation, 24, 2.0))
        plain = estimate(pair, "add", 0.5, draws=200_000, seed=9)
        shifted = estimate(pair, "add", 0.5, draws=100_000, seed=10, strength=2.0)
        assert abs(plain[0] - shifted[0]) <= ALLOWED * math.hypot(plain[1], shifted[1])


def test_the_ratio_has_mean_one_under_q():
    """E_Q[P / Q] = 1; under Q the add loss is ln(Q / P)."""
    rng = np.random.default_rng(12)
    for participation in (BinnedParticipation(5), SpacedParticipation(3, 0.4), CyclicParticipation(3, 0.4)):
        pair = pairs.pair_of(mechanism([1.0, 0.5], participation, 12, 3.0))
        loss, weight = pair.draw(rng, 60_000, "add", floor=-math.inf, shift=0.0)
        ratio = np.exp(-loss)
        assert not weight.any()
        assert abs(ratio.mean() - 1) <= ALLOWED * ratio.std() / math.sqrt(ratio.size)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 1.0), (1.0, 4.0), (2.0, 1.0)])
def test_tilted_poisson_agrees_with_the_composed_loss_distribution(noise, epsilon):
    """Down to delta 1e-7, with thousands of draws. Control: noise 30% off."""
    q, rounds, payoff = 0.05, 40, HockeyStick(epsilon)
    truth = composed_by_another(noise, q, rounds)._pmf_remove.get_delta_for_epsilon(epsilon)
    pair, control = (pairs.pair_of(Repeated(PoissonSampled(Gaussian(z), q), rounds)) for z in (noise, 1.3 * noise))
    best = tilt.choose_tilt(pair, payoff, "remove")
    found = estimate(pair, "remove", epsilon, draws=24_000, seed=21, strength=best.strength)
    assert best.strength >= 1
    assert found[1] < 0.03 * truth
    assert agrees(found, truth)
    assert not agrees(estimate(control, "remove", epsilon, draws=24_000, seed=21, strength=best.strength), truth)


@pytest.mark.parametrize(
    ("bins", "p", "rounds", "order"), [(2, 0.4, 4, 1), (3, 0.7, 3, 2), (1, 0.3, 3, 2), (2, 1.0, 4, 2)]
)
def test_the_moment_of_cyclic_poisson_by_listing_every_choice_of_paths(bins, p, rounds, order):
    noise, paths = 1.1, []
    for slot in range(bins):
        own = list(range(slot, rounds, bins))
        for coins in itertools.product((0, 1), repeat=len(own)):
            row = np.zeros(rounds)
            row[own] = coins
            paths.append((math.prod(p if c else 1 - p for c in coins) / bins, row))
    total = sum(
        math.prod(w for w, _ in choice)
        * math.exp(sum(a @ b for (_, a), (_, b) in itertools.combinations(choice, 2)) / noise**2)
        for choice in itertools.product(paths, repeat=order + 1)
    )
    pair = pairs.pair_of(mechanism([1.0], CyclicParticipation(bins, p), rounds, noise))
    assert pair.log_moment(order) == pytest.approx(math.log(total))


@pytest.mark.slow
def test_tilted_cyclic_poisson_agrees_with_plain_draws_and_with_balls_in_bins():
    pair = pairs.pair_of(mechanism([1.0], CyclicParticipation(4, 0.5), 24, 2.0))
    plain = estimate(pair, "remove", 0.5, draws=200_000, seed=22)
    tilted = estimate(pair, "remove", 0.5, draws=50_000, seed=23, strength=2.0)
    assert abs(plain[0] - tilted[0]) <= ALLOWED * math.hypot(plain[1], tilted[1])
    control = pairs.pair_of(mechanism([1.0], CyclicParticipation(4, 0.5), 24, 2.6))
    off = estimate(control, "remove", 0.5, draws=50_000, seed=23, strength=2.0)
    assert abs(plain[0] - off[0]) > ALLOWED * math.hypot(plain[1], off[1])
    certain = pairs.pair_of(mechanism([1.0], CyclicParticipation(16, 1.0), 32, 1.5))
    truth = oracle.balls_in_bins_delta(bins=16, noise_stddev=1.5, epsilon=2.0, epochs=2).value
    assert agrees(estimate(certain, "remove", 2.0, draws=50_000, seed=24, strength=5.0), truth)


def test_every_round_is_the_gaussian_of_the_summed_columns():
    release = mechanism([1.0, 0.5], EveryRound(), 3, 2.0)
    distance = math.sqrt(1 + 1.5**2 + 1.5**2) / 2
    truth = gaussian_delta(distance, 0.5)[1]
    assert agrees(estimate(pairs.pair_of(release), "remove", 0.5, draws=40_000, seed=13), truth)


def test_any_prefix_is_a_fair_sample():
    """The bins of the first tenth of the draws are spread like those of all (chi-square, false alarms 1e-6)."""
    bins = 10
    pair = pairs.pair_of(BallsInBins(Gaussian(0.05), bins))  # so little noise that the loss shows the bin's neighbours
    rng = np.random.Generator(np.random.Philox(14))
    first = rng.bit_generator.state
    index = rng.integers(bins, size=4000)
    rng.bit_generator.state = first
    assert stats.chisquare(np.bincount(index[:400], minlength=bins)).pvalue > 1e-6
    loss, _ = pair.draw(rng, 4000, "remove", floor=-math.inf, shift=0.0)
    assert stats.ks_2samp(loss[:400], loss[400:]).pvalue > 1e-6
    grouped = np.sort(index)  # the control: draws grouped by bin, whose prefix is not fair
    assert stats.chisquare(np.bincount(grouped[:400], minlength=bins)).pvalue < 1e-6


def test_dense_and_toeplitz_strategies_agree():
    column, rounds = (1.0, 0.5, 0.25), 7
    dense = DenseStrategy(
        tuple(tuple(column[t - s] if t - s < 3 else 0.0 for s in range(t + 1)) for t in range(rounds))
    )
    one = pairs.bin_gram(MatrixMechanism(dense, BinnedParticipation(3), rounds, 1.0), 3)
    other = pairs.bin_gram(mechanism(column, BinnedParticipation(3), rounds, 1.0), 3)
    np.testing.assert_allclose(one, other, atol=1e-15)


def test_a_singular_gram_gets_noise_on_the_safe_side():
    gram = np.ones((3, 3))  # three equal modes
    pair = mixtures.Mixture(gram)
    assert (np.diag(pair.gram) > 1).all()
    assert np.diag(pair.gram).max() < 1 + 1e-9
    found = estimate(pair, "remove", 0.5, draws=40_000, seed=15)
    assert agrees(found, gaussian_delta(1.0, 0.5)[1])


@pytest.mark.parametrize(
    "release",
    [
        Gaussian(1.0),
        BallsInBins(Laplace(1.0), 4),
        BallsInBins(Gaussian(0.0), 4),
        mechanism([1.0, 0.5, 0.5], SpacedParticipation(2, 0.5), 8, 1.0),
        mechanism([1.0, 0.5, 0.5], CyclicParticipation(2, 0.5), 8, 1.0),
        MatrixMechanism(DenseStrategy(((1.0,), (0.5, 1.0))), CyclicParticipation(2, 0.5), 2, 1.0),
    ],
)
def test_what_has_no_proof_is_refused(release):
    with pytest.raises(UnsupportedMechanismError):
        pairs.pair_of(release)


@pytest.mark.parametrize(
    "release",
    [
        mechanism([1.0], SpacedParticipation(1, 0.5), 4, 1.0),
        mechanism([1.0], CyclicParticipation(3, 0.5), 4, 1.0),  # not whole cycles
        mechanism([1.0, 0.5], CyclicParticipation(2, 0.5), 4, 1.0),  # correlated noise
    ],
)
def test_a_renyi_tilt_without_a_bound_is_refused(release):
    pair, how = pairs.pair_of(release), tilt.Tilt("remove", 2.0)
    with pytest.raises(UnsupportedMechanismError):
        tilt.log_bound(pair, how, HockeyStick(1.0))
    with pytest.raises(UnsupportedMechanismError):
        tilt.draw(pair, how, np.random.default_rng(1), 5, floor=1.0)
    assert tilt.choose_tilt(pair, HockeyStick(1.0), "remove").strength == 0


def poisson(noise, count):
    return Repeated(PoissonSampled(Gaussian(noise), 0.1), count)


@pytest.mark.parametrize("noise", [5e-324, 1e-300, 1e-160, 1e-100, 1e-7, 1e160, 1.7e308])
@pytest.mark.parametrize(
    "of",
    [
        lambda noise: poisson(noise, 10),
        lambda noise: BallsInBins(Gaussian(noise), 4),
        lambda noise: mechanism([1.0, 0.5], SpacedParticipation(2, 0.5), 8, noise),
        lambda noise: mechanism([1.0, 0.5], CyclicParticipation(2, 0.5), 8, noise),
        lambda noise: mechanism([1.0, 0.5], BinnedParticipation(4), 8, noise),
        lambda noise: mechanism([1.0, 0.5], EveryRound(), 8, noise),
    ],
)
@pytest.mark.filterwarnings("error")
def test_noise_whose_losses_leave_double_precision_is_refused(of, noise):
    with pytest.raises(UnsupportedMechanismError, match="simulated"):
        pairs.pair_of(of(noise))


def test_a_loss_that_is_not_a_number_is_not_taken_for_a_harmless_one():
    fields = np.array([[0.0, 1.0], [np.nan, 1.0], [1.0, np.nan]])
    for sign in (1, -1):
        for floor in (-np.inf, 0.5):
            found = mixtures._mixed(fields, sign=sign, floor=floor)
            assert np.isnan(found).tolist() == [False, True, True]


@pytest.mark.parametrize(
    "release",
    [
        poisson(1.0, 2**53 - 1),
        poisson(1.0, 70_000),
        BallsInBins(Gaussian(1.0), 9_000),
        BallsInBins(Gaussian(1.0), 2**53 - 1),
        mechanism([1.0], EveryRound(), 2**53 - 1, 1.0),
        mechanism([1.0], BinnedParticipation(2**20), 2**7, 1.0),
        mechanism([1.0], BinnedParticipation(8_000), 2**16, 1.0),
        mechanism([1.0], SpacedParticipation(2**53 - 1, 0.5), 8, 1.0),
        mechanism([1.0], SpacedParticipation(2, 0.5), 2**53 - 1, 1.0),
        mechanism([1.0], CyclicParticipation(2**53 - 1, 0.5), 8, 1.0),
        mechanism([1.0], CyclicParticipation(2, 0.5), 2**53 - 1, 1.0),
    ],
)
def test_what_would_fill_the_memory_is_refused(release):
    with pytest.raises(UnsupportedMechanismError, match="memory"):
        pairs.pair_of(release)


def test_leaving_the_bound_is_an_error(monkeypatch):
    pair = pairs.pair_of(BallsInBins(Gaussian(1.0), 4))
    rng = np.random.default_rng(16)
    for bad in (np.nan, 50.0):
        monkeypatch.setattr(tilt, "draw", lambda *_, bad=bad, **__: (np.full(3, 5.0), np.full(3, bad)))
        with pytest.raises(ArithmeticError, match="left its bounds"):
            tilt.log_values(pair, tilt.Tilt("remove"), HockeyStick(1.0), rng, 3, log_m=0.0)


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("bins", [2, 3, 5, 9, 10])
def test_modes_of_a_tilt_have_their_law(bins, monkeypatch):
    """Pairs of modes, read off draws without noise: i uniform, j in proportion to e^(H_ij) (chi-square, 1e-6)."""
    rng = np.random.default_rng(bins)
    modes = rng.random((bins, bins)) + 0.2 * np.eye(bins)
    gram = modes @ modes.T / 3
    pair = mixtures.Mixture(gram)
    pair.noise = lambda _, count: np.zeros((count, bins))
    centres = []
    monkeypatch.setattr(mixtures, "log_mean_exp", lambda fields: centres.append(fields + pair.half) or fields[:, 0])
    tilt.draw(pair, tilt.Tilt("remove", 1.0), rng, 40_000, floor=0.0)
    sums = pair.gram[:, None, :] + pair.gram[None, :, :]
    seen = np.zeros((bins, bins))
    for i in range(bins):
        for j in range(i, bins):
            seen[i, j] = (np.abs(centres[0] - sums[i, j]).max(axis=1) < 1e-9).sum()
    first = np.exp(pair.gram) / np.exp(pair.gram).sum(axis=1, keepdims=True) / bins
    law = np.triu(first + first.T) * (1 - np.eye(bins) / 2) * 40_000
    upper = np.triu_indices(bins)
    assert seen.sum() == 40_000
    assert stats.chisquare(seen[upper], law[upper]).pvalue > 1e-6
    assert stats.chisquare(seen[upper], np.roll(law[upper], 1)).pvalue < 1e-6  # the control


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("gram", [np.eye(16), 0.7 * np.eye(16) + 0.3], ids=["alike", "correlated"])
def test_draws_in_chunks_are_all_drawn_and_from_one_law(monkeypatch, direction, gram):
    """False alarms of the comparison: 1e-4 each, at a seed that passes; the control is moved by half a deviation."""
    monkeypatch.setattr(mixtures, "_CHUNK", 16 * 1000)
    loss, log_weight = mixtures.Mixture(gram).draw(
        np.random.default_rng(5), 6500, direction, floor=-math.inf, shift=0.5
    )
    assert np.isfinite(loss).all()
    assert len(np.unique(loss)) == 6500
    for values in (loss, log_weight) if direction == "add" else (loss,):
        assert len(np.unique(values)) == 6500
        assert stats.ks_2samp(values[:1000], values[1000:]).pvalue > 1e-4
        moved = values[1000:] + 0.5 * values.std()
        assert stats.ks_2samp(values[:1000], moved).pvalue < 1e-4

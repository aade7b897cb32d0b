"""The inversion integral: each proven error against high precision, and the answers against independent values."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.extent import amount

from epsilog.accounting import account, delta, epsilon
from epsilog.accounting.inversion import integral
from epsilog.accounting.inversion.integral import LaplaceInversion, _most, bound_by_inversion
from epsilog.accounting.inversion.sampled import InversionInfeasibleError, TiltedSampledGaussian, _beyond
from epsilog.accounting.inversion.tilted import TiltedGaussian, get_tilting
from epsilog.accounting.methods import lattice
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import Composed, Gaussian, Laplace, PoissonSampled, PureDP, RandomizedResponse, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.gaussian import gaussian_delta
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


def sgd(noise, share, rounds):
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


def spectral(release, question, relation=ADD):
    return bound_by_inversion(Composition.of(release, relation).orderings(), question)


def sampled(mu, share, direction, theta):
    return get_tilting(DominatingPair(GaussianPair(mu), share, direction))(theta)


def moment(mu, share, direction, z, nodes=200_001):
    """E e^(z L) by very many nodes in extended precision, for z of shape (k,)."""
    long = np.longdouble
    power = np.atleast_1d(np.asarray(z, dtype=np.clongdouble))
    power = power + 1 if direction is AdjacencyType.REMOVE else -power
    far = np.ceil(float(np.abs(power.real).max()) * mu + 13)
    y, step = np.linspace(-far, far, nodes, dtype=long, retstep=True)
    u = long(mu) * y - long(mu) ** 2 / 2
    loss = np.where(u < 1e4, np.log1p(long(share) * np.expm1(np.minimum(u, long(1e4)))), u + np.log(long(share)))
    scale = step / np.sqrt(2 * np.arccos(long(-1)))
    return np.array([(np.exp(p * loss - y * y / 2) * scale).sum() for p in power])


# exact values: worked out with 34 digits


@pytest.mark.parametrize(
    ("release", "at", "exact"),
    [
        (sgd(1.0, 0.01, 1_000), 1e-5, 1.828236667),
        (sgd(1.1, 256 / 60_000, 14_062), 1e-5, 2.381596921),
        (sgd(0.6, 1e-4, 10**6), 1e-5, 1.610847999),
        (sgd(0.8, 1e-3, 10**5), 1e-5, 2.574959309),
        (sgd(5.0, 0.1, 2_000), 1e-5, 3.919900209),
        (sgd(1.0, 0.01, 1_000), 1e-12, 3.914298),
        (sgd(1.0, 0.01, 1_000), 1e-30, 9.341896),
        (sgd(100.0, 1e-3, 100), 1e-8, 3.36924e-4),
        (sgd(0.3, 0.02, 2_000), 1e-5, 184.67949),
        (sgd(1.0, 1e-4, 10**7), 1e-6, 1.838200),
    ],
)
def test_intervals_are_a_millionth_wide_or_less_and_hold_the_exact_value(release, at, exact):
    found = epsilon(release, delta=at)
    digits = 5e-10 if exact in {1.828236667, 2.381596921, 1.610847999, 2.574959309, 3.919900209} else 5e-7
    assert found.relative_width <= 1e-6
    assert found.lower <= exact + digits * max(exact, 1)
    assert found.upper >= exact - digits * max(exact, 1)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("at", [0.01, 0.1, 1.0, 3.0])
def test_the_exponential_bound_of_gaussians_is_above_their_exact_delta_and_near_it(mu, at):
    tilts = [(get_tilting(DominatingPair(GaussianPair(mu / 10))), 100)]
    theta = at / mu**2 + 0.5  # the saddle
    exact = gaussian_delta(mu, at)[0]
    assert exact <= _most(tilts, theta, DeltaAt(at)) <= min(60 * exact, 1.0) * (1 + 1e-9)
    assert at <= _most(tilts, theta, EpsilonAt(exact)) <= at + 5 / theta


def test_ten_to_the_twelve_rounds():
    """The central limit (Bu et al. 2020) is exact enough here: a Gaussian with mu = 20."""
    found = epsilon(sgd(50.0, 1e-3, 10**12), delta=1e-5)
    limit = epsilon(Gaussian(0.05 / math.sqrt(2500 * math.expm1(1 / 2500))), delta=1e-5)
    assert found.relative_width < 1e-5
    assert found.lower == pytest.approx(limit.lower, rel=1e-4)


@pytest.mark.slow
def test_delta_by_an_inversion_without_any_shortcut():
    """Extended precision, another contour, a long period, and every frequency until nothing is left."""
    noise, share, rounds, at, exact = 1.0, 0.02, 300, 1.5, {}
    for direction, tilt in ((AdjacencyType.REMOVE, 3.0), (AdjacencyType.ADD, 9.0)):
        step = 0.1
        z = tilt + 1j * step * np.arange(400)
        powers = moment(1 / noise, share, direction, z, nodes=8_001) ** rounds
        assert abs(powers[-1]) < 1e-18 * abs(powers[0])
        terms = (powers * np.exp(-z * np.longdouble(at)) / (z * (z + 1))).real
        exact[direction] = float((terms.sum() - terms[0] / 2) * step / np.pi)
    found, worst = spectral(sgd(noise, share, rounds), DeltaAt(at)), max(exact.values())
    assert found.lower <= worst * (1 + 1e-12)
    assert found.upper >= worst * (1 - 1e-12)
    assert found.upper - found.lower <= 1e-6 * worst
    assert not found.lower <= worst * (1 - 1e-5) <= found.upper  # a control: a slightly wrong value is outside


# the parts of the proof, each by itself


@pytest.mark.slow
@settings(max_examples=amount(7, 25), deadline=None)
@given(
    mu=st.floats(0.05, 3.0),
    share=st.floats(1e-4, 0.95),
    theta=st.floats(0.2, 12.0),
    direction=st.sampled_from([AdjacencyType.REMOVE, AdjacencyType.ADD]),
    turn=st.floats(0.1, 30.0),
)
def test_waves_and_moments_err_by_no_more_than_they_say(mu, share, theta, direction, turn):
    law = sampled(mu, share, direction, theta)
    frequency = min(turn / law.spread / 10, 2_000 / mu)
    at, turned = moment(mu, share, direction, [theta, complex(theta, frequency)])
    exact = complex(turned / at * np.exp(np.clongdouble(-1j * frequency * law.moments.mean)) - 1)
    for nats in (8.0, 38.0):
        less_one, error, _ = law.characteristic(np.array([frequency]), nats)
        assert abs(less_one[0] - exact) <= error[0] + 1e-15 * abs(exact)
    small = 1e-13 * (100 + (mu * (theta + 1)) ** 2)  # rounding grows with the exponents
    assert error[0] < small
    total = float(np.log(at.real))
    assert abs(law.moments.log_total - total) <= law.moments.log_total_error + 4e-16 * abs(total)
    assert law.moments.log_total_error < small


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    mu=st.floats(0.05, 4.0),
    share=st.floats(1e-5, 0.95),
    theta=st.floats(0.2, 20.0),
    direction=st.sampled_from([AdjacencyType.REMOVE, AdjacencyType.ADD]),
)
def test_the_modulus_falls_as_the_decay_says_and_stays_within_the_spread(mu, share, theta, direction):
    law = sampled(mu, share, direction, theta)
    frequencies = np.geomspace(0.01, 300, 40) / law.spread
    frequencies = frequencies[frequencies * mu < 3_000]
    less_one, error, _ = law.characteristic(frequencies, 30.0)
    modulus = np.abs(1 + less_one)
    assert law.spread >= math.sqrt(law.moments.variance) * (1 - 1e-9)
    assert (modulus <= law.decay(frequencies) + error + 1e-12).all()
    for frequency, size, off in zip(frequencies, modulus, error, strict=True):
        assert math.sqrt(max(1 - size**2, 0.0)) <= law.spread * frequency + 2 * math.sqrt(off) + 1e-7


@settings(max_examples=30, deadline=None)
@given(largest=st.floats(1e-3, 8.0), theta=st.floats(0.1, 40.0), turn=st.floats(0.01, 50.0))
def test_the_laplace_wave_is_its_integral(largest, theta, turn):
    law = get_tilting(Composition.of(Laplace(1 / largest), ADD).orderings()[0].upper[0][0])(theta)
    frequency, mpmath.mp.dps = turn / largest, 30
    a, z = mpmath.mpf(1) / (mpmath.mpf(1) / largest), mpmath.mpc(theta, frequency)
    exact = [
        (mpmath.exp(z * a) + mpmath.exp(-(z + 1) * a)) / 2
        + mpmath.exp(-a / 2) / 4 * (mpmath.exp((z + 0.5) * a) - mpmath.exp(-(z + 0.5) * a)) / (z + 0.5)
        for z in (z, mpmath.mpf(theta))
    ]
    wave = complex(exact[0] / exact[1] * mpmath.expj(-mpmath.mpf(frequency) * law.moments.mean) - 1)
    total = float(mpmath.log(exact[1]))
    mpmath.mp.dps = 15
    less_one, error, _ = law.characteristic(np.array([frequency]), 30.0)
    assert abs(less_one[0] - wave) <= error[0]
    assert abs(law.moments.log_total - total) <= law.moments.log_total_error
    assert abs(1 + wave) <= law.decay(np.array([frequency])) + 1e-12


def test_a_gaussian_tilts_in_closed_form():
    law = TiltedGaussian(0.5, 3.0)
    assert law.moments[:1] + law.moments[2:] == (1.5, 0.875, 0.25)
    assert law.characteristic(np.array([2.0]), 30.0).less_one[0].real == pytest.approx(math.expm1(-0.5))


# answers beside the lattice, which shares nothing but the pairs


@pytest.mark.slow
def test_the_lattice_agrees():
    reached = []

    @settings(max_examples=amount(7, 20), deadline=None)
    @given(
        noise=st.floats(0.4, 10.0),
        share=st.floats(1e-3, 0.6),
        rounds=st.integers(50, 20_000),
        at=st.floats(-12, -1).map(lambda x: 10.0**x),
    )
    def agrees(noise, share, rounds, at):
        release = sgd(noise, share, rounds)
        try:
            found = spectral(release, EpsilonAt(at))
        except InversionInfeasibleError:
            reached.append(False)
            return
        reached.append(True)
        on_lattice = bound_on_lattice(Composition.of(release, ADD).orderings(), EpsilonAt(at), relative_width=0.01)
        assert found.lower <= on_lattice.upper
        assert found.upper >= on_lattice.lower
        assert found.upper - found.lower <= 1e-4 * found.upper or found.upper < on_lattice.upper

    agrees()
    assert sum(reached) >= 0.5 * len(reached)  # out of reach are few rounds of small samples


MIX = [
    *(Gaussian(30 + i) for i in range(4)),
    *(Laplace(60 + 7 * i) for i in range(4)),
    *(PoissonSampled(Gaussian(1 + 0.1 * i), 0.01) for i in range(4)),
    RandomizedResponse(0.999, 3),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "at", [1e-5, pytest.param(1e-8, marks=pytest.mark.extended), pytest.param(1e-2, marks=pytest.mark.extended)]
)
def test_a_mix_of_everything_agrees_with_the_lattice_in_any_order(at):
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    parts = MIX[:-1]
    one, other = (spectral(Repeated(Composed(list(order)), 3), EpsilonAt(at)) for order in (parts, parts[::-1]))
    on_lattice = bound_on_lattice(
        Composition.of(Repeated(Composed(parts), 3), relation).orderings(), EpsilonAt(at), relative_width=0.01
    )
    assert one.lower <= other.upper
    assert other.lower <= one.upper
    assert one.upper - one.lower <= 1e-5 * one.upper
    assert on_lattice.lower <= one.upper
    assert one.lower <= on_lattice.upper


def test_atoms_and_laplace_beside_a_gaussian_under_replace_one():
    release = Composed([Repeated(RandomizedResponse(0.99, 3), 5), Laplace(40.0), Repeated(Gaussian(20.0), 4)])
    relation = NeighboringRelation.REPLACE_ONE
    found = spectral(release, EpsilonAt(1e-6), relation)
    on_lattice = bound_on_lattice(Composition.of(release, relation).orderings(), EpsilonAt(1e-6), relative_width=0.005)
    assert found.upper - found.lower <= 1e-6 * found.upper
    assert on_lattice.lower <= found.upper
    assert found.lower <= on_lattice.upper


def test_atoms_alone_and_few_rounds_with_tiny_probabilities_are_left_to_the_lattice():
    for release in (Repeated(RandomizedResponse(0.5, 3), 10), sgd(1.0, 1e-4, 3)):
        relation = NeighboringRelation.REPLACE_ONE if release.count == 10 else ADD
        with pytest.raises(InversionInfeasibleError):
            spectral(release, EpsilonAt(1e-6), relation)
        assert epsilon(release, delta=1e-6, relation=relation).relative_width < 0.01


def test_a_gaussian_too_weak_to_end_the_sum_is_refused_before_memory_is_asked_for():
    with pytest.raises(InversionInfeasibleError):
        spectral(Composed([Gaussian(1e18), PureDP(1.0)]), EpsilonAt(1e-6))
    assert epsilon(Composed([Gaussian(1e18), PureDP(1.0)]), delta=1e-6).upper == pytest.approx(1.0, rel=1e-5)


@pytest.mark.slow
@settings(max_examples=amount(5, 15), deadline=None)
@given(rounds=st.integers(100, 5_000), share=st.floats(0.005, 0.3), noise=st.floats(0.6, 4.0))
def test_more_rounds_more_sampling_and_less_noise_cost_strictly_more(rounds, share, noise):
    base = epsilon(sgd(noise, share, rounds), delta=1e-6)
    for worse in (sgd(noise, share, rounds + 1), sgd(noise, share * 1.001, rounds), sgd(noise * 0.999, share, rounds)):
        assert epsilon(worse, delta=1e-6).upper > base.lower
    assert delta(sgd(noise, share, rounds), epsilon=base.upper).lower <= 1e-6
    assert delta(sgd(noise, share, rounds), epsilon=base.lower).upper >= 1e-6


parts = st.one_of(
    st.floats(0.5, 100).map(Gaussian),
    st.floats(1, 300).map(Laplace),
    st.floats(1e-3, 1).map(PureDP),
    st.builds(PoissonSampled, st.floats(0.5, 10).map(Gaussian), st.floats(1e-3, 0.8)),
)
mixes = st.lists(st.builds(Repeated, parts, st.integers(1, 5_000)), min_size=1, max_size=4).map(Composed)


@pytest.mark.slow
def test_tilts_and_accuracies_agree_within_what_they_say():
    """Every tilt is another sum with other errors: the intervals must share a point. Found a lost digit in ln phi."""
    reached = []

    @settings(max_examples=amount(15, 40), deadline=None)
    @given(release=mixes, at=st.floats(-25, -1))
    def agree(release, at):
        for ordering in Composition.of(release, ADD).orderings():
            tilts = [(get_tilting(pair), count) for pair, count in ordering.upper]
            try:
                cumulant = integral.estimate_cumulants(ordering.upper)
                theta, near = integral._saddle_at_delta(cumulant, 10.0**at)
                found = [
                    LaplaceInversion(tilts, cumulant, share * theta, near, aim=aim).delta(0.97 * near)
                    for share, aim in ((1.0, 1e-9), (1.0, 1e-14), (0.85, 1e-11), (1.1, 1e-12))
                ]
            except InversionInfeasibleError:
                reached.append(False)
                continue
            reached.append(True)
            assert max(one.lower for one in found) <= min(one.upper for one in found)

    agree()
    assert sum(reached) >= 0.4 * len(reached)


@pytest.mark.parametrize(
    "release", [sgd(0.7, 0.01, 10), Composed([sgd(3.3, 0.1, 7), Repeated(Gaussian(9.1), 11), Laplace(3)])]
)
def test_the_two_sides_are_close_enough_to_share_one_sum(release):
    for direction in Composition.of(release, ADD).orderings():
        assert all(integral._same(direction.upper, parts) for parts in direction.lowers)


@pytest.mark.parametrize(
    ("largest", "theta"), [(447.6, 2.3e-6), (500.0, -0.3), (2.08e-5, -0.499), (588.8, 1e-4), (3.0, -7.0)]
)
def test_the_laplace_cumulant_keeps_its_word_at_any_tilt(largest, theta):
    found = get_tilting(Composition.of(Laplace(1 / largest), ADD).orderings()[0].upper[0][0])(theta).moments
    mpmath.mp.dps = 40
    a, z = mpmath.mpf(1 / (1 / largest)), mpmath.mpf(theta)
    exact = mpmath.log(((z + 1) * mpmath.exp(z * a) + z * mpmath.exp(-(z + 1) * a)) / (2 * z + 1))
    off = abs(float(exact - mpmath.mpf(found.log_total)))
    mpmath.mp.dps = 15
    assert off <= found.log_total_error


@pytest.mark.parametrize(("mu", "at"), [(0.5, 0.1), (0.5, 1.0), (1.0, 0.5), (1.0, 2.0)])
def test_a_coarse_sum_owns_up_to_its_copies(mu, at):
    """With few frequencies these errors are large: Gaussians, whose delta is known, lie within them."""
    parts = [(DominatingPair(GaussianPair(mu / 10)), 100)]
    tilts, cumulant = [(get_tilting(pair), count) for pair, count in parts], integral.estimate_cumulants(parts)
    theta, exact = integral._saddle_at_epsilon(cumulant, at), gaussian_delta(mu, at)
    for aim in (0.5, 0.3, 0.1, 1e-2, 1e-3, 1e-6):
        found = LaplaceInversion(tilts, cumulant, theta, at, aim=aim).delta(at)
        assert found.lower <= exact[1]
        assert exact[0] <= found.upper
        assert found.upper - found.lower <= 3 * aim * exact[1]


def test_a_sum_that_is_no_number_is_no_answer():
    parts = Composition.of(sgd(1.0, 0.01, 500), ADD).orderings()[0].upper
    inversion = LaplaceInversion(
        [(get_tilting(pair), count) for pair, count in parts], integral.estimate_cumulants(parts), 5.0, 1.5
    )
    inversion._summands[3] = math.nan
    with pytest.raises(InversionInfeasibleError):
        inversion.delta(1.5)


def test_a_sum_of_too_many_terms_is_left_to_others(monkeypatch):
    monkeypatch.setattr(integral, "_MOST_TERMS", 100)
    with pytest.raises(InversionInfeasibleError, match="terms of"):
        spectral(sgd(1.0, 0.01, 500), DeltaAt(1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "share", "power", "sign"),
    [
        (1.0, 0.1, 3.0, 1.0),
        (2.0, 0.01, 6.0, 1.0),
        (0.7, 0.5, 12.0, 1.0),
        (1.0, 0.5, -3.0, -1.0),
        (2.0, 0.2, -5.0, -1.0),
    ],
)
def test_what_lies_beyond_the_cells_is_bounded_by_hardly_more_than_it_is(mu, share, power, sign):
    """The second moment of both tails, summed in extended precision; the bound is some sqrt(2 pi) larger."""
    law = TiltedSampledGaussian(mu, share, power, sign)
    low, high = law.finite_range(9.0)
    middle = sign * law.moments.mean
    total = np.log(np.exp(np.longdouble(0)) * moment(mu, share, AdjacencyType.REMOVE, power - 1).real[0])
    assert abs(float(total) - law.moments.log_total) < 1e-12 * (1 + abs(float(total)))
    beyond = 0.0
    for edge, way in ((low, -1.0), (high, 1.0)):
        y = np.longdouble(edge) + way * np.linspace(0, 12, 200_001, dtype=np.longdouble)
        loss = np.log1p(np.longdouble(share) * np.expm1(mu * y - np.longdouble(mu) ** 2 / 2))
        part = np.exp(power * loss - y * y / 2 - total) * (loss - middle) ** 2 / math.sqrt(2 * math.pi)
        one_side = float(part.sum() - part[0] / 2) * 12 / 200_000
        beyond += one_side
        assert one_side > 0
    assert beyond <= _beyond(law, low, high, middle) <= 12 * beyond
    assert law.spread == pytest.approx(math.sqrt(law.moments.variance), rel=0.05)


def test_proven_intervals_that_do_not_meet_are_an_error(monkeypatch):
    monkeypatch.setattr(account, "bound_by_inversion", lambda *_: Bounds(1.0, 1.1))
    monkeypatch.setattr(lattice, "bound_on_lattice", lambda *_, **__: Bounds(1.05, 1.5))
    release = sgd(1.0, 0.1, 50)
    found = epsilon(release, delta=1e-5, relative_width=0.01)
    assert (found.lower, found.upper) == (1.05, 1.1)
    for apart in ((1.2, 1.3), (0.5, 0.9)):
        monkeypatch.setattr(lattice, "bound_on_lattice", lambda *_, **__: Bounds(*apart))  # noqa: B023
        with pytest.raises(ArithmeticError, match="contradict each other"):
            epsilon(release, delta=1e-5, relative_width=0.01)

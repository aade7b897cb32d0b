"""The bent path: values and bounds of the transform against high precision, and deltas against closed forms."""

import math
import random

import flint
import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.special import logsumexp

from epsilog.accounting.inversion import bent
from epsilog.accounting.inversion.bent import Bent, bendable, gauss
from epsilog.accounting.inversion.integral import (
    _saddle_at_epsilon,
    _thin_parts,
    bound_by_inversion,
    estimate_cumulants,
)
from epsilog.accounting.inversion.profile import TURNS, Profiles, _LineDistribution, _Region
from epsilog.accounting.inversion.sampled import InversionInfeasibleError
from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import Composed, Gaussian, Laplace, PoissonSampled, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.questions import DeltaAt, EpsilonAt
from epsilog.terms import NeighboringRelation

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
LAWS = [(1.0, 0.01), (0.3, 0.2), (2.5, 1e-4), (0.9, 0.5), (1.0, 1e-7), (4.0, 0.3)]
ASKED = [  # mu, sampling probability, epsilon, direction
    (0.2, 0.6, 0.6, AdjacencyType.REMOVE),
    (1.1, 0.1, 4.9, AdjacencyType.REMOVE),
    (0.5, 0.3, 0.2, AdjacencyType.REMOVE),
    (1.0, 0.01, 2.0, AdjacencyType.REMOVE),
    (2.6, 1e-4, 5.0, AdjacencyType.REMOVE),
    (0.5, 0.26, 0.057, AdjacencyType.ADD),
    (2.0, 0.0557, 2.46, AdjacencyType.REMOVE),
    (1.2, 0.6, 0.585, AdjacencyType.ADD),
    (0.9, 0.02, 0.1, AdjacencyType.REMOVE),
    (1.0, 0.01, 0.5, AdjacencyType.REMOVE),
]


def sgd(noise, share, rounds):
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


def path(parts, at, aim=1e-10):
    cumulant = estimate_cumulants(parts)
    theta = _saddle_at_epsilon(cumulant, at)
    return Bent(parts, _thin_parts(parts), theta, math.sqrt(cumulant(theta)[2]), at, aim=aim)


def pairs(laws, direction=AdjacencyType.REMOVE, count=1):
    return tuple((DominatingPair(GaussianPair(mu), share, direction), count) for mu, share in laws)


def one_round(mu, share, at, direction):
    """Delta of one round: a threshold in y, with 40 digits."""
    with mpmath.workdps(40):
        mu, share, at = mpmath.mpf(mu), mpmath.mpf(share), mpmath.mpf(at)
        grown = mpmath.exp(at if direction is AdjacencyType.REMOVE else -at)
        ratio = (grown - 1 + share) / share
        if ratio <= 0:
            return 1 - mpmath.exp(at) if direction is AdjacencyType.REMOVE else mpmath.mpf(0)
        x = mpmath.log(ratio) / mu + mu / 2
        if direction is AdjacencyType.REMOVE:
            return (1 - share) * mpmath.ncdf(-x) + share * mpmath.ncdf(mu - x) - mpmath.exp(at) * mpmath.ncdf(-x)
        mixed = (1 - share) * mpmath.ncdf(x) + share * mpmath.ncdf(x - mu)
        return mpmath.ncdf(x) - mpmath.exp(at) * mixed


def transform(mu, share, s, nodes=40):
    """E (1 + w)^s by many nodes on the real axis, with 130 digits: beyond round-off and aliases."""
    with flint.ctx.workdps(130):  # moduli reach 1e90 times what is left
        mu, share, power = flint.arb(mu), flint.arb(share), flint.acb(complex(s))
        odds, total = share / (1 - share), flint.acb(0)
        for k in range(-16 * nodes, math.ceil(float(mu) * max(s.real, 0) + 30) * nodes):
            y = flint.arb(k) / nodes
            w = odds * (mu * y - mu * mu / 2).exp()
            total += (power * (1 + w).log() - y * y / 2).exp()
        found = total / nodes / (2 * flint.arb.pi()).sqrt()
        return mpmath.mpc(*(mpmath.mpf(part.str(40, radius=False)) for part in (found.real, found.imag)))


@pytest.mark.slow
@pytest.mark.every(5)
@pytest.mark.parametrize("law", LAWS)
def test_values_are_off_by_no_more_than_they_say(law):
    mu, share = law
    laws = Profiles(np.array([mu]), np.array([share]), np.array([1.0]), 6.0)
    points = np.array([-1.5 + 0.5j, 0.25 + 3j, 1.7 + 2j, 5.0 + 0.1j, 3.0 + 12j])
    for chosen in (points[:3], points[3:]):
        found = laws.values(chosen, 1 + np.abs(chosen), 36.0)
        for at, log, error, most in zip(chosen, found.log, found.error, found.most, strict=True):
            exact = transform(mu, share, complex(at))
            off = abs(mpmath.exp(mpmath.mpc(complex(log))) / exact - 1)
            assert off <= error + error * error
            assert mpmath.log(abs(exact)) <= most
            assert error < 1e-9 or mu > 3  # there it says that it knows nothing


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("law", LAWS)
def test_nothing_above_a_height_exceeds_its_bound(law):
    mu, share = law
    laws = Profiles(np.array([mu]), np.array([share]), np.array([1.0]), 6.0)
    for power, height in ((-1.5, 0.5), (0.5, 2.0), (2.0, 1.0), (5.0, 9.0)):
        bound = laws.most((power,), height, TURNS)[0][0]
        assert bound <= laws.on_axis(power)
        for away in (1.0, 1.01, 2.0):
            assert mpmath.log(abs(transform(mu, share, complex(power, height * away)))) <= bound
    one, two = laws.most((1.0, 4.0), 3.0, TURNS)[0]
    for power in (1.0, 2.0, 3.0, 4.0):
        assert mpmath.log(abs(transform(mu, share, complex(power, 3.0)))) <= max(one, two)


@settings(max_examples=40, deadline=None)
@example(line=(30.0, 0.0, 0.4), power=1.0, frequency=0.0, past=5.0)  # ratios that no double holds
@example(line=(1.0, 0.0, 0.4), power=4.0, frequency=0.0, past=-1.0)  # where the integrand still grows
@given(
    line=st.tuples(st.floats(0.1, 35), st.floats(-15, 15), st.sampled_from((0.0, *TURNS))),
    power=st.floats(-3, 5),
    frequency=st.floats(0, 20),
    past=st.floats(-6, 25),
)
def test_the_nodes_that_a_rule_leaves_out_are_bounded(line, power, frequency, past):
    (mu, odds, turn), region = line, _Region(min(power, 0.5), power, frequency, 36.0)
    line = _LineDistribution(mu, odds, turn, 0.05)

    def nodes(x, step):
        """The logarithm of the sum of the integrand's modulus at some nodes, by what w is."""
        u = odds + mu * x - mu * mu / 2
        w = np.exp(np.minimum(u, 40) + 1j * turn)
        modulus = np.where(u > 40, u, np.log(np.abs(1 + w)))
        logs = power * modulus - frequency * np.angle(1 + w) - x * x / 2
        return logsumexp(logs + math.log(step / math.sqrt(2 * math.pi)))

    last, first, step = mu * max(power, 0.0) + past, -abs(past), 0.02
    for bound, x in (
        (line.above(last, region), last + step * np.arange(1, 1500)),
        (line.below(first, step, region), first - step * np.arange(1500)),
    ):
        assert nodes(x, step) <= math.log(bound) + 1e-9


@pytest.mark.parametrize("points", [4, 5, 8, 13, 21, 34, 50, 64])
def test_gauss_rule_is_as_accurate_as_assumed(points):
    nodes, weights = gauss(points)
    with mpmath.workdps(40):
        for node, weight in zip(nodes, weights, strict=True):
            exact = mpmath.findroot(lambda x: mpmath.legendre(points, x), mpmath.mpf(float(node)))
            slope = points * (exact * mpmath.legendre(points, exact) - mpmath.legendre(points - 1, exact))
            slope /= exact * exact - 1
            assert abs(exact - float(node)) <= 4 * 2.0**-53
            assert abs(float(weight) * (1 - exact**2) * slope**2 / 2 - 1) <= 65_536 * 2.0**-53


@pytest.mark.slow_beyond(2)
@pytest.mark.every(5)
@pytest.mark.parametrize("asked", ASKED)
def test_one_round_is_its_closed_form(asked):
    mu, share, at, direction = asked
    found = path(pairs([(mu, share)], direction), at).delta(at)
    exact = one_round(mu, share, at, direction)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-4 * found.upper


@pytest.mark.extended
def test_one_round_of_anything_holds_its_closed_form_or_is_left_to_others():
    rng, reached = random.Random(7), 0  # noqa: S311
    for _ in range(40):
        mu, share = math.exp(rng.uniform(-3, 1.6)), math.exp(rng.uniform(-14, -0.1))
        direction = rng.choice([AdjacencyType.REMOVE, AdjacencyType.REMOVE, AdjacencyType.ADD])
        least = -math.log1p(-share)
        at = math.exp(rng.uniform(-4, 2)) if direction is AdjacencyType.REMOVE else least * rng.uniform(0.02, 0.9)
        try:
            found = path(pairs([(mu, share)], direction), at)
        except InversionInfeasibleError:
            continue
        reached += 1
        for where in (at, 0.7 * at, 1.05 * at):  # one path serves any epsilon
            bounds = found.delta(where)
            exact = one_round(mu, share, where, direction)
            assert bounds.lower - 1e-300 <= exact <= bounds.upper
    assert reached >= 15


@pytest.mark.slow
def test_what_is_left_out_is_needed():
    """Controls: an interval without one of its errors misses the closed form, where that error is large."""
    missed = {"end": 0, "pieces": 0}
    for mu, share, at, direction in ASKED[:3]:
        exact = one_round(mu, share, at, direction)
        found = path(pairs([(mu, share)], direction), at)
        whole = found._pieces

        def holds(found=found, at=at, exact=exact):
            return found.delta(at).lower <= exact <= found.delta(at).upper

        found._pieces = [piece._replace(points=2) for piece in whole]
        found._evaluate()
        found._pieces = [piece._replace(log_scale=-1e6) for piece in whole]
        missed["pieces"] += not holds()
        found._pieces = whole[: len(whole) // 2]
        found._end = found._pieces[-1].end  # straight up from here
        found._evaluate()
        power = found._start + found._end.real
        found._end_size = found._size(found._profiles, power, found._end.imag, TURNS)[0]
        assert holds()
        found._end_size = -1e6
        missed["end"] += not holds()
    assert min(missed.values()) > 0


def test_a_rule_too_coarse_for_the_strip_says_so():
    """A control: with a strip's error left out, a coarse rule would be wrong and not say so."""
    laws = Profiles(np.array([1.0]), np.array([0.1]), np.array([1.0]), 6.0)
    point = np.array([4.0 + 1.0j])
    rough = laws.values(point, 1 + np.abs(point), 2.0)
    off = abs(mpmath.exp(mpmath.mpc(complex(rough.log[0]))) / transform(1.0, 0.1, complex(point[0])) - 1)
    assert 1e-9 < off <= rough.error[0]


@pytest.mark.slow
@pytest.mark.slow_beyond(1)
@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("release", "at"),
    [
        (sgd(1.0, 0.01, 5), 1e-9),
        (sgd(0.5, 0.01, 3), 1e-6),
        (sgd(2.0, 0.5, 3), 1e-5),
        (sgd(10.0, 0.1, 5), 1e-7),
        (Composed([PoissonSampled(Gaussian(1 + i / 7), 0.01 * (1 + i)) for i in range(6)]), 1e-6),
    ],
)
def test_few_rounds_agree_with_the_lattice_and_are_closer(release, at):
    orderings = Composition.of(release, ADD).orderings()
    found = bound_by_inversion(orderings, EpsilonAt(at), 1e-9)
    with pytest.raises(InversionInfeasibleError):
        bound_by_inversion(orderings, EpsilonAt(at), 0.002)  # a lattice is sooner there
    on_lattice = bound_on_lattice(orderings, EpsilonAt(at), relative_width=0.01)
    assert on_lattice.lower <= found.upper
    assert found.lower <= on_lattice.upper
    assert found.upper - found.lower <= 1e-7 * found.upper


@pytest.mark.slow
def test_plain_gaussians_beside_are_part_of_the_integral():
    release = Composed([sgd(1.0, 0.05, 2), Gaussian(8.0)])
    parts = Composition.of(release, ADD).orderings()[0].upper
    assert bendable(parts)
    found = path(parts, 1.0).delta(1.0)
    on_lattice = bound_on_lattice(Composition.of(release, ADD).orderings(), DeltaAt(1.0), relative_width=0.01)
    assert on_lattice.lower <= found.upper
    assert found.lower <= on_lattice.upper
    assert found.upper - found.lower <= 1e-5 * found.upper


@pytest.mark.slow
def test_what_the_path_was_not_made_for_is_left_to_others():
    laplace = Composition.of(Repeated(PoissonSampled(Laplace(1.0), 0.1), 3), ADD).orderings()[0].upper
    assert not bendable(laplace)
    assert not bendable(pairs([(1.0, 0.1)]) + pairs([(1.0, 0.1)], AdjacencyType.ADD))
    assert not bendable(pairs([(0.5 + i / 100, 0.1) for i in range(bent._MAX_PROFILES + 1)]))
    with pytest.raises(InversionInfeasibleError):
        path(pairs([(0.08, 1e-6)]), 0.02)
    parts = pairs([(1.0, 0.01)], count=1000)
    for theta, deviation in ((1.0, 0.0), (1.0, math.nan), (0.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(InversionInfeasibleError, match="no useful tilt"):
            Bent(parts, parts, theta, deviation, 1.0)

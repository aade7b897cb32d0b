"""Claims in balls against the accountant's intervals, an integrator that knows none of our theorems, and the edges."""

import itertools
import math

import mpmath
import numpy as np
import pytest

pytest.importorskip("flint")

from flint import acb, arb, ctx

import epsilog as ep
from epsilog.accounting.rigorous import proof as machinery
from epsilog.accounting.rigorous import prove_guarantee
from epsilog.accounting.rigorous.balls import is_at_most, make_ball, upper_double
from epsilog.accounting.rigorous.orders import list_profiles
from epsilog.accounting.rigorous.profiles import GaussianProfile, PoissonRemoveProfile, PoissonReplaceProfile
from epsilog.accounting.rigorous.transforms import SampledLine, build_moment_line
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError

ADD, REPLACE, ZERO = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.ZERO_OUT,
)


def sgd(noise, share, rounds):
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


def drawn(rng, kind):  # noqa: PLR0912 - one line for each kind
    """A release of one kind, with a relation that has a profile for it."""
    noise, share = float(rng.uniform(0.7, 5)), float(10 ** rng.uniform(-3, -0.5))
    few, some = int(rng.integers(2, 12)), int(rng.integers(20, 400))
    match kind:
        case "gaussians":
            return Composed([Repeated(Gaussian(noise), few), Repeated(GaussianDP(0.1), some)]), ZERO
        case "laplace":
            return Repeated(Laplace(noise * math.sqrt(some)), some), ADD
        case "discrete laplace":
            return Repeated(DiscreteLaplace(noise * math.sqrt(some), int(rng.integers(1, 4))), some), REPLACE
        case "answers":
            flip = float(rng.uniform(0.3, 0.99))
            return Repeated(RandomizedResponse(flip, int(rng.integers(2, 9))), some), REPLACE
        case "statements":
            return Repeated(ApproximateDP(float(rng.uniform(0.01, 0.2)), 1e-12), some), ADD
        case "sampled statements":
            return Repeated(PoissonSampled(PureDP(float(rng.uniform(0.1, 1))), share), some), ADD
        case "one sampled":
            return PoissonSampled(Gaussian(noise), share), ADD
        case "few sampled":
            return sgd(noise, share, few), ADD
        case "sampled laplace":
            return Repeated(PoissonSampled(Laplace(noise), share), few), ADD
        case "replaced":
            return sgd(noise, share, few), REPLACE
        case "fixed size":
            return Repeated(FixedSizeSampled(Gaussian(noise), int(1000 * share) + 1, 1000), few), REPLACE
        case "mixed":
            return Composed([Repeated(Gaussian(8.0), few), Laplace(10 * noise), ApproximateDP(0.1, 1e-9)]), ADD
        case _:
            return sgd(max(noise, 1.0), share, int(10 ** rng.uniform(2.8, 4))), ADD


KINDS = {  # how many of each, and whether the accountant's number is proven as it stands
    "gaussians": (10, True),
    "laplace": (5, True),
    "discrete laplace": (12, True),
    "answers": (14, True),
    "statements": (10, True),
    "sampled statements": (11, True),
    "one sampled": (8, True),
    "few sampled": (4, True),
    "sampled laplace": (4, True),
    "replaced": (3, True),
    "fixed size": (4, True),
    "mixed": (10, False),
    "sampled": (5, True),
}
CASES = [(kind, number) for kind, (count, _) in KINDS.items() for number in range(count)]
FAST = {("gaussians", 0), ("answers", 0), ("statements", 0), ("one sampled", 0)}


def test_a_hundred_are_compared():
    assert len(CASES) == 100


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("kind", "number"),
    [pytest.param(*case, marks=[] if case in FAST else [pytest.mark.slow]) for case in CASES],
)
def test_both_accountants_agree(kind, number):
    rng = np.random.default_rng([ord(letter) for letter in kind] + [number])
    release, relation = drawn(rng, kind)
    delta = float(10 ** rng.uniform(-9, -4))
    known = ep.epsilon(release, delta=delta, relation=relation)
    found = prove_guarantee(release, epsilon=known.upper, delta=delta, relation=relation, cells=1 << 14)
    assert found.epsilon_upper >= known.lower
    assert found.epsilon_upper <= known.upper * (1 + 1e-4)
    if KINDS[kind][1]:
        assert found.holds
        assert found.epsilon_upper <= known.upper


@pytest.mark.parametrize(
    ("release", "relation"),
    [
        (Gaussian(2.0), ADD),
        (Repeated(RandomizedResponse(0.5, 3), 40), REPLACE),
        (PoissonSampled(Laplace(1.0), 0.1), ADD),
        (Repeated(PureDP(0.1), 30), ADD),
    ],
)
def test_a_claim_below_the_least_loss_is_not_proven(release, relation):
    known = ep.epsilon(release, delta=1e-6, relation=relation)
    found = prove_guarantee(release, epsilon=known.lower * (1 - 1e-6), delta=1e-6, relation=relation)
    assert not found.holds
    assert found.delta_upper > 1e-6
    assert known.lower <= found.epsilon_upper <= known.upper * (1 + 1e-12)
    assert "is not proven" in str(found)


@pytest.mark.slow
def test_a_lowered_claim_about_many_rounds_is_not_proven():
    known = ep.epsilon(sgd(1.0, 0.01, 3000), delta=1e-5)
    assert not prove_guarantee(sgd(1.0, 0.01, 3000), epsilon=known.lower * (1 - 1e-8), delta=1e-5, cells=2048).holds


@pytest.mark.slow
def test_the_gap_closes_with_the_square_of_the_cells():
    release = sgd(1.0, 0.05, 4)
    known = ep.epsilon(release, delta=1e-6, relative_width=1e-6)
    least = [
        prove_guarantee(release, epsilon=known.lower * 0.99, delta=1e-6, cells=1 << bits).epsilon_upper
        for bits in (11, 14)
    ]
    assert known.lower <= least[1] < least[0]
    assert least[1] - known.lower <= (least[0] - known.lower) / 8


@pytest.mark.parametrize("bits", [10, 20, 30, 53])
def test_too_few_bits_prove_less_and_never_more(monkeypatch, bits):
    monkeypatch.setattr(machinery, "_BITS", (bits, bits))
    for release, relation in [
        (Repeated(Gaussian(20.0), 300), ADD),
        (Repeated(RandomizedResponse(0.5, 3), 40), REPLACE),
        (PoissonSampled(Gaussian(1.0), 1e-6), ADD),
        (Repeated(PureDP(0.3), 7), ADD),
    ]:
        known = ep.epsilon(release, delta=1e-8, relation=relation)
        found = prove_guarantee(release, epsilon=known.upper, delta=1e-8, relation=relation, cells=2048)
        assert found.epsilon_upper >= known.lower
        assert not prove_guarantee(
            release, epsilon=known.lower * 0.999, delta=1e-8, relation=relation, cells=2048
        ).holds


def test_a_ball_of_anything_proves_nothing():
    for lost in (arb.nan(), arb.pos_inf(), arb(0, arb.pos_inf()), arb(1) / arb(0, 1)):
        assert upper_double(lost) == math.inf
        assert not is_at_most(lost, 1.0)
    assert not is_at_most(arb(1, 1e-12), 1.0)
    assert is_at_most(make_ball(1.0), 1.0)
    assert upper_double(arb(1) / 3) > 1 / 3 - 1e-18
    assert (upper_double(arb("1e-400")), upper_double(arb(-1)), upper_double(arb("1e400"))) == (1e-300, 0.0, math.inf)


def test_what_has_no_profile_is_refused_by_name():
    for release, relation, named in [
        (ZeroConcentratedDP(0.1), ADD, "ZeroConcentratedDP"),
        (DiscreteGaussian(3.0), ADD, "DiscreteGaussian"),
        (BallsInBins(Gaussian(1.0), 10, 2), ADD, "BallsInBins"),
        (PoissonSampled(Laplace(1.0), 0.1), REPLACE, "over Gaussian noise only"),
        (FixedSizeSampled(Gaussian(1.0), 1, 10), ADD, "a fixed size means replace-one"),
        (RandomizedResponse(0.5, 2), ADD, "replace one unit"),
        (PoissonSampled(PureDP(1.0), 0.1), ZERO, "under zero-out"),
        (PoissonSampled(PoissonSampled(Gaussian(1.0), 0.1), 0.1), ADD, "PoissonSampled"),
        (DiscreteLaplace(3.0, 1000), ADD, "more outcomes"),
        (ep.mechanisms.Grouped(Gaussian(1.0), 3), ADD, "Grouped"),
    ]:
        with pytest.raises(UnsupportedMechanismError, match=named):
            prove_guarantee(release, epsilon=100.0, delta=1e-5, relation=relation)


def test_edges():
    nothing = Repeated(PoissonSampled(Gaussian(1.0), 0.0), 10)
    assert prove_guarantee(nothing, epsilon=0.0, delta=0.0).holds
    assert prove_guarantee(Gaussian(1e300), epsilon=1e-200, delta=1e-12).holds
    for open_to_all in (Gaussian(0.0), Repeated(Laplace(0.0), 3), Repeated(PoissonSampled(Gaussian(0.0), 1e-3), 9)):
        found = prove_guarantee(open_to_all, epsilon=1e6, delta=1e-5)
        assert (found.holds, found.delta_upper, found.epsilon_upper) == (False, 1.0, math.inf)
    rare = Repeated(PoissonSampled(Gaussian(0.0), 1e-9), 10)  # here and there somebody is seen, and nothing else
    assert prove_guarantee(rare, epsilon=1.0, delta=1e-7).holds
    assert not prove_guarantee(rare, epsilon=1.0, delta=9e-9).holds
    whole = prove_guarantee(sgd(4.0, 1.0, 10**12), epsilon=4e10, delta=1e-5)
    assert whole.holds is (ep.epsilon(Repeated(Gaussian(4.0), 10**12), delta=1e-5).upper <= 4e10)
    assert prove_guarantee(Gaussian(1e-3), epsilon=ep.epsilon(Gaussian(1e-3), delta=1e-5).upper, delta=1e-5).holds
    for bad in ({"epsilon": math.nan}, {"epsilon": -1.0}, {"delta": 1.0}, {"delta": math.nan}, {"cells": 3}):
        with pytest.raises(CheckError):
            prove_guarantee(Gaussian(1.0), **{"epsilon": 1.0, "delta": 1e-5} | bad)


def test_pure_claims_are_sums():
    assert prove_guarantee(Repeated(PureDP(0.25), 8), epsilon=2.0, delta=0.0).holds
    below = prove_guarantee(Repeated(PureDP(0.25), 8), epsilon=math.nextafter(2.0, 0.0), delta=0.0)
    assert (below.holds, below.epsilon_upper) == (False, 2.0)
    assert not prove_guarantee(Gaussian(1.0), epsilon=1e9, delta=0.0).holds
    added = prove_guarantee(PoissonSampled(Gaussian(1.0), 0.5), epsilon=50.0, delta=1e-9)
    assert added.holds
    assert [one.split(":")[0] for one in added.methods] == ["remove", "add"]


@pytest.mark.slow
def test_many_rounds_are_proven():
    for release in (sgd(1.0, 0.01, 10**4), sgd(2.0, 1e-3, 10**6)):
        known = ep.epsilon(release, delta=1e-6)
        found = prove_guarantee(release, epsilon=known.upper, delta=1e-6, cells=2048)
        assert found.holds
        assert found.epsilon_upper >= known.lower


def reference(parts_p, parts_q, epsilon):
    """E_P[(1 - e^epsilon q/p)^+] of two mixtures of unit normals, by numerical integration to many digits."""

    def mixed(parts, x):  # over the density of the unit normal in the middle
        return sum(w * mpmath.exp(m * (x - mpmath.mpf(m) / 2)) if m else w for w, m in parts)

    x = mpmath.exp(epsilon)
    difference = lambda at: mpmath.npdf(at) * (mixed(parts_p, at) - x * mixed(parts_q, at))  # noqa: E731
    grid = [mpmath.mpf(i) for i in range(-14, 17)]
    total = mpmath.mpf(0)
    for a, b in itertools.pairwise(grid):
        if difference(a) * difference(b) < 0:
            root = mpmath.findroot(difference, (a, b), solver="anderson")
            a, b = (root, b) if difference(b) > 0 else (a, root)  # noqa: PLW2901
        elif difference((a + b) / 2) <= 0:
            continue
        total += mpmath.quad(difference, [a, b], method="gauss-legendre")
    return total


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [-0.4, -0.01, 0.3, 2.0])
def test_profiles_are_what_integration_finds(epsilon):
    q, mu = 0.25, 1.5
    away = [(1 - q, 0), (q, mu)]
    parts = list_profiles(PoissonSampled(Gaussian(1 / mu), q), ADD)
    (removed, _), (added, _) = parts["remove"][0], parts["add"][0]
    base = GaussianProfile(((mu, 1, 1),))
    with mpmath.workdps(25), ctx.workprec(200):
        for profile, p, other in [
            (removed, away, [(1, 0)]),
            (added, [(1, 0)], away),
            (base, [(1, mu)], [(1, 0)]),
            (PoissonReplaceProfile(base, removed.share), away, [(1 - q, 0), (q, -mu)]),
        ]:
            expected = reference(p, other, epsilon)
            found = profile.delta(arb(epsilon))
            assert abs(mpmath.mpf(str(found.mid().str(30, radius=False))) - expected) < 1e-13
            assert float(found.rad()) < 1e-40


def integrated(law, z, sign):
    """E e^(z L) of a sampled Gaussian by Arb's own certified integration."""
    s = z + 1 if sign > 0 else -z
    root = (2 * arb.pi()).sqrt()

    def integrand(y, analytic):
        u = (law.mu * (y - law.mu / 2)).exp()
        return (s * (law.rest + law.q * u).log(analytic=analytic) - y * y / 2).exp() / root

    return acb.integral(integrand, -22, 40)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_moments_are_what_certified_integration_finds(sign):
    (parts,) = [list_profiles(PoissonSampled(Gaussian(1.25), 0.125), ADD)["remove" if sign > 0 else "add"]]
    with ctx.workprec(128):
        found = build_moment_line(parts[0][0], 3.5, 60.0)
        assert isinstance(found, SampledLine)
        for k, value in enumerate(found.along(0.75, 20, 60.0)):
            expected = integrated(found, acb(3.5, 0.75 * k), sign)
            assert abs(value - expected).overlaps(arb(0))
            assert float(value.real.rad()) < 1e-20
        # and the moduli are never larger than is said of them
        whole = found.at_zero()
        for frequency in (2.0, 6.0, 15.0, 40.0):
            value = integrated(found, acb(3.5, frequency), sign)
            for center, around in ((frequency, 0.01), (frequency * 0.97, 0.03 * frequency)):
                said = found.falls(center, around * 1.001)
                assert bool(-(abs(value) / whole).log() >= said.lower())
            assert bool(-(abs(value) / whole).log() >= found.falls_beyond(frequency).lower())
        assert bool(found.falls(6.0, 0.01) > 0.05)
        assert bool(found.falls_beyond(200.0) > 0.05)


def test_a_proof_tells_all():
    found = prove_guarantee(Repeated(PureDP(0.1), 10), epsilon=1.0, delta=1e-6)
    document = found.to_json()
    assert document["holds"] is True
    assert document["relation"] == "add-or-remove-one"
    assert any("Arb" in one for one in document["assumptions"])
    assert any("stated guarantee of a part is correct" in one for one in document["assumptions"])
    assert "is proven" in str(found)
    assert prove_guarantee(Gaussian(0.0), epsilon=1.0, delta=1e-6).to_json()["epsilon_upper"] == "inf"
    assert isinstance(list_profiles(PoissonSampled(Gaussian(1.0), 0.5), ADD)["remove"][0][0], PoissonRemoveProfile)
    assert ExponentialMechanism(0.5) is not None

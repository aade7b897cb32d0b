"""The checkers' functions hold Arb's values, bounds hold exact sums under any hints, and other texts are refused."""

import itertools
import json
import math
import random
import re
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import flint
import pytest
from hypothesis import given, settings, strategies as st
from tests.extent import amount

from epsilog.accounting import delta
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "checker/dp_certificate.py"
sys.path.insert(0, str(CHECKER.parent))
import dp_certificate as dp  # noqa: E402  (a file that others copy: no package)

del sys.path[0]

SGD = (  # q .01, z 1, T 1000; epsilon(1e-5) is 1.82823667
    '{"format":"dp-certificate/1","claim":{"epsilon":"1.83189314","delta":"1e-5","relation":"add-or-remove-one","group":1,'
    '"releases":[{"mechanisms":[{"type":"gaussian","noise_multiplier":"1"}],"poisson":"0.01","count":1000}]},"proof":'
    '{"bits":152,"lines":[[[[10,-8425,512,13,320,2,256,1,224,1,192,1,160,1,128,2,112,2,96,2,80,5,64,10,56,39,64,19,80,38,'
    "96,7,112,4,128,3,160,1]],5994233874,2137372445,12927328,89],[[[10,-7401,128,14,160,5,192,2,224,1,256,2,320,1,384,1,"
    "256,1,224,1,192,1,160,2,128,1,112,2,96,2,80,6,64,16,80,7,96,3,112,2,128,3,160,1,192,1,224,1,256,1,320,1,512,15]],"
    "17782182363,12052982608,32594027,4]]}}"
)
GAUSSIAN, LAPLACE = ({"type": kind, "noise_multiplier": "1"} for kind in ("gaussian", "laplace"))
BITS = st.sampled_from([64, 96, 152, 333, 1024])


def set_bits(bits):
    dp.B, dp.ONE, dp.work = bits, 1 << bits, 0


def arb(x, bits):
    """x / 2^bits, with more digits than the checker has."""
    flint.ctx.prec = 2 * bits + 1500
    return flint.arb(flint.fmpq(x, 1 << bits))


def holds(interval, value, bits, width):
    """The interval encloses the value, and is hardly wider than its last place."""
    low, high = (arb(end, bits) for end in interval)
    return bool(low <= value) and bool(value <= high) and interval[1] - interval[0] <= width


@cache
def judge(text):
    """What this checker says of a text, which several tests may ask."""
    return dp.judge(text.encode("utf-8", "surrogatepass"))[1]


def cut_reasons(said):
    """Verdicts and bounds: the languages may refuse one text for two reasons."""
    return [one if "millionths" in one else one.split(":")[0] for one in said]


def run(text):
    found = subprocess.run(
        [sys.executable, CHECKER, "/dev/stdin"], input=text.encode(), capture_output=True, check=False
    )
    assert not found.stderr
    return found.returncode, found.stdout.decode()


# ---- functions -------------------------------------------------------------------------------------------------------


@given(BITS, st.floats(-30, 30), st.integers(0, 2**64))
def test_exp_log_and_phi_hold_arbs_values(bits, x, noise):
    set_bits(bits)
    x = int(Fraction(x) * dp.ONE) ^ noise >> max(0, 64 - bits // 2)
    truth = arb(x, bits).exp()
    assert holds(dp.exp(x), truth, bits, 4 + (dp.exp(max(x, 0))[0] >> bits - 6))
    density = arb(dp.DENSITY, 1024)
    assert bool(density <= 1 / (2 * flint.arb.pi()).sqrt())
    assert bool(1 / (2 * flint.arb.pi()).sqrt() <= arb(dp.DENSITY + 1, 1024))
    normal = (1 + (arb(x, bits) / flint.arb(2).sqrt()).erf()) / 2
    assert holds(dp.phi(x), normal, bits, 64 + bits)
    if x > 0:
        above = arb(dp.log(x), bits) - arb(x, bits).log()
        assert bool(above >= -(flint.arb(2) ** (-2 * bits)))
        assert bool(above <= flint.arb(2) ** (12 - bits) * (1 + 1 / arb(x, bits)))


@given(BITS, st.integers(-(2**80), 2**80), st.integers(0, 40), st.integers(1, 10**9))
def test_turns_and_powers_are_within_their_errors(bits, angle, more, count):
    set_bits(bits)
    flint.ctx.prec = 2 * bits + 400
    found = dp.turn(angle, bits + more) if abs(angle) < 1 << bits + more + 30 else (dp.ONE, 0)
    truth = flint.acb(0, arb(angle, bits + more)).exp() if found != (dp.ONE, 0) else flint.acb(1)
    assert all(
        bool(abs(arb(one, bits) - part) * dp.ONE <= 2)
        for one, part in zip(found, (truth.real, truth.imag), strict=True)
    )
    off = 1 << bits // 4
    power = dp.power((*found, off), count)
    error = max(
        abs(arb(one, bits) - part)
        for one, part in zip(power[:2], ((truth**count).real, (truth**count).imag), strict=True)
    )
    assert bool(error * dp.ONE <= power[2])


# ---- bounds ----------------------------------------------------------------------------------------------------------


def exact_delta(pairs, count, at):
    """The hockey-stick divergence of a composition of discrete pairs, by listing its outcomes; e^epsilon from below."""
    outcomes = {(Fraction(1), Fraction(1)): 1}
    for _ in range(count):
        found = {}
        for (p, q), times in outcomes.items():
            for a, b in pairs:
                found[p * a, q * b] = found.get((p * a, q * b), 0) + times
        outcomes = found
    flint.ctx.prec = 300
    mid = (flint.arb(flint.fmpq(at.numerator, at.denominator))).exp().mid()
    man, exponent = mid.man_exp()
    factor = Fraction(int(man)) * Fraction(2) ** int(exponent) * (1 + Fraction(1, 2**280))
    return sum(times * max(0, p - factor * q) for (p, q), times in outcomes.items())


def claim(
    mechanisms, *, epsilon, delta="1e-3", relation="add-or-remove-one", group=1, poisson="1", count=1, lines, bits=128
):
    release = {"mechanisms": mechanisms, "poisson": poisson, "count": count}
    stated = {"epsilon": epsilon, "delta": delta, "relation": relation, "group": group, "releases": [release]}
    return {"format": "dp-certificate/1", "claim": stated, "proof": {"bits": bits, "lines": lines}}


HINTS = st.tuples(st.integers(1, 2**36), st.integers(2**20, 2**36), st.integers(1, 2**30), st.integers(1, 60))


@pytest.mark.slow
@given(HINTS, st.integers(1, 6), st.fractions(0, 4, max_denominator=100), st.sampled_from(["1", "0.25"]))
def test_no_hint_makes_a_bound_fall_below_an_exact_sum(hints, count, at, poisson):
    text = f"{float(at):.2f}"
    if poisson == "1":
        mechanism, relation = {"type": "randomized-response", "flip_probability": "0.5", "categories": 3}, "replace-one"
        pairs, grid = [(Fraction(2, 3), Fraction(1, 6)), (Fraction(1, 6), Fraction(2, 3)), (Fraction(1, 6),) * 2], []
        ways = [pairs]
    else:
        mechanism, relation, grid = {"type": "approximate", "epsilon": "0", "delta": "0.25"}, "add-or-remove-one", []
        whole = [(Fraction(3, 4), Fraction(3, 4)), (Fraction(1, 4), Fraction(0)), (Fraction(0), Fraction(1, 4))]
        mixed = [(Fraction(3, 4) * q + p / 4, q) for p, q in whole]
        ways = [mixed, [(q, p) for p, q in mixed]]
    made = claim(
        [mechanism], epsilon=text, relation=relation, poisson=poisson, count=count, lines=[[[grid], *hints]] * len(ways)
    )
    try:
        bound = Fraction(dp.check(made), dp.ONE) * Fraction("1e-3")
    except dp.Refused:
        return
    assert bound >= max(exact_delta(pairs, count, Fraction(text)) for pairs in ways)
    if count == 1:
        assert bound <= max(exact_delta(pairs, 1, Fraction(text)) for pairs in ways) + Fraction(1, 10**30)


MASSES = st.lists(st.integers(0, 20), min_size=2, max_size=5).filter(any)


@pytest.mark.slow
@given(MASSES, MASSES, st.lists(st.fractions(Fraction(1, 50), 30, max_denominator=50), min_size=1, max_size=8))
def test_rays_dominate_the_pair_whose_points_they_join(p, q, at):
    """In both orders, at the points and between them, also after a product with itself."""
    set_bits(96)
    pairs = [(Fraction(a, sum(p)), Fraction(b, sum(q))) for a, b in itertools.zip_longest(p, q, fillvalue=0)]
    points = [(dp.interval(x)[1], dp.interval(find_profile(pairs, x))[1]) for x in at]
    both = [(a * c, b * d) for a, b in pairs for c, d in pairs]
    reverse = [(b, a) for a, b in pairs]
    found = [(pairs, points), (reverse, dp.mirror(points)), (both, list(dp.together(points, points)))]
    for truth, made in found:
        rays, lost = dp.rays_of(made)
        assert all(mass >= 0 for mass, _ in rays)
        for x in [*at, *(1 / x for x in at), *((x + y) / 2 for x, y in itertools.pairwise(at))]:
            above = Fraction(lost) + sum(mass * max(0, Fraction(ratio, dp.ONE) - x) for mass, ratio in rays)
            assert above / dp.ONE >= find_profile(truth, x)
    rays, lost = dp.rays_of(points)
    for x in at:  # and no more than that, but for roundings
        above = Fraction(lost) + sum(mass * max(0, Fraction(ratio, dp.ONE) - x) for mass, ratio in rays)
        assert above / dp.ONE <= find_profile(pairs, x) + Fraction(1, 1 << 60)


def find_profile(pairs, x):
    return sum(max(0, a - x * b) for a, b in pairs)


@pytest.mark.slow
@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from(["0.3", "0.5", "1"]), st.integers(0, 150))
def test_a_sample_of_a_fixed_size_is_enumerated(drawn, count, flip, hundredths):
    """Does any of the drawn units have a 1? The answer is randomized; all neighbors of 4 units, both orders mixed."""
    chance = {}
    for data in itertools.product((0, 1), repeat=4):
        hits = [any(sample) for sample in itertools.combinations(data, drawn)]
        chance[data] = Fraction(flip) / 2 + (1 - Fraction(flip)) * Fraction(sum(hits), len(hits))
    mechanism = {"type": "randomized-response", "flip_probability": flip, "categories": 2}
    made = claim(
        [mechanism],
        epsilon=f"{hundredths / 100}",
        relation="replace-one",
        poisson=f"{drawn} of 4",
        count=count,
        lines=[[[[]], 2 << 30, 1 << 28, 1 << 18, 60]],
    )
    bound = Fraction(dp.check(made), dp.ONE) * Fraction("1e-3")
    for one, other in itertools.product(chance, repeat=2):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            pairs = [(chance[one], chance[other]), (1 - chance[one], 1 - chance[other])]
            assert bound >= exact_delta(pairs, count, Fraction(hundredths, 100))


def exact_tail(q, most, size):
    """The chance that more than ``most`` of ``size`` units are in a Poisson sample."""
    return sum(math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(most + 1, size + 1))


@pytest.mark.slow
@given(st.integers(2, 300), st.fractions(Fraction(1, 500), Fraction(499, 500), max_denominator=500), st.data())
def test_the_chance_of_a_cut_is_above_the_exact_tail_and_near_it(size, q, data):
    """Each limit that is not refused; half a standard deviation above the mean it is at most 3 times the tail."""
    set_bits(128)
    most = data.draw(st.integers(0, size))
    try:
        found = Fraction(dp.cut_chance(q, most, size), dp.ONE)
    except dp.Refused:
        assert most >= size - 1 or most + 2 <= (size + 1) * q
        return
    truth = exact_tail(q, most, size)
    assert found >= truth
    if most + 1 >= size * q + math.sqrt(size * q * (1 - q)) / 2:
        assert found <= 3 * truth + Fraction(1, 1 << 120)


def draw_cut_samples(units, q, most):
    """The distribution of a sample of which the first ``most`` units are kept."""
    chances = {}
    for coins in itertools.product((0, 1), repeat=len(units)):
        drawn = tuple(unit for unit, coin in zip(units, coins, strict=True) if coin)[:most]
        chances[drawn] = chances.get(drawn, 0) + q ** sum(coins) * (1 - q) ** (len(units) - sum(coins))
    return chances


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-or-remove-one", "zero-out", "replace-one"])
@settings(max_examples=amount(15, 100))
@given(
    st.tuples(st.integers(2, 6), st.integers(0, 5)),
    st.sampled_from(["0.1", "0.25", "0.5"]),
    st.integers(0, 100),
    st.integers(1, 2),
)
def test_a_cut_sample_is_enumerated(relation, sizes, chance, hundredths, count):
    """The cut sample is shown with chance 1/4: all subsets; of other mechanisms the exact tail is added."""
    q, (size, most) = Fraction(chance), sizes
    mechanism = {"type": "approximate", "epsilon": "0", "delta": "0.25"}
    if relation != "add-or-remove-one":
        mechanism = {"type": "gaussian", "noise_multiplier": "0.5"}
    grid = [] if relation == "add-or-remove-one" else [6, -600, 60, 20, 40, 30]
    sample = f"{chance}, at most {most} of {size}"
    made = claim(
        [mechanism],
        epsilon=f"{hundredths / 100}",
        relation=relation,
        poisson=sample,
        count=count,
        lines=[[[grid], 2 << 30, 1 << 28, 1 << 18, 60]] * (1 if relation == "replace-one" else 2),
    )
    try:
        bound = Fraction(dp.check(made), dp.ONE) * Fraction("1e-3")
    except dp.Refused:
        return
    plain = claim([mechanism], **{**describe(made), "poisson": chance})
    cut = Fraction(dp.check(plain), dp.ONE) * Fraction("1e-3")
    assert bound >= cut + count * exact_tail(q, most, size)
    if relation == "add-or-remove-one":
        whole = draw_cut_samples(range(size), q, most)
        for gone in range(size):
            less = draw_cut_samples([unit for unit in range(size) if unit != gone], q, most)
            pairs = [(whole.get(one, 0) / 4, less.get(one, 0) / 4) for one in {*whole, *less}]
            pairs.append((Fraction(3, 4), Fraction(3, 4)))
            for ordered in (pairs, [(b, a) for a, b in pairs]):
                assert bound >= exact_delta(ordered, count, Fraction(hundredths, 100))


def describe(made):
    """What ``claim`` made a certificate of, except its mechanism."""
    stated, (release,) = made["claim"], made["claim"]["releases"]
    return {
        **{name: stated[name] for name in ("epsilon", "delta", "relation", "group")},
        **{name: release[name] for name in ("poisson", "count")},
        **made["proof"],
    }


def test_delta_is_0_only_where_no_loss_exceeds_epsilon():
    """Above the largest loss; not at it, nor with a smaller epsilon, a lost tail or losses without a bound."""
    for mechanism, grid in (
        ({"type": "approximate", "epsilon": "1", "delta": "0"}, []),
        ({"type": "laplace", "noise_multiplier": "1"}, [3]),
        ({"type": "bounded-range", "range": "1"}, [3]),
    ):
        for count in (1, 3):
            found = claim([mechanism], epsilon=f"{count}.00000001", delta="0", count=count, lines=[[[grid]]])
            assert dp.check(found) == 0
            for below in (f"{count}", f"{count - 1}.9999"):
                found["claim"]["epsilon"] = below
                with pytest.raises(dp.Refused, match="a loss exceeds epsilon"):
                    dp.check(found)
    for mechanism, grid in (
        ({"type": "approximate", "epsilon": "1", "delta": "1e-99"}, []),
        ({"type": "discrete-laplace", "noise_scale": "1", "sensitivity": 1}, [40]),
        ({"type": "gaussian", "noise_multiplier": "1"}, [6, -600, 60, 20, 40, 30]),
        ({"type": "zcdp", "rho": "0.1"}, [6, 1, 25, 40]),
    ):
        with pytest.raises(dp.Refused, match="a loss exceeds epsilon"):
            dp.check(claim([mechanism], epsilon="9", delta="0", lines=[[[grid], 1 << 30, 1 << 30, 1 << 20, 20]]))


@pytest.mark.slow
def test_dp_sgd_is_proven_and_a_smaller_claim_never():
    status, said = run(SGD)
    assert (status, said.split(":")[0]) == (0, "PROVEN")
    numbers = random.Random(7)  # noqa: S311
    below = json.loads(SGD)
    below["claim"]["epsilon"] = "1.809954"  # 1% below the certified lower bound
    assert run(json.dumps(below, separators=(",", ":")))[1].startswith("REFUSED: at epsilon")
    for _ in range(amount(8, 40)):
        lines = json.loads(SGD)["proof"]["lines"]
        for line in lines:
            for place in range(1, 5):
                line[place] = max(
                    1, min(20000 if place == 4 else 2**52, int(line[place] * numbers.choice([0.5, 0.9, 1, 1.1, 2])))
                )
        below["proof"]["lines"] = lines
        try:
            assert dp.check(below) > dp.ONE
        except dp.Refused:
            continue


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "grid", "mu", "relation", "group"),
    [
        ({"type": "gaussian", "noise_multiplier": "2"}, [20, -(12 << 20), 1 << 15, 850], 0.5, "add-or-remove-one", 1),
        ({"type": "gaussian", "noise_multiplier": "2"}, [20, -(12 << 20), 1 << 15, 850], 1.0, "replace-one", 1),
        ({"type": "gaussian", "noise_multiplier": "6"}, [20, -(12 << 20), 1 << 15, 850], 0.5, "zero-out", 3),
        ({"type": "gdp", "mu": "0.5"}, [20, -(12 << 20), 1 << 15, 850], 0.5, "replace-one", 1),
    ],
)
def test_a_gaussian_is_its_closed_form(mechanism, grid, mu, relation, group):
    """Balle & Wang 2018: delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    made = claim([mechanism], epsilon="1", relation=relation, group=group, lines=[[[grid]]])
    bound = Fraction(dp.check(made), dp.ONE) * Fraction("1e-3")
    truth = math.erfc(-(mu / 2 - 1 / mu) / math.sqrt(2)) / 2 - math.e * math.erfc((mu / 2 + 1 / mu) / math.sqrt(2)) / 2
    assert truth * (1 - 1e-9) <= float(bound) <= truth * 1.001


# ---- what is refused -------------------------------------------------------------------------------------------------

ALTERED = [
    ('"group":1', '"group":1,"sensitivity":"9"'), ('"count":1000', '"count":1000,"count":10'), ('"group":1,', ""),
    ('"format"', ' "format"'), ('"1e-5"', '"1e-\u09ea"'), ('"1e-5"', '"\\u0031e-5"'), ('"1e-5"', "1e-5"),
    ('"1e-5"', '"1/0"'), ('"1e-5"', '"0"'), ('"1e-5"', '"-1"'), ('"1e-5"', '"1"'), ('"1e-5"', '"NaN"'),
    ('"1e-5"', '"1e9999"'), ('"1e-5"', '""'), ("1000", "1e3"), ("1000", "1000.0"), ("1000", "true"), ("1000", "null"),
    ("1000", "-1000"), ("1000", "1000000001"), ("1000", "1000.00000000000000000000001"), ('"group":1', '"group":0'),
    ('"group":1', '"group":10000'), ('"0.01"', '"1.01"'), ('"0.01"', '"0"'), ('"0.01"', "null"),
    ("gaussian", "gauss"), ('"gaussian"', '["gaussian"]'), ("/1", "/2"), ("add-or", "replace-or"), ("152", "63"),
    ("152", "1025"), ("[10,", "[41,"), ("-8425,512,13", "-8425,512"), ("512,13", "0,13"), ("512,13", "512,0"),
    ("512,13", "-512,13"), ("512,13", "512,20000"), ("512,13", "512.5,13"), (",5994233874", ""), ("5994233874", "0"),
    ("5994233874", "9007199254740993"), (",89]", ",20001]"), (",89]", ",0]"), (",4]]", ",4],[]]"), ("}}", "}}}"),
    ("}}", "}"), ('{"format"', '[{"format"'), ('{"format"', '\ufeff{"format"'), ("[[[[10", "[" * 5000 + "[[[[10"),
]  # fmt: skip
NO_CERTIFICATES = ["", "[]", "null", "{}", "1", '"x"', " " * 70000, '{"format":"dp-certificate/1"}', "\x00", "NaN"]
HEAVY = [  # would take long, and are refused before they do
    claim([GAUSSIAN], poisson="0." + "1234567891" * 6, group=1000, epsilon="1", lines=[[[[10, -8425, 512, 3]]]] * 2),
    claim([LAPLACE | {"noise_multiplier": "0.2"}], epsilon="40", count=10, bits=64,
          lines=[[[[500]], 1600 << 30, 1 << 20, 1, 900]]),
    *(claim([GAUSSIAN | {"noise_multiplier": noise}], epsilon="1", lines=[[[[10, -8425, 512, 40]]]])
      for noise in ("1e-300", "0.001")),
    claim([LAPLACE | {"noise_multiplier": "1e-8"}], epsilon="1", lines=[[[[20000]]]]),
    claim([LAPLACE], epsilon="1", count=10**9, bits=1024, lines=[[[[20000]], 1 << 30, 1 << 30, 1, 20000]]),
    claim([GAUSSIAN], poisson="0.5", epsilon="1", bits=1024, count=10**9,
          lines=[[[[40, 0, 1, 19999]], 1 << 52, 1 << 52, 1 << 52, 20000]] * 2),
    claim([{"type": "discrete-gaussian", "noise_scale": "100000", "sensitivity": 1}], epsilon="1", bits=1024,
          lines=[[[[20000]]]]),
    claim([{"type": "discrete-laplace", "noise_scale": "1e-300", "sensitivity": 19999}], epsilon="1",
          lines=[[[[20000]]]]),
    claim([LAPLACE] * 16, poisson="0.5", epsilon="1", lines=[[[[1000]] * 16]] * 2),
    claim([GAUSSIAN], poisson="0.5", group=1000, epsilon="1", lines=[[[[10, 0, 1, 15000]]]] * 2),
]  # fmt: skip


# ---- other languages -------------------------------------------------------------------------------------------------


def draw_certificate(numbers):
    """A random certificate of any mechanism, with wild hints: most of them prove nothing."""
    releases = []
    for _ in range(numbers.choice([1, 1, 2])):
        mechanisms = []
        for _ in range(numbers.choice([1, 1, 1, 2, 3])):
            kind = numbers.choice(["gaussian", "gaussian", *dp.MECHANISMS])
            values = {
                "noise_multiplier": f"{numbers.uniform(0.4, 4):.2f}",
                "noise_scale": f"{numbers.uniform(0.4, 4):.1f}",
                "flip_probability": f"{numbers.uniform(0.1, 1):.2f}",
                "categories": numbers.randint(2, 5),
                "sensitivity": numbers.randint(1, 3),
                "mu": f"{numbers.uniform(0.2, 2):.3f}",
                "rho": f"{numbers.uniform(0.01, 1):.3f}",
                "range": f"{numbers.uniform(0.1, 2):.2f}",
                "epsilon": f"{numbers.uniform(0, 2):.2f}",
                "delta": numbers.choice(["0", "1e-6", "0.01"]),
            }
            mechanisms.append({"type": kind} | {name: values[name] for name in dp.MECHANISMS[kind]})
        poisson = numbers.choice(
            ["1", "1", "0.5", "0.01", "0.5", "3 of 8", "0.5, at most 60 of 80", "0.01, at most 9 of 50"]
        )
        releases.append({"mechanisms": mechanisms, "poisson": poisson, "count": numbers.choice([1, 1, 2, 30])})
    stated = {
        "epsilon": f"{numbers.uniform(0, 8):.2f}",
        "delta": numbers.choice(["1e-5", "0.3", "1e-9", "0"]),
        "relation": numbers.choice(["add-or-remove-one", "zero-out", "replace-one"]),
        "group": numbers.choice([1, 1, 1, 2, 3]),
        "releases": releases,
    }
    bits = numbers.choice([64, 128, 151])
    hints = [
        numbers.randint(1, 2**34),
        numbers.randint(2**27, 2**34),
        numbers.randint(1, 2**24),
        numbers.randint(1, 30),
    ]
    lines = [[list_grids(stated, bits), *hints]] * numbers.choice([1, 2])
    return {"format": "dp-certificate/1", "claim": stated, "proof": {"bits": bits, "lines": lines}}


def list_grids(stated, bits):
    """A grid for each part of a claim, in the checker's order."""
    grids = {"laplace": [12], "discrete-gaussian": [40], "discrete-laplace": [60], "bounded-range": [9]}
    grids["zcdp"] = [6, 1, 25, 40]
    set_bits(bits)
    try:
        found, _ = dp.read_releases(stated["releases"], stated["relation"], stated["group"])
    except dp.Refused:
        return []
    parts = [part for release in found for part in release[0]]
    return [[6, -600, 60, 20, 40, 30] if p.func is dp.gaussian else grids.get(p.args[0]["type"], []) for p in parts]


KINDS = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "gdp": GaussianDP,
    "zcdp": ZeroConcentratedDP,
    "bounded-range": ExponentialMechanism,
    "approximate": ApproximateDP,
    "randomized-response": RandomizedResponse,
    "discrete-gaussian": DiscreteGaussian,
    "discrete-laplace": DiscreteLaplace,
}


def to_mechanism(stated):
    """A mechanism of a claim in epsilog's terms; a number that no double holds is a very large one."""
    values = [stated[name] for name in dp.MECHANISMS[stated["type"]]]
    return KINDS[stated["type"]](*(min(float(one), 1e300) if isinstance(one, str) else one for one in values))


def to_release(stated):
    """The releases of a claim in epsilog's terms."""
    parts = []
    for release in stated["releases"]:
        made = [to_mechanism(one) for one in release["mechanisms"]]
        one = made[0] if len(made) == 1 else Composed(made)
        q, limited, most = release["poisson"].partition(", at most ")
        drawn, _, size = (most or q).partition(" of ")
        if limited:
            one = TruncatedPoissonSampled(one, float(q), int(size), int(drawn))
        elif size:
            one = FixedSizeSampled(one, int(drawn), int(size))
        elif q != "1":
            one = PoissonSampled(one, float(q))
        parts.append(Repeated(one, release["count"]))
    return parts[0] if len(parts) == 1 else Composed(parts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(2, 6)))
def test_no_bound_is_below_the_accountants_lower_bound(seed):
    """All mechanisms, samples, groups and relations: the accountant shares no code with the checker."""
    numbers, compared, sampled = random.Random(100 + seed), set(), 0  # noqa: S311
    for _ in range(amount(75, 150)):
        certificate = draw_certificate(numbers)
        stated = certificate["claim"]
        try:
            bound = Fraction(dp.check(certificate), dp.ONE) * Fraction(stated["delta"])
            at, relation = float(stated["epsilon"]), NeighboringRelation(stated["relation"])
            known = delta(to_release(stated), epsilon=at, relation=relation, group_size=stated["group"])
        except (dp.Refused, UnsupportedMechanismError):
            continue
        assert bound >= known.lower * (1 - 1e-12), stated
        compared |= {one["type"] for release in stated["releases"] for one in release["mechanisms"]}
        sampled += any(release["poisson"] != "1" for release in stated["releases"])
    assert len(compared) >= 4
    assert sampled >= 2


def test_a_distance_that_is_not_doubled_is_noticed(monkeypatch):
    """The control of the comparison: a checker that forgets to double under replace-one falls below."""
    stated = [{"type": "laplace", "noise_multiplier": "1"}]
    made = claim(stated, epsilon="0.5", relation="replace-one", lines=[[[[200]]]])
    known = delta(Laplace(1.0), epsilon=0.5, relation=NeighboringRelation.REPLACE_ONE)
    assert known.lower <= dp.check(made) / dp.ONE * 1e-3 <= known.upper * 1.01
    whole = dp.profile
    monkeypatch.setattr(dp, "profile", lambda mechanism, _distance, grid: whole(mechanism, 1, grid))
    assert dp.check(made) / dp.ONE * 1e-3 < known.lower


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(1, 2)))
def test_the_languages_say_the_same_to_the_last_digit(seed, judge_elsewhere):
    numbers = random.Random(seed)  # noqa: S311
    texts, said, bounds = [], [], []
    while len(texts) < amount(100, 250) or len(bounds) <= 10:
        texts.append(json.dumps(draw_certificate(numbers), separators=(",", ":")))
        said.append(judge(texts[-1]))
        bounds += [said[-1]] if "millionths" in said[-1] else []
    assert cut_reasons(judge_elsewhere(texts)) == cut_reasons(said)
    assert {one.split(":")[0] for one in bounds} == {"PROVEN", "REFUSED"}


@pytest.mark.slow
def test_the_languages_refuse_the_same_texts(judge_elsewhere):
    texts = [SGD, *(SGD.replace(old, new, 1) for old, new in ALTERED if old in SGD), *NO_CERTIFICATES]
    texts += [json.dumps(one, separators=(",", ":")) for one in HEAVY[:: amount(4, 1)]]
    for text, one, other in zip(texts, map(judge, texts), judge_elsewhere(texts), strict=True):
        assert one.split(":")[0] == other.split(":")[0] == ("PROVEN" if text == SGD else "REFUSED"), text
    assert len(set(texts)) >= len(ALTERED) + len(NO_CERTIFICATES)


@pytest.mark.parametrize(("suffix", "most"), [(".py", 300), (".mjs", 300), (".go", 460)])
def test_a_checker_is_read_in_one_sitting(suffix, most):
    lines = CHECKER.with_suffix(suffix).read_text("ascii").splitlines()
    assert sum(1 for line in lines if line.strip()) <= most
    assert max(map(len, lines)) <= 120


def test_each_number_in_brackets_is_a_lemma_of_the_docs():
    marks = re.findall(r"#.*?\[([\d, ]+)\]", CHECKER.read_text("ascii"))
    cited = {int(one) for mark in marks for one in mark.split(",")}
    lemmas = re.findall(r"^(\d+)\. \*", (ROOT / "docs/accounting/certificates.md").read_text(), re.MULTILINE)
    assert [int(one) for one in lemmas] == [*range(1, len(lemmas) + 1)]
    assert cited == set(map(int, lemmas))

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize, special, stats
from tests.extent import amount

from epsilog.accounting.montecarlo import bounds, two_point
from epsilog.terms import CalibrationError

SWEEPS = {
    "one bad": lambda b: [3 * b],
    "two": lambda b: [b / 2, 2 * b],
    "coarse": lambda b: list(np.geomspace(b / 2, 16 * b, 6)),
    "fine": lambda b: list(np.geomspace(b / 3, 8 * b, 60)),
    "creeping": lambda b: list(np.linspace(b / 5, 2.2 * b, 200)),
    "wrong order": lambda b: [2 * b, b / 2, 3 * b, b, 4 * b],
}


def released(deltas, tests, *, fallback=0.0):
    """Exact expectation of the released delta where every candidate has a test and draws of its own."""
    total, alive, current = 0.0, 1.0, fallback
    for delta, (samples, hits, bound) in zip(deltas, tests, strict=True):
        chance = stats.binom.cdf(hits, samples, delta / bound)
        total += alive * (1 - chance) * current
        alive, current = alive * chance, delta
    return total + alive * current


def expected_delta(deltas, samples, hits, *, fallback=0.0):
    return released(deltas, [(samples, hits, 1.0)] * len(deltas), fallback=fallback)


@pytest.mark.slow_beyond(6)
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize(("samples", "hits"), [(2000, 10), (500, 0), (300, 40)])
def test_no_sweep_releases_more_than_promised(sweep, samples, hits):
    base = max(hits, 1) / samples
    deltas = [min(delta, 1.0) for delta in SWEEPS[sweep](base)]
    assert expected_delta(deltas, samples, hits) <= bounds.binomial_delta(samples=samples, hits=hits)
    for fallback in (base / 2, base):
        released = expected_delta(deltas, samples, hits, fallback=fallback)
        assert released <= bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback)
    if hits:
        assert expected_delta(deltas, samples, hits, fallback=base) <= two_point.overall_delta(
            samples=samples, base_delta=base
        )


MIXED = [(2000, 10, 1.0), (900, 30, 0.2), (5000, 7, 4.0), (300, 0, 1.0), (60, 60, 0.006)]  # the last always passes


def worst_list(tests, *, fallback=0.0):
    """Deltas for which a list of tests releases most, by a search from several starts."""
    most = [min(1.0, bound) for _, _, bound in tests]
    threshold = max(bound * (hits + 1) / (samples + 1) for samples, hits, bound in tests)

    def excess(point):
        return -released(np.minimum(np.abs(point) * threshold, most), tests, fallback=fallback) / threshold

    starts = (np.linspace(low, high, len(tests)) for low, high in ((0.5, 0.9), (0.3, 1.2), (0.7, 0.7)))
    found = [optimize.minimize(excess, start, method="Nelder-Mead", options={"maxfev": 1500}) for start in starts]
    best = min(found, key=lambda one: one.fun)
    return np.minimum(np.abs(best.x) * threshold, most), -best.fun * threshold


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [0.0, 0.004])
@pytest.mark.parametrize("tests", [[(54000, 541, 1e-3)] * 2, MIXED[:3]], ids=str)
def test_a_known_list_is_promised_hardly_more_than_its_worst_deltas_release(tests, fallback):
    fallback = min(fallback, 0.4 * min(bound for _, _, bound in tests))
    promise = bounds.bound_listed_delta(tests, fallback_delta=fallback)
    _, most = worst_list(tests, fallback=fallback)
    assert most <= promise <= 1.004 * most
    tighter = bounds.bound_listed_delta(tests, fallback_delta=fallback, cells=8000)
    assert most <= tighter <= promise


def test_no_list_of_tests_releases_more_than_promised_in_any_order():
    """Random deltas and random orders of tests; candidates below the fallback and proven ones among them."""
    rng, near = np.random.default_rng(8), 0.0
    for _ in range(25):
        tests = [MIXED[i] for i in rng.permutation(len(MIXED))[: rng.integers(1, 6)]]
        fallback = float(rng.choice([0.0, 1e-3, 5e-3]))
        promise = bounds.bound_listed_delta(tests, fallback_delta=fallback, cells=200)
        for _ in range(20):
            deltas = [min(bound, 1.0, 0.02 * rng.random()) for _, _, bound in tests]
            found = released(deltas, tests, fallback=fallback)
            assert found <= promise
            near = max(near, found / promise)
    assert near > 0.8  # the control: what was tried comes close


def alone(samples, hits):
    """What one candidate releases at most, where nothing is released if it fails."""
    grid = np.linspace(0, min(1.0, 20 * (hits + 1) / samples), 20_001)
    return (grid * stats.binom.cdf(hits, samples, grid)).max()


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "hits"), [(54000, 541), (500, 2)])
def test_a_known_list_is_promised_no_more_than_any_list(samples, hits):
    """Longer lists may release more; all less than where draws may be shared."""
    promises = [bounds.bound_listed_delta([(samples, hits, 1.0)] * count, cells=4000) for count in (1, 2, 4, 12)]
    assert promises == sorted(promises)
    assert promises[0] == pytest.approx(alone(samples, hits), rel=3e-3)
    assert promises[-1] < (1 - 0.5 / math.sqrt(hits + 1)) * bounds.binomial_delta(samples=samples, hits=hits)


def tails(samples, hits, p):
    """Both sides of the binomial law to 40 digits: the one beyond its mode by its sum, the other as the rest."""
    samples, p = mp.mpf(samples), mp.mpf(p)

    def side(i, step):
        size = mp.loggamma(samples + 1) - mp.loggamma(i + 1) - mp.loggamma(samples - i + 1)
        term = total = mp.exp(size + i * mp.log(p) + (samples - i) * mp.log1p(-p))
        while 0 < term > total * mp.mpf(10) ** -40 and 0 <= i + step <= samples:
            term *= (samples - i) / (i + 1) * p / (1 - p) if step > 0 else i / (samples - i + 1) * (1 - p) / p
            total += term
            i += step
        return total

    if hits == samples:
        return mp.mpf(1), mp.mpf(0)
    if (samples + 1) * p >= hits + 1:
        return side(hits, -1), 1 - side(hits, -1)
    return 1 - side(hits + 1, 1), side(hits + 1, 1)


@pytest.mark.slow
def test_binomial_chances_err_by_less_than_is_said():
    """Both sides against 60 digits, from 2 samples to 2^53, where few hits are expected."""
    rng, worst = np.random.default_rng(0), 0.0
    with mp.workdps(60):
        for _ in range(amount(40, 120)):
            samples = int(min(10 ** rng.uniform(0.3, 16), 2**53 - 1))
            hits = int(min(10 ** rng.uniform(0, rng.choice([2.3, 4.0])) - 1, samples - 1))
            p = float(np.clip((hits + 1 + rng.uniform(-9, 25) * math.sqrt(hits + 1)) / samples, 1e-30, 1 - 1e-9))
            for found, exact in zip((bounds.binomial_cdf, bounds.binomial_sf), tails(samples, hits, p), strict=True):
                if exact > 1e-290:
                    error = abs(float(float(found(np.array([p]), samples, hits)[0]) / exact - 1))
                    worst = max(worst, error / bounds.binomial_error(hits))
        assert worst < 0.05
        samples, hits, p = 1911767487, 1, 1.0902937972407595e-09  # the control: what summing is there for
        theirs = float(special.betainc(hits + 1.0, samples - hits, p))
        assert abs(float(theirs / tails(samples, hits, p)[1] - 1)) > 5e-8


@pytest.mark.parametrize("p", [0.0, 1e-320, 1e-300, 1e-17, 0.5, 1 - 1e-16, 1.0])
@pytest.mark.parametrize(
    ("samples", "hits"), [(1, 0), (2, 1), (300, 127), (300, 128), (2**53 - 1, 0), (2**53 - 1, 127)]
)
def test_binomial_chances_at_the_edges_are_chances(samples, hits, p):
    low, high = (float(side(np.array([p]), samples, hits)[0]) for side in (bounds.binomial_cdf, bounds.binomial_sf))
    assert 0 <= low <= 1
    assert 0 <= high <= 1
    assert low + high == pytest.approx(1)
    with mp.workdps(60):
        exact = 1 if p == 0 else 0 if p == 1 else tails(samples, hits, p)[0]
    assert low == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


@pytest.mark.slow
def test_the_promise_is_the_least_double_above_the_exact_ratio():
    """M (k + 1) / (N + 1) has two roundings, which one step to the next double does not always cover."""
    rng, short = np.random.default_rng(4), 0
    for _ in range(500):
        samples = int(min(10 ** rng.uniform(0, 16), 2**53 - 1))
        hits, bound = int(samples * rng.random() ** 9), float(10 ** rng.uniform(-300, 0))
        exact = Fraction(bound) * Fraction(hits + 1, samples + 1)
        found = bounds.binomial_delta(samples=samples, hits=hits, bound=bound)
        assert Fraction(found) >= exact > Fraction(math.nextafter(found, -1))
        short += Fraction(math.nextafter(bound * (hits + 1) / (samples + 1), math.inf)) < exact
    assert short > 0  # the control


@pytest.mark.slow
def test_bounds_hold_at_extreme_sizes():
    """Against 40 digits: the promise with a fallback is its integral, and intervals have their level."""
    rng = np.random.default_rng(6)
    with mp.workdps(60):
        for _ in range(amount(15, 40)):
            samples = int(min(10 ** rng.uniform(0.5, 16), 2**53 - 2))
            hits = int(min(10 ** rng.uniform(0, 2) - 1, samples - 1))
            bound = float(10 ** rng.uniform(-200, 0))
            p = float(min(1.0, (hits + 1) / samples * 10 ** rng.uniform(-3, 1)))
            y = mp.mpf(p * bound) / mp.mpf(bound)
            kept, _ = tails(samples + 1, hits, y)
            fewer = tails(samples, hits - 1, y)[0] if hits else mp.mpf(0)
            excess = (hits + 1) * kept - (samples + 1) * y * fewer
            exact = mp.mpf(p * bound) + mp.mpf(bound) * excess / (samples + 1)
            found = bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=p * bound, bound=bound)
            assert exact <= found <= exact * (1 + mp.mpf(10) ** -8)
            failure = float(10 ** rng.uniform(-200, -0.1))
            low, high = bounds.clopper_pearson_interval(hits=hits, samples=samples, failure=failure)
            assert hits == 0 or low == 0 or tails(samples, hits - 1, low)[1] <= mp.mpf(failure) / 2
            assert high == 1 or tails(samples, hits, high)[0] <= mp.mpf(failure) / 2


def test_a_hard_bound_scales_everything():
    plain = bounds.binomial_delta(samples=1000, hits=5, fallback_delta=0.003)
    assert bounds.binomial_delta(samples=1000, hits=5, fallback_delta=3e-5, bound=0.01) == pytest.approx(plain / 100)


def test_largest_hits_is_largest_and_too_few_samples_is_an_error():
    hits = bounds.maximize_hits(samples=10**6, target_delta=1e-5, fallback_delta=5e-6)
    assert bounds.binomial_delta(samples=10**6, hits=hits, fallback_delta=5e-6) <= 1e-5
    assert bounds.binomial_delta(samples=10**6, hits=hits + 1, fallback_delta=5e-6) > 1e-5
    with pytest.raises(CalibrationError, match="too few"):
        bounds.maximize_hits(samples=1000, target_delta=1e-5)


def test_clopper_pearson_against_scipy_and_forwards():
    for hits in (0, 100, 1000):  # looking at all sizes costs less than half as much again
        exact, anytime = (
            kind(hits=hits, samples=1000, failure=1e-6)
            for kind in (bounds.clopper_pearson_interval, bounds.anytime_interval)
        )
        assert anytime[0] <= exact[0] <= exact[1] <= anytime[1]
        assert anytime[1] - anytime[0] < 1.5 * (exact[1] - exact[0])
    for hits, samples in [(0, 10), (10, 10), (3, 1000), (500, 10**6), (7, 10**9)]:
        low, high = bounds.clopper_pearson_interval(hits=hits, samples=samples, failure=1e-6)
        ours = stats.binomtest(hits, samples).proportion_ci(1 - 1e-6)
        assert low == pytest.approx(ours.low, rel=1e-6)
        assert high == pytest.approx(ours.high, rel=1e-6)
        assert hits == 0 or stats.binom.sf(hits - 1, samples, low) <= 5e-7
        assert hits == samples or stats.binom.cdf(hits, samples, high) <= 5e-7


@pytest.mark.slow
def test_clopper_pearson_covers_exactly_enough():
    """Exact coverage by summing the binomial law; the control with half the failure budget too much is not covered."""
    samples, p = 30, 0.07
    law = stats.binom.pmf(np.arange(samples + 1), samples, p)

    def coverage(failure):
        ends = [bounds.clopper_pearson_interval(hits=k, samples=samples, failure=failure) for k in range(samples + 1)]
        return sum(w for w, (low, high) in zip(law, ends, strict=True) if low <= p <= high)

    assert coverage(0.05) >= 0.95
    assert coverage(0.5) < 0.95


@pytest.mark.slow
def test_looking_all_the_time_stays_valid():
    """250 runs of 3,000 draws with nine looks; false alarms below 1e-6, by Ville. Control: Clopper-Pearson."""
    rng = np.random.default_rng(5)
    p, failure, runs = 0.05, 0.1, 250
    looks = np.arange(10, 3001, 10)
    hits = rng.binomial(10, p, size=(runs, looks.size)).cumsum(axis=1)
    ends = {}

    def outside(kind, k, n):
        if (kind, k, n) not in ends:
            low, high = kind(hits=int(k), samples=int(n), failure=failure)
            ends[kind, k, n] = not low <= p <= high
        return ends[kind, k, n]

    chosen = looks[[0, 2, 5, 9, 19, 39, 79, 149, 299]]

    def alarms(kind):
        return sum(any(outside(kind, row[n // 10 - 1], n) for n in chosen) for row in hits)

    assert alarms(bounds.anytime_interval) <= failure * runs
    assert alarms(bounds.clopper_pearson_interval) > failure * runs


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.binomial_delta(samples=10, hits=11), "hits"),
        (lambda: bounds.binomial_delta(samples=10, hits=1, fallback_delta=0.5, bound=0.1), "fallback_delta"),
        (lambda: bounds.bound_listed_delta([]), "tests must hold at least one"),
        (lambda: bounds.bound_listed_delta([(10, 11, 1.0)]), "hits"),
        (lambda: bounds.clopper_pearson_interval(hits=3, samples=2, failure=0.1), "hits"),
        (lambda: bounds.clopper_pearson_interval(hits=1, samples=2, failure=1e-300), "failure"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()

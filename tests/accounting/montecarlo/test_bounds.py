import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from epsilog.accounting.montecarlo import bounds, intervals, two_point
from epsilog.terms import CalibrationError

SWEEPS = {
    "one bad": lambda b: [3 * b],
    "two": lambda b: [b / 2, 2 * b],
    "coarse": lambda b: list(np.geomspace(b / 2, 16 * b, 6)),
    "fine": lambda b: list(np.geomspace(b / 3, 8 * b, 60)),
    "creeping": lambda b: list(np.linspace(b / 5, 2.2 * b, 200)),
    "wrong order": lambda b: [2 * b, b / 2, 3 * b, b, 4 * b],
}


def expected_delta(deltas, samples, hits, *, fallback=0.0, rule="last before the first failure"):
    """Exact expectation of the released delta over independent verifications of a fixed list."""
    passes = stats.binom.cdf(hits, samples, np.array(deltas))
    if rule == "first pass from the noisy end":
        total, none_yet = 0.0, 1.0
        for delta, chance in zip(reversed(deltas), reversed(passes), strict=True):
            total += none_yet * chance * delta
            none_yet *= 1 - chance
        return total + none_yet * fallback
    total, alive, current = 0.0, 1.0, fallback
    for delta, chance in zip(deltas, passes, strict=True):
        total += alive * (1 - chance) * current
        alive, current = alive * chance, delta
    return total + alive * current


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize(("samples", "hits"), [(2000, 10), (500, 0), (300, 40)])
def test_no_sweep_releases_more_than_promised(sweep, samples, hits):
    base = max(hits, 1) / samples
    deltas = [min(delta, 1.0) for delta in SWEEPS[sweep](base)]
    supremum = bounds.supremum_delta(samples=samples, hits=hits)
    assert expected_delta(deltas, samples, hits) <= supremum <= bounds.binomial_delta(samples=samples, hits=hits)
    for fallback in (base / 2, base):
        released = expected_delta(deltas, samples, hits, fallback=fallback)
        assert released <= bounds.supremum_delta(samples=samples, hits=hits, fallback_delta=fallback)
        assert released <= bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback)
        if hits:
            assert released <= bounds.integrated_delta(samples=samples, base_delta=base, fallback_delta=fallback)
    if hits:
        assert expected_delta(deltas, samples, hits, fallback=base) <= two_point.overall_delta(
            samples=samples, base_delta=base
        )


def test_binomial_chances_err_by_less_than_the_slack():
    """Against 60 digits, where SciPy's incomplete beta function is at its worst: few hits, about 2e9 samples."""
    rng, worst = np.random.default_rng(0), 0.0
    with mp.workdps(60):
        for _ in range(600):
            samples, hits = int(10 ** rng.uniform(8, 10)), int(rng.integers(0, 40))
            p = mp.mpf(float((hits + 1) / samples * rng.uniform(0.2, 4)))
            term = chance = mp.exp(samples * mp.log1p(-p))
            for i in range(hits):
                term *= mp.mpf(samples - i) / (i + 1) * p / (1 - p)
                chance += term
            found = float(bounds.passes(np.array([float(p)]), samples, hits)[0])
            worst = max(worst, abs(float(found / chance - 1)))
    assert worst < intervals.SLACK / 2
    assert worst > 1e-13  # the control: the comparison can see what it looks for


def test_the_stopping_rule_is_needed():
    """The control: releasing the first pass from the noisy end breaks the promise that stopping at failure keeps."""
    samples, hits = 200, 4
    deltas = [0.045] * 40  # passes with chance 0.05; forty looks are too many
    promise = bounds.binomial_delta(samples=samples, hits=hits)
    assert expected_delta(deltas, samples, hits) <= promise
    assert expected_delta(deltas, samples, hits, rule="first pass from the noisy end") > promise


def test_shared_draws_keep_the_promise():
    """With a fixed list the same uniforms may serve every candidate: simulated, 40,000 sweeps, seed fixed."""
    samples, hits, runs = 400, 6, 40_000
    deltas = np.geomspace(hits / samples / 3, 6 * hits / samples, 25)
    rng = np.random.default_rng(11)
    released = np.empty(runs)
    for run in range(runs):
        # order statistic number hits + 1 of the shared uniforms: a candidate passes iff its delta is below it
        released[run] = deltas[deltas <= np.partition(rng.random(samples), hits)[hits]].max(initial=0.0)
    promise = bounds.binomial_delta(samples=samples, hits=hits)
    error = released.std() / math.sqrt(runs)
    assert released.mean() <= promise + 5 * error
    assert released.mean() > 0.85 * promise  # shared draws over a fine list nearly reach it: the bound is not slack


@pytest.mark.parametrize(
    ("samples", "hits", "fallback", "bound"),
    [
        (2000, 10, 0.004, 1.0),
        (500, 0, 0.001, 1.0),
        (10**6, 9, 9e-6, 1.0),
        (5000, 60, 2e-4, 0.02),
        (50, 50, 0.3, 1.0),
        (1000, 12, 5e-3, 3.0),
    ],
)
def test_the_binomial_form_is_its_integral(samples, hits, fallback, bound):
    with mp.workdps(30):

        def chance(y):
            return mp.betainc(samples - hits, hits + 1, 0, 1 - y / bound, regularized=True) if hits < samples else 1

        width = bound * math.sqrt((hits + 1) / samples**2)
        center = bound * hits / samples
        points = sorted({min(max(center + width * k, fallback), bound) for k in range(-8, 40, 4)} | {fallback, bound})
        exact = fallback + mp.quad(chance, points)
    found = bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback, bound=bound)
    assert min(exact, 1) <= found <= exact * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize(
    ("samples", "base", "fallback"),
    [
        (1000, 0.01, 0.01),
        (10**7, 5e-6, 5e-6),
        (10**7, 5e-6, 6e-6),
        (1, 0.5, 0.5),
        (3, 1e-6, 0.2),
        (10**5, 0.4, 0.4),
        (10**4, 1e-3, 0.9),
    ],
)
def test_the_integrated_form_is_its_integral(samples, base, fallback):
    """Int exp(-N KL) is an incomplete beta function; mpmath has it to any precision."""
    with mp.workdps(60):
        n, b = mp.mpf(samples), mp.mpf(base)
        norm = mp.exp(-n * (b * mp.log(b) + (1 - b) * mp.log(1 - b)))
        width = math.sqrt(base * (1 - base) / samples)
        points = sorted({min(fallback + width * k, 1.0) for k in (0, 1, 2, 4, 8, 16, 32, 64, 1e3, 1e5)} | {1.0})
        area = mp.quad(lambda y: norm * y ** (n * b) * (1 - y) ** (n * (1 - b)), [mp.mpf(p) for p in points])
        exact = fallback + area
    found = bounds.integrated_delta(samples=samples, base_delta=base, fallback_delta=fallback)
    assert min(exact, 1) <= found <= min(exact * (1 + 1e-9), 1)


def test_bounds_are_ordered_and_the_supremum_converges():
    for samples, hits in [(2000, 10), (10**6, 9), (50, 3)]:
        single = bounds.single_candidate_delta(samples=samples, hits=hits)
        coarse = bounds.supremum_delta(samples=samples, hits=hits, cells=200)
        fine = bounds.supremum_delta(samples=samples, hits=hits, cells=4000)
        assert single <= fine <= coarse <= bounds.binomial_delta(samples=samples, hits=hits)
        # any particular list is a lower bound on the supremum
        probe = expected_delta(list(np.linspace(0, 4 * (hits + 1) / samples, 40)), samples, hits)
        assert single * 0.99 <= fine
        assert probe <= fine
        grid = np.linspace(0, 1, 400_001)
        assert single == pytest.approx((grid * stats.binom.cdf(hits, samples, grid)).max(), rel=2e-3)


def test_a_hard_bound_scales_everything():
    plain = bounds.binomial_delta(samples=1000, hits=5, fallback_delta=0.003)
    assert bounds.binomial_delta(samples=1000, hits=5, fallback_delta=3e-5, bound=0.01) == pytest.approx(plain / 100)
    assert bounds.supremum_delta(samples=1000, hits=5, bound=0.01) == pytest.approx(
        bounds.supremum_delta(samples=1000, hits=5) / 100
    )


def test_planning_reaches_the_bars():
    assert bounds.fewest_samples(target_delta=1e-5, base_share=0.9) == 1_000_000
    assert bounds.fewest_samples(target_delta=1e-5, base_share=0.9, fallback_share=0.9) <= 2_500_000
    assert bounds.fewest_samples_integrated(target_delta=1e-5, base_delta=9e-6) <= 16_000_000
    samples, hits = bounds.samples_for_power(target_delta=1e-5, candidate_delta=9e-6, power=0.9)
    assert samples <= 17_000_000
    assert bounds.binomial_delta(samples=samples, hits=hits) <= 1e-5
    assert bounds.pass_probability(delta=9e-6, samples=samples, hits=hits) >= 0.9
    assert bounds.binomial_delta(samples=samples - 1, hits=hits) > 1e-5


def test_largest_hits_is_largest_and_too_few_samples_is_an_error():
    hits = bounds.largest_hits(samples=10**6, target_delta=1e-5, fallback_delta=5e-6)
    assert bounds.binomial_delta(samples=10**6, hits=hits, fallback_delta=5e-6) <= 1e-5
    assert bounds.binomial_delta(samples=10**6, hits=hits + 1, fallback_delta=5e-6) > 1e-5
    with pytest.raises(CalibrationError, match="too few"):
        bounds.largest_hits(samples=1000, target_delta=1e-5)


def test_clopper_pearson_against_scipy_and_forwards():
    for hits, samples in [(0, 10), (10, 10), (3, 1000), (500, 10**6), (7, 10**9)]:
        low, high = intervals.clopper_pearson(hits=hits, samples=samples, failure=1e-6)
        ours = stats.binomtest(hits, samples).proportion_ci(1 - 1e-6)
        assert low == pytest.approx(ours.low, rel=1e-6)
        assert high == pytest.approx(ours.high, rel=1e-6)
        assert hits == 0 or stats.binom.sf(hits - 1, samples, low) <= 5e-7
        assert hits == samples or stats.binom.cdf(hits, samples, high) <= 5e-7


def test_clopper_pearson_covers_exactly_enough():
    """Exact coverage by summing the binomial law; the control with half the failure budget too much is not covered."""
    samples, p = 60, 0.07
    law = stats.binom.pmf(np.arange(samples + 1), samples, p)

    def coverage(failure):
        ends = [intervals.clopper_pearson(hits=k, samples=samples, failure=failure) for k in range(samples + 1)]
        return sum(w for w, (low, high) in zip(law, ends, strict=True) if low <= p <= high)

    assert coverage(0.05) >= 0.95
    assert coverage(0.5) < 0.95


def test_looking_all_the_time_stays_valid():
    """2,000 runs of 3,000 draws with nine looks; false alarms below 1e-6, by Ville. Control: Clopper-Pearson."""
    rng = np.random.default_rng(5)
    p, failure, runs = 0.05, 0.1, 2000
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

    assert alarms(intervals.anytime) <= failure * runs
    assert alarms(intervals.clopper_pearson) > failure * runs


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.binomial_delta(samples=10, hits=11), "hits"),
        (lambda: bounds.binomial_delta(samples=10, hits=1, fallback_delta=0.5, bound=0.1), "fallback_delta"),
        (lambda: bounds.binomial_delta(samples=10, hits=1, bound=math.nan), "bound"),
        (lambda: bounds.integrated_delta(samples=10, base_delta=0.0), "base_delta"),
        (lambda: bounds.pass_probability(delta=0.2, samples=10, hits=1, bound=0.1), "delta"),
        (lambda: bounds.samples_for_power(target_delta=1e-5, candidate_delta=2e-5, power=0.9), "candidate_delta"),
        (lambda: intervals.clopper_pearson(hits=3, samples=2, failure=0.1), "hits"),
        (lambda: intervals.anytime(hits=1, samples=2, failure=0.0), "failure"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()

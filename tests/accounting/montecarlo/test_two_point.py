import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from epsilog.accounting.montecarlo.two_point import (
    base_delta,
    delta_from_samples,
    minimum_samples,
    overall_delta,
)


def exact_overall(samples, base):
    """In 60 digits or more: a scan, then a golden section, on the log of the odds of u, y = b + (1 - b) u."""
    with mp.workdps(60):
        n, b = mp.mpf(samples), mp.mpf(base)

        def f(s):
            u = 1 / (1 + mp.exp(-s))
            y = b + (1 - b) * u
            with mp.workdps(700 if base < 1e-100 else 120):
                kl = b * mp.log(b / y) + (1 - b) * (mp.log(1 - b) - mp.log(1 - y))
            return y + (1 - y) * mp.exp(-n * kl)

        best = min((mp.mpf(s) for s in range(-740, 41)), key=f)
        low, high, ratio = best - 1, best + 1, (mp.sqrt(5) - 1) / 2
        x1, x2 = high - ratio * (high - low), low + ratio * (high - low)
        f1, f2 = f(x1), f(x2)
        for _ in range(110):
            if f1 <= f2:
                high, x2, f2 = x2, x1, f1
                x1 = high - ratio * (high - low)
                f1 = f(x1)
            else:
                low, x1, f1 = x1, x2, f2
                x2 = low + ratio * (high - low)
                f2 = f(x2)
        return min(f1, f2)


@pytest.mark.slow_beyond(4)
@pytest.mark.parametrize(
    ("samples", "base"),
    [
        (1, 0.5),
        (10**7, 5e-6),
        (3, 1 - 1e-12),
        (10**30, 0.999999),
        (10**18, 1e-16),
        (1, 1e-300),
        pytest.param(167164667686606329610240, 7.587969306381874e-295, marks=pytest.mark.extended),
    ],
)
def test_overall_delta_is_the_exact_value_rounded_up(samples, base):
    found, exact = mp.mpf(overall_delta(samples=samples, base_delta=base)), exact_overall(samples, base)
    assert found >= exact * (1 - mp.mpf(10) ** -20)
    assert found <= exact * (1 + mp.mpf(10) ** -12)


@pytest.mark.slow
def test_overall_delta_is_never_far_off():
    """All over the domain, against a point of the curve that is cut near its minimum: y = 3 b + 80 / N."""
    rng = np.random.default_rng(5)
    for _ in range(600):
        samples, base = int(10 ** rng.uniform(0, 30)), float(10 ** rng.uniform(-300, 0))
        assert base <= overall_delta(samples=samples, base_delta=base) <= 1.5 * (3 * base + 80 / samples)


def test_a_smaller_minimum_would_be_noticed():
    """The control: a value 1e-9 below the truth fails the check above."""
    wrong = mp.mpf(overall_delta(samples=10**7, base_delta=5e-6)) * (1 - mp.mpf(10) ** -9)
    assert not wrong >= exact_overall(10**7, 5e-6) * (1 - mp.mpf(10) ** -20)


@pytest.mark.parametrize(
    ("base", "target", "samples"),
    [
        (1e-7, 1e-5, 1_619_492),
        (9.5e-6, 1e-5, 1_504_090_185),
        (5e-4, 1e-3, 75_013),
        (5e-9, 1e-8, 15_488_612_637),
    ],
)
def test_minimum_samples_of_the_reference(base, target, samples):
    found = minimum_samples(base_delta=base, target_delta=target)
    assert found == pytest.approx(samples, rel=1e-6)
    assert overall_delta(samples=found, base_delta=base) <= target < overall_delta(samples=found - 1, base_delta=base)


def test_one_sample_fewer_fails():
    for target, share in itertools.product((0.5, 1e-2, 1e-9), (0.01, 0.9, 0.999)):
        base = share * target
        found = minimum_samples(base_delta=base, target_delta=target)
        assert overall_delta(samples=found, base_delta=base) <= target
        assert found == 1 or overall_delta(samples=found - 1, base_delta=base) > target


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "target"),
    [(0.4999999, 0.5), (5e-21, 1e-20), pytest.param(2e-300, 4e-300, marks=pytest.mark.extended)],
)
def test_minimum_samples_of_any_size_is_exact(base, target):
    """Independent of the code: the ratio at its minimum, found by golden sections in 700 digits."""
    found = minimum_samples(base_delta=base, target_delta=target)
    with mp.workdps(700):
        b, t = mp.mpf(base), mp.mpf(target)

        def ratio(w):
            y = b + (t - b) * w
            kl = b * mp.log(b / y) + (1 - b) * mp.log((1 - b) / (1 - y))
            return mp.log((1 - y) / (t - y)) / kl

        low, high = mp.mpf("1e-6"), 1 - mp.mpf("1e-30")
        golden = (mp.sqrt(5) - 1) / 2
        one, two = high - golden * (high - low), low + golden * (high - low)
        left, right = ratio(one), ratio(two)
        for _ in range(760 if target < 1e-200 else 212):  # each keeps 0.618 of the interval, and one of its two values
            if left < right:
                high, two, right = two, one, left
                one = high - golden * (high - low)
                left = ratio(one)
            else:
                low, one, left = one, two, right
                two = low + golden * (high - low)
                right = ratio(two)
        assert found == int(mp.ceil(ratio((low + high) / 2)))


@pytest.mark.parametrize("power", [1, 3, 6, 9])
def test_base_delta_is_the_largest_that_meets_the_target(power):
    samples, target = 10 ** (power + 2), 10.0**-power
    base = base_delta(samples=samples, target_delta=target)
    assert overall_delta(samples=samples, base_delta=base) <= target
    assert overall_delta(samples=samples, base_delta=base * (1 + 1e-13)) > target
    with pytest.raises(ValueError, match="samples"):
        base_delta(samples=10**power, target_delta=target)


def test_delta_from_samples_weights_and_infinities():
    losses = [0.5, 2.0, math.inf, -4.0]
    by_hand = [0.0, 1 - math.exp(-1.0), 1.0, 0.0]
    assert delta_from_samples(epsilon=1.0, losses=losses) == pytest.approx(sum(by_hand) / 4)
    weighted = delta_from_samples(epsilon=1.0, losses=losses, weights=[0, 3, 1, 4])
    assert weighted == pytest.approx((3 * by_hand[1] + 1) / 8)
    assert delta_from_samples(epsilon=1.0, losses=np.array([3.0], dtype=np.float16)) == pytest.approx(1 - math.exp(-2))


@pytest.mark.parametrize(
    ("losses", "weights"),
    [
        ([], None),
        ([math.nan], None),
        ([-math.inf], None),
        ([[1.0]], None),
        (1.0, None),
        ([1.0, 2.0], [1.0]),
        ([1.0], [-1.0]),
        ([1.0], [0.0]),
        ([1.0], [math.nan]),
        ([1.0], [math.inf]),
    ],
)
def test_bad_samples_are_errors_and_never_a_pass(losses, weights):
    with pytest.raises(ValueError, match=r"(losses|weights)(\[0\])? must"):
        delta_from_samples(epsilon=1.0, losses=losses, weights=weights)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: overall_delta(samples=0, base_delta=0.1), "samples"),
        (lambda: overall_delta(samples=1.5, base_delta=0.1), "samples"),
        (lambda: overall_delta(samples=3, base_delta=0.0), "base_delta"),
        (lambda: minimum_samples(base_delta=0.1, target_delta=0.1), "base_delta"),
        (lambda: minimum_samples(base_delta=0.1, target_delta=1.5), "target_delta"),
        (lambda: delta_from_samples(epsilon=-1.0, losses=[1.0]), "epsilon"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()

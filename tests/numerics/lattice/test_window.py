"""The window of a sum of lattice variables: what lies outside it is as little as is said, and no rate does better."""

import math

import numpy as np
import pytest

from epsilog.numerics.lattice.distribution import _RATES, _at_rate, _reach, find_support_window

LAWS = {
    "a coin": [(np.array([0, 1]), np.array([0.5, 0.5]), 60)],
    "rare large losses": [(np.array([-1, 0, 40]), np.array([0.3, 0.699, 0.001]), 50)],
    "a constant": [(np.array([3]), np.array([1.0]), 7)],
    "two kinds": [(np.array([-2, 5]), np.array([0.9, 0.1]), 20), (np.array([0, 1, 9]), np.array([0.2, 0.7, 0.1]), 15)],
}


def summed(laws):
    """The law of the sum, and the index at which it begins."""
    whole, start = np.array([1.0]), 0
    for points, weight, count in laws:
        one = np.zeros(points[-1] - points[0] + 1)
        one[points - points[0]] = weight
        for _ in range(count):
            whole = np.convolve(whole, one)
        start += count * int(points[0])
    return whole, start


@pytest.mark.parametrize("nats", [2.0, 14.0, 44.0])
@pytest.mark.parametrize("name", LAWS)
def test_next_to_nothing_lies_outside(name, nats):
    low, mean, high = find_support_window(LAWS[name], nats)
    whole, start = summed(LAWS[name])
    index = start + np.arange(len(whole))
    assert mean == pytest.approx(float(whole @ index))
    for outside in (index < low, index > high):
        assert math.fsum(whole[outside]) <= math.exp(-nats) * (1 + 1e-9)
    assert high - low <= len(whole) + 4  # no more than there is


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("nats", [1.0, 15.0, 45.0, 600.0])
@pytest.mark.parametrize("name", LAWS)
def test_the_walk_ends_at_the_best_of_all_rates(name, nats, sign):
    centered = [(points - float(weight @ points), weight, count) for points, weight, count in LAWS[name]]
    spread = math.sqrt(math.fsum(count * float(weight @ (away * away)) for away, weight, count in centered))
    unit = sign / max(spread, 1e-6)
    assert _reach(centered, unit, nats) == min(_at_rate(centered, rate * unit, nats) for rate in _RATES)

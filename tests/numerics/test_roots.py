"""Searches: to the last double, to the last whole number, and by secants; what is returned was tried."""

import math
from itertools import product

import pytest

from epsilog.numerics.roots import bisect_doubles, estimate_root, find_first_integer, find_last_integer


def noting(holds):
    tried = {}

    def asked(at):
        tried[at] = holds(at)
        return tried[at]

    return asked, tried


@pytest.mark.parametrize("root", [5e-324, 1e-300, 0.1, 1.0, 7e200])
def test_a_bracket_ends_at_neighboring_doubles(root):
    low, high = bisect_doubles(lambda x: x >= root, 0.0, 1e300)
    assert (low, high) == (math.nextafter(root, 0.0), root)


@pytest.mark.parametrize("off", [-1.0, -1e-3, -1e-12, -1e-16, 0.0, 1e-16, 1e-15, 1e-9, 0.5, 1e300, math.inf])
@pytest.mark.parametrize("root", [5e-324, 1e-300, 0.1, 1.0, 7e200])
def test_where_a_bracket_is_thought_to_end_changes_how_often_it_asks_and_nothing_else(root, off):
    asked, tried = noting(lambda x: x >= root)
    near = root * (1 + off)
    assert bisect_doubles(asked, 0.0, 1e300, near=near) == (math.nextafter(root, 0.0), root)
    assert tried[root]
    assert not tried.get(math.nextafter(root, 0.0), False)  # the lowest end is taken as it is
    assert len(tried) <= (8 if abs(off) <= 2e-16 else 80)


@pytest.mark.parametrize("limit", [None, 1, 16, 64, 1000, 10**9])
def test_the_largest_was_tried_and_so_was_the_one_above(limit):
    for most, start in product((0, 1, 2, 3, 15, 16, 17, 63, 64, 1000), (1, 2, 5, 100, 5000)):
        asked, tried = noting(lambda n, most=most: n <= most)
        found = find_last_integer(asked, start=start, limit=limit)
        assert found == (most if limit is None else min(most, limit)), (most, start)
        assert found == 0 or tried[found], (most, start)
        assert found == limit or tried[found + 1] is False, (most, start)
        assert len(tried) <= 40, (most, start)


def test_a_search_may_begin_below_zero_or_above():
    assert find_last_integer(lambda n: n < -1, low=-1) == -1
    assert find_last_integer(lambda n: n < 20, start=12, low=11) == 19
    assert find_first_integer(lambda n: n >= 12, 11, 12) == 12


@pytest.mark.parametrize("steep", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("root", [1e-9, 1.0, 1e6])
def test_secants_find_a_root_however_steep_the_curve(root, steep):
    found = estimate_root(
        lambda x: steep * (root * root - x * x) / root, 0.1 * root, -steep, enough=1e-12 * steep * root
    )
    assert math.isclose(found, root, rel_tol=1e-8)


def test_a_search_that_may_not_look_often_says_where_it_was():
    assert estimate_root(lambda x: 1 / x, 1.0, -1.0, enough=1e-12, attempts=1) == 2.0

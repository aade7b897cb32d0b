"""The allowances for rounding enclose what they say, in exact rationals; library functions err by what is assumed."""

import ast
import importlib
import inspect
import math
import pkgutil
import re
from fractions import Fraction
from itertools import chain
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.special import erfcx

import epsilog
from epsilog import accounting, numerics
from epsilog.numerics import rounding
from epsilog.numerics.rounding import (
    ELEMENTARY,
    ERFCX,
    LEAST,
    UNDERFLOW,
    UNIT,
    gamma,
    round_down,
    round_up,
    union_probability,
)

U = Fraction(UNIT)
NORMAL = 2.0**-1022
numbers = st.floats(allow_nan=False, allow_infinity=False)
few = st.one_of(st.integers(0, 300), st.sampled_from([10**4, 10**8, 10**12, 2**50]))
quick = settings(max_examples=50, deadline=None)


def exact(number):
    """As a fraction; an infinity is beyond every double and what its roundings can have come from."""
    return Fraction(number) if math.isfinite(number) else Fraction(10) ** 400 * (1 if number > 0 else -1)


def reach(number, roundings):
    """The least and the largest number that so many roundings can have turned into ``number``."""
    ends = [Fraction(number) * (1 - U) ** roundings, Fraction(number) / (1 - U) ** roundings]
    return min(ends), max(ends)


@quick
@given(number=numbers.filter(lambda x: x == 0 or abs(x) >= 2 * NORMAL), roundings=st.integers(0, 300))
def test_up_and_down_enclose_all_that_a_number_can_have_been(number, roundings):
    low, high = reach(number, roundings)
    assert exact(round_down(number, roundings)) <= low <= high <= exact(round_up(number, roundings))


@quick
@given(number=numbers.filter(lambda x: abs(x) < 1e300), roundings=few)
def test_below_the_normal_numbers_the_underflow_is_added(number, roundings):
    far = Fraction(abs(number)) * roundings * U / (1 - roundings * U) + 7 * Fraction(LEAST)
    assert exact(round_up(number, roundings) + UNDERFLOW) >= Fraction(number) + far
    assert exact(round_down(number, roundings) - UNDERFLOW) <= Fraction(number) - far


@quick
@given(start=st.floats(1e-30, 1e30), factors=st.lists(st.floats(1e-3, 1e3), max_size=60), seed=st.randoms())
def test_a_chain_of_products_and_quotients_stays_inside(start, factors, seed):
    found, truth = start, Fraction(start)
    for factor in factors:
        if seed.random() < 0.5:
            found, truth = found * factor, truth * Fraction(factor)
        else:
            found, truth = found / factor, truth / Fraction(factor)
    assert exact(round_down(found, len(factors))) <= truth <= exact(round_up(found, len(factors)))
    assert abs(truth - Fraction(found)) <= Fraction(gamma(len(factors))) * min(abs(truth), Fraction(found)) * (1 + U)


chances = st.one_of(st.floats(0, 1), st.floats(0, 2 * NORMAL), st.floats(0, 1e-300), st.floats(0, 1e-9))


@quick
@given(rounds=st.lists(st.tuples(chances, st.integers(0, 12)), max_size=4))
@example(rounds=[(LEAST, 2)])  # it is less than twice the least double: by 1e-323 of that
@example(rounds=[(2.0**-1040, 3), (5 * LEAST, 1)])
@example(rounds=[(NORMAL, 2), (0.5, 0)])
def test_a_union_holds_the_chance_in_exact_rationals(rounds):
    least, most = union_probability(rounds)
    truth = 1 - math.prod((1 - Fraction(chance)) ** count for chance, count in rounds)
    assert Fraction(least) <= truth <= Fraction(most)
    assert most - least <= 60 * UNIT * most + 2 * LEAST


def test_a_union_is_no_further_from_what_is_found_than_it_says():
    """Below the normal numbers sums of a few chances are exact, and each end is one least double away from them."""
    for count in (1, 2, 1000):
        assert union_probability([(LEAST, count)]) == ((count - 1) * LEAST, (count + 1) * LEAST)


def test_half_of_the_roundings_would_not_do():
    """The control: products that are each rounded down nearly as far as can be."""
    found, truth = 1.0, Fraction(1)
    for _ in range(40):
        ahead = [1 + 1e-4 * math.sqrt(k) for k in range(1, 100)]
        factor = max(ahead, key=lambda x: Fraction(found) * Fraction(x) / Fraction(found * x))
        found, truth = found * factor, truth * Fraction(factor)
    assert truth > exact(round_up(found, 18))
    assert truth <= exact(round_up(found, 40))


@quick
@given(values=st.lists(st.floats(-1e10, 1e10), min_size=1, max_size=50))
def test_sums_err_by_gamma_of_their_sizes(values):
    off = abs(Fraction(sum(values)) - sum(map(Fraction, values)))
    assert off <= Fraction(gamma(len(values))) * sum(abs(Fraction(value)) for value in values)


def test_infinite_numbers_stay_and_nothing_becomes_something():
    for side in (round_up, round_down):
        assert side(math.inf, 8) == math.inf
        assert side(-math.inf, 8) == -math.inf
        assert side(0.0, 10**6) == 0.0
        assert math.isnan(side(math.nan, 1))
    assert gamma(2.0**53) == gamma(1e300) == math.inf
    assert round_up(1.0, 2.0**53) == math.inf


@quick
@given(values=st.lists(numbers, min_size=1, max_size=5), roundings=few)
def test_arrays_are_moved_as_their_numbers_are(values, roundings):
    with np.errstate(over="ignore"):
        for side in (round_up, round_down):
            assert side(np.array(values), roundings).tolist() == [side(value, roundings) for value in values]
    counts = np.array([0.0, 1.0, 1e6, 2.0**53])
    assert gamma(counts).tolist() == [gamma(float(count)) for count in counts]


def off(function, truth, points):
    """The largest relative error in units of round-off."""
    with mpmath.workdps(60):
        pairs = zip(points.tolist(), function(points).tolist(), strict=True)
        return max(float(abs(mpmath.mpf(found) / truth(mpmath.mpf(x)) - 1)) for x, found in pairs) / UNIT


def spread(low, high):
    """Numbers of either sign, evenly in their logarithms."""
    sizes = np.exp(np.random.default_rng(7).uniform(math.log(low), math.log(high), 150))
    return np.concatenate((sizes, -sizes))


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("exp", spread(1e-20, 700)),
        ("expm1", spread(1e-300, 700)),
        ("log", np.abs(spread(1e-300, 1e300))),
        ("log", 1 + spread(1e-10, 0.5)),
        ("log1p", spread(1e-300, 0.999)),
        ("log1p", np.abs(spread(1, 1e300))),
        ("sin", spread(1e-300, 1e4)),
        ("cos", spread(1e-10, 1e4)),
    ],
)
def test_elementary_functions_err_by_no_more_than_is_assumed(name, points):
    """NumPy's and libm's; the allowance is three times what is seen."""
    truth = getattr(mpmath, name)
    assert off(getattr(np, name), truth, points) < ELEMENTARY / 2
    assert off(np.vectorize(getattr(math, name)), truth, points) < ELEMENTARY / 2


@pytest.mark.parametrize("across", [1e-250, 1e-17, 1e-3, 1.0, 1e3, 1e17, 1e250])
def test_the_angle_of_a_complex_number_errs_by_no_more_than_is_assumed(across):
    points = spread(1e-3, 1e3)
    found = np.arctan2(points, across * points[::-1])
    with mpmath.workdps(60):
        angles = [
            mpmath.atan2(y, mpmath.mpf(x))
            for y, x in zip(points.tolist(), (across * points[::-1]).tolist(), strict=True)
        ]
        relative = [abs(mpmath.mpf(one) / angle - 1) for one, angle in zip(found.tolist(), angles, strict=True)]
    assert max(relative) < ELEMENTARY / 2 * UNIT


def test_the_scaled_error_function_errs_by_no_more_than_is_assumed_from_0_on():
    points = np.concatenate(([0.0], np.abs(spread(1e-20, 1e20)), np.linspace(0, 30, 200)))
    with mpmath.workdps(60):
        assert off(erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), points[points < 1e4]) < ERFCX
        far = points[points >= 1e4]
        assert off(erfcx, lambda x: (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mpmath.pi)), far) < ERFCX


def test_the_allowances_are_what_their_names_say():
    assert np.nextafter(1.0, 2.0) == 1 + 2 * UNIT
    assert math.nextafter(0.0, 1.0) == LEAST
    assert 1 < rounding.SECOND_ORDER < 1.1


def bare_numbers(source):
    """The lines of calls of roundings, inside functions and classes, whose allowance is nothing but numbers."""
    for owner in ast.parse(source).body:
        for node in ast.walk(owner) if isinstance(owner, ast.FunctionDef | ast.ClassDef) else ():
            match node:
                case ast.Call(func=ast.Name(id="round_up" | "round_down"), args=[_, by]):
                    pass
                case ast.Call(func=ast.Name(id="gamma"), args=[by]):
                    pass
                case _:
                    continue
            if not any(isinstance(one, ast.Name | ast.Attribute) for one in ast.walk(by)):
                yield node.lineno


def test_no_allowance_is_a_bare_number():
    said = ("f(round_up(x, 4), gamma(2 * 8.0))", "f(round_up(x, ONCE), gamma(8 + len(x)), round(x, 4))")
    assert [len(list(bare_numbers(f"def f(x):\n    return {one}"))) for one in said] == [2, 0]
    sources = {file: file.read_text(encoding="utf-8") for file in Path(epsilog.__file__).parent.rglob("*.py")}
    rounds = re.compile(r"\b(gamma|round_up|round_down)\(")
    found = {file.name: list(bare_numbers(text)) for file, text in sources.items() if rounds.search(text)}
    assert not any(found.values()), found


def documented():
    """The names in the first column of the last table of the page on rounding."""
    page = (Path(__file__).parents[2] / "docs/accounting/rounding.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.split("## 3. From name to proof")[1], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def parts():
    """Every module of the accountant and of numerics."""
    packages = (accounting, numerics)
    found = chain.from_iterable(pkgutil.walk_packages(one.__path__, one.__name__ + ".") for one in packages)
    return [importlib.import_module(module.name) for module in found]


def has(owner, path):
    """Whether a name, or the attribute of one, is defined there."""
    first, *rest = path.split(".")
    if rest:
        return hasattr(owner, first) and has(getattr(owner, first), ".".join(rest))
    return hasattr(owner, first) or first in getattr(owner, "__annotations__", ()) or first in assigned(owner)


def assigned(owner):
    """The attributes that a class sets at birth."""
    return owner.__init__.__code__.co_names if "__init__" in getattr(owner, "__dict__", ()) else ()


def test_every_name_in_the_table_of_allowances_is_in_the_code():
    modules = parts()
    assert not {name for name in documented() if not any(has(module, name) for module in modules)}


def test_every_allowance_is_in_the_table():
    own = {name for name, value in vars(rounding).items() if name.isupper() or inspect.isfunction(value)}
    assert {name for name in own if not name.startswith("_")} <= documented()
    assert {"gamma", "round_up", "UNIT"} <= own

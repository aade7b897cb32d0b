"""Numbers become Python's own at birth: what numpy, Decimal and Fraction write is what Python writes."""

import ast
import dataclasses
import inspect
import math
import operator
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from tests.terms.test_codec import SAMPLES, stored_as

import epsilog as ep
from epsilog import mechanisms, schemes, terms
from epsilog.mechanisms import Gaussian, PureDP, Repeated
from epsilog.terms import CheckError, Interval, NeighboringRelation, arrays, check, codec
from epsilog.terms.disclosed import Private

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
OTHERS = [
    mechanisms.BufferedToeplitzStrategy((0.9, 0.5), (0.3, 0.25)),
    terms.DeltaChoice(0.5, "as given", (terms.delta_finding(0.5, population=2),)),
    terms.DeltaPolicy(1e-6),
]
OTHERS += [
    terms.Finding("noise/passed", terms.Status.PASSED, "It agrees.", (("share", 0.5),)),
    terms.Canaries(4, "ab" * 32),
]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def kinds(value):
    """Every way to write a number that holds it exactly."""
    if isinstance(value, bool):
        return [np.bool_(value)]
    if isinstance(value, int):
        return [kind(value) for kind in INTEGERS if value <= np.iinfo(kind).max and value >= np.iinfo(kind).min]
    whole = [int(value)] if math.isfinite(value) and value == int(value) else []
    exact = [Decimal(value), *([Fraction(value)] if math.isfinite(value) else []), *whole]
    with np.errstate(over="ignore"):
        return exact + [kind(value) for kind in FLOATS if float(kind(value)) == value]


def rewritten(value):
    """Values of a field, each with its numbers written another way."""
    if isinstance(value, bool | int | float):
        return kinds(value)
    if isinstance(value, tuple) and value and all(isinstance(item, float | int) for item in value):
        return [list(value), np.array(value), tuple(np.array(value)), [Decimal(item) for item in value]][
            : 3 if isinstance(value[0], int) else 4
        ]
    if isinstance(value, tuple) and value and isinstance(value[0], tuple) and isinstance(value[0][-1], float):
        return [[list(row) for row in value], tuple((*row[:-1], np.float64(row[-1])) for row in value)]
    return []


def bare(value):
    """Whether a value and all in it are of Python's own kinds, or terms and enums."""
    if isinstance(value, tuple):
        return type(value) is tuple and all(bare(item) for item in value)
    if dataclasses.is_dataclass(value):
        return all(bare(getattr(value, field.name)) for field in dataclasses.fields(value))
    return value is None or type(value) in (int, float, str, bool, NeighboringRelation, terms.Status)


def same(one, other):
    return (
        one == other
        and (isinstance(one, Private) or hash(one) == hash(other))
        and repr(one) == repr(other)
        and (type(one) not in codec.type_of.values() or _bytes(one) == _bytes(other))
    )


def _bytes(term):
    return codec.encode_canonical(stored_as(term))


def test_every_public_dataclass_of_terms_is_in_the_walk():
    faces = (mechanisms, schemes, terms)
    public = {found for face in faces for found in vars(face).values() if isinstance(found, type)}
    public -= {schemes.Party, schemes.RawUpdate, schemes.NoisyUpdate, schemes.LocalDPSGD}  # never stored
    public -= {terms.Message}  # has JSON of its own
    described = {kind for kind in public if dataclasses.is_dataclass(kind)}
    assert described == {type(sample) for sample in [*SAMPLES, *OTHERS]}


@pytest.mark.parametrize("term", [*SAMPLES, *OTHERS], ids=lambda term: type(term).__name__)
def test_a_term_is_the_same_however_its_numbers_are_written(term):
    fields = {f.name: getattr(term, f.name) for f in dataclasses.fields(term)}
    assert bare(term)
    for name, value in fields.items():
        for other in rewritten(value):
            made = type(term)(**fields | {name: other})
            assert same(made, term), (name, other)
            assert bare(made), (name, other)


@pytest.mark.slow
@given(
    value=st.floats(0, 1e300, allow_subnormal=True),
    kind=st.sampled_from([Decimal, Fraction, np.float64, np.longdouble]),
)
def test_any_double_survives_any_kind(value, kind):
    assert same(PureDP(kind(value)), PureDP(value))


@pytest.mark.parametrize(
    "value",
    [Decimal("0.1"), Fraction(1, 3), np.longdouble(1) / 3, Decimal("1.00000000000000000001"), 2**53 + 1, 10**300 + 7],
)
def test_what_no_double_holds_is_rounded_to_the_safe_side(value):
    """A promise upwards, noise downwards; a decimal that is the shortest text of a double is that double."""
    exact = Fraction(value) if not isinstance(value, np.longdouble) else Fraction(*value.as_integer_ratio())
    above, below = PureDP(value).epsilon, Gaussian(value).noise_multiplier
    if value == Decimal("0.1"):
        assert above == below == 0.1
        return
    assert Fraction(below) < exact < Fraction(above)
    assert math.nextafter(below, math.inf) == above


def test_what_no_double_holds_is_refused_where_no_side_is_safe():
    with pytest.raises(CheckError, match=r"gamma must be a number that a double holds, such as 0\.3{16}, got"):
        mechanisms.Staircase(1.0, gamma=Fraction(1, 3))


@pytest.mark.parametrize("kind", [np.array, jnp.asarray, lambda x: np.array(x, dtype=object)[None][0]])
@pytest.mark.parametrize("value", [0.5, np.float16(0.1), np.float32(0.1), np.uint8(200), jnp.bfloat16(0.1), 3])
def test_arrays_without_an_axis_are_the_number_that_they_hold(kind, value):
    found = Gaussian(kind(value)).noise_multiplier
    assert type(found) is float
    assert found == float(value)
    if isinstance(value, np.uint8 | int):
        assert Repeated(PureDP(1.0), kind(value)) == Repeated(PureDP(1.0), int(value))


class Loud(float):
    """A number that says something else of itself."""

    def __float__(self):
        return 1e9

    __add__ = __radd__ = __mul__ = __pos__ = __round__ = __trunc__ = __repr__ = __eq__ = __lt__ = __float__
    __hash__ = None


class Many(int):
    """A whole number that says something else of itself."""

    def __int__(self):
        return 10**9

    __index__ = __add__ = __radd__ = __mul__ = __pos__ = __trunc__ = __int__


def test_methods_of_a_subclass_are_not_asked():
    class Ratio(Fraction):
        numerator = denominator = property(lambda _: 10**9)

    assert Gaussian(Loud(0.5)) == Gaussian(Ratio(1, 2)) == Gaussian(0.5)
    assert Repeated(PureDP(1.0), Many(3)) == Repeated(PureDP(1.0), 3)
    assert type(Repeated(PureDP(1.0), Many(3)).count) is int


class Shown:
    """A foreign real number that shows a ratio, as its own parts or by a method."""

    def __init__(self, above, below):
        self.numerator, self.denominator = above, below

    def as_integer_ratio(self):
        return self.numerator, self.denominator

    __float__ = __int__ = __index__ = None


class ForeignReal(Shown):
    """Gives its ratio by its method."""


class ForeignRational(Shown):
    """Gives its ratio by its parts."""


class Index:
    """A whole number to Python, and nothing else."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class ForeignWhole(Index):
    """A whole number that is registered as one."""


Integral.register(ForeignWhole)
Real.register(ForeignReal)
Rational.register(ForeignRational)
WHOLE = [int, np.int64, np.array, jnp.asarray, Index]
NOT_WHOLE = [
    True, np.bool_(True), np.array(True), jnp.asarray(True), 2.0, 2.5, np.float64(2), Decimal(2), Fraction(2), "2",
    None, 1j, [2], np.array([2]), Index(True), Index("2"), math.nan,
]  # fmt: skip


@given(
    above=st.integers(-(2**31), 2**31 - 1),
    below=st.integers(1, 2**31 - 1),
    kind=st.sampled_from([ForeignReal, ForeignRational]),
    parts=st.tuples(st.sampled_from(WHOLE), st.sampled_from(WHOLE)),
)
def test_a_foreign_ratio_is_the_number_that_its_whole_parts_make(above, below, kind, parts):
    assert Repeated(PureDP(1.0), ForeignWhole(below)).count == below
    given_ = kind(parts[0](above), parts[1](below))
    assert check.exact_rational()(amount=given_) == check.exact("amount", given_) == Fraction(above, below)


@given(
    odd=st.sampled_from(NOT_WHOLE),
    at=st.sampled_from([0, 1]),
    other=st.integers(1, 1000),
    kind=st.sampled_from([ForeignReal, ForeignRational]),
)
def test_a_ratio_of_anything_but_whole_numbers_is_refused(odd, at, other, kind):
    parts = (odd, other) if at == 0 else (other, odd)
    for ask in (check.exact, check.double, check.fraction, check.parse_integer):
        with pytest.raises(CheckError, match="amount must be a number that is a ratio of two whole numbers"):
            ask("amount", kind(*parts))


@pytest.mark.parametrize("parts", [(1,), (1, 2, 3), (), 5, None])
def test_a_ratio_has_two_parts(parts):
    class Other(ForeignReal):
        def as_integer_ratio(self):
            return parts

    for odd in (Other(1, 2), ForeignReal(1, 0), ForeignRational(0, 0), object.__new__(Fraction)):
        with pytest.raises(CheckError, match="amount must be a"):
            check.exact("amount", odd)


def test_values_that_are_traced_are_refused_clearly():
    says = r"noise_multiplier must be a number that is known now, not a value that JAX traces \(jit, grad, vmap\)"
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(CheckError, match=says):
            transform(lambda x: Gaussian(x).noise_multiplier)(jnp.ones(3) if transform is jax.vmap else 1.0)
    with pytest.raises(CheckError, match="delta must be numbers that can be read now"):
        jax.jit(lambda x: ep.epsilon(Gaussian(1.0), delta=x).upper)(jnp.array([0.1, 0.2]))
    gone = jnp.asarray(1.0)
    gone.delete()
    with pytest.raises(CheckError, match="noise_multiplier must be a number that can be read now"):
        Gaussian(gone)
    assert jax.jit(lambda: Gaussian(np.float32(2.0)).noise_multiplier)() == 2.0  # a constant is known


def test_a_value_whose_text_fails_or_is_long_is_shown_by_its_type_or_cut():
    class Silent:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(CheckError, match="epsilon must be a number, got a Silent"):
        PureDP(Silent())
    with pytest.raises(CheckError) as error:
        PureDP("9" * 10**6)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 1.0], (Fraction(1, 2), 1), np.array([0.5, 1.0], dtype=">f8"), np.array([0.5, 1.0], dtype=np.float16),
        np.array([0.5, 1.0], dtype=np.longdouble), np.array([0.5, 1], dtype=object), jnp.asarray([0.5, 1.0]),
        pd.Series([0.5, 1.0]), pl.Series([0.5, 1.0]), (x for x in (0.5, 1.0)), jnp.asarray([0.5, 1.0], jnp.bfloat16),
    ],
    ids=lambda values: type(values).__name__,
)  # fmt: skip
def test_a_series_of_any_library_is_an_array_of_doubles(values):
    found = arrays.doubles("losses", values)
    assert (type(found), found.dtype, found.tolist()) == (np.ndarray, np.dtype("float64"), [0.5, 1.0])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0.5, "1.0"], r"losses\[1\] must be a number"), ("12", "losses must be a series"), (0.5, "must be a series"),
        ({0.5: 1}, "must be a series"), (np.array(["1.0"]), r"losses\[0\] must be a number"),
        (np.array([True]), r"losses\[0\] must be a number"), (np.array([1j]), r"losses\[0\] must be a number"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "without a mask"), ([2**53 + 1], "that a double holds"),
        (np.array([2**63 - 1]), "that a double holds"), (np.array(["2020-01-01"], "M8[ns]"), "must be a number"),
        (pd.Series([1.0, None], dtype="object"), r"losses\[1\] must be a number"), ([[0.5]], r"must be a number"),
        (np.array([Fraction(1, 3)]), "that a double holds"), (np.zeros(1, "V8"), "must be a number"),
    ],
    ids=str,
)  # fmt: skip
def test_a_series_of_anything_else_is_refused(values, says):
    with pytest.raises(CheckError, match=says):
        arrays.doubles("losses", values)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1e-400"), Fraction(1, 10**400), np.longdouble("1e-4000"),  # not 0, though float() says so
        Decimal("1e400"), Fraction(10**400), 10**400, 10**5000, np.longdouble("1e4000"),
        Decimal("nan"), Decimal("sNaN"), Decimal("inf"), np.float32("nan"), np.float64("inf"), -np.float16("inf"),
        True, np.bool_(True), np.array(True), jnp.asarray(True), "1", b"1", None, 1j, np.complex64(1), np.array(1j),
        np.array([1.0]), jnp.asarray([1.0]), np.ma.masked, np.ma.masked_array(1.0, mask=False), np.array("1"),
        np.array(None), np.array("1", dtype=object), np.zeros((), "V8"), np.zeros((), [("a", "f8")]), jax.random.key(0),
        np.datetime64(1, "s"), np.timedelta64(1, "s"), np.datetime64(1, "ns"), np.array(1, "m8[ns]"), pd.NA, pd.NaT,
    ],
    ids=lambda value: f"{type(value).__name__}",
)  # fmt: skip
def test_what_has_no_double_is_refused_by_name(value):
    with pytest.raises(ValueError, match="epsilon must be"):
        PureDP(value)


@pytest.mark.parametrize(
    "value",
    [2.0, np.float64(2), Decimal(2), Fraction(2), True, np.bool_(True), "2", 2**53, np.uint64(2**63), np.array(2.0)],
)
def test_a_count_is_an_integer(value):
    with pytest.raises(ValueError, match="count must be"):
        Repeated(PureDP(1.0), value)


@pytest.mark.parametrize("value", [True, np.bool_(True), np.array(True), jnp.asarray(True)])
def test_a_flag_of_any_library_is_a_flag(value):
    assert mechanisms.ExponentialMechanism(1.0, monotone=value).monotone is True


@pytest.mark.parametrize("value", [1, 0, 1.0, np.int64(1), "true", None, np.array(1), np.array([True]), jnp.asarray(1)])
def test_a_flag_is_true_or_false(value):
    with pytest.raises(ValueError, match="monotone must be True or False"):
        mechanisms.ExponentialMechanism(1.0, monotone=value)


def test_no_negative_zero():
    assert math.copysign(1, Gaussian(-0.0).noise_multiplier) == 1


def test_sides_of_an_interval_are_rounded_outwards():
    third = Fraction(1, 3)
    found = Interval(third, third, "m", ADD_OR_REMOVE)
    assert Fraction(found.lower) < third < Fraction(found.upper)
    assert found.upper == math.nextafter(found.lower, 1)
    for kind in (Decimal, Fraction, np.float64, np.longdouble, np.float32):
        assert same(Interval(kind(0.5), kind(0.75), "m", ADD_OR_REMOVE), Interval(0.5, 0.75, "m", ADD_OR_REMOVE))
    top = np.uint64(2**64 - 1)
    assert Interval(0.0, top, "m", ADD_OR_REMOVE).upper == 2.0**64
    assert Interval(top, 1e300, "m", ADD_OR_REMOVE).lower < 2**64 - 1
    third = np.longdouble(1) / 3
    assert Interval(third, third, "m", ADD_OR_REMOVE).lower < third < Interval(third, third, "m", ADD_OR_REMOVE).upper


def test_strings_become_plain_strings():
    class Loud(str):
        __slots__ = ()

    for text in (np.str_("school"), Loud("school")):
        assert type(terms.Guarantee(1.0, 1e-6, ADD_OR_REMOVE, text, 10).privacy_unit) is str


def test_a_byte_does_not_wrap_around():
    sgd = mechanisms.PoissonSampled(Gaussian(1.0), 0.01)
    bytes_, whole = (Repeated(Repeated(sgd, kind(100)), kind(100)) for kind in (np.uint8, int))
    assert ep.epsilon(bytes_, delta=1e-6) == ep.epsilon(whole, delta=1e-6)
    assert ep.epsilon(bytes_, delta=1e-6).upper > 6
    scheme = schemes.ExampleLevelClientSide(10, 5, 200, np.uint8(200), 0.01, np.uint8(3), 1.0, 1.0)
    assert scheme.after(np.uint8(200)).count == scheme.release().count == 60_000


# ---- nothing that was checked is used unconverted --------------------------------------------------------------------

CONVERTERS = {name for name, made in vars(check).items() if inspect.isfunction(made) and not name.startswith("_")} - {
    "fields",
    "instance",
}


def thrown_away(tree):
    """Checks of an argument whose result is not kept: the argument would be used as it came."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
        for node in ast.walk(function):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_check(node.value.func):
                named = {k.value.id for k in node.value.keywords if k.arg and isinstance(k.value, ast.Name)}
                yield from ((node.lineno, name) for name in named & arguments)


def _is_check(made):
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return False
    return isinstance(made.func.value, ast.Name) and made.func.value.id == "check" and made.func.attr in CONVERTERS


@pytest.mark.slow
def test_every_checked_argument_is_replaced_by_what_the_check_returns():
    begins = re.compile(r"^ +check\.\w+\(", re.MULTILINE)  # as such a statement does
    for path in Path(ep.__file__).parent.rglob("*.py"):
        if begins.search(text := path.read_text()):
            assert not list(thrown_away(ast.parse(text))), path
    careless = "def f(*, delta):\n    check.in_open_interval(0, 1)(delta=delta)"
    assert list(thrown_away(ast.parse(careless))) == [(2, "delta")]


EDGES = [0.0, 5e-324, 1.0, 1.0 - 2**-53, 1.0 + 2**-52, 1e308, math.inf, math.nan]
EDGES += [-one for one in EDGES]


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({}, "finite"),
        ({"gt": 0}, "finite and above 0"),
        ({"ge": 1}, "finite and at least 1"),
        ({"lt": 0}, "finite and below 0"),
        ({"le": -1}, "finite and at most -1"),
        ({"gt": 0, "lt": 1}, "in (0, 1)"),
        ({"gt": 0, "le": 1}, "in (0, 1]"),
        ({"ge": -1, "lt": 1}, "in [-1, 1)"),
        ({"ge": 0, "le": 1e308}, "in [0, 1e+308]"),
    ],
)
def test_bounds_hold_of_the_doubles_that_compare_so(bounds, says):
    for value in EDGES:
        holds = all(getattr(operator, name)(value, bound) for name, bound in bounds.items())
        if math.isfinite(value) and holds:
            assert check.finite(**bounds)(x=value) == value
        else:
            with pytest.raises(CheckError, match=re.escape(f"x must be {says}, got")):
                check.finite(**bounds)(x=value)

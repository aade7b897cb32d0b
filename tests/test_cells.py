"""What one cell holds changes how no other row is read, whatever library holds the column."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.extent import amount

from epsilog import cells
from epsilog.queries import Count, Histogram, Sum, contributions, scan_file
from epsilog.terms import CheckError, RecordError
from epsilog.training import Federation
from epsilog.training.data import custom, frames
from epsilog.training.data.tables import is_held_out

pl = pytest.importorskip("polars", reason="extra data")
pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")


class Huge:
    """A number past every double, by its own word."""

    def __float__(self):
        raise OverflowError("secret")


class Angry:
    """Raises whatever is asked of it."""

    def _raise(self, *_):
        raise RuntimeError("secret")

    __eq__ = __ne__ = __hash__ = __float__ = __bool__ = __len__ = __gt__ = __str__ = __repr__ = _raise


WIDE = [0, 1, 2**53, 2**53 + 1, -(2**62), 2**62, 2**63 - 1, -(2**63), None]
TEXTS = [
    "a", " a", "b\0", "", " ", "1", "1.0", "2,5", "1_0", "\u0661", "1e400", "nan", "inf", "9" * 5000, "\ufffd",
    "2020-01-01", "2020-02-31", "99999-01-01", "true", None,
]  # fmt: skip
FLOATS = [0.0, 1.0, 1.5, 2.0**53, 1e300, -1e300, 1e-320, math.inf, -math.inf, math.nan, None]
DECIMALS = [Decimal(1), Decimal("1.5"), Decimal("9" * 37), Decimal("-" + "9" * 37), None]
ODD = [
    *WIDE, *TEXTS, *FLOATS, *DECIMALS, Angry(), Huge(), -(10**400), 10**400, 10**5000, Decimal("sNaN"),
    Decimal("1e999"), Fraction(10**400),
    1j, np.complex128(1j), np.array(1j), True, b"a", b"\xff", "\ud800", [], [1], [1, 2], {}, {"a": 1}, (), (1,), object,
    np.array([1.0]), np.array([1, 2]), np.array(3), np.float32("nan"), np.int8(3), np.longdouble(10) ** 4000,
    np.str_("1"), np.datetime64("NaT"), np.datetime64(2**62, "Y"), np.timedelta64(1, "s"), pd.NA, pd.NaT,
    pd.Series([1]), pd.Timestamp("2020-01-01", tz="Europe/Berlin"), dt.date(2020, 1, 1),
    dt.datetime(9999, 1, 1, tzinfo=dt.UTC),
]  # fmt: skip
ANGRY = next(place for place, each in enumerate(ODD) if isinstance(each, Angry))


def whole(*, bits=64):
    """Whole numbers as an array of Arrow, to be seen as another type."""
    return lambda values: (
        pa.array([None if each is None else each % 2**31 for each in values], pa.int32())
        if bits == 32
        else pa.array(values, pa.int64())
    )


def seen_as(kind, bits=64):
    return lambda values: whole(bits=bits)(values).view(kind)


def in_pandas(array):
    return lambda values: pd.DataFrame({"v": pd.Series(pd.arrays.ArrowExtensionArray(array(values)))})


def in_arrow(array):
    return lambda values: pa.table({"v": array(values)})


def of_bytes(values):
    """Text of Arrow that nobody looked into: some is no UTF-8."""
    return pa.array([None if each is None else each * 9 for each in values], pa.binary()).view(pa.string())


def moments(unit, zone=None):
    """Moments as pandas holds them, with no year too many."""

    def made(values):
        found = np.array(["NaT" if each is None else each for each in values], dtype=f"datetime64[{unit}]")
        series = pd.Series(found)
        return pd.DataFrame({"v": series if zone is None else series.dt.tz_localize("UTC").dt.tz_convert(zone)})

    return made


def masked(values):
    return {"v": np.ma.array(filled(values, 7), np.int64, mask=[each is None for each in values])}


BOOKS = duckdb.connect()


def in_duckdb(kind):
    def made(values):
        BOOKS.execute(f"create or replace table t (v {kind})")
        BOOKS.execute(f"insert into t values {', '.join('(?)' for _ in values)}", values)  # noqa: S608
        return BOOKS.table("t")

    return made


def filled(values, at):
    return [at if each is None else each for each in values]


KINDS = {
    "list": (ODD, lambda values: {"v": values}),
    "objects of NumPy": (ODD, lambda values: {"v": cells.objects([*values])}),
    "objects of pandas": (ODD, lambda values: pd.DataFrame({"v": pd.Series([*values, None], dtype=object)[:-1]})),
    "series in a mapping": (WIDE, lambda values: {"v": pl.Series(values, dtype=pl.Int64)}),
    "pandas in a mapping": (WIDE, lambda values: {"v": pd.Series(values, dtype="Int64")}),
    "Arrow in a mapping": (WIDE, lambda values: {"v": seen_as(pa.timestamp("ms"))(values)}),
    "chunks in a mapping": (WIDE, lambda values: {"v": pa.chunked_array([pa.array(values, pa.int64())])}),
    "int64": (WIDE, lambda values: {"v": np.array(filled(values, 7), np.int64)}),
    "masked": (WIDE, masked),
    "float64": (FLOATS, lambda values: {"v": np.array(filled(values, math.nan))}),
    "longdouble": (FLOATS, lambda values: {"v": np.array(filled(values, 1), np.longdouble) ** 12}),
    "U": ([*TEXTS, "\ud800"], lambda values: {"v": np.array(filled(values, "z"))}),
    "no Unicode": (WIDE, lambda values: {"v": np.array([(each or 0) % 2**32 for each in values], "<u4").view("<U1")}),
    "S": ([b"a", b"1", b"\xff", b""], lambda values: {"v": np.array(values)}),
    "years": (WIDE, lambda values: {"v": np.array(filled(values, 0), np.int64).view("datetime64[Y]")}),
    "Int64 of pandas": (WIDE, lambda values: pd.DataFrame({"v": pd.Series(values, dtype="Int64")})),
    "category of pandas": (WIDE, lambda values: pd.DataFrame({"v": pd.Categorical(values)})),
    "str of pandas": (TEXTS, lambda values: pd.DataFrame({"v": pd.Series(values, dtype="str")})),
    "moments of pandas": (WIDE, moments("us")),
    "zoned moments of pandas": (WIDE, moments("us", "Europe/Berlin")),
    "moments of Arrow in pandas": (WIDE, in_pandas(seen_as(pa.timestamp("ms")))),
    "zoned moments of Arrow in pandas": (WIDE, in_pandas(seen_as(pa.timestamp("ms", "Europe/Berlin")))),
    "days of Arrow in pandas": (WIDE, in_pandas(seen_as(pa.date32(), bits=32))),
    "times of Arrow in pandas": (WIDE, in_pandas(seen_as(pa.time64("us")))),
    "spans of Arrow in pandas": (WIDE, in_pandas(seen_as(pa.duration("s")))),
    "Int64": (WIDE, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Int64)})),
    "Int128": ([*WIDE, 2**126], lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Int128)})),
    "Decimal": (DECIMALS, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Decimal(38, 1))})),
    "String": (TEXTS, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.String)})),
    "Categorical": (TEXTS, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Categorical)})),
    "Datetime": (WIDE, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Int64).cast(pl.Datetime("ms"))})),
    "zoned Datetime": (
        WIDE,
        lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Int64).cast(pl.Datetime("ms", "Europe/Berlin"))}),
    ),
    "Array": (
        [[1, 2], [3, None], [2**62, 0], None],
        lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Array(pl.Int64, 2))}),
    ),
    "List": ([[1], [], None], lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.List(pl.Int64))})),
    "Object": (ODD, lambda values: pl.DataFrame({"v": pl.Series(values, dtype=pl.Object)})),
    "text of Arrow": ([b"a", b"\xff", b"", b"1", b"\xc3\xa9", None], in_arrow(of_bytes)),
    "words of Arrow": (
        [b"a", b"\xff", b"", b"1", None],
        in_arrow(lambda values: pa.DictionaryArray.from_arrays(pa.array(range(len(values))), of_bytes(values))),
    ),
    "moments of Arrow": (WIDE, in_arrow(seen_as(pa.timestamp("s", "Europe/Berlin")))),
    "days of Arrow": (WIDE, in_arrow(seen_as(pa.date32(), bits=32))),
    "decimals of Arrow": (DECIMALS, in_arrow(lambda values: pa.array(values, pa.decimal128(38, 1)))),
    "whole numbers of DuckDB": ([1, 2**53 + 1, -(2**127), 2**127 - 1, None], in_duckdb("HUGEINT")),
    "text of DuckDB": (TEXTS, in_duckdb("VARCHAR")),
    "moments of DuckDB": (["2020-01-01", "infinity", "-infinity", "290000-01-01", None], in_duckdb("TIMESTAMPTZ")),
    "lists of DuckDB": ([[1], [], None], in_duckdb("INTEGER[]")),
}  # fmt: skip


def said(reading):
    """What is read of each row, or a refusal, which is to depend on types alone."""
    try:
        return list(reading())
    except CheckError as refused:
        return f"{refused.field} {refused.requirement} {refused.value}"


def shown(value):
    """A value so that equal ones look equal, and no value is asked twice what it is."""
    try:
        return f"{type(value).__name__} {value!r:.99}"
    except (RuntimeError, ValueError, NotImplementedError):
        return f"{type(value).__name__} {value is ODD[ANGRY]}"


def answered(frame):
    """Each row as questions read it: what it adds, and whom it names."""
    for query in (Count("v"), Sum("v", (-2, 50)), Histogram("v", categories=("a", "1", 2))):

        def added(query=query):
            contributions.check_frame(frame, query, "v")
            with np.errstate(all="ignore"):
                return zip(
                    *contributions._list_row_contributions(contributions._collect_columns(frame, ["v"]), query),
                    strict=True,
                )

        yield said(added)
    yield said(lambda: map(shown, contributions._list_values(contributions._collect_columns(frame, ["v"]), "v")))


def learnt(table):
    """Each row as training reads it: a number, a date, a word, a client's name."""
    column = table.columns["v"]
    rows = np.arange(len(column))

    def named():
        names = column.names()
        return ([*names.known, None][place] for place in names.places)

    yield said(lambda: map(repr, column.numbers(rows).tolist()))
    yield said(lambda: map(repr, column.days(rows).tolist()))
    yield said(lambda: column.places(["a", "1"]))
    yield said(named)


def both(frame):
    found = [*answered(frame)]
    if type(frame).__module__.partition(".")[0] != "duckdb":  # training takes none
        found += learnt(frames.convert_table(frame))
    return found


def hold_alike(found, other, place):
    for one, two in zip(found, other, strict=True):
        if isinstance(one, str) or isinstance(two, str):
            assert one == two
        else:
            assert (one[:place], one[place + 1 :]) == (two[:place], two[place + 1 :])


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=amount(5, 20), deadline=None)
@given(data=st.data())
def test_one_cell_changes_how_no_other_row_is_read(kind, data):
    values, made = KINDS[kind]
    drawn = st.integers(0, len(values) - 1)  # not the values themselves: some say nothing of themselves
    column = [values[each] for each in data.draw(st.lists(drawn, min_size=1, max_size=5))]
    place = data.draw(st.integers(0, len(column) - 1))
    changed = [*column[:place], values[data.draw(drawn)], *column[place + 1 :]]
    hold_alike(both(made(column)), both(made(changed)), place)


LINES = [
    "a",
    "1",
    "2,5",
    '"a',
    '"1"',
    "x,y,z",
    "",
    " ",
    "\0",
    "\r",
    "\ufffd",
    "1e400",
    "9" * 400,
    "2020-01-01",
    "١",
    "'",
]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from([*(line.encode() for line in LINES), b"\xff", b"\xed\xa0\x80"]), min_size=2, max_size=6),
    st.data(),
)
def test_one_line_changes_how_no_other_is_read(tmp_path_factory, lines, data):
    path = tmp_path_factory.mktemp("lines") / "t.csv"
    place = data.draw(st.integers(0, len(lines) - 2))
    found = []
    for each in (lines[:-1], [*lines[:place], lines[-1], *lines[place + 1 : -1]]):
        path.write_bytes(b"\n".join([b"v,w", *each, b""]))
        found.append([*answered(scan_file(path)), *learnt(custom.read_table(path, ["v"], decimal=","))])
    hold_alike(*found, place)


@given(st.text("0123456789+-.eEinfaty_ \u0661\u00a0", max_size=8))
def test_a_text_is_the_same_number_in_a_file_and_in_memory(word):
    (in_file,) = frames.PolarsColumn(pl.Series([word])).numbers(np.arange(1)).ravel()
    assert repr(cells.number(word)) == repr(float(in_file))


def test_a_table_that_polars_does_not_know_is_refused_in_our_words():
    table = pa.table({"v": pa.array([Decimal(1)], pa.decimal256(76, 0))})
    with pytest.raises(RecordError, match=r"^the frame could not be read$"):
        contributions.check_frame(table, Count("v"), None)
    with pytest.raises(CheckError, match="table must be of types that polars knows"):
        frames.convert_table(table)


def test_a_column_may_have_any_name():
    for name in ("collect", "columns", "slice", "shape"):
        assert contributions.get_column_types(pd.DataFrame({name: [1]})) == {name: "int64"}
        contributions.check_frame(pd.DataFrame({name: [1]}), Sum(name, (0, 1)), None)


def test_a_number_beyond_every_float_warns_nobody():
    rows = {"who": ["a", "b"], "x": [1e300, 1.0], "y": [-1e300, 2.0]}
    found = Federation.from_table(rows, client="who", features=["x"], target="y")
    assert found.features.tolist() == [[math.inf], [1]]
    assert found.targets.tolist() == [-math.inf, 2]


def test_a_name_that_is_no_unicode_is_held_out_or_not():
    assert {is_held_out("\ud800", share) for share in (0.001, 1.0)} == {False, True}


def test_what_is_no_column_is_refused_by_its_type():
    for value in (3, "ab", b"ab", {"a": 1}, {1}, np.array(3), iter([1])):
        with pytest.raises(CheckError, match="v must be an array with a row for each example"):
            frames.convert_table({"v": value})

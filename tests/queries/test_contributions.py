"""Frames of every library give the same sums, and no value of a row does more than keep that row out."""

import datetime as dt
import math
from fractions import Fraction

import numpy as np
import pytest

from epsilog.queries import Count, FirstCategoryAbove, Histogram, Mean, MostCommonCategory, Sum
from epsilog.queries.contributions import check_frame, sum_contributions
from epsilog.queries.noise import list_noisy_sums
from epsilog.queries.query_types import build_value_grid
from epsilog.terms import CheckError, NeighboringRelation, RecordError

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
FRAME = {
    "unit": ["a", "b", "a", None, "c", "a", "b"],
    "whole": [1, 2, None, 4, 200, -3, 7],
    "real": [0.5, math.nan, math.inf, -math.inf, None, 2.25, 99.0],
    "flag": [True, False, None, True, True, False, True],
    "text": ["1", "x", "", None, " 2.5", "1e400", "-7"],
}
QUERIES = [
    Count(),
    *(Count(name) for name in FRAME),
    *(Sum(name, (-2, 50)) for name in FRAME),
    *(Mean(name, (0, 10)) for name in FRAME),
    Histogram("text", categories=("1", "x")),
    Histogram("whole", categories=(1, 2, 7)),
    Histogram("real", edges=(0, 1, 99)),
    MostCommonCategory("unit", ("a", "b", "z")),
    FirstCategoryAbove(2, "unit", ("z", "a")),
]


def summed(frame, query, unit=None, rows=1):
    check_frame(frame, query, unit)
    return sum_contributions(frame, query, list_noisy_sums(query, rows, ADD), unit=unit, rows=rows)


@pytest.mark.parametrize("unit", [None, "unit"])
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_polars_pandas_and_plain_columns_agree(query, unit):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = 1 if unit is None else 2
    expected = summed(FRAME, query, unit, rows)
    lazy = polars.DataFrame(FRAME, strict=False).lazy()
    nullable = {"whole": "Int64", "real": "Float64", "flag": "boolean"}
    for frame in (
        lazy,
        lazy.collect(),
        pandas.DataFrame(FRAME),
        pandas.DataFrame(FRAME).astype(nullable),
        pandas.DataFrame(FRAME, dtype=object),
        lazy.collect().with_columns(polars.col("unit").cast(polars.Categorical)),
    ):
        assert summed(frame, query, unit, rows) == expected


class Arrow:
    """A table as other libraries have it, of which the Arrow interface alone is used."""

    def __init__(self, frame):
        self.frame, self.streams = frame, []

    def slice(self, offset, length):
        return Arrow(self.frame.slice(offset, length))

    def __arrow_c_stream__(self, requested_schema=None):
        self.streams.append(self.frame.height)
        return self.frame.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("unit", [None, "unit"])
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_table_of_arrow_gives_the_same_sums_and_its_rows_are_read_last(query, unit):
    polars = pytest.importorskip("polars")
    table = Arrow(polars.DataFrame(FRAME, strict=False))
    check_frame(table, query, unit)
    assert table.streams == []  # its types are those of no rows
    rows = 1 if unit is None else 2
    assert summed(table, query, unit, rows) == summed(FRAME, query, unit, rows)
    with pytest.raises(CheckError, match="frame must have a column 'height', got 'unit', 'whole'"):
        check_frame(table, Count("height"), None)


def relation(kind, rows):
    """A relation of DuckDB, which is worked out when it is read."""
    polars = pytest.importorskip("polars")

    def limit(self, count):
        return type(self)(self.frame.head(count))

    made = type("DuckDBPyRelation", (Arrow,), {"__module__": "duckdb._relation", "type": kind, "limit": limit})
    made.slice = property()  # it has none
    return made(polars.DataFrame(rows))


def test_a_stored_table_of_duckdb_is_asked_about_and_a_query_is_refused_whatever_it_gives():
    table = relation("TABLE_RELATION", {"v": [1, 2]})
    check_frame(table, Count("v"), None)
    assert table.streams == []
    assert summed(table, Count("v")) == [[2]]
    for kind in ("QUERY_RELATION", "FILTER_RELATION", "PROJECTION_RELATION", "VIEW_RELATION", "SUBQUERY_RELATION"):
        query = relation(kind, {"v": [1, 2]})
        with pytest.raises(CheckError, match="frame must be a table of DuckDB that is stored"):
            check_frame(query, Count("v"), None)
        assert query.streams == []


def test_libraries_of_arrow_and_duckdb_themselves():
    arrow, duckdb = pytest.importorskip("pyarrow"), pytest.importorskip("duckdb")
    table = arrow.table({"v": [1, 2, None], "unit": ["a", "b", "b"]})
    for frame in (table, table.to_batches()[0]):
        assert summed(frame, Sum("v", (0, 9)), "unit") == summed({"v": [3]}, Sum("v", (0, 9)))
    with pytest.raises(CheckError, match="a whole table or record batch of Arrow"):
        check_frame(arrow.RecordBatchReader.from_batches(table.schema, table.to_batches()), Count(), None)
    books = duckdb.connect()
    books.execute("create table t as select * from (values (1, 'a'), (2, 'b'), (null, 'b')) t(v, unit)")
    assert summed(books.table("t"), Sum("v", (0, 9)), "unit") == summed({"v": [3]}, Sum("v", (0, 9)))
    for query in (books.sql("select cast(unit as int) v from t"), books.table("t").filter("v > 1")):
        with pytest.raises(CheckError, match="a query may fail because of a value"):
            check_frame(query, Count("v"), None)


def test_sums_are_those_of_the_values_that_are_there():
    step, _, _ = build_value_grid((-2.0, 50.0))
    assert summed(FRAME, Sum("whole", (-2, 50))) == [[int(Fraction(1 + 2 + 4 + 50 - 2 + 7) / step)]]
    assert summed(FRAME, Sum("real", (-2, 50))) == [[int(Fraction("0.5") / step) + int((50 - 2 + 2.25 + 50) / step)]]
    assert summed(FRAME, Sum("text", (-2, 50))) == [[int(Fraction(1 + 2 + 50 - 2) / step) + int(Fraction(1, 2) / step)]]
    assert summed(FRAME, Count("flag")) == [[6]]
    assert summed(FRAME, Count(), "unit", 2) == [[5]]
    assert summed(FRAME, Histogram("real", edges=(0, 1, 99))) == [[1, 2]]


def test_what_is_masked_is_not_there():
    for kind in (np.int64, np.float64):
        masked = np.ma.array([1, 2, 4], mask=[False, True, False], dtype=kind)
        assert summed({"v": masked}, Count("v")) == [[2]]
        assert summed({"v": masked}, Histogram("v", edges=(0, 3, 5))) == [[1, 1]]
        assert summed({"v": masked}, Sum("v", (0, 5))) == summed({"v": [5]}, Sum("v", (0, 5)))
        assert summed({"v": np.array([1, 2], kind)}, Sum("v", (0, 5))) == summed({"v": [3]}, Sum("v", (0, 5)))


def test_numbers_beyond_every_double_warn_nobody():
    huge = np.array([np.longdouble(10) ** 4000, 1], dtype=np.longdouble)
    step, _, high = build_value_grid((0.0, 5.0))
    assert summed({"v": huge}, Sum("v", (0, 5))) == [[high + int(1 / step)]]
    assert summed({"v": np.array([2**64 - 1], np.uint64)}, Sum("v", (0, 5))) == [[high]]
    assert summed({"v": np.full(3, 1e-320)}, Sum("v", (0, 5))) == [[0]]
    assert summed({"v": [np.complex64(2), np.complex128(3j), 1]}, Sum("v", (0, 5))) == [[int(1 / step)]]


def test_a_wide_sum_does_not_overflow():
    values = np.full(1_000_000, 1e99)
    step, _, high = build_value_grid((0.0, 1e99))
    assert summed({"v": values}, Sum("v", (0, 1e99))) == [[10**6 * high]]
    assert abs(Fraction(1e99) - high * step) <= step / 2


def test_dates_are_refused_where_numbers_are_asked_for():
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    days = [dt.date(2020, 1, 1)]
    for frame in (polars.DataFrame({"v": days}), pandas.DataFrame({"v": pandas.to_datetime(days)})):
        with pytest.raises(CheckError, match="v must be a column of numbers"):
            summed(frame, Sum("v", (0, 1)))
        assert summed(frame, Count("v")) == [[1]]


def test_what_a_library_says_of_its_data_is_not_passed_on(tmp_path):
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({"v": ["secret"]}).with_columns(polars.col("v").cast(polars.Int64))
    with pytest.raises(RecordError, match=r"^the frame could not be read$"):
        sum_contributions(lazy, Sum("v", (0, 1)), list_noisy_sums(Sum("v", (0, 1)), 1, ADD), unit=None, rows=1)
    (tmp_path / "no.parquet").write_text("secret")
    with pytest.raises(RecordError, match="the frame could not be read"):
        summed(polars.scan_parquet(tmp_path / "no.parquet"), Sum("v", (0, 1)))


@pytest.mark.parametrize(
    "frame", [{1: [1]}, {"v": 7}, {"v": np.zeros((2, 2))}, {"v": iter([1])}, None, "v", [{"v": 1}]], ids=range(7)
)
def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(CheckError, match="frame must"):
        check_frame(frame, Sum("v", (0, 1)), None)


def test_names_of_pandas_columns_must_be_different():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(CheckError, match="columns of different names"):
        check_frame(pandas.DataFrame([[1, 2]], columns=["v", "v"]), Sum("v", (0, 1)), None)
    with pytest.raises(CheckError, match="frame must have a column '1'"):
        check_frame(pandas.DataFrame([[1, 2]], columns=[1, 2]), Sum("1", (0, 1)), None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sum("v", (1, 1)), "bounds must be the least and the largest"),
        (lambda: Sum("v", (0, math.inf)), "bounds.* must be finite"),
        (lambda: Sum("v", (0, 1e101)), "such that the larger is in"),
        (lambda: Sum("v", (0, 1e-101)), "such that the larger is in"),
        (lambda: Sum("v", (1e15, 1e15 + 1)), "apart: values are rounded to that"),
        (lambda: Sum("v", 5), "bounds must be a pair"),
        (lambda: Sum("", (0, 1)), "column must be a string"),
        (lambda: Mean("v", (0, 1), population=0), "population must be at least 1"),
        (lambda: Histogram("v"), "categories must be given, or else edges"),
        (lambda: Histogram("v", categories=("a",), edges=(0, 1)), "and not both"),
        (lambda: Histogram("v", categories=("1", 1)), "none twice"),
        (lambda: Histogram("v", categories=()), "none twice"),
        (lambda: Histogram("v", categories=(True,)), "categories must be a whole number"),
        (lambda: Histogram("v", categories=(2**60,)), "categories must be in"),
        (lambda: Histogram("v", edges=(0,)), "rising numbers"),
        (lambda: Histogram("v", edges=(1, 0)), "rising numbers"),
        (lambda: MostCommonCategory("v", "ab"), "categories must be a series"),
    ],
)  # fmt: skip
def test_questions_that_make_no_sense_are_refused(make, said):
    with pytest.raises(CheckError, match=said):
        make()


def test_a_histogram_has_at_most_so_many_cells(monkeypatch):
    monkeypatch.setattr("epsilog.queries.query_types._MAX_CELLS", 3)
    assert len(Histogram("v", edges=(0, 1, 2, 3)).labels) == len(Histogram("v", categories=(0, 1, 2)).labels) == 3
    assert len(Histogram("v", edges=(0, 1)).labels) == len(Histogram("v", categories=(0,)).labels) == 1
    with pytest.raises(CheckError, match="edges must be 2 to 4 rising numbers"):
        Histogram("v", edges=(0, 1, 2, 3, 4))
    with pytest.raises(CheckError, match="categories must be 1 to 3 names"):
        Histogram("v", categories=(0, 1, 2, 3))

"""A lazy frame's plan is read before anything is charged: a step that a value can make fail is refused for all."""

import datetime as dt

import pytest

from epsilog.ledger import open_ledger
from epsilog.queries import Count, Sum, run_query
from epsilog.queries.lazy import require_total
from epsilog.terms import CheckError

polars = pytest.importorskip("polars")
col = polars.col
ROWS = {
    "who": ["a", "b", "c"],
    "text": ["1", "2", "3"],
    "whole": [1, 2, 3],
    "real": [0.5, 1.5, 2.5],
    "day": [dt.date(2024, 1, 1)] * 3,
    "many": [[1], [2], [3]],
}

FAILING = {
    "a strict cast": lambda frame: frame.with_columns(col("text").cast(polars.Int64).alias("v")),
    "a strict cast in a filter": lambda frame: frame.filter(col("text").cast(polars.Int64) > 0).with_columns(v=1),
    "a strict date": lambda frame: frame.with_columns(col("text").str.to_date("%Y").alias("v")),
    "a guessed date": lambda frame: frame.with_columns(col("text").str.to_date(strict=False).alias("v")),
    "a function of the asker's": lambda frame: frame.with_columns(
        col("whole").map_batches(lambda one: 1 // (one[0] - 2), return_dtype=polars.Int64).alias("v")
    ),
    "a function of frames": lambda frame: frame.map_batches(lambda one: one).with_columns(v=1),
    "a lookup": lambda frame: frame.with_columns(col("text").replace_strict({"1": 1}).alias("v")),
    "a power": lambda frame: frame.with_columns((2 ** col("whole")).alias("v")),
    "a place in a list": lambda frame: frame.with_columns(col("many").list.get(0).alias("v")),
    "a date as text": lambda frame: frame.with_columns(col("day").cast(polars.String).alias("v")),
    "bounds from rows": lambda frame: frame.with_columns(col("whole").clip(col("whole"), col("real")).alias("v")),
    "a mean": lambda frame: frame.with_columns((col("whole") - col("whole").mean()).alias("v")),
    "a group": lambda frame: frame.group_by("who").agg(v=col("whole").sum()),
    "a join": lambda frame: frame.join(frame.select("who"), on="who").with_columns(v=1),
    "a sort": lambda frame: frame.sort("whole").with_columns(v=1),
    "a series": lambda frame: frame.with_columns(v=col("whole") + polars.Series([1, 2, 3])),
}
TOTAL = {
    "nothing": lambda frame: frame.with_columns(v="whole"),
    "a cast": lambda frame: frame.with_columns(col("text").cast(polars.Int64, strict=False).alias("v")),
    "a filter": lambda frame: frame.filter((col("whole") > 1) & (col("day") > dt.date(2020, 1, 1))).with_columns(v=1),
    "arithmetic": lambda frame: frame.with_columns(v=(col("whole") * 3 - 1) // 0 + col("real") % 2),
    "text": lambda frame: frame.filter(col("text").str.to_lowercase().str.contains("1")).with_columns(v=1),
    "a choice": lambda frame: frame.with_columns(v=polars.when(col("real") > 1).then(col("whole")).otherwise(0)),
    "a date": lambda frame: frame.with_columns(v=col("text").str.to_date("%Y", strict=False).dt.year()),
    "a list": lambda frame: frame.filter(col("who").is_in(["a", "b"])).with_columns(v=col("real").fill_null(0)),
    "other names": lambda frame: frame.rename({"whole": "v"}).select("who", "v").drop_nulls(),
    "two frames": lambda frame: polars.concat([frame, frame]).with_columns(v=1),
}
ODD = {
    "text": ["x", "", "é", None, "99999999999999999999", "2024-13-45", "NaN", "\x00"],
    "whole": [2**63 - 1, -(2**63), 0, None],
    "real": [float("nan"), float("inf"), -1e308, None],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "who": [None, "", "é" * 100],
}


@pytest.fixture
def put(tmp_path):
    with open_ledger(tmp_path / "budget.db") as books:
        books.create_budget("acme", kind="pure", epsilon="1000")

        def put(frame, query=None, **more):
            more = {"unit": "who", "key": "q", "keep": tmp_path / "answers", "epsilon": "1"} | more
            return run_query(books, "acme", Sum("v", (0, 9)) if query is None else query, frame, **more)

        put.books = books
        yield put


@pytest.mark.parametrize("make", FAILING.values(), ids=FAILING)
def test_a_step_that_a_value_can_make_fail_is_refused_whatever_the_values_are(put, make):
    """Else one question tells for free whether somebody has a value, and can be asked again."""
    before = put.books.head()
    said = set()
    for text, whole, many in (("1", 1, [1]), ("x", 2, []), (None, -1, None)):
        rows = {**ROWS, "text": [text, "2", "3"], "whole": [whole, 2, 3], "many": [many, [2], [3]]}
        with pytest.raises(CheckError, match="frame must be a lazy frame with steps that cannot fail") as refusal:
            put(make(polars.LazyFrame(rows)))
        said.add(str(refusal.value))
    assert len(said) == 1
    assert put.books.head() == before


@pytest.mark.parametrize("make", TOTAL.values(), ids=TOTAL)
def test_a_step_that_is_accepted_fails_for_no_value(put, make):
    put(make(polars.LazyFrame(ROWS)))
    kinds = polars.LazyFrame(ROWS).collect_schema()
    for name, values in ODD.items():
        for value in values:
            rows = {**ROWS, name: [value, *ROWS[name][1:]]}
            frame = make(polars.LazyFrame(rows, schema=kinds))
            require_total(frame)
            frame.collect()


def test_files_are_read_as_lazy_frames_where_their_types_do_not_depend_on_values(put, tmp_path):
    path = tmp_path / "rows"
    polars.DataFrame({"who": ["a"], "v": [1]}).write_parquet(path)
    put(polars.scan_parquet(path).filter(col("v") > 0))
    (tmp_path / "rows.csv").write_text("who,v\na,1\n")
    for more in ({}, {"infer_schema": False}, {"infer_schema": False, "quote_char": None}):
        with pytest.raises(CheckError, match="a scan of csv"):
            put(polars.scan_csv(tmp_path / "rows.csv", **more), key="r")


@pytest.mark.parametrize("kind", ["Date", "Datetime('ms')", "Duration('ms')"])
@pytest.mark.parametrize("query", [Count("v"), Count()], ids=str)
def test_a_date_beyond_all_years_fails_for_nobody(put, kind, query, capfd):
    """Python has no such date; polars would end with a message, once for this value."""
    kind = eval(f"polars.{kind}")  # noqa: S307
    largest = 2**31 - 1 if kind == polars.Date else 2**63 - 1
    whole = polars.Series([1, largest, None], dtype=polars.Int32 if kind == polars.Date else polars.Int64)
    frame = polars.DataFrame({"who": whole.cast(kind), "v": whole.cast(kind)})
    assert put(frame, query, epsilon="500").value == 2
    nested = polars.DataFrame({"who": ["a", "b", "c"], "v": polars.concat([frame["v"].implode()] * 3)})
    assert put(nested, query, key="r", epsilon="500").value == 3
    assert capfd.readouterr() == ("", "")

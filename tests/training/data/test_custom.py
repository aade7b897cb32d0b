"""Own data: every way in gives the same rows, what a row holds is never an error, and what is public is one by name."""

import dataclasses
import datetime as dt
import sys
import tempfile

import numpy as np
import pytest

from epsilog.terms import CheckError, ConfigError
from epsilog.training import Federation, LocalTraining
from epsilog.training.data import CustomData, schema, tables
from epsilog.training.data.schema import DataSchema, parse_feature, parse_target
from epsilog.training.data.tables import is_held_out
from epsilog.training.models import parse_model_kind

pl = pytest.importorskip("polars", reason="extra data")

ROWS = {
    "ward": ["b", "a", "b", "ä", "a", "a", "c"],
    "age": [55.0, 0.0, 110.0, -3.0, 500.0, 27.5, 82.5],
    "kind": ["x", "y", "x", "z", "y", "x", "y"],
    "born": [dt.date(2000, 1, 1), dt.date(2000, 1, 11), dt.date(2000, 1, 6), dt.date(1990, 1, 1)] + 3 * [None],
    "stay": [1, 0, 1, 1, 0, 0, 1],
}
SCHEMA = DataSchema(
    "ward", {"age": parse_feature([0, 110]), "kind": parse_feature(["x", "y", "z"])}, "stay", parse_target(classes=2)
)
TABLE = {  # rows of a, then b, c, ä: the order of their names; age, then kind in three columns
    "features": [
        [-1, 0, 1, 0],
        [1, 0, 1, 0],
        [-0.5, 1, 0, 0],
        [0, 1, 0, 0],
        [1, 1, 0, 0],
        [0.5, 0, 1, 0],
        [-1, 0, 0, 1],
    ],
    "targets": [0, 0, 0, 1, 1, 1, 1],
    "sizes": [3, 2, 1, 1],
}


def own(path, columns=SCHEMA, **more):
    return CustomData(path, columns, row="visit", **more)


def csv(tmp_path, text, encoding="utf-8", name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def written(tmp_path, kind, rows=ROWS):
    frame, path = pl.DataFrame(rows), tmp_path / f"t.{kind}"
    columns = {name: np.array(values) for name, values in rows.items() if name != "born"}
    match kind:
        case "csv":
            frame.write_csv(path)
        case "tsv":
            frame.write_csv(path, separator="\t", include_bom=True)
        case "parquet":
            frame.write_parquet(path)
        case "npz":
            np.savez_compressed(path, **columns)
        case "folder":
            path.mkdir()
            for name, values in columns.items():
                np.save(path / f"{name}.npy", values)
    return path


def same(found, wanted):
    assert found.clients.sizes.tolist() == wanted["sizes"]
    assert np.allclose(found.clients.features, wanted["features"], atol=1e-6, equal_nan=True)
    assert found.clients.targets.tolist() == wanted["targets"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "npz", "folder"])
def test_every_file_gives_the_same_rows(tmp_path, kind):
    same(own(written(tmp_path, kind)).load("ward"), TABLE)
    assert own(tmp_path / f"t.{kind}").load("visit").units == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "|"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "\n".join(f'"{line}"'.replace(",", '","') for line in text.splitlines()),
        lambda text: "\n".join(
            line.replace(",", " , ") if number else line for number, line in enumerate(text.splitlines())
        ),
    ],
)
def test_a_csv_may_be_written_in_other_ways(tmp_path, change):
    text = written(tmp_path, "csv").read_text()
    same(own(csv(tmp_path, change(text), name="other.csv")).load("ward"), TABLE)


def test_a_decimal_comma_is_read_where_it_is_stated(tmp_path):
    path = csv(tmp_path, "ward;age;kind;stay\na;27,5;x;1\n")
    assert own(path, decimal=",").load("ward").clients.features[0, 0] == -0.5
    assert np.isnan(own(path).load("ward").clients.features[0, 0])


HOLES = ["", "NA", "nan", "NaN", "inf", "-Infinity", "1_000", "null", "None", "12 years", "0x10", "\u0664", "--"]


@pytest.mark.parametrize("hole", HOLES)
def test_what_is_no_number_makes_a_row_unusable_and_never_fails(tmp_path, hole):
    path = csv(tmp_path, f"ward,age,kind,stay\na,{hole},x,1\na,55,x,1\n")
    found = own(path).load("ward").clients
    assert np.isnan(found.features[:, 0]).tolist() == [True, False]
    stated = DataSchema(
        "ward", {"age": parse_feature([0, 110], 55), "kind": parse_feature(["x"])}, "stay", parse_target(classes=2)
    )
    assert own(path, stated).load("ward").clients.features[:, 0].tolist() == [0, 0]


@pytest.mark.parametrize("label", ["", "2", "-1", "0.5", "1e300", "yes", "inf", "nan"])
def test_a_label_of_no_class_is_none(tmp_path, label):
    path = csv(tmp_path, f"ward,age,kind,stay\na,55,x,{label}\na,55,x,1.0\n")
    assert own(path).load("ward").clients.targets.tolist() == [-1, 1]


def test_words_of_no_list_make_a_row_unusable_or_become_the_stated_one(tmp_path):
    path = csv(tmp_path, "ward,age,kind,stay\na,55,q,1\na,55,,1\na,55,y,1\n")
    assert np.isnan(own(path).load("ward").clients.features[:2, 1:]).all()
    stated = DataSchema("ward", {"kind": parse_feature(["x", "y"], "x")}, "stay", parse_target(classes=["0", "1"]))
    assert own(path, stated).load("ward").clients.features.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_labels_are_numbered_in_the_order_of_their_list(tmp_path):
    columns = DataSchema("ward", {"age": parse_feature([0, 110])}, "kind", parse_target(classes=["y", "x"]))
    found = own(written(tmp_path, "csv"), columns).load("ward")
    assert found.clients.targets.tolist() == [0, 0, 1, 1, 1, 0, -1]
    assert (found.classes, found.inputs) == (2, 1)


def test_dates_are_scaled_by_the_days_of_their_range(tmp_path):
    columns = DataSchema(
        "ward",
        {"born": parse_feature([dt.date(2000, 1, 1), dt.date(2000, 1, 11)])},
        "age",
        parse_target(None, [0, 110]),
    )
    for kind in ("csv", "parquet"):
        found = own(written(tmp_path, kind), columns).load("ward").clients
        assert np.allclose(found.features[:, 0], [1, *2 * [np.nan], -1, 0, np.nan, -1], equal_nan=True)
        assert np.allclose(found.targets, [-1, 1, -0.5, 0, 1, 0.5, -1])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_itself_whatever_its_name_looks_like(tmp_path, kind):
    written(tmp_path, kind, {name: values[:1] for name, values in ROWS.items()}).rename(tmp_path / f"t1.{kind}")
    path = written(tmp_path, kind).rename(tmp_path / f"t[1].{kind}")
    same(own(path).load("ward"), TABLE)


def test_a_table_of_wide_rows_keeps_them(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    np.savez(tmp_path / "t.npz", ward=np.array(["b", "a", "b"]), pixels=pixels, stay=np.array([1, 0, 1]))
    columns = DataSchema("ward", {"pixels": parse_feature([0, 255])}, "stay", parse_target(classes=2))
    found = own(tmp_path / "t.npz", columns).load("ward")
    assert np.allclose((found.clients.features + 1) * 127.5, pixels.reshape(3, 8)[[1, 0, 2]], atol=1e-4)


FEATURES = {"age": [0, 110], "kind": ["x", "y", "z"]}


def frames():
    pandas = pytest.importorskip("pandas", reason="a peer's frame")
    yield ROWS | {"born": [None] * 7}
    yield {name: np.array(values, dtype=object) for name, values in ROWS.items()}
    yield pl.DataFrame(ROWS)
    yield pl.DataFrame(ROWS).lazy()
    yield pl.DataFrame(ROWS).with_columns(pl.col("ward").cast(pl.Categorical), pl.col("age").cast(pl.Float32))
    yield pandas.DataFrame(ROWS)
    yield pandas.DataFrame(ROWS).astype({"ward": "category", "age": "Float64", "stay": "Int64"})
    yield type(
        "Stream", (), {"__arrow_c_stream__": lambda _, schema=None: pl.DataFrame(ROWS).__arrow_c_stream__(schema)}
    )()


@pytest.mark.parametrize("at", range(8))
def test_every_frame_gives_the_same_clients(at):
    frame = list(frames())[at]
    found = Federation.from_table(frame, client="ward", features=FEATURES, target="stay", classes=2)
    assert found.sizes.tolist() == TABLE["sizes"]
    assert np.allclose(found.features, TABLE["features"], atol=1e-6)
    assert found.targets.tolist() == TABLE["targets"]


def test_what_a_frame_of_pandas_misses_is_missing():
    pandas = pytest.importorskip("pandas", reason="a peer's frame")
    frame = pandas.DataFrame({"a": ["x", None, "x"], "b": [1, None, 3], "c": ["p", "q", None], "d": [0, 1, None]})
    frame = frame.astype({"d": "Int64"})
    found = Federation.from_table(frame, client="a", features={"b": [0, 4], "c": ["p", "q"]}, target="d", classes=2)
    assert found.sizes.tolist() == [2]
    assert np.isnan(found.features[1, 1:]).all()
    assert found.targets.tolist() == [0, -1]


def test_columns_that_are_only_named_are_taken_as_they_are():
    found = Federation.from_table(
        {"who": [2, 1], "x": [0.5, np.inf], "y": [3.0, 4.0]}, client="who", features=["x"], target="y"
    )
    assert (found.features.tolist(), found.targets.tolist()) == ([[np.inf], [0.5]], [4, 3])
    with pytest.raises(ValueError, match=r"table must be arrays by name, or a frame .*, got a list"):
        Federation.from_table([], client="who", features=["x"], target="y")
    with pytest.raises(ValueError, match="x must be an array with a row for each example, got a int"):
        Federation.from_table({"who": [1], "x": 3, "y": [1]}, client="who", features=["x"], target="y")


def test_large_features_lie_in_a_file_that_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "IN_MEMORY", 1)
    monkeypatch.setattr(tables, "BLOCK", 8)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spare"))
    (tmp_path / "spare").mkdir()
    found = own(written(tmp_path, "csv")).load("ward")
    assert isinstance(found.clients.features, np.memmap)
    assert list((tmp_path / "spare").iterdir()) == []
    same(found, TABLE)


def test_a_missing_extra_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, "csv")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match=r"need polars: pip install 'polars>="):
        own(path).load("ward")
    assert own(written_npz(tmp_path)).load("ward").units == 1


def written_npz(tmp_path):
    np.savez(tmp_path / "n.npz", ward=np.array(["a"]), age=np.array([1]), kind=np.array(["x"]), stay=np.array([1]))
    return tmp_path / "n.npz"


# ------------------------------------------------------------------------------------------------------ held out


def held(tmp_path, clients=60, share=0.3, unit="ward", drop=None):
    lines = [f"{client},{client % 110},x,{client % 2},{client}-{row}" for client in range(clients) for row in range(3)]
    lines = [line for line in lines if drop is None or not line.endswith(drop)]
    lines += [f",50,x,1,nobody-{row}" for row in range(9)]  # of no client: neither held out nor kept
    columns = DataSchema("ward", {"age": parse_feature([0, 110])}, "stay", parse_target(classes=2), id="name")
    path = csv(tmp_path, "ward,age,kind,stay,name\n" + "\n".join(lines), name=f"{drop}.csv")
    return own(path, columns, test_share=share).load(unit)


def test_whole_clients_are_held_out_by_their_name(tmp_path):
    found = held(tmp_path)
    out = [name for name in range(60) if is_held_out(str(name), 0.3)]
    assert 5 < len(out) < 30
    assert len(found.test.targets) == 3 * len(out)
    assert found.units == 60 - len(out)
    assert found.clients.sizes.tolist() == [3] * found.units


def test_rows_are_held_out_by_theirs_and_one_less_changes_no_other(tmp_path):
    found, less = held(tmp_path, unit="visit"), held(tmp_path, unit="visit", drop=",7-1")
    assert 30 < len(found.test.targets) < 80
    assert found.units + len(found.test.targets) == 180
    assert (found.units - less.units) + (len(found.test.targets) - len(less.test.targets)) == 1


def test_rows_cannot_be_held_out_without_a_name(tmp_path):
    data = own(written(tmp_path, "csv"), test_share=0.5)
    with pytest.raises(
        ValueError, match="id must be a column that names each row, by which rows are held out, got nothing"
    ):
        data.load("visit")


def test_a_public_test_file_needs_no_client_and_tells_its_faults(tmp_path):
    data, test = written(tmp_path, "csv"), csv(tmp_path, "age,kind,stay\n55,x,1\n0,y,0\n", name="test.csv")
    found = own(data, test=test).load("ward")
    assert found.test.features.tolist() == [[0, 1, 0, 0], [-1, 0, 1, 0]]
    for text, says in (
        (
            "age,kind,stay\n55,x,1\n,y,0\n",
            r"test must be a file of usable rows, got 1 unusable, the first at row 2 \(features.age in 1\)",
        ),
        ("age,stay\n55,1\n", "test must be a file like the data file: features.kind must be one of the columns"),
        ("age,kind,stay\n", "test must be a file with at least one row"),
    ):
        with pytest.raises(ValueError, match=says):
            own(data, test=csv(tmp_path, text, name="bad.csv")).load("ward")


HELD = [name for name in "abcdefghijkl" if is_held_out(name, 0.5)]
KEPT = [name for name in "abcdefghijkl" if not is_held_out(name, 0.5)]
VISITS = {"ward": [*HELD, *KEPT], "age": [50] * 12, "kind": ["x", "y", "z"] * 4, "stay": [0, 1] * 6}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"goal": parse_target(["no", "yes"])},
            "target must be a column with words of the list ['no', 'yes'], got 'stay'",
        ),
        (
            {"goal": parse_target(None, [dt.date(2020, 1, 1), dt.date(2021, 1, 1)])},
            "target must be a column with dates, such",
        ),
        (
            {"features": {"kind": parse_feature([0, 2])}},
            "features.kind must be a column with numbers, got 'kind' with none in",
        ),
        (
            {"features": {"kind": parse_feature(["u", "v"])}},
            "features.kind must be a column with words of the list ['u', 'v']",
        ),
    ],
)
def test_a_field_that_misreads_its_column_is_named_by_the_rows_that_nobody_protects(tmp_path, changed, says):
    misread = dataclasses.replace(SCHEMA, **changed)
    with pytest.raises(CheckError) as told:
        own(written(tmp_path, "csv", VISITS), misread, test_share=0.5).load("ward")
    assert says in str(told.value)


def test_how_many_rows_are_left_out_is_said_of_those_that_nobody_protects(tmp_path):
    held, kept = f"{len(HELD)}", f"{len(KEPT)}"
    ages = ["old" if name in (HELD[0], KEPT[0], KEPT[1]) else "50" for name in VISITS["ward"]]
    path = written(tmp_path, "csv", VISITS | {"age": ages})
    secret, public = (own(path, test_share=0.5, public=public).load("ward").notes for public in (False, True))
    assert secret == (f"leaving out 1 of {held} rows held out (features.age in 1)",)
    assert public == (*secret, f"leaving out 2 of {kept} rows for training (features.age in 2)")
    assert own(path).load("ward").notes == own(written(tmp_path, "csv", VISITS), public=True).load("ward").notes == ()


def test_a_test_set_of_one_class_is_refused_with_what_was_left_out(tmp_path):
    path = written(tmp_path, "csv", VISITS | {"stay": [0] * 12})
    with pytest.raises(CheckError) as told:
        own(path, test_share=0.5).load("ward")
    says = "test_share must be enough to hold out rows of at least two classes, got"
    assert str(told.value) == f"{says} 0 in all of {len(HELD)}"
    misspelt = dataclasses.replace(SCHEMA, goal=parse_target(["0", "one"]))
    path = written(tmp_path, "csv", VISITS)
    with pytest.raises(CheckError, match=rf"got '0' in all of \d; leaving out \d of {len(HELD)} .*target in"):
        own(path, misspelt, test_share=0.5).load("ward")
    test = csv(tmp_path, "age,kind,stay\n55,x,1\n0,y,1\n", name="test.csv")
    with pytest.raises(CheckError, match=r"test must be a file with rows of at least two classes, got 1 in all of 2"):
        own(path, test=test).load("ward")


def test_a_test_set_is_one_of_three(tmp_path):
    path = written(tmp_path, "csv")
    assert own(path).load("ward").test is None
    with pytest.raises(ValueError, match="test must be absent where test_share is given"):
        own(path, test=path, test_share=0.2)
    with pytest.raises(ValueError, match="test_share must be enough to hold out a usable row, got 1e-09"):
        own(path, test_share=1e-9).load("ward")


# ------------------------------------------------------------------------------------------------------ counts


def test_places_that_are_not_public_may_stay_empty_and_want_of_them_tells_no_number(tmp_path):
    found = own(written(tmp_path, "csv")).load("ward")
    assert found.misfits(population=4, clients=4) == []
    assert found.misfits(population=1000, clients=1000) == []
    (population,) = found.misfits(population=3, clients=3)
    assert str(population).startswith("population must be at least the number of privacy units in the data")
    assert str(population).endswith("got 3")
    assert "4" not in str(population)
    task = found.task(parse_model_kind("linear"), LocalTraining(0.1), population=9, clients=9)
    assert task.clients.sizes.tolist() == [3, 2, 1, 1, 0, 0, 0, 0, 0]
    assert (task.units, task.describe()["units"], task.describe()["clients"]) == (9, 9, 9)
    rows = (
        own(written(tmp_path, "csv"))
        .load("visit")
        .task(parse_model_kind("linear"), LocalTraining(0.1), population=50, clients=6)
    )
    assert (rows.describe()["units"], rows.describe()["clients"]) == (50, 6)
    with pytest.raises(ValueError, match="population must be at least the number of units in the data, got 6"):
        dataclasses.replace(rows, population=6)


def test_counts_that_are_public_must_be_stated_as_they_are(tmp_path):
    found = own(written(tmp_path, "csv"), counts_are_public=True).load("visit")
    assert found.misfits(population=7, clients=4) == []
    assert [str(each) for each in found.misfits(population=8, clients=3)] == [
        "population must be 7 for these data, got 8",
        "clients must be 4 for these data, got 3",
    ]


# ------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "path must be a file with a header line, got none in t.csv"),
        ("\n\n", "path must be a file with a header line"),
        ("ward,age,kind,stay\n", "path must be data with at least one row, got none"),
        ("ward,age,kind,stay,age\na,1,x,1,2\n", "path must be a file with one column 'age', got 2 of them"),
        (
            "Ward,age,kind,stay\na,1,x,1\n",
            "client must be one of the columns 'Ward', 'age', 'kind', 'stay', got 'ward'",
        ),
        ("ward, age,kind,stay\na,1,x,1\n", "features.age must be one of the columns 'ward', ' age', .* got 'age'"),
        ("ward\tage kind\tstay\na\t1\t1\n", "features.age must be one of the columns 'ward', 'age kind', 'stay'"),
        ("ward,age\rkind,stay\na,1,x,1\n", "path must be a CSV file in UTF-8 with lines that end in a line feed"),
    ],
)
def test_a_csv_that_cannot_be_what_is_stated_is_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        own(csv(tmp_path, text)).load("ward")


def test_no_refusal_repeats_what_stands_in_a_row(tmp_path):
    path = tmp_path / "cut.parquet"
    pl.DataFrame(ROWS | {"ward": ["secret"] * len(ROWS["ward"])}).write_parquet(path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"secret", b"secre", 1))
    with pytest.raises(ValueError, match="path must be") as refused:
        own(path).load("ward")
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("row", ['b,"1,x,1', 'b,1,"x","1', '"', '"b,1,x,1\r', 'b,1,x"x,1', "", "b"])
def test_a_row_with_an_open_quote_drops_nobody_else_and_decides_no_run(tmp_path, row):
    """One row can change only itself: not which rows there are, nor whether there is a run."""
    others = [f"w{n},{n % 90},x,{n % 2}" for n in range(400)]
    lines = ["ward,age,kind,stay", *others[:200], row, *others[200:]]
    names = own(csv(tmp_path, "\n".join(lines) + "\n")).load("ward")
    without = own(csv(tmp_path, "\n".join([lines[0], *others]) + "\n", name="other.csv")).load("ward")
    assert {each for each in names.names if each.startswith("w")} == set(without.names)
    kept = [name.startswith("w") for name in names.names]
    np.testing.assert_array_equal(names.clients.features[kept], without.clients.features)
    np.testing.assert_array_equal(names.clients.targets[kept], without.clients.targets)


def test_a_date_beyond_all_years_is_unusable_alone(tmp_path):
    path = tmp_path / "dates.parquet"
    moments = pl.Series([0, 2**62, 10**12], dtype=pl.Int64).cast(pl.Datetime("ms"))
    pl.DataFrame({"ward": ["a", "b", "c"], "born": moments, "stay": [0, 1, 1]}).write_parquet(path)
    dates = {"born": parse_feature([dt.date(1970, 1, 1), dt.date(2030, 1, 1)])}
    found = own(path, DataSchema("ward", dates, "stay", parse_target(2))).load("ward").clients
    assert np.isnan(found.features[:, 0]).tolist() == [False, True, False]


def test_what_a_library_says_of_a_lazy_frame_is_not_passed_on():
    lazy = pl.LazyFrame({"ward": ["a"], "age": ["secret"], "stay": [1]}).cast({"age": pl.Int64})
    with pytest.raises(CheckError, match="table must be a lazy frame that can be collected") as refused:
        Federation.from_table(lazy, client="ward", features={"age": [0, 110]}, target="stay", classes=2)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_number_beyond_every_double_warns_nobody(recwarn):
    rows = {"ward": ["a"], "age": np.array([np.longdouble(10) ** 4000]), "stay": [1]}
    found = Federation.from_table(rows, client="ward", features={"age": [0, 110]}, target="stay", classes=2)
    assert np.isnan(found.features).all()
    assert not recwarn.list


def test_another_encoding_is_refused_in_the_header_and_unusable_below(tmp_path):
    with pytest.raises(
        ValueError, match=r"path must be a CSV file in UTF-8 with lines that end in a line feed, got t\.csv"
    ):
        own(csv(tmp_path, "wärd,age\n1,2\n", "latin-1")).load("ward")
    with pytest.raises(ValueError, match="path must be a CSV file in UTF-8"):
        own(csv(tmp_path, "ward,age\n1,2\n", "utf-16")).load("ward")
    found = own(csv(tmp_path, "ward,age,kind,stay\na,1,ä,1\n", "latin-1")).load("ward")
    assert np.isnan(found.clients.features[0, 1:]).all()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            {"born": parse_feature([0, 1])},
            r"features.born must be a column of numbers; dates need a range of two dates, got Date",
        ),
        ({"age": parse_feature(["1", "2"])}, "features.age must be a column of text or whole numbers, got Float64"),
        (
            {"age": parse_feature([dt.date(2000, 1, 1), dt.date(2001, 1, 1)])},
            "features.age must be a column of dates, got Float64",
        ),
    ],
)
def test_a_type_that_cannot_hold_what_is_stated_is_refused(tmp_path, columns, says):
    path = written(tmp_path, "parquet")
    with pytest.raises(ValueError, match=says):
        own(path, DataSchema("ward", columns, "stay", parse_target(classes=2))).load("ward")
    with pytest.raises(ValueError, match="client must be a column of text or whole numbers, got Float64"):
        own(path, DataSchema("age", {"kind": parse_feature(["x"])}, "stay", parse_target(classes=2))).load("age")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
def test_files_that_are_none_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"path must be a file that can be read, got {name}: No such file"):
        own(tmp_path / name).load("ward")
    (tmp_path / name).write_bytes(b"PAR1 secret \0\xff")
    with pytest.raises(ValueError, match="must be") as refused:
        own(tmp_path / name).load("ward")
    assert "secret" not in str(refused.value) or name == "t.csv"  # a header line is public


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "t.npz", ward=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"path must be a whole NPZ file of plain arrays, without objects, got t\.npz"):
        own(tmp_path / "t.npz").load("ward")
    (tmp_path / "t").mkdir()
    np.save(tmp_path / "t" / "ward.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"path must be a folder of whole NPY files, without objects, got ward\.npy"):
        own(tmp_path / "t").load("ward")


def test_arrays_of_other_lengths_are_refused_without_the_lengths(tmp_path):
    np.savez(tmp_path / "t.npz", ward=np.arange(7), age=np.arange(8), kind=np.array(["x"] * 7), stay=np.arange(7))
    with pytest.raises(ValueError, match="columns must be of one length, got 2 lengths") as refused:
        own(tmp_path / "t.npz").load("ward")
    assert "7" not in str(refused.value)


def test_the_unit_is_one_of_the_datas_words(tmp_path):
    data = own(written(tmp_path, "csv"))
    with pytest.raises(
        ValueError, match=r"privacy_unit must be 'ward' \(a whole client\) or 'visit' \(one row\), got 'pat'"
    ):
        data.load("pat")
    with pytest.raises(ValueError, match="row must be a word for one row, different from that for a client"):
        CustomData(tmp_path, SCHEMA, row="ward")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: parse_feature([3, 3]), r"range must be \[low, high\] with low below high, got \[3.0, 3.0\]"),
        (lambda: parse_feature([-1e308, 1e308]), "range must be"),
        (lambda: parse_feature([0, float("inf")]), "high must be a?.*finite"),
        (lambda: parse_feature([0, float("nan")]), "high must be finite"),
        (lambda: parse_feature([0, True]), "high must be a number"),
        (lambda: parse_feature([1, 2, 3]), "feature must be a range of two numbers or dates"),
        (lambda: parse_feature([]), "feature must be"),
        (lambda: parse_feature("ab"), "feature must be"),
        (lambda: parse_feature(7), "feature must be"),
        (lambda: parse_feature(["a", "a"]), "categories must be a list of different words"),
        (lambda: parse_feature(["a", " "]), r"names\[1\] must be a string that is not blank"),
        (lambda: parse_feature(["a", "b"], "c"), "missing must be one of a, b, got 'c'"),
        (lambda: parse_feature([0, 1], "c"), "missing must be a number, got 'c'"),
        (lambda: parse_feature([0, 1], float("nan")), "missing must be finite"),
        (lambda: parse_feature([dt.date(2000, 1, 1), 3]), "high must be a date without a time, got 3"),
        (lambda: parse_feature([dt.datetime(2000, 1, 1), dt.date(2001, 1, 1)]), "low must be a date without a time"),
        (parse_target, r"classes must be given as labels or a number, or else target_range, got neither"),
        (lambda: parse_target(2, [0, 1]), "classes must be given .* got both"),
        (lambda: parse_target(1), "classes must be at least 2, got 1"),
        (lambda: parse_target([1, 2]), r"classes must be a list of labels as text .* got \[1, 2\]"),
        (
            lambda: parse_target([False, True]),
            r'classes must be a list of labels as text .*"false", "true".* got \[False, True\]',
        ),
        (lambda: parse_target("no"), "classes must be a list of labels as text .* got 'no'"),
        (lambda: parse_target(None, ["a"]), r"target_range must be \[low, high\], two numbers"),
        (
            lambda: DataSchema("a", {"b": parse_feature(["x"])}, "c", parse_target(["one"])),
            "classes must name at least two",
        ),
        (lambda: DataSchema("a", {}, "c", parse_target(2)), "features must name at least one column, got none"),
        (
            lambda: DataSchema("a", {"c": parse_feature(["x"])}, "c", parse_target(2)),
            "target must be neither a feature nor the client",
        ),
        (
            lambda: DataSchema("a", {"c": parse_feature(["x"])}, "a", parse_target(2)),
            "target must be neither a feature nor the client",
        ),
        (
            lambda: DataSchema(" ", {"c": parse_feature(["x"])}, "a", parse_target(2)),
            "client must be a string that is not blank",
        ),
    ],
)
def test_a_schema_is_checked_at_birth(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_what_a_report_prints_is_the_schema_and_nothing_of_the_rows(tmp_path):
    path = csv(tmp_path, "ward,age,kind,stay\nsecret,55,hidden,1\n")
    facts = own(path).load("ward").facts
    assert facts["schema"] == {
        "client": "ward",
        "features": {"age": [0.0, 110.0], "kind": ["x", "y", "z"]},
        "target": "stay",
        "classes": 2,
    }
    assert "secret" not in str(facts)
    assert "hidden" not in str(facts)
    assert str(tmp_path) not in str(facts)
    assert "not protected" in own(written(tmp_path, "csv"), test_share=0.9).load("ward").facts["test_set"]
    assert schema.parse_feature([dt.date(2000, 1, 1), dt.date(2001, 1, 1)], dt.date(2000, 6, 1)).to_json() == {
        "range": ["2000-01-01", "2001-01-01"],
        "missing": "2000-06-01",
    }


@pytest.mark.parametrize(
    "given",
    [
        ["2024-01-01", "2025-12-31"],
        ["01.01.2024", "31.12.2025"],
        ["1/1/24", "12/31/25"],
        ["2024-01-01T00", "2024-01-02"],
    ],
)
def test_two_words_that_look_like_dates_are_refused_as_a_range_and_as_words(given):
    """As words they make nearly all rows unusable, and a budget is spent on the rest."""
    with pytest.raises(CheckError, match="feature must be a range of two dates without quotes"):
        parse_feature(given)
    assert parse_feature({"categories": given}, given[0]).names == tuple(given)
    assert parse_feature([*given, "later"]).names == (*given, "later")
    with pytest.raises(CheckError, match="target_range must be a range of two dates without quotes"):
        parse_target(None, given)

"""Files are read as they were written, or refused whole while nothing is charged."""

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epsilog.answers import Count, Mean, Sum, ask, files, scan
from epsilog.spend import open_ledger
from epsilog.terms import BudgetExceededError, CheckError, RecordsError

polars = pytest.importorskip("polars")

PIECES = ["a", "b", ",", "\n", "\r\n", "\r", '"', '""', '"a"', '"a,b"', '"\n"', "é", " "]


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "budget.db") as books:
        books.create_budget("acme", kind="pure", epsilon="10")
        yield books


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("files") / "f.csv"


def read(path):
    """The rows, and how many a question without a column would count."""
    frame = scan(path)
    rows = [[value or "" for value in row] for row in frame.collect().rows()]
    assert frame.select(polars.repeat(0, polars.len())).collect().height == len(rows)
    return rows


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from([3, 5, 1 << 24]))
def test_what_is_read_is_what_any_reader_finds_there(path, pieces, at_once):
    """Python's own reader is the oracle; what two readers could take differently is refused."""
    text = "u,v\n" + "".join(pieces)
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_AT_ONCE", at_once)
        try:
            found = read(path)
        except RecordsError:  # for which reason, the next tests say
            return
    oracle = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    assert found == [[*row, "", ""][:2] for row in oracle]


@given(st.lists(st.tuples(st.text(PIECES[0] + ',"\n é', max_size=4), st.text("b ,;", max_size=3)), max_size=5))
def test_what_a_writer_wrote_is_read(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("u", "v"), *rows])
    assert read(path) == [list(row) for row in rows]


AMBIGUOUS = {
    "not closed": b'id,v\n1,2\n2,"secret\n3,4\n',
    "within a value": b'id,v\n1,2\n2,sec"ret\n3,4\n',
    "after a value": b'id,v\n1,"secret"x\n2,3\n',
    "in the header": b'id,"v\n1,2\n',
    "carriage returns": b"id,v\r1,2\r3,4\r",
}


@pytest.mark.parametrize("content", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_can_be_read_in_two_ways_is_refused_without_a_word_of_it(path, content, pack):
    path.write_bytes(pack(content))
    with pytest.raises(RecordsError, match="can be read in more than one way") as refusal:
        scan(path)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"\n\n", "cannot be read"),
        (b"v,id,v\n1,2,3\n", "columns of different names, got 'v' twice"),
        ("id,v\n1,2\n".encode("utf-16"), "is UTF-16: a CSV file is text in UTF-8"),
        (b"PK\x03\x04more", "is a ZIP archive"),
        (b"\x28\xb5\x2f\xfdmore", "is zstd"),
        (gzip.compress(b"id,v\n1,2\n", mtime=0)[:-6], "cannot be read"),
    ],
)
def test_what_is_no_csv_file_is_refused(path, content, said):
    path.write_bytes(content)
    with pytest.raises(RecordsError, match=said):
        scan(path)


@pytest.mark.parametrize("content", [b"id,v\n", b"id,v", b"\xef\xbb\xbfid,v\n", gzip.compress(b"id,v\n", mtime=0)])
def test_a_file_without_rows_has_none(path, content):
    path.write_bytes(content)
    assert (read(path), scan(path).collect_schema().names()) == ([], ["id", "v"])


@pytest.mark.parametrize("separator", ["", "ab", '"', "\n", "\r", "é"])
def test_a_separator_is_one_plain_character(path, separator):
    path.write_bytes(b"id,v\n")
    with pytest.raises(CheckError, match="separator must be"):
        scan(path, separator=separator)


def test_a_parquet_file_is_itself_alone_and_known_by_how_it_begins(tmp_path):
    for name in ("a1.parquet", "a*.parquet", "table.csv", "TABLE.PARQUET"):
        polars.DataFrame({"v": [1, 2]}).write_parquet(tmp_path / name)
    for name in ("a*.parquet", "table.csv", "TABLE.PARQUET"):
        assert scan(tmp_path / name).collect().to_dict(as_series=False) == {"v": [1, 2]}
    (tmp_path / "no.parquet").write_text("v\n1\n")
    with pytest.raises(RecordsError):
        scan(tmp_path / "no.parquet")


def broken_parquet(folder):
    path = folder / "broken.parquet"
    polars.DataFrame({"v": range(1000)}).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36  # the head of the first page
    path.write_bytes(content)
    return scan(path)


BROKEN = {
    "a page that is damaged": broken_parquet,
    "a value that is no number": lambda _: polars.LazyFrame({"v": ["x"]}).cast(polars.Int64),
    "a function of the asker's": lambda _: polars.LazyFrame({"v": [1, 2]}).select(
        polars.col("v").map_batches(lambda _: 1 / 0, return_dtype=polars.Int64)
    ),
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("query", [Sum("v", (0, 1)), Mean("v", (0, 1)), Count("v")], ids=lambda q: type(q).__name__)
def test_what_cannot_be_read_costs_nothing_and_its_key_stays_free(ledger, tmp_path, make, query):
    frame, before = make(tmp_path), ledger.head()
    more = {"unit": None, "key": "q", "keep": tmp_path / "answers", "epsilon": "1"}
    with pytest.raises(RecordsError, match="could not be read"):
        ask(ledger, "acme", query, frame, **more)
    assert ledger.head() == before
    ask(ledger, "acme", query, {"v": [1, 2]}, **more)
    assert ledger.balance("acme").spent["epsilon"] == "1"


def test_what_no_budget_can_bear_is_refused_before_it_is_read(ledger, tmp_path):
    frame, before = broken_parquet(tmp_path), ledger.head()
    with pytest.raises(BudgetExceededError):
        ask(ledger, "acme", Sum("v", (0, 1)), frame, unit=None, key="q", keep=tmp_path, epsilon="11")
    assert ledger.head() == before


def test_a_reservation_that_waits_is_not_spent_on_what_cannot_be_read(ledger, tmp_path, monkeypatch):
    """As a crash leaves it; others took the rest of the budget meanwhile."""
    more = {"unit": None, "key": "q", "keep": tmp_path / "answers", "epsilon": "6"}
    monkeypatch.setattr("epsilog.answers.asking._once", crash)
    with pytest.raises(KeyboardInterrupt):
        ask(ledger, "acme", Sum("v", (0, 1)), {"v": [1]}, **more)
    monkeypatch.undo()
    assert ledger.find("q").state == "reserved"
    with pytest.raises(RecordsError, match="could not be read"):
        ask(ledger, "acme", Sum("v", (0, 1)), broken_parquet(tmp_path), **more)
    assert ledger.find("q").state == "reserved"
    ask(ledger, "acme", Sum("v", (0, 1)), {"v": [1]}, **more)
    assert ledger.find("q").state == "committed"


def crash(*_):
    raise KeyboardInterrupt

"""Files are read so that one row can change only itself."""

import csv
import gzip

import pytest
from hypothesis import given, strategies as st
from tests.extent import amount

from epsilog import delimited
from epsilog.ledger import open_ledger
from epsilog.queries import Count, Mean, Sum, run_query, scan_file
from epsilog.terms import BudgetExceededError, CheckError, RecordError

polars = pytest.importorskip("polars")

LARGE = amount(100_000, 300_000) - 1  # rows
PIECES = ["a", "b", ",", "\r", '"', '""', '"a"', '"a,b"', "é", " "]


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
    frame = scan_file(path)
    rows = [[value or "" for value in row] for row in frame.collect().rows()]
    assert frame.select(polars.repeat(0, polars.len())).collect().height == len(rows)
    return rows


def alone(line):
    """A line as if it stood alone, by Python's own reader, where that takes it; columns that are missing are blank."""
    fields = next(csv.reader([line.replace("\r", "~")]), [])
    return [*(field.replace("~", "") for field in fields), "", ""][:2]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=6), st.sampled_from([3, 5, 1 << 24])
)
def test_each_line_is_a_row_that_nothing_else_changes(path, lines, at_once):
    """Python's own reader is the oracle, line by line."""
    path.write_bytes("\n".join(["u,v", *lines, ""]).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_CHUNK_BYTES", at_once)
        found = read(path)
    assert [[value.replace("\r", "") for value in row] for row in found] == [alone(line) for line in lines]


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(PIECES[0] + ',"\r é', max_size=4), st.text("b ,;", max_size=3)), max_size=5))
def test_what_a_writer_wrote_in_lines_is_read(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("u", "v"), *rows])
    assert read(path) == [list(row) for row in rows]


OPEN = ['2,"secret', '2,sec"ret', '2,"secret"x', '"2,secret', '"', '2,"secret\r', '""",']


@pytest.mark.every(1)
@pytest.mark.slow_beyond(3)
@pytest.mark.parametrize("line", OPEN)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_quote_that_stays_open_takes_nobody_elses_row(ledger, path, tmp_path, line, pack):
    """20,000 rows, and the same answer about the others, whatever one of them holds."""
    rows = [f"{n},{n % 7}" for n in range(20_000)]
    path.write_bytes(pack("\n".join(["id,v", *rows[:9_000], line, *rows[9_000:], ""]).encode()))
    frame = scan_file(path)
    others = frame.filter(polars.col("id").str.contains("^[0-9]+$") & polars.col("v").is_in(list("0123456")))
    assert others.collect().rows() == [tuple(row.split(",")) for row in rows]
    run_query(ledger, "acme", Count("v"), frame, unit="id", key="q", keep=tmp_path / "answers", epsilon="1")


@pytest.mark.slow
def test_a_large_file_with_quotes_is_read_line_by_line(path):
    rows = [f'"{n}",v{n}' if n % 3 else f"{n}" for n in range(LARGE)]
    rows[77_777] = '"open, to the end'
    path.write_text("\n".join(["u,v", *rows, ""]))
    found = read(path)
    assert found[:3] == [["0", ""], ["1", "v1"], ["2", "v2"]]
    assert found[77_777] == ["open, to the end", ""]
    assert (len(found), found[-1]) == (LARGE, [f"{LARGE - 1}", f"v{LARGE - 1}"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"\n\n", "cannot be read"),
        (b"v,id,v\n1,2,3\n", "columns of different names, got 'v' twice"),
        ("id,v\n1,2\n".encode("utf-16"), "is UTF-16: a CSV file is text in UTF-8"),
        (b"id,v\r1,2\r3,4\r", "must have lines that end in a line feed"),
        (b"PK\x03\x04more", "is a ZIP archive"),
        (b"\x28\xb5\x2f\xfdmore", "is zstd"),
        (gzip.compress(b"id,v\n1,2\n", mtime=0)[:-6], "cannot be read"),
    ],
)
def test_what_is_no_csv_file_is_refused(path, content, said):
    path.write_bytes(content)
    with pytest.raises(RecordError, match=said):
        scan_file(path)


@pytest.mark.parametrize("content", [b"id,v\n", b"id,v", b"\xef\xbb\xbfid,v\n", gzip.compress(b"id,v\n", mtime=0)])
def test_a_file_without_rows_has_none(path, content):
    path.write_bytes(content)
    assert (read(path), scan_file(path).collect_schema().names()) == ([], ["id", "v"])


@pytest.mark.parametrize("separator", ["", "ab", '"', "\n", "\r", "é"])
def test_a_separator_is_one_plain_character(path, separator):
    path.write_bytes(b"id,v\n")
    with pytest.raises(CheckError, match="separator must be"):
        scan_file(path, separator=separator)


def test_a_parquet_file_is_itself_alone_and_known_by_how_it_begins(tmp_path):
    for name in ("a1.parquet", "a*.parquet", "table.csv", "TABLE.PARQUET"):
        polars.DataFrame({"v": [1, 2]}).write_parquet(tmp_path / name)
    for name in ("a*.parquet", "table.csv", "TABLE.PARQUET"):
        assert scan_file(tmp_path / name).collect().to_dict(as_series=False) == {"v": [1, 2]}
    (tmp_path / "no.parquet").write_text("v\n1\n")
    with pytest.raises(RecordError):
        scan_file(tmp_path / "no.parquet")


def broken_parquet(folder):
    path = folder / "broken.parquet"
    polars.DataFrame({"v": range(1000)}).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36  # the head of the first page
    path.write_bytes(content)
    return scan_file(path)


QUERIES = pytest.mark.parametrize(
    "query", [Sum("v", (0, 1)), Mean("v", (0, 1)), Count("v")], ids=lambda query: type(query).__name__
)


@QUERIES
def test_what_cannot_be_read_is_paid_for_and_its_key_says_so_for_good(ledger, tmp_path, query):
    """An error may tell of a value, so it is no free question, and it is not asked twice for one price."""
    more = {"unit": None, "key": "q", "keep": tmp_path / "answers", "epsilon": "1"}
    for frame in (broken_parquet(tmp_path), {"v": [1, 2]}, broken_parquet(tmp_path)):
        with pytest.raises(RecordError, match=r"^the frame could not be read under key 'q'; the charge is final"):
            run_query(ledger, "acme", query, frame, **more)
        assert ledger.balance("acme").spent["epsilon"] == "1"
    assert ledger.find("q").state == "committed"
    run_query(ledger, "acme", query, {"v": [1, 2]}, **more | {"key": "r"})
    assert ledger.balance("acme").spent["epsilon"] == "2"


def test_what_no_budget_can_bear_is_refused_before_it_is_read(ledger, tmp_path):
    frame, before = broken_parquet(tmp_path), ledger.head()
    with pytest.raises(BudgetExceededError):
        run_query(ledger, "acme", Sum("v", (0, 1)), frame, unit=None, key="q", keep=tmp_path, epsilon="11")
    assert ledger.head() == before

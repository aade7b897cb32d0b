"""Every value is checked and none is dropped unsaid; every format and convention reads the same run alike."""

import gzip
import json
import math
import zlib
from functools import partial

import numpy as np
import pytest
from tests.verification.logs.damaged import PADDED, PADDING
from tests.verification.logs.simulated import DIVISOR, MAPPING, C, N, Z, honest, rows_of_clients, rows_of_rounds, save

from epsilog.terms import CheckError, ConfigError
from epsilog.verification.logs import tables
from epsilog.verification.logs.mapping import LogFile, read_mapping
from epsilog.verification.logs.reading import read_claim, read_logs


def logs_of(path):
    mapping = read_mapping(path)
    return read_logs(mapping, path.parent, read_claim(mapping, path.parent).units)


def changed(name, value, row=3):
    return lambda rows: [one | ({name: value} if i == row - 1 else {}) for i, one in enumerate(rows)]


BAD = {
    "nan": ("sigma", "nan", "finite and at least 0", "'nan' in row 3"),
    "inf": ("C", "inf", "finite and at least 0", "'inf' in row 3"),
    "overflow": ("divisor", "1e999", "finite and above 0", "'1e999' in row 3"),
    "negative": ("clients", "-4", "a whole number, at least 0", "'-4' in row 3"),
    "half": ("attempts", "1.5", "a whole number, at least 1", "'1.5' in row 3"),
    "zero": ("round", "0", "a whole number in [1, 10000000]", "'0' in row 3"),
    "huge": ("round", "1e15", "a whole number in [1, 10000000]", "'1e15' in row 3"),
    "blank": ("sigma", "", "finite and at least 0", "nothing in row 3"),
    "word": ("clients", "many", "a whole number, at least 0", "'many' in row 3"),
    "padding": ("padding", "0.1 nan", "a list of finite numbers", "'0.1 nan' in row 3"),
    "date": ("ended", "yesterday", "a time such as", "'yesterday' in row 3"),
    "offset": ("ended", "2026-01-01T10:00:00+02:00", "without an offset", "in row 3"),
}


@pytest.mark.parametrize(("column", "value", "bound", "shown"), BAD.values(), ids=BAD)
def test_a_bad_value_is_named_with_its_column_bound_and_row(tmp_path, column, value, bound, shown):
    with pytest.raises(CheckError) as caught:
        logs_of(save(honest(), tmp_path, rounds=changed(column, value)))
    assert f"column {column}" in str(caught.value)
    assert bound in str(caught.value)
    assert shown in str(caught.value)


@pytest.mark.parametrize(("column", "value"), [("client", " "), ("norm", "-0.1"), ("norm", "NaN"), ("at", "7")])
def test_a_bad_value_of_a_client_is_refused(tmp_path, column, value):
    with pytest.raises(CheckError, match=f"clients.csv, column {column}.*row 5"):
        logs_of(save(honest(), tmp_path, clients=changed(column, value, 5)))


def test_a_row_of_another_length_is_refused(tmp_path):
    path = save(honest(), tmp_path)
    for line in ("61,20\n", "61,20" + ",1" * 9 + "\n"):
        before = (tmp_path / "rounds.csv").read_text()
        (tmp_path / "rounds.csv").write_text(before + line)
        with pytest.raises(CheckError):
            logs_of(path)
        (tmp_path / "rounds.csv").write_text(before)


def test_an_open_quote_swallows_no_rows(tmp_path):
    path = save(honest(), tmp_path)
    lines = (tmp_path / "clients.csv").read_text().splitlines()
    number, rest = lines[5].split(",", 1)
    (tmp_path / "clients.csv").write_text("\n".join([*lines[:5], f'{number},"{rest}', *lines[6:]]) + "\n")
    with pytest.raises(CheckError):
        logs_of(path)
    lines[9] = lines[9].replace(",", ',"', 1)
    lines[10] = lines[10].replace(",", '",', 2).replace('"', "", 1)
    (tmp_path / "clients.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(CheckError, match="in one line"):
        logs_of(path)


def test_an_open_quote_in_a_column_that_is_not_read_hides_no_rows(tmp_path):
    """Two rows of remarks took the rows between them along: a client that joined too often was not there."""
    path = save(honest(), tmp_path)
    lines = (tmp_path / "clients.csv").read_text().splitlines()
    counted = [one.rows for one in logs_of(path).summaries]
    noted = [f"{lines[0]},note", *(f'{line},"fine, as ""ever"""' for line in lines[1:])]
    (tmp_path / "clients.csv").write_text("\n".join(noted) + "\n")
    assert [one.rows for one in logs_of(path).summaries] == counted
    noted[4], noted[9] = f'{lines[4]},"not', f'{lines[9]},fine"'
    (tmp_path / "clients.csv").write_text("\n".join(noted) + "\n")
    with pytest.raises(CheckError, match=r"participation.file must be CSV with each row in one line"):
        logs_of(path)


def test_a_column_must_be_there_once(tmp_path):
    path = save(honest(), tmp_path)
    text = path.read_text()
    path.write_text(text.replace('divisor = "divisor"', 'divisor = "by"'))
    with pytest.raises(CheckError, match=r"rounds.divisor must be a column of rounds.csv \(round, clients, .*'by'"):
        logs_of(path)
    path.write_text(text)
    rows = (tmp_path / "rounds.csv").read_text().replace("divisor", "sigma", 1)
    (tmp_path / "rounds.csv").write_text(rows)
    with pytest.raises(CheckError, match=r"a column that occurs once in rounds\.csv"):
        logs_of(path)


def test_what_is_not_read_is_counted(tmp_path):
    path = save(honest(), tmp_path)
    rows = [row | {"phase": phase} for phase in ("fit", "eval") for row in rows_of_rounds(honest())]
    (tmp_path / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = path.read_text().replace(
        'file = "rounds.csv"\nformat = "csv"', 'file = "rounds.jsonl"\nformat = "jsonl"\nwhere = { phase = "fit" }'
    )
    path.write_text(text.replace('attempts = "attempts"\n', ""))
    told = logs_of(path).summaries[1]
    assert (told.rows, told.left_out, told.unread) == (60, 60, ("attempts",))


def same(one, other):
    for name in ("number", "cohort", "clip_norm", "noise_stddev", "divisor", "attempts", "ended"):
        np.testing.assert_allclose(getattr(one.rounds, name), getattr(other.rounds, name), rtol=1e-12)
    np.testing.assert_array_equal(one.lists.members, other.lists.members)
    np.testing.assert_allclose(one.lists.largest_norm, other.lists.largest_norm)
    assert one.padding.keys() == other.padding.keys()
    for number, values in one.padding.items():
        np.testing.assert_allclose(values, other.padding[number], rtol=1e-12)


@pytest.mark.slow
def test_every_format_says_the_same(tmp_path):
    import polars as pl

    path = save(honest(), tmp_path)
    text, plain = path.read_text(), logs_of(path)
    rounds, clients = rows_of_rounds(honest()), rows_of_clients(honest())
    for rows in (rounds, clients):
        for row in rows:
            row |= {name: float(row[name]) for name in ("C", "sigma", "divisor", "norm") if name in row}
    for row in rounds:
        row["padding"] = [float(word) for word in row["padding"].split()]
    kinds = {
        "jsonl": lambda rows, file: file.write_text("".join(json.dumps(row) + "\n" for row in rows)),
        "json": lambda rows, file: file.write_text(json.dumps(rows)),
        "parquet": lambda rows, file: pl.DataFrame(rows).write_parquet(file),
    }
    for kind, written in kinds.items():
        for name, rows in (("rounds", rounds), ("clients", clients)):
            written(rows, tmp_path / f"{name}.{kind}")
        new = text
        for name in ("rounds", "clients"):
            new = new.replace(f'file = "{name}.csv"\nformat = "csv"', f'file = "{name}.{kind}"\nformat = "{kind}"')
        path.write_text(new)
        same(plain, logs_of(path))


@pytest.mark.slow
def test_every_convention_says_the_same(tmp_path):
    path = save(honest(), tmp_path)
    text, plain = path.read_text(), logs_of(path)
    units = {
        ("clip norms", "sum"): Z,
        ("absolute", "sum"): Z * C,
        ("absolute", "mean"): Z * C / DIVISOR,
        ("clip norms", "mean"): Z / DIVISOR,
    }
    for (unit, on), sigma in units.items():
        rows = [row | {"sigma": repr(sigma), "round": row["round"] - 1} for row in rows_of_rounds(honest())]
        save(honest(), tmp_path, rounds=lambda _, rows=rows: rows)
        new = text.replace('unit = "clip norms", on = "sum"', f'unit = "{unit}", on = "{on}"')
        path.write_text(new.replace("first_round = 1", "first_round = 0", 1))
        same(plain, logs_of(path))


@pytest.mark.slow
def test_padding_of_a_log_of_its_own_has_the_unit_of_its_round_or_of_the_claim(tmp_path):
    plain = logs_of(save(honest(), tmp_path)).padding
    scaled = lambda rows: [row | {"value": repr(float(row["value"]) / C / DIVISOR)} for row in rows]  # noqa: E731
    mapping = (MAPPING.replace(PADDED, "") + PADDING).replace(
        '"value", unit = "absolute", on = "sum"', '"value", unit = "clip norms", on = "mean"'
    )
    for without in ("", 'clip_norm = "C"\n', 'divisor = "divisor"\n'):
        found = logs_of(save(honest(), tmp_path, padding=scaled, mapping=mapping.replace(without, ""))).padding
        assert found.keys() == plain.keys()
        np.testing.assert_allclose(np.stack([*found.values()]), np.stack([*plain.values()]))


def test_rows_by_key_within_a_document(tmp_path):
    path = save(honest(), tmp_path)
    text, plain = path.read_text(), logs_of(path)
    by_round = {str(row.pop("round")): row for row in rows_of_rounds(honest())}
    (tmp_path / "rounds.json").write_text(json.dumps({"run": {"rounds": by_round}}))
    source = 'file = "rounds.json"\nformat = "json"\nat = "run.rounds"\nkey = "round"'
    path.write_text(text.replace('file = "rounds.csv"\nformat = "csv"', source))
    same(plain, logs_of(path))
    (tmp_path / "rounds.json").write_text(
        json.dumps({"run": {"rounds": by_round | {"3": by_round["3"] | {"sigma": math.nan}}}})
    )
    with pytest.raises(CheckError, match=r"column sigma.*'NaN' in row 3"):
        logs_of(path)


PACKED = {
    "gzip": gzip.compress,
    **{f"zlib {level}": partial(zlib.compress, level=level) for level in (0, 6, 9)},
    "zstd": lambda content: b"\x28\xb5\x2f\xfd" + content,
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_compressed_log_hides_no_row_and_no_value(tmp_path, pack, kind):
    """Open quotes and names that come twice are found in a file as it lies there; polars unpacks some by itself."""
    content = {"csv": b'a,b\n1,"2\n1,3"\n', "jsonl": b'{"a":1,"a":2}\n'}[kind]
    (tmp_path / "log").write_bytes(pack(content))
    with pytest.raises(CheckError, match=r"rounds.file must be a file that is not compressed \(unpack it\), got 'log'"):
        tables.open_log_file(
            LogFile(file="log", format=kind), tmp_path, "rounds", [tables.make_finite_column("rounds.a", "a")]
        )


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_file_that_is_named_is_read_whatever_its_name_looks_like(tmp_path, kind):
    """Its digest is what a report names: a name that is a pattern of others would bind a file that nobody read."""
    polars, folder = tables.import_polars(), tmp_path / "run[1]*"
    folder.mkdir()
    for name, value in (("log[1]", 1.0), ("log1", 2.0), ("log*", 3.0)):
        frame, path = polars.DataFrame({"a": [value]}), folder / name
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](path)
    for name, value in (("log[1]", 1.0), ("log*", 3.0)):
        rows = tables.open_log_file(
            LogFile(file=name, format=kind), folder, "rounds", [tables.make_finite_column("rounds.a", "a")]
        )
        assert rows.collect()["rounds.a"].to_list() == [value]


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    path = save(honest(), tmp_path)
    source = 'file = "rounds.json"\nformat = "json"\nkey = "round"'
    path.write_text(path.read_text().replace('file = "rounds.csv"\nformat = "csv"', source))
    (tmp_path / "rounds.json").write_text('{"1": {"C": 1}, "1": {"C": 2}}')
    with pytest.raises(CheckError, match="'1' twice"):
        logs_of(path)


def test_a_byte_order_mark_and_semicolons_are_no_part_of_a_name(tmp_path):
    path = save(honest(), tmp_path)
    plain = logs_of(path)
    text = (tmp_path / "rounds.csv").read_text().replace(",", ";")
    (tmp_path / "rounds.csv").write_text("\ufeff" + text, encoding="utf-8")
    same(plain, logs_of(path))


def test_names_cost_memory_for_those_who_are_named(tmp_path):
    run = honest()
    run.claim |= {"population": 100_000_001}
    with pytest.raises(CheckError, match="population must be in"):
        logs_of(save(run, tmp_path))


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("row", "at", "late"),
    [(0, "2026-01-01T00:00:59", 0), (0, "2026-01-01T00:40:00", 1), (-1, "2026-01-01T00:59:59", 0)],
)
def test_late_rows_are_those_outside_their_round(tmp_path, ended, row, at, late):
    def moved(rows):
        rows[row]["at"] = at
        return rows

    path = save(honest(), tmp_path, clients=moved)
    if not ended:
        path.write_text(path.read_text().replace('ended = { column = "ended", unit = "iso" }', ""))
    assert logs_of(path).lists.late == late


def test_a_client_that_is_listed_again_takes_part_once(tmp_path):
    run = honest()
    again = lambda rows: [*rows, rows[5], rows[5], rows[9] | {"norm": "0.125"}]  # noqa: E731
    found = logs_of(save(run, tmp_path, clients=again)).lists
    assert (found.repeated, found.copies) == (3, 2)
    assert found.sizes.tolist() == [ids.size for ids in run.took_part]


def test_groups_are_joined(tmp_path):
    run = honest()
    halves = lambda rows: [row | {"C": repr(C * 0.6), "other": repr(C * 0.8)} for row in rows]  # noqa: E731
    path = save(run, tmp_path, rounds=halves)
    path.write_text(path.read_text().replace('clip_norm = "C"', 'clip_norm = { body = "C", head = "other" }'))
    np.testing.assert_allclose(logs_of(path).rounds.clip_norm, C)


@pytest.mark.slow
def test_names_have_places(tmp_path):
    run = honest()
    plain = logs_of(save(run, tmp_path)).lists
    from_one = lambda rows: [row | {"client": str(int(row["client"]) + 1)} for row in rows]  # noqa: E731
    path = save(run, tmp_path, clients=from_one)
    path.write_text(path.read_text().partition("[enrollment]")[0])
    sizes = [cohort.drawn.size for cohort in logs_of(path).lists.iterate_cohorts(60)]
    assert sizes == [ids.size for ids in run.took_part]
    assert plain.clients == logs_of(path).lists.clients
    words = lambda rows: [row | {"client": f"site-{row['client']}"} for row in rows]  # noqa: E731
    drawn = logs_of(save(run, tmp_path, clients=words, mapping=path.read_text().partition("divisor = 20.0\n")[2])).lists
    assert drawn.members.max() % drawn.width < N
    assert np.array_equal(drawn.sizes, plain.sizes)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('unit = "clip norms", on = "sum"', 'unit = "clip norms"', "rounds.columns.noise.on must be given"),
        (
            'unit = "clip norms"',
            'unit = "sigmas"',
            "rounds.columns.noise.unit must be 'clip norms' or 'absolute', got 'sigmas'",
        ),
        ("[claim]", "false_alarm_rate = 1e-300\n[claim]", "false_alarm_rate must be at least 1e-09, got 1e-300"),
        ("first_round = 1", "first_round = 2", "rounds.first_round must be at most 1, got 2"),
        ("[rounds.columns]", "[rounds.colums]", "rounds.colums must be absent"),
        ("delta = 1e-05", "delta = nan", "claim.delta must be finite"),
        ("divisor = 20.0", "divisor = -1.0", "claim.divisor must be above 0"),
        ('sampling = "poisson"', 'sampling = "shuffled"', "claim.sampling must be"),
        ("sampling_probability = 0.05", "cohort_size = 20", "claim.sampling_probability must be given"),
        ('relation = "add-or-remove-one"', 'relation = "replace-one"', "claim.relation must be add-or-remove-one or"),
        ("active_within_days = 30", "", "active_within_days must be given together"),
        ('counted_on = "2026-01-01"', 'counted_on = "soon"', "enrollment.counted_on must be a date"),
        ('file = "rounds.csv"', 'file = "round.csv"', "rounds.file must be an existing file"),
    ],
)
def test_a_mapping_that_says_too_little_is_refused_by_field(tmp_path, before, after, message):
    path = save(honest(), tmp_path)
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises((CheckError, ConfigError)) as caught:
        logs_of(path)
    assert message in str(caught.value)

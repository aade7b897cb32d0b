"""`epsilog init`: a file to start from that holds nothing of any row, and is refused until it is filled in."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from epsilog.pipeline import load_run_config, preparation
from epsilog.pipeline.config_export import write_config_template
from epsilog.terms import ConfigError

pl = pytest.importorskip("polars", reason="extra data")
VISITS = Path(__file__).parents[2] / "examples" / "own-data" / "visits.csv"
COLUMNS = {"client": "clinic", "target": "long_stay", "row": "visit"}
FILLED = {
    "name": '"a-name"', "purpose": '"p"', "owner": '"o"', "population": "5000", "scope": '"a/b"', "epsilon": '"4"',
    "delta": '"1e-5"', "delta_rationale": '"r"', "clients": "250", "cohort_size": "50", "classes": '["no", "yes"]',
    "test": '"none"', "arrived": "[2025-01-01, 2025-12-31]", "age": "[0, 110]", "ward": '["surgery"]',
    "participation": '"all"', "post_processing": '"none"', "period": '"2026"',
}  # fmt: skip


def blanks(text):
    def walk(table, path=""):
        for name, value in table.items():
            inner = f"{path}{name}"
            yield from walk(value, f"{inner}.") if isinstance(value, dict) else [inner] if value == "?" else []

    return list(walk(tomllib.loads(text)))


@pytest.mark.parametrize("level", ["client", "row"])
def test_every_blank_is_refused_by_name_and_what_is_filled_in_is_read(tmp_path, level):
    text = write_config_template(VISITS, **COLUMNS, level=level, base=tmp_path)
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_run_config(path)
    said = str(refused.value)
    for blank in blanks(text):
        assert blank in said, blank
    lines = []
    for line in text.splitlines():
        name = line.split(" = ")[0]
        lines.append(f"{name} = {FILLED[name]}" if ' = "?"' in line and name in FILLED else line)
    path.write_text("\n".join(line for line in lines if not line.startswith('visit = "?"')))
    found = preparation.prepare_config(path)
    assert found.task.unit_is_client == (level == "client")
    assert found.config.population == 5000


def test_what_tells_people_apart_is_proposed_as_no_feature(tmp_path):
    """An identifier learns nothing that holds for others, and a model that was given it may tell whose row it saw."""
    named = ["visit", "patient_id", "PatientID", "id", "", "Unnamed: 0", "e-mail", "surname", "phone number", "caseNr"]
    plain = ["age", "paid", "idle", "note", "ward", "admitted", "identity_politics_score", "monkey"]
    path = tmp_path / "t.csv"
    path.write_text(",".join(["clinic", "ill", *named, *plain]) + "\n")
    text = write_config_template(path, client="clinic", target="ill", row="visit", level="client", base=tmp_path)
    proposed = tomllib.loads(text)["data"]["features"]
    assert list(proposed) == plain
    (said,) = [line for line in text.splitlines() if "tell people or rows apart" in line]
    assert all(name in said for name in named)


def test_a_name_of_a_column_ends_no_comment(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"who": ["a"], "x": [1], "id\npath = 1": [2], "ill": [0]}).write_parquet(path)
    text = write_config_template(path, client="who", target="ill", row="visit", level="client", base=tmp_path)
    assert list(tomllib.loads(text)["data"]["features"]) == ["x"]


def test_nothing_of_a_row_stands_in_it(tmp_path):
    rows = {"who": ["secret", "other"], "tall people": [123456, 7], "x": [0.987654, 1.0], "ill": ["hidden", "no"]}
    pl.DataFrame(rows).write_csv(tmp_path / "t.csv")
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", **{name: np.array(values) for name, values in rows.items()})
    for name, kind in (("t.csv", None), ("t.parquet", "Int64"), ("t.npz", "int64")):
        text = write_config_template(
            tmp_path / name, client="who", target="ill", row="visit", level="client", base=tmp_path
        )
        assert not [word for word in ("secret", "123456", "987654", "hidden") if word in text]
        document = tomllib.loads(text)["data"]
        assert document["features"] == {"tall people": "?", "x": "?"}
        assert document["path"] == name
        assert kind is None or f"# {kind}" in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"client": "clinics"}, "client must be one of the columns 'visit', 'arrived', 'clinic'"),
        ({"target": "stay"}, "target must be one of the columns"),
        ({"row": "clinic"}, "row must be a word other than the columns"),
        ({"target": "clinic"}, "row must be a word other than the columns, and client and target two columns"),
        ({"level": "person"}, "protect must be one of client, row, got 'person'"),
        ({"data": Path("gone.csv")}, "path must be a file that can be read, got gone.csv"),
        ({"data": Path("gone.parquet")}, "path must be a file that can be read, got gone.parquet"),
    ],
)
def test_what_cannot_be_started_from_is_refused(tmp_path, change, says):
    given = {"data": VISITS, **COLUMNS, "level": "client", "base": tmp_path} | change
    with pytest.raises(ValueError, match=says):
        write_config_template(given.pop("data"), **given)

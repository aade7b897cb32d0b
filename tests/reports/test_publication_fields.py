"""Publication fields are checked, listed when blank, and never contradicted."""

import re
from pathlib import Path

import pytest

from epsilog.reports import (
    PUBLICATION_FIELDS,
    read_publication_file,
    require_field,
)
from epsilog.reports.publication_fields import compute_registry_tier, list_publication_fields, merge_publication_fields
from epsilog.terms import CheckError, RecordError

DOCS = Path(__file__).parents[2] / "docs"


def test_blanks_are_listed_with_what_they_would_complete(real):
    told = real["publication"]
    assert told["stated"]["organization"] == "Example Org"
    blank = {item["field"]: item["required_by"] for item in told["blank"]}
    assert blank == {
        name: f.required_by for name, f in PUBLICATION_FIELDS.items() if name not in ("organization", "retention")
    }
    assert compute_registry_tier({}) == 0
    every = dict.fromkeys(PUBLICATION_FIELDS, "x")
    assert compute_registry_tier(every) == 3
    assert compute_registry_tier({name: "x" for name in every if name != "access_type"}) == 1
    assert list_publication_fields({})["stated"] == {}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("colour", "red", "one of"),
        ("sector", "Magic", "one of"),
        ("publication_date", "1/1/2026", "YYYY-MM-DD"),
        ("publication_date", "2026-02-30", "YYYY-MM-DD"),
        ("publication_date", "20260201", "YYYY-MM-DD"),
        ("contact", " ", "not blank"),
        ("contact", 3, "not blank"),
        ("contact", None, "not blank"),
    ],
)
def test_invalid_fields_are_refused(name, value, told):
    with pytest.raises(CheckError, match=told):
        require_field(name, value)


def test_a_file_is_read_or_refused_by_name(tmp_path):
    path = tmp_path / "about.toml"
    path.write_text('region = "Europe"\npublication_date = 2026-12-01\n')
    assert read_publication_file(path) == {"region": "Europe", "publication_date": "2026-12-01"}
    for text in ("region = 3", "x = 'y'", "region", "publication_date = 2026-12-01T00:00:00"):
        path.write_text(text)
        with pytest.raises(RecordError, match=r"about\.toml"):
            read_publication_file(path)
    path.write_bytes(b"\xff")
    with pytest.raises(RecordError, match=r"about\.toml"):
        read_publication_file(path)
    with pytest.raises(RecordError, match="cannot be read"):
        read_publication_file(tmp_path / "nowhere")


def test_blank_fields_are_filled_and_stated_ones_kept(real):
    assert merge_publication_fields(real, {"region": "Europe"})["region"] == "Europe"
    assert merge_publication_fields(real, {"organization": "Example Org"})["organization"] == "Example Org"
    with pytest.raises(CheckError):
        merge_publication_fields(real, {"region": ""})


def test_the_docs_list_every_field():
    page = (DOCS / "how-to" / "publish-a-report.md").read_text()
    for name, field in PUBLICATION_FIELDS.items():
        assert re.search(
            rf"^\| `{name}` \| {re.escape(field.description)}.* \| {field.required_by} \|$", page, re.MULTILINE
        ), name

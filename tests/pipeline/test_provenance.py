"""Reports say when, from which commit, and with which engine and generator a run was made, attested by the owner."""

import json
import re
from datetime import UTC, datetime
from importlib import metadata

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.pipeline import provenance
from epsilog.pipeline.provenance import describe_provenance, note_engine, software, source_commit
from epsilog.reports import check_schema, render_html, render_markdown, verify_run
from epsilog.reports.figure_sources import OWNER, get_figure_source
from epsilog.terms import CheckError, Status
from epsilog.verification import LedgerReader, OwnerAttestation, read_run_folder

PRIVATE = dict.fromkeys(("custody", "norms", "participation"), Status.PASSED)
MADE = {"date": "2026-11-24", "commit": "unknown", "engine": "jax", "generator": "AES"}


def test_what_trains_is_noted_with_its_versions(tmp_path):
    note_engine(tmp_path, "jax", elsewhere=False, seeded=False)
    found, versions = describe_provenance(tmp_path), software(tmp_path)
    assert found["engine"] == "jax"
    assert found["generator"] == (
        f"AES-128 in counter mode, keyed by the operating system (randomgen {metadata.version('randomgen')})"
    )
    assert found["date"] == datetime.now(UTC).date().isoformat()
    for name in ("epsilog", "numpy", "scipy", "jax", "jaxlib", "randomgen"):
        assert versions[name] == metadata.version(name)


def test_a_simulation_draws_from_a_seed_and_says_so(tmp_path):
    note_engine(tmp_path, "torch", elsewhere=False, seeded=True)
    assert describe_provenance(tmp_path)["generator"] == f"Philox, seeded (numpy {metadata.version('numpy')})"
    assert describe_provenance(tmp_path)["engine"] == "torch"
    assert "torch" in software(tmp_path)


def test_a_run_that_goes_on_with_another_version_tells_both(tmp_path, monkeypatch):
    note_engine(tmp_path, "jax", elsewhere=False, seeded=False)
    before, version = software(tmp_path)["jax"], provenance._version
    monkeypatch.setattr(provenance, "_version", lambda name: "99" if name == "jax" else version(name))
    monkeypatch.setitem(provenance.sys.modules, "flwr", None)
    note_engine(tmp_path, "jax", elsewhere=True, seeded=False)
    assert software(tmp_path)["jax"] == f"{before}, 99"
    assert describe_provenance(tmp_path)["engine"] == "jax; jax over flwr"


def test_a_run_of_which_nothing_was_noted_says_unknown(tmp_path):
    assert {describe_provenance(tmp_path)[name] for name in ("engine", "generator")} == {"unknown"}


def test_the_commit_is_that_of_the_checkout_or_unknown(monkeypatch):
    assert re.fullmatch(r"[0-9a-f]{40}(, with changes)?|unknown", source_commit())
    told = {"rev-parse --show-toplevel": str(provenance.Path(provenance.__file__).parents[3])}
    told |= {"rev-parse HEAD": "c" * 40, "status": " M src/epsilog/x.py"}
    answer = lambda _, *words: told.get(" ".join(words[:2]), told.get(words[0]))  # noqa: E731
    monkeypatch.setattr(provenance, "_git", answer)
    assert source_commit() == "c" * 40 + ", with changes"
    told["status"] = ""
    assert source_commit() == "c" * 40
    told["rev-parse --show-toplevel"] = "/"  # a checkout of something else around an installed package
    assert source_commit() == "unknown"
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    assert source_commit() == "unknown"


@pytest.mark.parametrize("wrong", [{"date": "yesterday"}, {"date": "2026-11-24T10:00"}, {"commit": ""}, {"when": "x"}])
def test_a_word_that_is_none_is_refused(wrong):
    said = {**MADE, **wrong}
    with pytest.raises(CheckError):
        OwnerAttestation({"epsilog": "0.1"}, PRIVATE, provenance=said)
    kept = OwnerAttestation({"epsilog": "0.1"}, PRIVATE, provenance=MADE)
    assert OwnerAttestation.from_json(json.loads(json.dumps(kept.to_json()))) == kept
    assert "provenance" not in OwnerAttestation({"epsilog": "0.1"}, PRIVATE).to_json()


@pytest.mark.slow
def test_a_report_tells_it_as_a_word_and_is_built_again_on_any_day(tmp_path, monkeypatch):
    report = finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    check_schema(report)
    told = report["evidence"]["provenance"]
    assert told == report["owner"]["provenance"]
    assert told["date"] == datetime.now(UTC).date().isoformat()
    for name in told:
        assert get_figure_source(report, ("evidence", "provenance", name)) == OWNER
    page = render_html(report).partition('<pre id="document">')[0]
    for name, value in {"date": told["date"], "source commit": told["commit"], "noise generator": "unknown"}.items():
        assert f'<th scope="row">{name}</th><td>{value} (attested by the owner)</td>' in page
        assert f"| {name} | {value} (attested by the owner) |" in render_markdown(report)

    def refused(*_):
        raise AssertionError("verification asks for no date and no commit")

    monkeypatch.setattr(provenance, "describe_provenance", refused)
    monkeypatch.setattr(provenance, "source_commit", refused)
    found = verify_run(
        read_run_folder(tmp_path / "run"), LedgerReader.read(tmp_path / "ledger.db"), required=("report", "ledger")
    )
    assert found.status is Status.PASSED

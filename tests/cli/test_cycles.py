"""`epsilog ledger cycles` shows what the ledger holds, beside what plans say of it."""

import json

import pytest
from tests.reports.drawn import finish, make_plan
from typer.testing import CliRunner

from epsilog.cli import show
from epsilog.cli.app import load
from epsilog.ledger import open_ledger
from epsilog.reports import read_plan_summaries
from epsilog.terms import CheckError, RecordError, codec

app = load()


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console(), "_width", 300)


def cycles(*words):
    done = CliRunner().invoke(app, ["ledger", "cycles", *map(str, words)])
    if done.exception is not None:
        raise done.exception
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with open_ledger(folder / "ledger.db") as books:
        books.create_budget(
            "acme/2026", kind="approximate", epsilon="60", delta="2e-5", privacy_unit="school", simulation=True
        )
    for name, period in (("words", "2026-Q3"), ("emoji", "2026-Q4")):  # each states a budget of its own
        plan = make_plan(name=name, scope=f"acme/2026/{name}", reporting={"period": period})
        finish(folder / name, folder / "ledger.db", plan)
    with open_ledger(folder / "ledger.db") as books:
        key = next(entry.key for entry in books.history() if entry.key)
        books.decommission(key, actor="ann", reason="replaced <b>|x|</b>")
    return folder


@pytest.mark.slow
def test_cycles_are_shown_with_their_plans(runs):
    words = ("acme/2026", "-l", runs / "ledger.db", "--plan", runs / "words", "--plan", runs / "emoji" / "report.html")
    text = cycles(*words)
    assert "2026-Q3 150 words (decommissioned by ann: replaced <b>|x|</b>)" in text
    assert "2026-Q4 150 emoji" in text
    for says in ("Sums are exact", "Only the lifetime total counts against the cap", "A simulation"):
        assert says in text
    told = json.loads(cycles(*words, "--json"))
    assert [one["name"] for one in told["cycles"]] == ["2026-Q3", "2026-Q4"]
    first, last = told["cycles"]
    assert first["active"]["epsilon"] == "0"
    assert last["lifetime"]["epsilon"] == told["lifetime"]["epsilon"]
    assert last["active"]["epsilon"] == told["active"]["epsilon"] == last["spent"]["epsilon"]
    assert last["releases"][0]["population"] == 150


@pytest.mark.slow
def test_cycles_are_written_as_markdown_that_quotes_no_markup(runs, tmp_path):
    text = cycles("acme/2026", "-l", runs / "ledger.db", "-o", tmp_path / "cycles.md")
    assert "wrote" in text
    written = (tmp_path / "cycles.md").read_text()
    assert written.startswith("# Release cycles of acme/2026")
    assert "\\<b\\>\\|x\\|\\</b\\>" in written
    assert "not given" in written, "no plan says N"
    assert "protects no one" in written


def test_plans_are_told_apart_by_content(runs, tmp_path):
    places = (
        runs / "words",
        runs / "words" / "plan.json",
        runs / "words" / "report.json",
        runs / "words" / "report.html",
    )
    assert len({tuple(read_plan_summaries([place])) for place in places}) == 1
    (tmp_path / "x.json").write_text('{"kind": "report"}')
    (tmp_path / "y.json").write_text("[]")
    plan = codec.parse_json((runs / "words" / "plan.json").read_bytes())
    for place in ("reporting", "details"):
        (tmp_path / f"{place}.json").write_bytes(
            codec.encode_canonical(plan | {"details": {"reporting": True}, place: True})
        )
    for name in ("x.json", "y.json", "nowhere", "reporting.json", "details.json"):
        with pytest.raises(RecordError):
            read_plan_summaries([tmp_path / name])


def test_a_ledger_and_a_budget_must_be_there(runs, tmp_path):
    with pytest.raises(CheckError, match="a ledger file that exists"):
        cycles("acme", "-l", tmp_path / "none.db")
    with pytest.raises(ValueError, match="scope"):
        cycles("acme", "-l", runs / "ledger.db")

"""What the pages show of a ledger and of finished runs."""

import json
import threading
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException
from tests.server.conftest import REPORT

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.server import create_app, page_data
from epsilog.server.access import LOCAL_HOLDER, Action
from epsilog.server.authorization import AuthorizedCaller
from epsilog.terms import CheckError, NeighboringRelation

ANYBODY = AuthorizedCaller(LOCAL_HOLDER, Action.READ)


def asked(**state):
    return SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(**({"ledger": None, "runs": None} | state))))


def test_runs_are_folders_with_a_report_and_a_plain_name(tmp_path):
    for name in ("b-run", "a_run.1", ".hidden", "with space", "-dash", "no-report", "x" * 128, "x" * 129):
        (tmp_path / name).mkdir()
        if name != "no-report":
            (tmp_path / name / "report.json").write_text(json.dumps(REPORT))
    (tmp_path / "file").write_text("")
    found = page_data.runs_route(asked(runs=tmp_path))
    assert [run["name"] for run in found["runs"]] == ["a_run.1", "b-run", "x" * 128]
    for run in found["runs"]:
        assert {name: run[name] for name in run if name != "name"} == {
            "config_name": "exam-scores",
            "period": "2026-Q4",
            "simulation": True,
            "epsilon": 1.5,
            "delta": 1e-5,
            "status": "passed",
            "rounds": 3,
        }
    assert page_data.run_route(asked(runs=tmp_path), "b-run") == REPORT
    unsupported = REPORT | {"claim": REPORT["claim"] | {"supported": "inf"}}
    assert page_data._summarize(unsupported)["epsilon"] == "inf"
    assert page_data.runs_route(asked()) == {"present": False, "runs": []}
    assert page_data.runs_route(asked(runs=tmp_path / "nowhere")) == {"present": True, "runs": []}


def test_what_is_no_report_or_too_large_is_not_shown(tmp_path, monkeypatch):
    (tmp_path / "r").mkdir()
    path = tmp_path / "r" / "report.json"
    for content in ('{"kind": "plan"}', '["report"]', '"report"', "null", "7"):
        path.write_text(content)
        with pytest.raises(CheckError, match=r"report must be a report document, got report\.json"):
            page_data.run_route(asked(runs=tmp_path), "r")
    path.write_text(json.dumps(REPORT))
    monkeypatch.setattr(page_data, "MAX_REPORT_BYTES", path.stat().st_size)
    assert page_data.run_route(asked(runs=tmp_path), "r") == REPORT
    monkeypatch.setattr(page_data, "MAX_REPORT_BYTES", path.stat().st_size - 1)
    with pytest.raises(HTTPException) as refused:
        page_data.run_route(asked(runs=tmp_path), "r")
    assert refused.value.status_code == 413


def test_a_report_is_downloaded_under_its_runs_name_and_nothing_else_is(tmp_path, site):
    (tmp_path / "r").mkdir()
    for other in ("report.json", "report.html", "custody.jsonl"):
        (tmp_path / "r" / other).write_text("{}")
    state = asked(runs=tmp_path)
    for file, kind in (("report.html", "text/html"), ("report.json", "application/json")):
        found = page_data.report_route(state, "r", file)
        assert (found.path, found.filename, found.media_type) == (tmp_path / "r" / file, f"r-{file}", kind)
    (tmp_path / "r" / "report.html").unlink()
    for other in ("custody.jsonl", "plan.json", "report.html"):
        with pytest.raises(HTTPException, match="Report not found"):
            page_data.report_route(state, "r", other)
    for wrong in ("..", "s", "r/", ".r", ""):
        with pytest.raises(HTTPException, match="Run not found"):
            page_data.report_route(state, wrong, "report.json")
    with pytest.raises(HTTPException, match="Run not found"):
        page_data.run_route(asked(), "r")
    for path in ("..", "../../etc", "%2e%2e", "none", "exam-scores-1%00", "exam-scores-1/custody.jsonl"):
        found = site.get(f"runs/{path}")
        assert (found.status, b"must stay" in found.body) == (404, False)
    assert site.get("runs/exam-scores-1/..%2freport.json").status == 404


def test_a_ledger_is_read_page_by_page(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget(
            "acme", kind="approximate", epsilon="3", delta="1e-5", privacy_unit="person", simulation=True
        )
        books.create_budget("lab", kind="pure", relation=NeighboringRelation.REPLACE_ONE, epsilon="2")
        for number in range(4):
            books.charge("acme/x", PureDP(0.25), key=f"q-{number}", simulation=True)
        books.reserve("acme", PureDP(0.5), key="run", rounds=2, simulation=True)
        started = books.reserve("acme", PureDP(0.125), key="begun", rounds=2, simulation=True)
        started.start()
        everything, (count, head) = list(books.history()), books.head()
        kept = {one.scope: one for one in books.budgets()}
    for url in (str(tmp_path / "b.db"), f"sqlite:///{tmp_path / 'b.db'}"):
        state = asked(ledger=url)
        found = page_data.budgets_route(state, ANYBODY)
        assert (found["present"], found["entries"], found["head"]) == (True, count, head)
    acme, lab = found["budgets"]
    for said, one in ((acme, kept["acme"]), (lab, kept["lab"])):
        for name in ("scope", "kind", "privacy_unit", "simulation", "theorem"):
            assert said[name] == getattr(one, name)
        assert said["relation"] == one.relation.value
        for name in ("caps", "reserved", "started", "committed", "spent", "available"):
            assert said[name] == dict(getattr(one, name))
    sums = {name: acme[name]["epsilon"] for name in ("reserved", "started", "committed", "spent", "available")}
    assert sums == {"reserved": "0.5", "started": "0.125", "committed": "1", "spent": "1.125", "available": "1.375"}
    newest = page_data.entries_route(state, ANYBODY, scope=None, before=None, limit=3)
    assert [one["index"] for one in newest["entries"]] == [count, count - 1, count - 2]
    assert newest["next"] == count - 2
    whole = page_data.entries_route(state, ANYBODY, scope=None, before=None, limit=count)
    assert (len(whole["entries"]), whole["next"]) == (count, None)
    assert whole["entries"][0]["hash"] == head
    assert [one["index"] for one in whole["entries"]][::-1] == [entry.index for entry in everything]
    assert page_data.entries_route(state, ANYBODY, scope="lab", before=None, limit=5)["entries"][0]["scope"] == "lab"
    cycles = page_data.cycles_route(state, ANYBODY, scope="acme", limit=2)
    assert [(one["key"], one["scope"]) for one in cycles["cycles"]] == [("q-3", "acme/x"), ("begun", "acme")]
    assert [one["cumulative"]["epsilon"] for one in cycles["cycles"]] == ["1", "1.125"]
    assert [one["amount"]["epsilon"] for one in cycles["cycles"]] == ["0.25", "0.125"]
    assert cycles["scope"] == "acme"
    assert cycles["caps"] == {"epsilon": "3", "delta": "0.00001"}
    assert all(one["time"] for one in cycles["cycles"])
    with pytest.raises(CheckError, match="nobody"):
        page_data.cycles_route(state, ANYBODY, scope="nobody", limit=2)
    for read in (page_data.cycles_route, page_data.entries_route):
        with pytest.raises(HTTPException, match="has no ledger"):
            read(
                asked(), ANYBODY, scope="acme", limit=1, **({"before": None} if read is page_data.entries_route else {})
            )


def test_entries_chain_and_page(site):
    pages, cursor = [], None
    while not pages or cursor is not None:
        page = site.get("ledger/entries?limit=3" + (f"&before={cursor}" if cursor else "")).json()
        pages, cursor = [*pages, page["entries"]], page["next"]
    everything = [entry for page in pages for entry in page]
    assert len(everything) == site.get("ledger").json()["entries"] == everything[0]["index"]
    assert [entry["previous"] for entry in everything[:-1]] == [entry["hash"] for entry in everything[1:]]
    assert len(site.get("ledger/entries?scope=lab/study").json()["entries"]) == 2
    for wrong in ("limit=0", "limit=501", "before=0", "scope=%00", "before=99999999999999999999"):
        assert site.get(f"ledger/entries?{wrong}").status == 422


def checked(site):
    """The last word of a check of the ledger."""
    started = site.post("ledger/verify", {})
    assert started.status == 202
    stream = site.get(f"ledger/verify/{started.json()['id']}/events").body.decode()
    last = json.loads([line for line in stream.splitlines() if line.startswith("data: ")][-1][6:])
    assert last == site.get(f"ledger/verify/{started.json()['id']}").json()
    return last


def test_a_check_reports_and_ends_when_told(site, monkeypatch):
    from epsilog.ledger import replay

    monkeypatch.setattr(replay, "REPORT_EVERY", 1)
    going, waits = threading.Event(), threading.Event()
    read = replay.LedgerReplay.read

    def slow(books, row):
        if row.position == 6:
            waits.set()
            going.wait(10)
        read(books, row)

    monkeypatch.setattr(replay.LedgerReplay, "read", slow)
    name = site.post("ledger/verify", {}).json()["id"]
    assert waits.wait(10)
    assert site.get(f"ledger/verify/{name}").json()["checked"] == 5
    assert site.post("ledger/verify", {}).json()["id"] == name  # a second check joins the first
    assert site.post(f"ledger/verify/{name}/cancel").json()["state"] == "cancelled"
    going.set()
    assert "sound" not in site.get(f"ledger/verify/{name}").json()
    monkeypatch.undo()
    assert checked(site)["sound"]


@pytest.mark.slow
def test_verify_says_sound_and_says_broken(site, serve_app, ledger_path, tmp_path):
    found = checked(site)
    assert found["sound"]
    assert found["head"] == site.get("ledger").json()["head"]

    broken = tmp_path / "broken.db"
    broken.write_bytes(ledger_path.read_bytes().replace(b"question-1", b"question-9"))
    with serve_app(create_app(ledger=str(broken))) as other:
        verdict = checked(other)
    assert verdict["sound"] is False
    assert verdict["message"]

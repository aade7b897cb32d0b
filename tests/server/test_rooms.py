"""What stands between an address and the library, without a server: fields in, calls out, errors as documents."""

import asyncio
import inspect
import json
import logging
import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from tests.server.conftest import REPORT

from epsilog import plan
from epsilog.accounting.montecarlo import certify_delta, compute_balls_in_bins_delta, strategies
from epsilog.ledger import open_ledger
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    FixedSizeSampled,
    Gaussian,
    MatrixMechanism,
    MinSepParticipation,
    PureDP,
    ToeplitzStrategy,
)
from epsilog.server import (
    certificates,
    page_data,
    problems,
    responses,
    server,
    verification,
    worker,
)
from epsilog.server.access import LOCAL_HOLDER, Action
from epsilog.server.authorization import AuthorizedCaller
from epsilog.server.certificates import _SOFTWARE, LONGEST_PATH, CertificateRequest, CertificateService
from epsilog.server.middleware import LONGEST_BODY, BodyLimitMiddleware, HostGuardMiddleware
from epsilog.terms import (
    CalibrationError,
    CheckError,
    EpsilogError,
    NeighboringRelation,
    RecordError,
    UnsupportedMechanismError,
    codec,
)

REPLACE = NeighboringRelation.REPLACE_ONE
ANYBODY = AuthorizedCaller(LOCAL_HOLDER, Action.READ)
RUN = {"population": 50_000, "cohort_size": 500, "rounds": 20, "noise_multiplier": 1.2}


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_what_a_certificate_leaves_out_means_what_it_means_in_the_library():
    known = inspect.signature(certify_delta).parameters
    for name, one in CertificateRequest.model_fields.items():
        if not one.is_required() and name in known and known[name].default is not inspect.Parameter.empty:
            assert name == "samples" or one.default == known[name].default, name


def test_what_has_no_meaning_in_the_library_has_one_here_for_ever():
    """Pages, embeds and saved addresses leave it out."""
    blank = CertificateRequest()
    assert blank.release() == BallsInBins(Gaussian(1.0), bins=16, epochs=1)
    assert (blank.epsilon, blank.samples, blank.failure, blank.bands, blank.probability) == (1.0, 10**6, 1e-6, 8, 0.5)


LIMITS = {
    "bands": (1, 512),
    "bins": (1, 1024),
    "epochs": (1, 100),
    "probability": (1e-9, 1.0),
    "noise_multiplier": (1e-9, 1000.0),
    "epsilon": (0.0, 100.0),
    "failure": (1e-9, 1 - 1e-9),
    "samples": (1000, 50_000_000),
}
BEYOND = {"probability": 0.0, "noise_multiplier": 0.0, "failure": 0.0}


@pytest.mark.parametrize("name", LIMITS)
def test_a_certificates_limits_are_allowed_and_what_lies_beyond_is_not(name):
    low, high = LIMITS[name]
    for value in (low, high):
        assert getattr(CertificateRequest(**{name: value}), name) == value
    over = 1.0 if name == "failure" else high + 1 if isinstance(high, int) else high * (1 + 1e-9)
    for value in (BEYOND.get(name, low - 1), over):
        with pytest.raises(ValidationError):
            CertificateRequest(**{name: value})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["independent", "square-root", "optimal"])
@pytest.mark.parametrize("participation", ["balls-in-bins", "b-min-sep", "cyclic-poisson"])
def test_a_certificate_is_of_the_run_that_was_described(participation, strategy):
    ask = CertificateRequest(
        participation=participation,
        strategy=strategy,
        bands=3,
        bins=4,
        epochs=5,
        probability=0.25,
        noise_multiplier=2.0,
    )
    if (participation, strategy) == ("balls-in-bins", "independent"):
        assert ask.release() == BallsInBins(Gaussian(2.0), bins=4, epochs=5)
        both = [
            compute_balls_in_bins_delta(bins=4, noise_stddev=2.0, epsilon=1.0, direction=direction, epochs=5).value
            for direction in ("add", "remove")
        ]
        assert ask.exact() == max(both) > min(both)
        return
    taking_part = {
        "balls-in-bins": BallsInBinsParticipation(4),
        "b-min-sep": MinSepParticipation(4, 0.25),
        "cyclic-poisson": CyclicPoissonParticipation(4, 0.25),
    }[participation]
    noise = {
        "independent": ToeplitzStrategy((1.0,)),
        "square-root": strategies.build_square_root_column(3),
        "optimal": strategies.optimize_banded_column(3, 20),
    }[strategy]
    assert ask.release() == MatrixMechanism(noise, taking_part, 20, 2.0)
    assert ask.exact() is None


def test_a_run_whose_losses_are_drawn_one_after_the_other_is_short():
    family = {"participation": "cyclic-poisson", "bins": LONGEST_PATH // 4}
    assert CertificateRequest(**family, epochs=4).release().rounds == LONGEST_PATH
    with pytest.raises(CheckError, match="epochs must be at most 4 here, got 5"):
        CertificateRequest(**family, epochs=5).release()
    assert CertificateRequest(bins=1024, epochs=100).release()  # in closed form
    short = CertificateRequest(participation="b-min-sep", strategy="square-root", bands=8, bins=1, epochs=5)
    assert short.release().strategy == strategies.build_square_root_column(5)


# --- what is answered -------------------------------------------------------------------------------------------------


def test_a_record_carries_its_owners_words_and_is_checked():
    said = {"delta_reason": "below 1/N", "references": [{"what": "data", "name": "visits", "sha256": "ab" * 32}]}
    asked = RUN | {"cohort_size": 50_000}  # everybody: a Gaussian, at once

    def record(path, ask):
        route = worker.ROUTES[path]
        return route.answer(route.request.model_validate(ask))

    stamped, plain = record("/federated/record", asked | said), record("/federated/record", asked)
    assert stamped["record"].pop("owner") == said
    assert stamped["record"] == plain["record"]
    assert plain["record"]["question"] == plan.QUESTIONS["/federated"].parse(asked).to_json()
    assert (plain["record"]["v"], plain["record"]["software"]) == (0, _SOFTWARE)
    query = {"epsilon": 1.0, "queries": 3}
    queries = record("/queries/record", query | said)
    assert queries["record"]["owner"] == said
    assert queries["record"]["question"] == plan.QUESTIONS["/queries"].parse(query).to_json()
    wrong = [said["references"][0], said["references"][0] | {"name": "/home/me/visits"}]
    with pytest.raises(CheckError, match=r"references\[1\].name must be a name, not the path"):
        record("/federated/record", asked | {"references": wrong})
    for document, codes, verdict in [
        (plain, ["record/holds", "answer/comes-out-again"], "passed"),
        (queries, ["record/holds", "answer/comes-out-again", "references/not-checked"], "not checked"),
        (plain | {"sha256": "0" * 64}, ["record/changed", "answer/comes-out-again"], "failed"),
    ]:
        found = verification.verify_route(verification.VerifyRequest(record=json.dumps(document)))
        responses.ReportVerificationModel.model_validate_json(json.dumps(found))
        assert ([one["code"] for one in found["findings"]], found["verdict"]) == (codes, verdict)
    for other in ("{", "[]", '{"record": 3, "sha256": ""}', '{"sha256": "", "sha256": ""}'):
        with pytest.raises(CheckError, match="record must be a stamped calculation"):
            verification.verify_route(verification.VerifyRequest(record=other))
    with pytest.raises(CheckError, match="record must be alone"):
        verification.verify_route(verification.VerifyRequest(record=json.dumps(plain), key="x"))


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "kind", "says"),
    [
        (CheckError("delta", "in (0, 1)", "2"), 422, "invalid-input", "delta must be in (0, 1), got 2"),
        (ValueError("something"), 422, "invalid-input", "something"),
        (OverflowError("ours"), 422, "out-of-reach", "nothing is claimed"),
        (ZeroDivisionError("ours"), 422, "out-of-reach", "nothing is claimed"),
        (CalibrationError("no noise"), 422, "no-answer", "no noise"),
        (RecordError("line 1"), 422, "refused", "line 1"),
        (EpsilogError("no"), 422, "refused", "no"),
        (HTTPException(404, "nothing here"), 404, "http", "nothing here"),
        (KeyError("secret"), 500, "internal", "The server failed"),
        (OSError("/secret"), 500, "internal", "The server failed"),
        (
            UnsupportedMechanismError(FixedSizeSampled(Gaussian(1.0), 2, 5), method="a method", reason="why"),
            422,
            "unsupported",
            "a method has no proven bound for FixedSizeSampled: why. No nearby formula is used instead.",
        ),
        (
            UnsupportedMechanismError(Gaussian(1.0), method="a method"),
            422,
            "unsupported",
            "a method has no proven bound for Gaussian. No nearby",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_failure_is_a_problem_document(error, status, kind, says):
    found = problems.map_error_to_problem(error)
    body = json.loads(found.body)
    assert (found.status_code, body["status"], body["type"]) == (status, status, f"/problems/{kind}")
    assert found.media_type == "application/problem+json"
    assert says in body["detail"]
    assert body["title"]
    assert "secret" not in found.body.decode()
    assert ("errors" in body) == (kind == "invalid-input")


def test_a_field_error_says_what_was_given_in_few_words():
    (found,) = json.loads(problems.map_error_to_problem(CheckError("weights", "numbers", "9" * 500, verb="hold")).body)[
        "errors"
    ]
    said = {"field": "weights", "message": "must hold numbers", "bound": "numbers", "value": "9" * 200}
    assert {name: found[name] for name in said} == said
    (found,) = json.loads(problems.map_error_to_problem(ValueError("why")).body)["errors"]
    assert (found["field"], found["message"]) == (None, "why")
    detail = json.loads(problems.map_error_to_problem(ValueError("x" * 900)).body)["detail"]
    assert detail == "x" * 500


# --- the reading room -------------------------------------------------------------------------------------------------


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
            "programme": "exam-scores",
            "period": "2026-Q4",
            "simulation": True,
            "epsilon": 1.5,
            "delta": 1e-5,
            "verdict": "passed",
            "rounds": 3,
        }
    assert page_data.run_route(asked(runs=tmp_path), "b-run") == REPORT
    assert page_data.runs_route(asked()) == {"present": False, "runs": []}
    assert page_data.runs_route(asked(runs=tmp_path / "nowhere")) == {"present": True, "runs": []}


@pytest.mark.parametrize("content", ['{"kind": "plan"}', '["report"]', '"report"', "null", "7"])
def test_what_is_no_report_is_not_shown_as_one(tmp_path, content):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "report.json").write_text(content)
    with pytest.raises(CheckError, match=r"report must be a report document, got report\.json"):
        page_data.run_route(asked(runs=tmp_path), "r")


def test_a_report_that_is_too_large_is_not_shown(tmp_path, monkeypatch):
    (tmp_path / "r").mkdir()
    path = tmp_path / "r" / "report.json"
    path.write_text(json.dumps(REPORT))
    monkeypatch.setattr(page_data, "LONGEST_REPORT", path.stat().st_size)
    assert page_data.run_route(asked(runs=tmp_path), "r") == REPORT
    monkeypatch.setattr(page_data, "LONGEST_REPORT", path.stat().st_size - 1)
    with pytest.raises(HTTPException) as refused:
        page_data.run_route(asked(runs=tmp_path), "r")
    assert refused.value.status_code == 413


@pytest.mark.parametrize(("name", "file"), [("r", "report.html"), ("r", "report.json")])
def test_a_report_is_downloaded_under_its_runs_name(tmp_path, name, file):
    (tmp_path / "r").mkdir()
    for other in ("report.json", "report.html", "custody.jsonl"):
        (tmp_path / "r" / other).write_text("{}")
    found = page_data.report_route(asked(runs=tmp_path), name, file)
    assert (found.path, found.filename) == (tmp_path / name / file, f"r-{file}")
    assert found.media_type == {"html": "text/html", "json": "application/json"}[file[-4:]]
    for other in ("custody.jsonl", "plan.json"):
        with pytest.raises(HTTPException, match="no such report"):
            page_data.report_route(asked(runs=tmp_path), name, other)
    (tmp_path / "r" / "report.html").unlink()
    with pytest.raises(HTTPException, match="no such report"):
        page_data.report_route(asked(runs=tmp_path), name, "report.html")
    for wrong in ("..", "s", "r/", ".r", ""):
        with pytest.raises(HTTPException, match="no such run"):
            page_data.report_route(asked(runs=tmp_path), wrong, file)
    with pytest.raises(HTTPException, match="no such run"):
        page_data.run_route(asked(), "r")


def test_a_ledger_is_read_page_by_page(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget(
            "acme", kind="approximate", epsilon="3", delta="1e-5", privacy_unit="person", simulation=True
        )
        books.create_budget("lab", kind="pure", relation=REPLACE, epsilon="2")
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
    for read in (page_data.cycles_route, page_data.entries_route):
        with pytest.raises(HTTPException, match="without a ledger"):
            read(
                asked(), ANYBODY, scope="acme", limit=1, **({"before": None} if read is page_data.entries_route else {})
            )


# --- listening --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_serving_binds_tells_and_runs_in_this_order(monkeypatch, tmp_path, host):
    uvicorn = pytest.importorskip("uvicorn")
    told = []

    class Server:
        def __init__(self, config):
            assert config.app.state.ledger == "b.db"
            assert (config.app.state.runs, config.app.state.certificates_in) == (tmp_path, tmp_path / "c")
            assert (config.server_header, config.timeout_graceful_shutdown) == (False, server.SHUTDOWN_SECONDS)
            assert config.limit_concurrency

        async def serve(self, sockets):
            told.append(sockets)

    monkeypatch.setattr(uvicorn, "Server", Server)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    bound = []
    monkeypatch.setattr(server, "_bind", lambda *where: bound.append(where) or listener)
    ready = told.append
    server.serve(host, 8123, ledger="b.db", runs=tmp_path, certificates_in=tmp_path / "c", ready=ready)
    address = f"http://[::1]:{port}" if host == "::1" else f"http://{host}:{port}"
    assert (bound, told) == ([(host, 8123)], [address, [listener]])
    assert listener.fileno() == -1  # closed with the server
    bound.clear(), told.clear()
    monkeypatch.setattr(server, "_bind", lambda *_: socket.socket())
    monkeypatch.setattr(Server, "__init__", lambda *_: None)
    server.serve(host, 8123)
    assert len(told) == 1


def test_a_server_begins_its_first_process_before_it_loads_what_only_it_needs(tmp_path):
    """Both take about a second: one after the other, a first question waited for seconds."""
    code = """
import sys
from epsilog import server
from epsilog.server import workers
class Begun(Exception): pass
async def begin(self):
    raise Begun(*[name for name in ("fastapi", "uvicorn", "epsilog.server.app") if name in sys.modules])
workers.WorkerPool.start_first = begin
try:
    server.serve("127.0.0.1", 0)
except Begun as error:
    print("begun", *error.args)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["begun"], done.stderr


@pytest.mark.parametrize("port", [-1, 65536, 1.5])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(ValueError, match="port must be"):
        server.serve("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", ""])  # noqa: S104 - refused
@pytest.mark.parametrize("port", [1, 65535])
def test_nothing_but_loopback_is_served(host, port):
    with pytest.raises(CheckError, match="host must be a loopback address"):
        server.serve(host, port)


def test_a_port_that_is_taken_is_said_to_be():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EpsilogError, match=f"port {port} of 127.0.0.1 cannot be bound"):
            server._bind("127.0.0.1", port)
    with server._bind("127.0.0.1", port) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)
        assert listener.family == socket.AF_INET


@pytest.mark.parametrize(
    ("error", "news"), [(None, True), (ValueError("x"), True), (asyncio.CancelledError(), False)], ids=str
)
def test_requests_that_end_with_the_server_are_no_news(error, news):
    info = None if error is None else (type(error), error, None)
    assert server._is_no_cancellation(logging.LogRecord("uvicorn.error", 40, "f", 1, "message", (), info)) == news


# --- what every request must pass -------------------------------------------------------------------------------------


def passed(*messages, method="POST", headers=(), kind="http", reads=1):
    """Lets one request through the guard: (what the application read, what was sent)."""
    read, sent, left = [], [], list(messages)

    async def app(scope, receive, send):
        if scope["type"] == "http":
            read.extend([await receive() for _ in range(reads)])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        return left.pop(0)

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost:80", **dict(headers)}.items()]
    scope = {"type": kind, "method": method, "path": "/api/v1/x", "headers": raw}
    asyncio.run(HostGuardMiddleware(BodyLimitMiddleware(app))(scope, receive, send))
    return read, sent


def chunk(body, more):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_pieces_arrives_whole_and_what_follows_is_passed_on():
    hung_up = {"type": "http.disconnect"}
    read, sent = passed(
        chunk(b"one", True), chunk(b"", True), chunk(b"two", True), chunk(b"three", False), hung_up, reads=2
    )
    assert read == [chunk(b"onetwothree", False), hung_up]
    assert sent[0]["status"] == 200
    for method in ("PUT", "PATCH"):
        assert passed(chunk(b"a", True), chunk(b"b", False), method=method)[0] == [chunk(b"ab", False)]
    assert passed(chunk(b"", True), method="GET")[0][0] == chunk(b"", True)


def test_who_hangs_up_in_the_middle_of_a_body_is_not_answered():
    assert passed(chunk(b"one", True), {"type": "http.disconnect"}) == ([], [])


def test_a_body_that_drips_is_refused_in_time(monkeypatch):
    monkeypatch.setattr("epsilog.server.middleware.BODY_TIMEOUT_SECONDS", 0.05)

    async def drips():
        await asyncio.sleep(0.01)
        return chunk(b"x", True)

    sent = []

    async def run():
        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/api/v1/x", "headers": []}
        await asyncio.wait_for(BodyLimitMiddleware(None)(scope, drips, send), 5)

    asyncio.run(run())
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_body_may_be_so_long_and_no_longer(pieces):
    size = LONGEST_BODY // pieces
    full = [chunk(b"x" * size, at < pieces - 1) for at in range(pieces)]
    full[-1]["body"] += b"x" * (LONGEST_BODY - pieces * size)
    (whole,), sent = passed(*full)
    assert (len(whole["body"]), sent[0]["status"]) == (LONGEST_BODY, 200)
    full[-1] = chunk(full[-1]["body"] + b"x", False)
    read, sent = passed(*full)
    assert (read, sent[0]["status"]) == ([], 413)
    endless = (chunk(b"x" * 40_000, True) for _ in range(100))
    assert passed(*endless)[1][0]["status"] == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "LOCALHOST:1"}, 200),
        ({"host": "[::1]:80"}, 200),
        ({"host": "[::2]:80"}, 421),
        ({"host": "localhost.evil.org"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://localhost:80"}, 200),
        ({"origin": "https://localhost:80"}, 200),
        ({"origin": "http://localhost:81"}, 403),
        ({"origin": "http://evil.org"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.org", "origin": "http://evil.org"}, 421),
    ],
    ids=str,
)
def test_hosts_and_origins(headers, status):
    read, sent = passed(chunk(b"", False), headers=headers)
    assert sent[0]["status"] == status
    assert bool(read) == (status == 200)
    said = dict(sent[0]["headers"])
    assert said[b"x-content-type-options"] == b"nosniff"
    assert said[b"cache-control"] == b"no-store"


def test_what_is_no_request_passes_untouched():
    assert passed(kind="lifespan", headers={"host": "evil.org"})[1][0]["headers"] == []


# --- certificates of an earlier server --------------------------------------------------------------------------------


@pytest.mark.slow
def test_certificates_are_taken_up_as_they_were_left_and_told_newest_first(tmp_path):
    ask = CertificateRequest(samples=2000, bins=4)
    made = {"software": _SOFTWARE, "ask": ask.model_dump()}
    evidence = certify_delta(ask.release(), epsilon=ask.epsilon, failure=ask.failure, samples=ask.samples).to_json()
    names = ["a" * 16, "0123456789abcdef", "b" * 16]
    for age, name in enumerate(names):
        (tmp_path / f"{name}.ask.json").write_text(json.dumps(made))
        os.utime(tmp_path / f"{name}.ask.json", (10 + age, 10 + age))
    (tmp_path / f"{names[1]}.evidence.json").write_text(json.dumps(evidence))
    for name, other in (
        ("c" * 16, made | {"software": "epsilog 0.0.0"}),
        ("d" * 16, {"ask": made["ask"]}),
        ("e" * 16, made | {"ask": {"bins": 0}}),
        ("9" * 16, made),
        ("not a name", made),
    ):
        (tmp_path / f"{name}.ask.json").write_text(json.dumps(other))
    (tmp_path / f"{'9' * 16}.evidence.json").write_text('{"interval": {"lower": 0.25}}')  # of no certificate
    (tmp_path / f"{'f' * 16}.ask.json").write_text("{")
    found = CertificateService(tmp_path)
    request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(certificates=found)))
    told = certificates.list_certificates_route(request)["certificates"]
    assert [one["id"] for one in told] == names[::-1]
    for one in told:
        assert (one["ask"], one["of"], one["exact"]) == (made["ask"], 2000, ask.exact())
    assert [one["state"] for one in told] == ["paused", "done", "paused"]
    assert told[1]["interval"] == evidence["interval"]
    assert {way: look["draws"] for way, look in told[1]["directions"].items()} == {"remove": 2000, "add": 2000}
    assert "interval" not in told[0]
    assert told[0]["directions"] == {}
    assert certificates.get_certificate_route(names[0], request) == {
        name: told[2][name] for name in told[2] if name != "id"
    }
    with pytest.raises(HTTPException, match="is not finished"):
        found.evidence(found.registry.job(names[0]))
    assert found.evidence(found.registry.job(names[1])) == evidence
    assert certificates.control_certificate_route(names[0], "cancel", request)["state"] == "cancelled"
    assert not (tmp_path / f"{names[0]}.ask.json").exists()
    assert certificates.control_certificate_route(names[2], "pause", request)["state"] == "paused"
    assert (tmp_path / f"{names[2]}.ask.json").exists()


def test_a_certificate_is_drawn_told_and_kept(tmp_path, monkeypatch):
    calls = []

    def drawn(release, **named):
        calls.append((release, {name: named[name] for name in named if name not in {"journal", "progress"}}))
        assert named["journal"].parent == tmp_path / "new"
        named["journal"].write_text(json.dumps(head) + "\n")
        for way in ("remove", "add", "remove"):
            trial = SimpleNamespace(tilt=SimpleNamespace(direction=way), bound=2.0, samples=5000)
            named["progress"](trial, 10 * len(calls), 3)
        return result

    head = {"provenance": "the operating system", "run": "0f"}
    result = SimpleNamespace(
        interval=plan.plan_federated(**(RUN | {"cohort_size": 50_000})).epsilon, to_json=lambda: {"a": 1}
    )
    monkeypatch.setattr(certificates, "certify_delta", drawn)
    monkeypatch.setattr(
        certificates, "compute_running_interval", lambda _, draws, hits, failure: (draws, hits + failure)
    )
    found = CertificateService(tmp_path / "new")
    ask = CertificateRequest(participation="b-min-sep", bins=2, epochs=3, epsilon=0.5, failure=0.01, samples=5000)
    job = found.ask(ask)
    for _ in range(200):
        if job.over and not job.busy:
            break
        time.sleep(0.01)
    assert job.snapshot["state"] == "done", job.snapshot
    assert calls == [(ask.release(), {"epsilon": 0.5, "failure": 0.01, "samples": 5000})]
    seen = {"draws": 10, "hits": 3, "lower": 10, "upper": 3.005, "estimate": 0.6}
    seen = seen | {"trail": [seen]}  # the second look at removal is no further on
    assert job.snapshot["directions"] == {"remove": seen, "add": seen}
    assert job.snapshot["born"] == {"provenance": head["provenance"], "plan": head["run"]}
    assert job.snapshot["interval"] == codec.encode(result.interval)
    assert (job.snapshot["of"], job.snapshot["exact"], job.snapshot["ask"]) == (5000, None, ask.model_dump())
    kept = {path.name.removeprefix(f"{job.id}."): json.loads(path.read_text()) for path in found.folder.iterdir()}
    asked = {"software": _SOFTWARE, "ask": ask.model_dump()}
    assert kept == {"ask.json": asked, "evidence.json": {"a": 1}, "journal.json": head}
    request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(certificates=found)))
    download = certificates.download_evidence_route(job.id, request)
    assert json.loads(download.body) == {"a": 1}
    assert f'filename="montecarlo-{job.id}.json"' in download.headers["content-disposition"]

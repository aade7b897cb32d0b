"""Health, figures and the log: what they say, to whom, and what they never say."""

import contextlib
import io
import json
import logging
import math
import re
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.server.inside import ask

from epsilog.ledger import open_ledger
from epsilog.server import AccessConfig, create_app, metrics, tokens
from epsilog.server.access import Holder, Role
from epsilog.server.authorization import HOLDER
from epsilog.server.metrics import Metrics, MetricsMiddleware, _round_outward


@pytest.fixture(scope="module")
def app(ledger_path, runs_path):
    return create_app(ledger=str(ledger_path), runs=runs_path)


def figures(app, **more):
    found = ask(app, "GET", "/metrics", **more)
    assert found.status == 200
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(found.body.decode())
        for sample in family.samples
    }


@pytest.mark.slow
def test_a_server_whose_ledger_cannot_be_read_lives_and_is_not_ready(app, tmp_path, monkeypatch, caplog):
    assert ask(app, "GET", "/readyz").json() == {"status": "ready"}
    monkeypatch.setattr(metrics, "_LOG", logging.getLogger("ready"))  # servers of other tests silence theirs
    (tmp_path / "secret-name.db").write_bytes(b"no ledger")
    app = create_app(ledger=str(tmp_path / "secret-name.db"))
    assert ask(app, "GET", "/healthz").json() == {"status": "live"}
    for _ in range(3):
        found = ask(app, "GET", "/readyz")
        assert found.status == 503
        assert b"secret-name" not in found.body
    assert sum("not ready" in record.getMessage() for record in caplog.records) == 1  # one look for all who ask at once
    app.state.readiness._until = -math.inf
    app.state.readiness._url = None
    assert ask(app, "GET", "/readyz").status == 200


def test_requests_are_counted_by_the_template_of_their_route(app):
    before = figures(app)
    paths = ["/api/v1/runs/exam-scores-1", "/api/v1/runs/none", "/api/v1/nothing/here", "/elsewhere", "/ledger"]
    for path in paths * 2:
        ask(app, "GET", path)
    ask(app, "BREW", "/ledger")
    after = figures(app)
    key = ("epsilog_requests_total",)

    def more(method, route, status):
        name = (*key, ("method", method), ("route", route), ("status", str(status)))
        return after.get(name, 0) - before.get(name, 0)

    assert more("GET", "/api/v1/runs/{name}", 200) == 2
    assert more("GET", "/api/v1/runs/{name}", 404) == 2
    assert more("GET", "none", 404) == 2
    assert more("GET", "/{page}", 404) == 2
    assert more("GET", "/{page}", 200) == 2
    assert more("other", "/{page}", 405) + more("other", "none", 405) == 1
    assert not any("exam-scores" in str(name) or "elsewhere" in str(name) for name in after)
    refused = {dict(name[1:])["why"] for name in after if name[0] == "epsilog_refusals_total"}
    assert refused == {"HTTPException"}
    count = ("epsilog_request_seconds_count", ("method", "GET"), ("route", "/api/v1/runs/{name}"))
    assert after[count] - before.get(count, 0) == 4


def test_the_sums_of_budgets_are_on_the_safe_side(app):
    found = figures(app)
    of = (("scope", "acme/claims"), ("unit", "epsilon"))
    assert found[("epsilog_budget_cap", *of)] == 3
    assert found[("epsilog_budget_spent", *of)] == 1.75
    assert found[("epsilog_budget_reserved", *of)] >= 0.125
    assert ("epsilog_budget_spent", ("scope", "lab/study"), ("unit", "delta")) in found


@given(st.decimals(min_value=0, max_value=Decimal("1e12"), places=12))
def test_a_gauge_never_shows_less_spent_nor_more_cap(amount):
    up, down = _round_outward(str(amount), up=True), _round_outward(str(amount), up=False)
    assert Decimal(down) <= amount <= Decimal(up)
    assert up == down or math.nextafter(down, math.inf) == up


# --- the log ----------------------------------------------------------------------------------------------------------


SECRET = "eps_0123456789abcdef_" + "s3cret" * 7 + "x"


def logged(app, method, path, **more):
    out = io.StringIO()
    with contextlib.suppress(RuntimeError):
        ask(MetricsMiddleware(app, metrics=Metrics(), log=True, out=lambda: out), method, path, **more)
    (line,) = out.getvalue().splitlines()
    return json.loads(line)


def test_a_line_says_who_what_and_how_long(app):
    def named(scope, receive, send):
        scope[HOLDER] = Holder("Anna \u202e\n", Role.READER)
        return app(scope, receive, send)

    line = logged(named, "GET", "/api/v1/runs/exam-scores-1?q=why")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert 0 <= line.pop("milliseconds") < 60_000
    assert re.fullmatch(r"[0-9a-f]{16}", line.pop("id"))
    assert line == {
        "holder": "Anna \u202e\n",
        "method": "GET",
        "route": "/api/v1/runs/{name}",
        "status": 200,
        "outcome": "ok",
    }


def test_a_command_is_logged_with_its_scope_key_and_outcome(tmp_path, serve_app, capfd):
    with open_ledger(tmp_path / "ledger.db") as books:
        books.create_budget("acme", kind="pure", epsilon="1")
    release = {"v": 1, "term": {"type": "pure", "epsilon": 0.75}}
    charge = {"scope": "acme/visits", "release": release, "key": "first"}
    asked = [
        ("charge", charge),
        ("charge", charge | {"key": "second"}),
        ("charges", {"charges": [charge]}),
        ("charge", charge | {"key": "bad\n" + SECRET}),
    ]
    app = create_app(ledger=str(tmp_path / "ledger.db"), access=AccessConfig(access_log=True))
    with serve_app(app) as site:
        found = [site.post(f"ledger/{name}", body) for name, body in asked]
    out = capfd.readouterr().out
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["id"] for line in lines] == [one.headers["x-request-id"] for one in found]
    assert len({line["id"] for line in lines}) == len(asked)
    subjects = [{name: line.get(name) for name in ("scope", "key", "keys", "outcome")} for line in lines]
    assert subjects == [
        {"scope": "acme/visits", "key": "first", "keys": None, "outcome": "ok"},
        {"scope": "acme/visits", "key": "second", "keys": None, "outcome": "BudgetExceededError"},
        {"scope": None, "key": None, "keys": ["first"], "outcome": "ok"},
        {"scope": None, "key": None, "keys": None, "outcome": "CheckError"},
    ]
    assert SECRET not in out


def test_nothing_that_is_asked_stands_in_the_log_or_the_figures(app, capfd):
    said = [("user-agent", SECRET), ("referer", SECRET), ("x-forwarded-for", SECRET)]
    for method, path, more in (
        ("GET", f"/api/v1/runs/{SECRET}", {}),
        ("GET", f"/api/v1/ledger/cycles?scope={SECRET}", {}),
        ("GET", f"/{SECRET}", {}),
        (SECRET, "/", {}),
        ("GET", "/api/v1/runs", {"token": SECRET}),
        ("GET", "/api/v1/runs", {"headers": said}),
        ("GET", "/api/v1/runs", {"host": SECRET}),
        ("POST", "/api/v1/federated", {"body": json.dumps({"population": SECRET}).encode()}),
    ):
        assert "s3cret" not in str(logged(app, method, path, **more))
        assert "s3cret" not in str(figures(app))
        assert "s3cret" not in "".join(capfd.readouterr())


def test_a_log_that_cannot_be_written_stops_nobody(app):
    for trouble in (BrokenPipeError(), OSError(28, "no space left"), ValueError("closed file")):

        class Gone(io.StringIO):
            def write(self, _):
                raise trouble  # noqa: B023

        found = ask(MetricsMiddleware(app, metrics=Metrics(), log=True, out=Gone), "GET", "/healthz")
        assert (found.status, found.json()) == (200, {"status": "live"})


def test_what_breaks_is_logged_as_such():
    async def breaks(scope, receive, send):
        raise RuntimeError(SECRET)

    line = logged(breaks, "GET", "/")
    assert (line["status"], line["route"], line["holder"]) == (500, "none", None)


@pytest.mark.slow
def test_a_holders_token_stands_in_nothing_that_the_server_says(tmp_path, ledger_path, capfd, caplog):
    file = tmp_path / "tokens.json"
    _, text = tokens.create_token(file, "anna", role="reader", scope="acme")
    app = create_app(ledger=str(ledger_path), access=AccessConfig(file, access_log=True))
    said = []
    for path in ("/api/v1/ledger", "/api/v1/runs", "/api/v1/nothing", "/metrics", "/api/openapi.json", "/"):
        for headers in ((), [("authorization", f"Basic {text}")]):
            found = ask(app, "GET", path, token=text, headers=headers)
            said.append(str(found.headers) + found.body.decode())
    wrong = json.dumps({"population": text}).encode()  # what is echoed of a body is the asker's own, and no header
    kind = [("content-type", "application/json")]
    said.append(ask(app, "POST", "/api/v1/ledger/verify", token=text, body=wrong, headers=kind).body.decode())
    file.chmod(0o644)
    said.append(ask(app, "GET", "/api/v1/ledger", token=text).body.decode())
    out, err = capfd.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["holder"] for line in lines].count("anna") == 5
    refused = {line["route"] for line in lines if line["status"] == 403}
    assert refused == {"/api/v1/runs", "/api/v1/ledger/verify"}  # at the door, and yet told by their route
    secret = text[20:]
    for where in (*said, out, err, caplog.text, repr(app.state._state), repr(app.user_middleware)):
        assert secret not in where

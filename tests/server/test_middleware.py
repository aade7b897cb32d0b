"""What every request must pass and every response carries; abandoned questions end."""

import http.client

import anyio
import pytest
from starlette.responses import PlainTextResponse
from tests.server.inside import ask, refuse_at_the_door

from epsilog.server import serve
from epsilog.server.middleware import LONGEST_BODY, PAUSE, BodyLimitMiddleware, CancelOnDisconnect

RUN = {"population": 1000, "cohort_size": 10, "rounds": 5, "noise_multiplier": 2.0}


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "192.168.1.4", "example.org", "", "::", "127.0.0.2", "127.0.0.1.evil.example"],  # noqa: S104
)
def test_serve_refuses_to_bind_beyond_loopback(host):
    with pytest.raises(ValueError, match="host must be a loopback address"):
        serve(host, 8080)


def test_serve_refuses_a_port_that_is_none():
    with pytest.raises(ValueError, match="port must be"):
        serve("127.0.0.1", -1)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::2]",
        "169.254.1.1",
        "evil@localhost:x",
    ],
)
def test_a_foreign_host_is_refused(site, host):
    for method, path in (("GET", "/"), ("GET", "/api/v1/ledger"), ("POST", "/api/v1/federated")):
        assert site.ask(method, path, RUN if method == "POST" else None, headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080"])
def test_loopback_names_are_served(site, host):
    assert site.ask("GET", "/api/v1/runs", headers={"Host": host}).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
def test_other_pages_cannot_call_the_api(site, origin):
    found = site.post("federated", RUN, headers={"Origin": origin})
    assert found.status == 403
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.slow
def test_the_own_page_can(site):
    assert site.post("federated", RUN, headers={"Origin": site.url}).status == 200


def test_a_form_cannot_pose_as_json(site):
    """What a foreign form can send without asking first (text/plain) is no JSON here."""
    found = site.ask("POST", "/api/v1/federated", raw=b'{"population": 1000}', headers={"Content-Type": "text/plain"})
    assert found.status == 422


def test_long_bodies_are_refused(site):
    assert site.post("federated", raw=b" " * (LONGEST_BODY + 1)).status == 413
    connection = http.client.HTTPConnection(site.host, site.port, timeout=20)
    try:  # one that does not say how long it is
        chunks = (b" " * 4096 for _ in range(64))
        connection.request(
            "POST", "/api/v1/federated", body=chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        assert connection.getresponse().status == 413
    finally:
        connection.close()


@pytest.mark.parametrize(("status", "waits"), [(400, [PAUSE]), (413, [PAUSE]), (422, []), (429, []), (200, [])])
def test_only_what_no_page_sends_waits_for_its_refusal(monkeypatch, status, waits):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("epsilog.server.middleware.anyio.sleep", sleep)
    found = ask(BodyLimitMiddleware(PlainTextResponse("", status)), "POST", "/api/v1/federated", body=b"[")
    assert (found.status, slept) == (status, waits)


def test_a_body_that_is_said_to_be_too_long_is_not_read():
    app, long = BodyLimitMiddleware(PlainTextResponse("read")), b" " * (LONGEST_BODY + 1)
    assert [each.status for each in refuse_at_the_door(app, [("POST", "/api/v1/federated", None, long)])] == [413]
    assert ask(app, "POST", "/", headers=[("content-length", "9" * 5000)]).status == 413
    assert ask(app, "POST", "/", headers=[("content-length", str(LONGEST_BODY))]).body == b"read"


@pytest.mark.parametrize("path", ["/", "/federated", "/game", "/api/v1/ledger", "/nothing", "/api/openapi.json"])
def test_pages_may_not_be_framed_or_run_foreign_scripts(site, path):
    headers = site.ask("GET", path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers


@pytest.mark.parametrize("path", ["/embed/federated", "/embed/queries", "/embed/epsilog-embed.js"])
def test_embeds_alone_may_be_framed(site, path):
    headers = site.ask("GET", path).headers
    assert "frame-ancestors *" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "x-frame-options" not in headers
    assert headers["cross-origin-resource-policy"] == "cross-origin"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2f..%2f__init__.py",
        "/assets/../app.py",
        "/embed/..%2findex.html",
        "/embed/assets/..%2f..%2fapp.py",
        "/..%2f..%2fapp.py",
        pytest.param("/assets/" + "a" * 5000, id="longer than any name"),
        pytest.param("/embed/assets/" + "a" * 5000, id="longer than any name, framed"),
    ],
)
def test_nothing_outside_the_built_files_is_served(site, path):
    assert site.ask("GET", path).status == 404


QUESTION = "/api/v1/queries"


def asked(app, *letters, path=QUESTION, method="POST"):
    """Asks once; ``letters`` are what the asker sends, after which there is silence."""
    sent, waiting = [], list(letters)

    async def receive():
        if not waiting:
            await anyio.sleep_forever()
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    async def ask():
        with anyio.fail_after(5):
            await CancelOnDisconnect(app)({"type": "http", "method": method, "path": path}, receive, send)

    anyio.run(ask)
    return sent


BODY = {"type": "http.request", "body": b"{}", "more_body": False}
GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize(("path", "method"), [(QUESTION, "POST"), (QUESTION, "GET"), ("/api/v1/jobs", "POST")])
def test_an_answer_is_sent_once(path, method):
    async def app(_, receive, send):
        assert await receive() == BODY
        await send("answer")

    assert asked(app, BODY, path=path, method=method) == ["answer"]


@pytest.mark.parametrize("path", [QUESTION, "/api/v1/jobs"])
def test_a_failure_is_raised_as_it_was(path):
    async def app(_, receive, send):
        await receive()
        await send("half")
        raise KeyError("as it was")

    with pytest.raises(KeyError, match="as it was"):
        asked(app, BODY, path=path)


def test_who_hangs_up_ends_the_work():
    begun, ended = [], []

    async def app(_, receive, send):
        await receive()
        begun.append(True)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)
            with anyio.CancelScope(shield=True):
                await send("too late")

    assert asked(app, BODY, GONE) == ["too late"]
    assert begun == ended == [True]


def test_what_changes_something_is_not_ended():
    async def app(_, receive, send):
        assert [await receive(), await receive()] == [BODY, GONE]
        await send("done all the same")

    assert asked(app, BODY, GONE, path="/api/v1/jobs") == ["done all the same"]

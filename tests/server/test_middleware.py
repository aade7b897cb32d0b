"""What every request must pass and every response carries; abandoned questions end."""

import asyncio

import anyio
import pytest
from starlette.responses import PlainTextResponse
from tests.server.inside import ask, refuse_at_the_door

from epsilog.server.middleware import (
    MAX_BODY_BYTES,
    REFUSAL_DELAY_SECONDS,
    BodyLimitMiddleware,
    CancelOnDisconnect,
    HostGuardMiddleware,
)

UNREADABLE = [
    b"{",
    b"[]",
    b"NaN",
    b"\xff\xfe",
    b'{"population": NaN}',
    b'{"population": 1e999}',
    b"null",
    b"[" * 30_000,
]


def test_a_foreign_host_an_unreadable_body_and_an_unknown_address_are_problems(site):
    """What a foreign form can send without asking first (text/plain) is no JSON here."""
    found = [
        *(
            (site.ask(method, path, headers={"Host": "evil.example"}), {421})
            for method, path in (("GET", "/"), ("GET", "/api/v1/ledger"), ("POST", "/api/v1/federated"))
        ),
        *((site.post("federated", raw=raw), {400, 422}) for raw in UNREADABLE),
        (site.post("federated", raw=b'{"population": 1000}', headers={"Content-Type": "text/plain"}), {422}),
        (site.get("nothing"), {404}),
        (site.get("federated"), {405}),
        (site.ask("GET", "/x"), {404}),
    ]
    for one, allowed in found:
        assert one.status in allowed
        assert one.headers["content-type"] == "application/problem+json"
    assert site.post("federated", raw=b"[]").json()["errors"][0]["field"] is None  # of no one field


@pytest.mark.parametrize(
    ("status", "waits"),
    [(400, [REFUSAL_DELAY_SECONDS]), (413, [REFUSAL_DELAY_SECONDS]), (422, []), (429, []), (200, [])],
)
def test_only_what_no_page_sends_waits_for_its_refusal(monkeypatch, status, waits):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("epsilog.server.middleware.anyio.sleep", sleep)
    found = ask(BodyLimitMiddleware(PlainTextResponse("", status)), "POST", "/api/v1/federated", body=b"[")
    assert (found.status, slept) == (status, waits)


def test_a_body_that_is_said_to_be_too_long_is_not_read():
    app, long = BodyLimitMiddleware(PlainTextResponse("read")), b" " * (MAX_BODY_BYTES + 1)
    assert [each.status for each in refuse_at_the_door(app, [("POST", "/api/v1/federated", None, long)])] == [413]
    assert ask(app, "POST", "/", headers=[("content-length", "9" * 5000)]).status == 413
    assert ask(app, "POST", "/", headers=[("content-length", str(MAX_BODY_BYTES))]).body == b"read"


FRAMED = ["/embed/federated", "/embed/queries", "/embed/epsilog-embed.js"]


@pytest.mark.parametrize("path", [*FRAMED, "/", "/federated", "/api/v1/ledger", "/nothing", "/api/openapi.json"])
def test_embeds_alone_may_be_framed_and_nothing_runs_foreign_scripts(site, path):
    found = site.ask("GET", path)
    assert found.status == (404 if path == "/nothing" else 200)
    headers, policy = found.headers, found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "set-cookie" not in headers
    framed = path in FRAMED
    assert policy.endswith("frame-ancestors *" if framed else "frame-ancestors 'none'")
    assert headers.get("x-frame-options") == (None if framed else "DENY")
    assert headers["cross-origin-resource-policy"] == ("cross-origin" if framed else "same-origin")


@pytest.mark.parametrize(
    "path",
    [
        *("/assets/..%2f..%2f__init__.py", "/assets/../app.py", "/embed/..%2findex.html"),
        *("/embed/assets/..%2f..%2fapp.py", "/..%2f..%2fapp.py", "/checker/..%2fpyproject.toml", "/checker/README.md"),
        *(pytest.param(f"{place}/{'a' * 5000}", id=f"{place}, too long") for place in ("/assets", "/embed/assets")),
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


BODY, GONE = {"type": "http.request", "body": b"{}", "more_body": False}, {"type": "http.disconnect"}


@pytest.mark.parametrize(("path", "method"), [(QUESTION, "POST"), (QUESTION, "GET"), ("/api/v1/jobs", "POST")])
def test_an_answer_is_sent_once_and_a_failure_is_raised_as_it_was(path, method):
    async def app(_, receive, send):
        assert await receive() == BODY
        await send("answer")

    async def breaks(_, receive, send):
        await receive()
        await send("half")
        raise KeyError("as it was")

    assert asked(app, BODY, path=path, method=method) == ["answer"]
    with pytest.raises(KeyError, match="as it was"):
        asked(breaks, BODY, path=path, method=method)


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

    async def changes(_, receive, send):
        assert [await receive(), await receive()] == [BODY, GONE]
        await send("done all the same")

    assert asked(app, BODY, GONE) == ["too late"]
    assert begun == ended == [True]
    assert asked(changes, BODY, GONE, path="/api/v1/jobs") == ["done all the same"]


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
    pieces = chunk(b"one", True), chunk(b"", True), chunk(b"two", True), chunk(b"three", False)
    read, sent = passed(*pieces, GONE, reads=2)
    assert read == [chunk(b"onetwothree", False), GONE]
    assert sent[0]["status"] == 200
    for method in ("PUT", "PATCH"):
        assert passed(chunk(b"a", True), chunk(b"b", False), method=method)[0] == [chunk(b"ab", False)]
    assert passed(chunk(b"", True), method="GET")[0][0] == chunk(b"", True)
    assert passed(chunk(b"one", True), GONE) == ([], [])  # nobody is answered


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
    size = MAX_BODY_BYTES // pieces
    full = [chunk(b"x" * size, at < pieces - 1) for at in range(pieces)]
    full[-1]["body"] += b"x" * (MAX_BODY_BYTES - pieces * size)
    (whole,), sent = passed(*full)
    assert (len(whole["body"]), sent[0]["status"]) == (MAX_BODY_BYTES, 200)
    full[-1] = chunk(full[-1]["body"] + b"x", False)
    read, sent = passed(*full)
    assert (read, sent[0]["status"]) == ([], 413)
    endless = (chunk(b"x" * 40_000, True) for _ in range(100))
    assert passed(*endless)[1][0]["status"] == 413


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, [{}, *({"host": host} for host in ("127.0.0.1", "LOCALHOST:1", "[::1]:80"))]),
        (200, [{"origin": f"{scheme}://localhost:80"} for scheme in ("http", "https")]),
        (421, [{"host": host} for host in ("[::2]:80", "localhost.evil.org", "127.0.0.1.evil.example", "169.254.1.1")]),
        (421, [{"host": "evil@localhost:x"}, {"host": ""}, {"host": "evil.org", "origin": "http://evil.org"}]),
        (403, [{"origin": f"http://{host}"} for host in ("localhost:81", "evil.org", "localhost.evil.example")]),
        (403, [{"origin": "null"}]),
    ],
)
def test_hosts_and_origins(status, headers):
    for given in headers:
        read, sent = passed(chunk(b"", False), headers=given)
        assert (sent[0]["status"], bool(read)) == (status, status == 200), given
        said = dict(sent[0]["headers"])
        assert (said[b"x-content-type-options"], said[b"cache-control"]) == (b"nosniff", b"no-store")
    assert passed(kind="lifespan", headers={"host": "evil.org"})[1][0]["headers"] == []  # no request

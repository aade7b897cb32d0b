"""Listening, limits on connections, and the end of a server with its processes."""

import asyncio
import contextlib
import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from epsilog.server import connections, server
from epsilog.server.middleware import BodyLimitMiddleware
from epsilog.server.workers import WorkerPool
from epsilog.terms import CheckError, EpsilogError


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_serving_binds_tells_and_runs_in_this_order(monkeypatch, tmp_path, host):
    told = []

    class Server:
        def __init__(self, config):
            assert config.app.state.ledger == "b.db"
            assert (config.app.state.runs, config.app.state.montecarlo_in) == (tmp_path, tmp_path / "c")
            assert (config.server_header, config.timeout_graceful_shutdown) == (False, server.SHUTDOWN_SECONDS)
            assert config.limit_concurrency

        async def serve(self, sockets):
            told.append(sockets)

    async def warm(_):
        told.append("warm")

    monkeypatch.setattr(uvicorn, "Server", Server)
    monkeypatch.setattr(WorkerPool, "warm", warm)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    bound = []
    monkeypatch.setattr(server, "_bind", lambda *where: bound.append(where) or listener)
    ready = told.append
    server.serve(host, 8123, ledger="b.db", runs=tmp_path, montecarlo_in=tmp_path / "c", ready=ready)
    address = f"http://[::1]:{port}" if host == "::1" else f"http://{host}:{port}"
    assert (bound, told) == ([(host, 8123)], ["warm", address, [listener]])
    assert listener.fileno() == -1  # closed with the server


@pytest.mark.slow
def test_a_server_begins_its_first_process_before_it_loads_what_only_it_needs(tmp_path):
    """Both take about a second: one after the other, a first question waited for seconds."""
    code = """
import sys
from epsilog import server
from epsilog.server import workers
class Begun(Exception): pass
async def begin(self):
    raise Begun(*[name for name in ("fastapi", "uvicorn", "epsilog.server.app") if name in sys.modules])
workers.WorkerPool.open = begin
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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.2", "127.0.0.1.evil.example", ""])  # noqa: S104 - refused
def test_nothing_but_loopback_is_served(host):
    with pytest.raises(CheckError, match="host must be a loopback address"):
        server.serve(host, 8080)


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


RUN = {"participation": "balls-in-bins", "bins": 512, "noise_multiplier": 1.0, "epsilon": 1.0, "samples": 10**6}
SCHEDULE = {"population": 1000, "cohort_size": 10, "rounds": 5, "noise_multiplier": 2.0}


def post(port, path, body):
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=3000)
    asked.request("POST", f"/api/v1{path}", json.dumps(body), {"Content-Type": "application/json"})
    return asked


def crowd(port):
    """Clients that wait: for heavy work, for the events of a simulation, and with half a question."""
    heavy = {"mechanism": "laplace", "parameter": 1.0, "count": 10_000, "sampling_probability": 0.01}
    parts = [heavy | {"parameter": 1 + i / 7, "count": 10_000 + i} for i in range(20)]
    begin = post(port, "/montecarlo", RUN)
    name = json.loads(begin.getresponse().read())["id"]
    watcher = http.client.HTTPConnection("127.0.0.1", port, timeout=3000)
    watcher.request("GET", f"/api/v1/montecarlo/{name}/events")
    watcher.getresponse().fp.readline()
    half = socket.create_connection(("127.0.0.1", port))
    head = b"POST /api/v1/sensitivity HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 60000\r\n\r\n{"
    half.sendall(head % port)
    return [begin, watcher, half, post(port, "/account/profile", {"parts": parts})]


@pytest.mark.slow
def test_an_interrupt_ends_the_server_and_its_processes_whoever_waits(tmp_path):
    """Also where uvloop is installed, which cannot start process groups: one that fails at each use stands for it."""
    (tmp_path / "uvloop.py").write_text("def __getattr__(name):\n    raise RuntimeError('uvloop was used')\n")
    command = [sys.executable, "-u", "-m", "epsilog", "serve", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ | {"PYTHONPATH": str(tmp_path)}}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as server:
        try:
            port = int(re.search(r":([0-9]+) ", server.stdout.readline())[1])
            asked = post(port, "/federated", SCHEDULE)
            assert asked.getresponse().status == 200
            waiting = [asked, *crowd(port)]
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            assert children
            server.send_signal(signal.SIGINT)
            _, said = server.communicate(timeout=300)
            assert "Traceback" not in said
            for child in children:
                with pytest.raises(ProcessLookupError):
                    os.kill(int(child), 0)
            for connection in waiting:
                connection.close()
        finally:
            server.kill()


@contextlib.contextmanager
def limited(address, most, app=None):
    """A server with limits on connections, and the port where it listens."""
    listener = socket.create_server((address, 0))
    app = BodyLimitMiddleware(app or PlainTextResponse("live"))
    limits = {"http": connections.ConnectionLimits, "limit_concurrency": most}
    server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="off", log_level="critical", **limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listener.close()


def connect(port, words=b""):
    """Thirty connections that send these words, and then nothing."""
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    for one in held:
        with contextlib.suppress(OSError):
            one.sendall(words)
    time.sleep(0.3)
    return held


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /api/v1/federated HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_one_address_does_not_take_all_connections(monkeypatch, words):
    """Neither by saying nothing nor by asking for pages, as long as it likes: all are served all the time."""
    monkeypatch.setattr(connections.ConnectionLimits, "max_per_address", 8)
    assert connections.ProxyConnectionLimits.max_per_address == connections.MAX_CONNECTIONS
    with limited("0.0.0.0", 12) as port:  # noqa: S104 (it has the addresses of loopback, 127.0.0.2 too)
        held = connect(port, words)
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):  # who comes from the same address neither
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=300, source_address=(address, 0))
            asked.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
            assert asked.getresponse().status == 200
            asked.close()
        for one in held:
            one.close()


def test_who_opens_connections_and_says_nothing_keeps_nobody_out(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_SECONDS", 1.0)

    def status(port):
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for wait in (0.0, 1.5):  # the same connection serves once more: only heads are hurried
            time.sleep(wait)
            asked.request("GET", "/healthz")
            found = asked.getresponse()
            found.read()
            if found.status != 200:
                break
        asked.close()
        return found.status

    with limited("127.0.0.1", 20) as port:
        assert status(port) == 200
        idle = connect(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Dri")
        assert status(port) == 200
        began = time.monotonic()
        while time.monotonic() - began < 1.5:  # a byte now and then does not help
            for one in idle:
                with contextlib.suppress(OSError):
                    one.sendall(b"p")
            time.sleep(0.1)
        assert status(port) == 200
        for one in idle:
            one.close()


async def echo(scope, receive, send):
    """Tell the path, the token and the body of a request; the first one takes its time."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    body = (await receive())["body"] if scope["method"] == "POST" else b""
    headers = dict(scope["headers"])
    told = [
        scope["path"],
        headers.get(b"authorization", b"").decode(),
        headers.get(b"x-late", b"").decode(),
        body.decode(),
    ]
    await PlainTextResponse("|".join(told))(scope, receive, send)


def exchange(port, raw, *, more=b"", wait=0.0):
    """All that a connection answers to these bytes until it is closed or says nothing more."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(raw)
        if more:
            time.sleep(wait)
            with contextlib.suppress(OSError):
                connection.sendall(more)
        connection.settimeout(1.5)
        told = b""
        with contextlib.suppress(OSError):
            while found := connection.recv(65536):
                told += found
        return told


def get(path, token, end=b"\r\n"):
    return b"GET %b HTTP/1.1\r\nHost: a\r\nAuthorization: %b\r\n" % (path, token) + end


def test_requests_in_a_row_keep_their_order_and_their_own_tokens():
    with limited("127.0.0.1", 20, echo) as port:
        raw = get(b"/slow", b"one") + get(b"/b", b"two") + b"GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        told = exchange(port, raw)
    assert re.findall(rb"\r\n\r\n(/\w+\|[^|]*)", told) == [b"/slow|one", b"/b|two", b"/c|"]


def test_a_connection_whose_queue_is_too_long_is_closed_without_an_answer_out_of_turn():
    with limited("127.0.0.1", 20, echo) as port:
        told = exchange(port, get(b"/slow", b"one") + 2000 * get(b"/b", b"two"))
        assert b"|two" not in told
        assert b" 400 " not in told
        assert b"/b|two" in exchange(port, get(b"/b", b"two"))


def test_a_head_without_an_end_is_cut_off():
    with limited("127.0.0.1", 20, echo) as port:
        start = b"GET /b HTTP/1.1\r\nHost: a\r\n"
        long = b"X-Drip: " + b"a" * 100_000 + b"\r\n"
        began = time.monotonic()
        assert exchange(port, start, more=long + long + b"\r\n", wait=0.2) == b""
        assert time.monotonic() - began < connections.HEADER_TIMEOUT_SECONDS
        assert b"/b|" in exchange(port, start + b"X-Long: " + b"a" * 1000 + b"\r\n\r\n")  # a control


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length : 3\r\n",
        b"X-Bad\x00: 3\r\n",
        b"X-Bad: a\x00b\r\n",
        b" Folded: 3\r\n",
    ],
)
def test_a_request_of_two_meanings_is_refused(head):
    """Such as a proxy in front may read in another way than this server."""
    with limited("127.0.0.1", 20, echo) as port:
        told = exchange(port, b"POST /a HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 400 ")
    assert told.count(b"HTTP/1.1") == 1


def test_headers_after_a_body_are_dropped():
    """No check would see them: a proxy may pass them on as its client wrote them."""
    body = b"3\r\nabc\r\n0\r\nX-Late: yes\r\nAuthorization: late\r\n\r\n"
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
    with limited("127.0.0.1", 20, echo) as port:
        assert exchange(port, head + b"\r\n" + body).endswith(b"/a|||abc")
        assert exchange(port, head + b"X-Late: no\r\n\r\n" + body).endswith(b"/a||no|abc")

"""A real server on loopback, over a real SQLite ledger and one run's report."""

import asyncio
import http.client
import json
import os
import socket
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path

import pytest
from starlette.responses import Response
from tests.server.browsing import CHROMIUM, DRIVER, start_browser
from tests.server.inside import Said

from epsilog.ledger import open_ledger
from epsilog.mechanisms import Gaussian, PureDP, Repeated
from epsilog.server import create_app
from epsilog.server.worker import answer_request
from epsilog.server.workers import COMMAND, WorkerPool

REPORT = {
    "v": 0,
    "kind": "report",
    "identity": {"name": "exam-scores", "period": "2026-Q4", "purpose": "a test"},
    "simulation": True,
    "claim": {
        "statement": "The released models are (1.5, 1e-5)-differentially private.",
        "supported": 1.5,
        "guarantee": {"epsilon": 1.5, "delta": 1e-5},
        "epsilon": {"lower": 1.49, "upper": 1.5, "method": "a method"},
        "parties": [{"party": "Public", "view": "models", "protection": "epsilon 1.5"}],
    },
    "mechanism": {"scheme": {"type": "client-level-central", "rounds": 3}, "noise_stddev": 1.0},
    "accounting": {
        "closed_form": {"total": 1.0, "status": "below"},
        "curve": [{"round": r, "lower": r / 2, "upper": r / 2 + 0.01} for r in (1, 2, 3)],
    },
    "budget": {"epsilon": "4", "charged": {"epsilon": "1.5"}, "state": "committed"},
    "rounds": [{"round": r, "test_loss": 1 / r, "test_score": 1 - 1 / r} for r in (1, 2, 3)],
    "result": {"rounds": 3, "score_name": "accuracy", "test_score": 0.67},
    "utility": None,
    "verification": {
        "status": "passed",
        "findings": [
            {"code": "noise/passed", "check": "noise", "status": "passed", "message": "The noise agrees.", "values": {}}
        ],
        "what_ifs": [{"name": "lists known", "epsilon": "inf", "message": "Unbounded."}],
    },
    "limits": ["A limit."],
}


_ANSWERS = {}  # of questions, which have one answer each; what lies in a folder may change


@dataclass(frozen=True)
class Site:
    host: str
    port: int
    asked: list  # the method and path of each request so far

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def ask(self, method, path, body=None, *, raw=None, headers=None):
        """One request, with nothing added to it but what is said."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if data is not None else {}
        try:
            connection.request(method, path, body=data, headers=kind | (headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Said(response.status, found, response.read())
        finally:
            connection.close()

    def post(self, path, body=None, **more):
        return self.ask("POST", f"/api/v1/{path}", body, **more)

    def get(self, path, **more):
        return self.ask("GET", f"/api/v1/{path}", **more)


@contextmanager
def _unhurried():
    """Processes start with their first question: several start with a server, and each computes for over a second.

    None gives way: other tests have work for every core.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerPool, "__init__", partialmethod(WorkerPool.__init__, niceness=0))
        patch.setattr(WorkerPool, "open", partialmethod(WorkerPool.open, at_once=False))
        yield


@contextmanager
def _without_processes():
    """Pools that a server makes for itself answer in threads of this process: each other one loads the library."""

    async def answer(_, line):
        asked = json.loads(line)
        if line not in _ANSWERS:
            _ANSWERS[line] = await asyncio.to_thread(answer_request, asked["path"], asked["ask"])
        status, kind, body = _ANSWERS.pop(line) if "folder" in asked["ask"] else _ANSWERS[line]
        return Response(body, status, media_type=kind)

    def make(pool, **options):
        made(pool, **options)
        if pool._slow.workers[0]._command[: len(COMMAND)] == COMMAND:
            pool._ask_worker = answer

    made = WorkerPool.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerPool, "__init__", make)
        yield


@contextmanager
def serving(app, *, processes=False):
    """Runs ``app`` in a thread on a free port; yields the site, then stops it."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as ``server`` does
    asked = []

    async def noted(scope, receive, send):
        if scope["type"] == "http":
            asked.append((scope["method"], scope["path"]))
        await app(scope, receive, send)

    # with logging as it is: to configure it anew closes what another library's handler took for standard error
    config = uvicorn.Config(noted, log_level="critical", log_config=None, ws="none", lifespan="on", server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    try:
        with _unhurried(), nullcontext() if processes else _without_processes():
            thread.start()
            for _ in range(1200):
                if server.started:
                    break
                time.sleep(0.05)
            assert server.started
        yield Site("127.0.0.1", listener.getsockname()[1], asked)
    finally:
        server.should_exit = True
        thread.join(timeout=120)
        listener.close()
        assert not thread.is_alive(), _why(server)


def _why(server):
    """What a server that does not end still waits for."""
    state = server.server_state
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = (f"{names.get(one)}:\n{''.join(traceback.format_stack(at))}" for one, at in sys._current_frames().items())
    cycles = [getattr(getattr(connection, "cycle", None), "scope", None) for connection in state.connections]
    return f"{cycles} {state.tasks}\n" + "\n".join(stacks)


def filled(path: Path) -> Path:
    """A ledger with budgets of two kinds, and charges that are open and closed."""
    with open_ledger(path) as ledger:
        ledger.create_budget("acme/claims", kind="pure", epsilon="3", privacy_unit="person")
        for i, cost in enumerate(("0.5", "0.25", "1")):
            ledger.charge("acme/claims/anna", PureDP(float(cost)), key=f"question-{i}")
        ledger.create_budget("lab/study", kind="approximate", epsilon="4", delta="1e-5")
        ledger.charge("lab/study", Repeated(Gaussian(20.0), 10), key="run-1", delta="1e-6")
        ledger.reserve("acme/claims/bob", PureDP(0.125), key="waiting")
    return path


@pytest.fixture(scope="session")
def ledger_path(tmp_path_factory) -> Path:
    return filled(tmp_path_factory.mktemp("books") / "ledger.db")


@pytest.fixture(scope="session")
def fill_ledger():
    """Makes such a ledger of the test's own."""
    return filled


@pytest.fixture(scope="session")
def runs_path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "exam-scores-1").mkdir()
    (folder / "exam-scores-1" / "report.json").write_text(json.dumps(REPORT))
    (folder / "exam-scores-1" / "report.html").write_text("<!doctype html><title>r</title>")
    (folder / "exam-scores-1" / "custody.jsonl").write_text('{"who": "must stay"}\n')
    return folder


@pytest.fixture(scope="session")
def site(ledger_path, runs_path):
    with serving(create_app(ledger=str(ledger_path), runs=runs_path)) as found:
        yield found


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    if CHROMIUM is None or DRIVER is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium or its driver is absent; CI must have both")
        pytest.skip("NO BROWSER TESTS: Chromium or its driver is absent")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = start_browser(profile)
        try:
            yield driver
        finally:
            driver.quit()


@pytest.fixture(scope="session")
def serve_app():
    """Serves an application of the test's own: ``with serve_app(app) as site``."""
    return serving

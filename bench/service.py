"""What a ledger costs behind a server: one client, then 64, beside a server of threads that each open the file.

    python bench/service.py [--one 200] [--each 12] [--clients 64]

Walls, side by side in one run on loopback, so only ratios carry over. Clients share this process. Both servers answer
what is durable, and both refuse by one cap; the plain one has no roles, no pricing elsewhere and no turns.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP

Asked = Callable[[str], None]
COST = 0.001


@contextmanager
def ours(folder: Path) -> Iterator[str]:
    """`epsilog serve`, in a process of its own."""
    command = [sys.executable, "-m", "epsilog", "serve", "--ledger", str(folder / "budget.db"), "--port", "8971"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        url = "http://127.0.0.1:8971"
        for _ in range(200):
            try:
                link = http.client.HTTPConnection("127.0.0.1", 8971, timeout=5)
                link.request("GET", "/healthz")
                if link.getresponse().status == 200:
                    break
            except OSError:
                time.sleep(0.1)
        try:
            yield url
        finally:
            server.terminate()


def plain(path: str) -> None:
    """The other one: a thread for each request, each opening the ledger's file for itself."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with open_ledger(Path(path)) as ledger:
                ledger.charge("acme/claims/anna", PureDP(asked["epsilon"]), key=asked["key"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    ThreadingHTTPServer.request_queue_size = 256
    ThreadingHTTPServer(("127.0.0.1", 8972), Handler).serve_forever()


@contextmanager
def theirs(folder: Path) -> Iterator[str]:
    """The plain server, in a process of its own."""
    with subprocess.Popen([sys.executable, __file__, "--plain", str(folder / "budget.db")]) as server:
        for _ in range(200):
            try:
                http.client.HTTPConnection("127.0.0.1", 8972, timeout=5).connect()
                break
            except OSError:
                time.sleep(0.1)
        try:
            yield "http://127.0.0.1:8972"
        finally:
            server.terminate()


def by_client(url: str) -> tuple[Asked, Callable[[], None]]:
    """Charges through the client."""
    ledger = open_ledger(url)

    def ask(key: str) -> None:
        ledger.charge("acme/claims/anna", PureDP(COST), key=key)

    return ask, ledger.close


def by_hand(url: str) -> tuple[Asked, Callable[[], None]]:
    """Charges through one connection a thread."""
    here = threading.local()

    def ask(key: str) -> None:
        if not hasattr(here, "link"):
            here.link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
        here.link.request("POST", "/", json.dumps({"epsilon": COST, "key": key}))
        answer = here.link.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}")

    return ask, lambda: None


def walls(ask: Asked, clients: int, each: int, name: str) -> tuple[list[float], float]:
    """How long every charge took, and all of them together."""

    def one(number: int) -> list[float]:
        found = []
        for at in range(each):
            began = time.perf_counter()
            ask(f"{name}-{number}-{at}")
            found.append(time.perf_counter() - began)
        return found

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [wall for each_ in pool.map(one, range(clients)) for wall in each_]
    return found, time.perf_counter() - began


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--one", type=int, default=200)
    asked.add_argument("--each", type=int, default=12)
    asked.add_argument("--clients", type=int, default=64)
    asked.add_argument("--plain")
    given = asked.parse_args()
    if given.plain:
        return plain(given.plain)
    print("| server | one client, p50 | 64 clients, p50 | p99 | charges a second | p99 over one client's p50 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, serve, client in (("epsilog serve", ours, by_client), ("a thread a request", theirs, by_hand)):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            with open_ledger(Path(folder) / "budget.db") as ledger:
                for scope in ("acme", "acme/claims"):
                    ledger.create_budget(scope, kind="pure", epsilon="1000000")
            with serve(Path(folder)) as url:
                ask, close = client(url)
                walls(ask, 1, 20, "warm")
                alone, _ = walls(ask, 1, given.one, "one")
                found, wall = walls(ask, given.clients, given.each, "many")
                close()
            with open_ledger(Path(folder) / "budget.db") as ledger:
                expected = 2 + 3 * (20 + given.one + given.clients * given.each)
                assert ledger.verify().count == expected, "a charge was lost, or one too many"
        one, p50, p99 = statistics.median(alone), statistics.median(found), statistics.quantiles(found, n=100)[98]
        print(
            f"| {name} | {1e3 * one:.1f} ms | {1e3 * p50:.0f} ms | {1e3 * p99:.0f} ms | {len(found) / wall:.0f} "
            f"| {p99 / one:.0f} |",
            flush=True,
        )
    print(f"\nOn {os.cpu_count()} cores.")
    return None


if __name__ == "__main__":
    main()

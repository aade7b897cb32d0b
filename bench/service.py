"""What a ledger costs behind a server: one client, then 64, beside a server of threads that each open the file.

    python bench/service.py [--one 400] [--each 40] [--clients 64]

Walls, side by side in one run on loopback, so only ratios carry over. Clients are connections of this process. Both
servers answer what is durable, and both refuse by one cap; the plain one has no roles, no pricing elsewhere and no
turns.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP

COST = 0.001


@contextmanager
def ours(folder: Path) -> Iterator[int]:
    """`epsilog serve`, in a process of its own."""
    command = [sys.executable, "-m", "epsilog", "serve", "--ledger", str(folder / "budget.db"), "--port", "8971"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        for _ in range(200):
            try:
                link = http.client.HTTPConnection("127.0.0.1", 8971, timeout=5)
                link.request("GET", "/healthz")
                if link.getresponse().status == 200:
                    break
            except OSError:
                time.sleep(0.1)
        try:
            yield server.pid
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
def theirs(folder: Path) -> Iterator[int]:
    """The plain server, in a process of its own."""
    with subprocess.Popen([sys.executable, __file__, "--plain", str(folder / "budget.db")]) as server:
        for _ in range(200):
            try:
                http.client.HTTPConnection("127.0.0.1", 8972, timeout=5).connect()
                break
            except OSError:
                time.sleep(0.1)
        try:
            yield server.pid
        finally:
            server.terminate()


def charge_request(key: str) -> bytes:
    """A charge as the server's API takes it."""
    release = {"v": 1, "term": {"type": "pure", "epsilon": COST}}
    body = json.dumps({"scope": "acme/claims/anna", "key": key, "release": release}).encode()
    return write_request("POST /api/v1/ledger/charge", body)


def plain_request(key: str) -> bytes:
    """A charge as the plain server takes it."""
    return write_request("POST /", json.dumps({"epsilon": COST, "key": key}).encode())


def write_request(line: str, body: bytes = b"") -> bytes:
    head = (
        f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_cpu(process: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, clients: int, requests: list[bytes]) -> tuple[list[float], float]:
    """Send requests by this many connections, each with its next one once it has its answer; the seconds of each."""
    selector, walls, begun = selectors.DefaultSelector(), list[float](), {}
    left, started, held = iter(requests), time.perf_counter(), dict[socket.socket, bytes]()

    def send(connection: socket.socket) -> None:
        if (request := next(left, None)) is not None:
            begun[connection], held[connection] = time.perf_counter(), b""
            connection.sendall(request)

    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
        send(connection)
    while len(walls) < len(requests):
        for ready, _ in selector.select():
            connection = ready.fileobj
            assert isinstance(connection, socket.socket)
            held[connection] += connection.recv(65536)
            head, _, body = held[connection].partition(b"\r\n\r\n")
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
            if length is None or len(body) < int(length.partition(b":")[2]):
                continue
            if b" 200 " not in head[:16]:
                raise RuntimeError(held[connection].decode())
            walls.append(time.perf_counter() - begun[connection])
            send(connection)
    wall = time.perf_counter() - started
    for connection in held:
        connection.close()
    return walls, wall


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--one", type=int, default=400)
    asked.add_argument("--each", type=int, default=40)
    asked.add_argument("--clients", type=int, default=64)
    asked.add_argument("--plain")
    given = asked.parse_args()
    if given.plain:
        return plain(given.plain)
    print(
        "| server | clients | charges a second | p50 | p99 | server CPU a charge |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    for name, serve, port, write in (
        ("epsilog serve", ours, 8971, charge_request),
        ("a thread a request", theirs, 8972, plain_request),
    ):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            with open_ledger(Path(folder) / "budget.db") as ledger:
                for scope in ("acme", "acme/claims"):
                    ledger.create_budget(scope, kind="pure", epsilon="1000000")
            with serve(Path(folder)) as process:
                load(port, given.clients, [write(f"warm-{number}") for number in range(4 * given.clients)])
                for clients, count in ((1, given.one), (given.clients, given.each * given.clients)):
                    before = read_cpu(process)
                    walls, wall = load(port, clients, [write(f"{clients}-{number}") for number in range(count)])
                    cpu, p99 = 1e3 * (read_cpu(process) - before) / count, 1e3 * statistics.quantiles(walls, n=100)[98]
                    p50 = 1e3 * statistics.median(walls)
                    print(
                        f"| {name} | {clients} | {count / wall:.0f} | {p50:.2f} ms | {p99:.2f} ms | {cpu:.2f} ms |",
                        flush=True,
                    )
                if serve is ours:
                    before = read_cpu(process)
                    load(port, 1, [write_request("GET /healthz")] * 2000)
                    print(f"| `/healthz` | 1 | | | | {1e3 * (read_cpu(process) - before) / 2000:.2f} ms |", flush=True)
            with open_ledger(Path(folder) / "budget.db") as ledger:
                expected = 4 * given.clients + given.one + given.each * given.clients
                assert len(ledger.verify().charges) == expected, "a charge was lost, or one too many"
    print(f"\nOn {os.cpu_count()} cores.")
    return None


if __name__ == "__main__":
    main()

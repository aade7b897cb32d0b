"""How fast the pages' server answers cheap questions, alone and while a tenth of its clients mean it ill.

    python bench/pages.py [--clients 50] [--seconds 60] [--times 3]

Clients ask for a federated price that nobody asked for before, think for about a second, and ask again: what somebody
at a form does. Five kinds of others, in turn: one writes a head a byte at a time, one sends bodies that are too large
or no JSON, one asks the dearest questions there are and hangs up, one asks for large answers and reads none, one asks
dear questions and waits. Each has a connection, or several, at all times, in a process beside that of the others, as on
another machine. Walls on loopback; answers are compared with the library's.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import epsilog as ep

PORT = 8973
STARTED = 30.0  # seconds that a server may take


@contextmanager
def server(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`epsilog serve` without tokens, in a process of its own."""
    command = [sys.executable, "-m", "epsilog", "serve", "--port", str(PORT), "--runs", str(folder / "runs")]
    command += ["--ledger", str(folder / "none.db"), "--montecarlo", str(folder / "montecarlo")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + STARTED
        while time.monotonic() < until:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
                break
            time.sleep(0.1)
        try:
            yield process
        finally:
            process.terminate()


def question(seed: int) -> dict[str, object]:
    """A schedule that nobody asked for before."""
    dice = random.Random(seed)
    return {
        "population": dice.randrange(20_000, 200_000),
        "cohort_size": dice.randrange(100, 1000),
        "rounds": dice.randrange(50, 2000),
        "noise_multiplier": round(dice.uniform(0.7, 3.0), 4),
        "delta": 1e-6,
    }


def dear(seed: int) -> dict[str, object]:
    """Twenty parts that have nothing in common."""
    dice = random.Random(seed)
    parts = [
        {
            "mechanism": "laplace",
            "parameter": round(dice.uniform(0.5, 30.0), 4),
            "sampling_probability": round(dice.uniform(0.001, 0.3), 5),
            "count": dice.randrange(1, 400),
        }
        for _ in range(20)
    ]
    return {"parts": parts, "delta": 1e-7}


def post(link: http.client.HTTPConnection, path: str, body: object) -> tuple[int, dict[str, object]]:
    """One question, answered."""
    link.request("POST", f"/api/v1/{path}", json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    return answer.status, json.loads(answer.read())


class Crowd:
    """Threads that run until they are told to stop, and what they found."""

    def __init__(self) -> None:
        self.over, self.walls = threading.Event(), list[float]()
        self.answers, self.failures = list[tuple[dict[str, object], float]](), list[str]()
        self._lock, self._threads = threading.Lock(), list[threading.Thread]()

    def start(self, one: Callable[[int], None], number: int) -> None:
        """Runs ``one`` again and again."""

        def run() -> None:
            while not self.over.is_set():
                with suppress(OSError, http.client.HTTPException, ValueError):
                    one(number)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def honest(self, number: int) -> None:
        """Asks and thinks; failures count."""
        dice = random.Random(number)
        link = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        time.sleep(dice.random())
        asked = 0
        while not self.over.is_set():
            ask = question(100_000 * (number + 1) + asked)
            asked += 1
            begun = time.perf_counter()
            try:
                status, answer = post(link, "federated", ask)
            except OSError as problem:
                status, answer = 0, {"detail": repr(problem)}
                link.close()
            wall = time.perf_counter() - begun
            with self._lock:
                self.walls.append(wall)
                if status == 200:
                    self.answers.append((ask, answer["epsilon"]["upper"]))  # type: ignore[index, call-overload]
                else:
                    self.failures.append(f"{status}: {answer.get('detail')}")
            self.over.wait(dice.uniform(0.5, 1.5))

    def end(self) -> None:
        """Stops everybody."""
        self.over.set()
        for thread in self._threads:
            thread.join(timeout=5)


def slowly(_: int) -> None:
    """A head that never ends, on twenty connections."""
    links = [socket.create_connection(("127.0.0.1", PORT), timeout=30) for _ in range(20)]
    for byte in b"POST /api/v1/federated HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200:
        for link in links:
            with suppress(OSError):
                link.send(bytes([byte]))
        time.sleep(0.1)


def nonsense(number: int) -> None:
    """Bodies that are too large, or no JSON, or say that they are longer than they are."""
    link = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    dice = random.Random(time.monotonic_ns() + number)
    body = dice.choice([b"[" * 60_000, b"x" * 5_000_000, b'{"rounds": ' + b"9" * 60_000 + b"}", os.urandom(1000)])
    link.request("POST", "/api/v1/federated", body, {"Content-Type": "application/json"})
    link.getresponse().read()


def hangs_up(number: int) -> None:
    """The dearest question, and gone before it is answered."""
    link = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    body = json.dumps(dear(time.monotonic_ns() + number))
    link.request("POST", "/api/v1/account", body, {"Content-Type": "application/json"})
    time.sleep(0.2)
    link.close()


def reads_nothing(_: int) -> None:
    """Asks for the API's description again and again on one connection, and reads none of it."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=2) as link:
        for _ in range(200):
            link.send(b"GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(5)


def waits(number: int) -> None:
    """The dearest question, to its end."""
    post(http.client.HTTPConnection("127.0.0.1", PORT, timeout=60), "account", dear(time.monotonic_ns() + number))


ILL = (slowly, nonsense, hangs_up, reads_nothing, waits)


def mean_it_ill(number: int, seconds: float) -> None:
    """So many of each kind in turn."""
    crowd = Crowd()
    for each in range(number):
        crowd.start(ILL[each % len(ILL)], each)
    time.sleep(seconds)
    os._exit(0)  # some are in the middle of what nobody answers


def measured(clients: int, ill: int, seconds: float) -> Crowd:
    """One crowd on a server of its own."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as process:
        post(http.client.HTTPConnection("127.0.0.1", PORT, timeout=60), "federated", question(1))  # all is loaded now
        crowd = Crowd()
        for number in range(clients - ill):
            crowd.start(crowd.honest, number)
        with subprocess.Popen([sys.executable, __file__, "--ill", str(ill), "--seconds", str(seconds)]):
            time.sleep(seconds)
            crowd.end()
        if process.poll() is not None:
            raise SystemExit("the server ended")
    return crowd


def main() -> None:
    """Prints a row for each crowd."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--clients", type=int, default=50)
    asked.add_argument("--seconds", type=float, default=60.0)
    asked.add_argument("--times", type=int, default=1, help="how often each crowd comes")
    asked.add_argument("--ill", type=int, help="mean it ill, so many at a time, and measure nothing")
    given = asked.parse_args()
    if given.ill is not None:
        mean_it_ill(given.ill, given.seconds)
        return
    print("| clients | of them ill-meaning | answers | p50 | p95 | p99 | worst | failed | wrong | load |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for ill in (0, given.clients // 10) * given.times:
        crowd = measured(given.clients, ill, given.seconds)
        wrong = sum(
            ep.plan.plan_federated(**ask).epsilon.upper != upper  # type: ignore[arg-type]
            for ask, upper in crowd.answers[:: max(1, len(crowd.answers) // 50)]
        )
        cuts = statistics.quantiles(crowd.walls, n=100)
        print(
            f"| {given.clients} | {ill} | {len(crowd.answers)} | {1e3 * statistics.median(crowd.walls):.0f} ms "
            f"| {1e3 * cuts[94]:.0f} ms | {1e3 * cuts[98]:.0f} ms | {1e3 * max(crowd.walls):.0f} ms "
            f"| {len(crowd.failures)} | {wrong} | {os.getloadavg()[0]:.1f} |",
            flush=True,
        )
        for failure in sorted(set(crowd.failures))[:5]:
            print(f"  failed: {failure}", file=sys.stderr)


if __name__ == "__main__":
    main()

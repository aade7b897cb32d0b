"""Try to break a ledger behind a server: clients charge, and repeat themselves, while the server is killed."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epsilog.ledger import Verb, open_ledger, read_ledger
from epsilog.ledger.selftest import SCOPE, exceeds_a_cap
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError, OutcomeUnknownError, StorageError

READY_SECONDS = 60.0  # for a server to listen
_RELEASES = (PureDP(0.001), PureDP(0.002))


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a campaign against a server found.

    Attributes:
        kills: servers killed.
        requests: answered requests, refusals among them.
        repeated: requests whose key was known: their charge was answered again.
        acknowledged: charges that a client saw confirmed.
        lost: acknowledged charges that the ledger does not have.
        doubled: charges that the ledger has twice.
        overspent: whether the budget exceeds its cap.
        entries: entries of the ledger, all verified.
    """

    kills: int
    requests: int
    repeated: int
    acknowledged: int
    lost: int
    doubled: int
    overspent: bool
    entries: int

    @property
    def passed(self) -> bool:
        """Return whether nothing was lost, doubled or overspent; and whether it tried anything at all."""
        return not (self.lost or self.doubled or self.overspent) and self.acknowledged > 0 and self.repeated > 0


@dataclass(slots=True)
class _Client:
    """Charges by one connection; asks again with the same key until it knows the outcome."""

    url: str
    name: str
    over: threading.Event
    acknowledged: list[str] = field(default_factory=list)
    requests: int = 0
    repeated: int = 0
    trouble: str = ""

    def run(self) -> None:
        """Charge until it is over, then settle the last charge."""
        draws, number = random.Random(self.name), 0  # noqa: S311 no secrets here
        with open_ledger(self.url) as ledger:
            while not self.over.is_set():
                again = bool(self.acknowledged) and draws.random() < 1 / 3
                key = draws.choice(self.acknowledged) if again else f"{self.name}-{number}"
                number += not again
                release = _RELEASES[int(key.rpartition("-")[2]) % len(_RELEASES)]
                while True:
                    try:
                        charge = ledger.charge(SCOPE, release, key=key)
                    except BudgetExceededError:
                        self.trouble = "a repeated charge was refused" if again else self.trouble
                    except (OutcomeUnknownError, StorageError, OSError):  # no answer: ask again
                        time.sleep(0.01)
                        continue
                    else:
                        self.repeated += charge.replayed
                        self.acknowledged += [] if again else [key]
                    self.requests += 1
                    break


def run_server_campaign(folder: Path, *, seed: int, kills: int = 50, clients: int = 8, cap: int = 5000) -> ServerReport:
    """Kill a server at random moments while clients charge, a third of their requests repeated.

    Args:
        folder: an empty folder, on the disk to be tried.
        seed: picks the moments.
        kills: how many servers to kill.
        clients: how many charge at the same time.
        cap: thousandths of epsilon that the budget covers.

    Raises:
        RuntimeError: a server did not start, or a charge that was acknowledged was refused later.
    """
    path, moments, over = folder / "served.db", random.Random(seed), threading.Event()  # noqa: S311
    with open_ledger(path) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon=f"{cap}e-3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asking = [_Client(f"http://127.0.0.1:{port}", f"client{number}", over) for number in range(clients)]
    threads = [threading.Thread(target=one.run) for one in asking]
    server = _start_server(path, port)
    try:
        for thread in threads:
            thread.start()
        for _ in range(kills):
            before, deadline = sum(one.requests for one in asking), time.monotonic() + READY_SECONDS
            if moments.random() < 0.75:  # the rest may die before they answer
                while sum(one.requests for one in asking) == before and time.monotonic() < deadline:
                    time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.4))
            server.kill()
            server.wait()
            server = _start_server(path, port)
        over.set()
        for thread in threads:
            thread.join()
    finally:
        over.set()
        server.kill()
        server.wait()
    return _report(path, asking, kills)


def _report(path: Path, asking: Sequence[_Client], kills: int) -> ServerReport:
    """Compare the ledger with what the clients saw."""
    if trouble := next((one.trouble for one in asking if one.trouble), ""):
        raise RuntimeError(trouble)
    with read_ledger(path) as found:
        count = found.verify().count
        made = Counter(entry.key for entry in found.history() if entry.verb is Verb.CHARGED)
        acknowledged = {key for one in asking for key in one.acknowledged}
        return ServerReport(
            kills,
            sum(one.requests for one in asking),
            sum(one.repeated for one in asking),
            len(acknowledged),
            lost=len(acknowledged - made.keys()),
            doubled=sum(times > 1 for times in made.values()),
            overspent=exceeds_a_cap(found.budgets()),
            entries=count,
        )


def _start_server(path: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a server, and wait until it listens."""
    command = [sys.executable, "-m", "epsilog", "serve", "--ledger", str(path), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return server
    server.kill()
    raise RuntimeError(f"the server did not listen within {READY_SECONDS:g} s")

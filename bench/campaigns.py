"""A campaign against a ledger beside those of ``epsilog selftest``: a PostgreSQL server that is killed under writers.

    python bench/campaigns.py [--kills 50]      # PostgreSQL's binaries must be installed

It prints what it counted, and ends with 1 if anything was lost or made twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from epsilog.ledger import open_ledger
from epsilog.ledger.selftest import STEPS, find_last_steps
from epsilog.mechanisms import PureDP
from epsilog.terms import EpsilogError


class Writer(threading.Thread):
    """Charges until the server is gone, and notes what was confirmed."""

    def __init__(self, url: str, name: str, seen: dict[str, int]) -> None:
        super().__init__(name=name)
        self.url, self.seen, self.trouble = url, seen, None

    def run(self) -> None:
        try:
            with open_ledger(self.url) as ledger:
                for number in range(10**6):
                    self.charge(ledger, f"{self.name}-{number}")
        except EpsilogError:
            pass
        except Exception as error:  # noqa: BLE001 it is told
            self.trouble = error

    def charge(self, ledger, key: str) -> None:
        hashed = sha256(key.encode()).hexdigest()
        charge = ledger.reserve("selftest/campaign", PureDP(0.001), key=key, rounds=1)
        self.seen[key] = STEPS.index("reserved")
        charge.start()
        self.seen[key] = STEPS.index("started")
        charge.round_started(1)
        charge.round_released(1, output_hash=hashed)
        self.seen[key] = STEPS.index("round-released")
        charge.commit({"model": hashed})
        self.seen[key] = STEPS.index("committed")


def killed(server) -> None:
    """Kills a postmaster, waits for its children, and starts the server again."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    while any(_runs(child) for child in children):
        time.sleep(0.02)
    for left in (server.data / "postmaster.pid", *server.folder.glob(".s.PGSQL*.lock")):
        left.unlink(missing_ok=True)  # where nobody reaps it, a dead postmaster looks like one that runs
    server.start()


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def server(kills: int) -> bool:
    """Two writers at a time, whose server is killed under them."""
    from spend.postgres.server import Server

    rng, place, seen = random.Random(1), Server(), dict[str, int]()
    url, troubles = place.url("killed"), []
    with open_ledger(url) as ledger:
        ledger.create_budget("selftest", kind="pure", epsilon="1000000")
    for kill in range(kills):
        known = len(seen)
        writers = [Writer(url, f"writer-{number}-life-{kill}", seen) for number in range(2)]
        for writer in writers:
            writer.start()
        while len(seen) == known and any(writer.is_alive() for writer in writers):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        killed(place)
        for writer in writers:
            writer.join()
        troubles += [repr(writer.trouble) for writer in writers if writer.trouble is not None]
    with open_ledger(url) as ledger:
        count, found = ledger.verify().count, find_last_steps(ledger)
        lost = sum(found.get(key, -1) < step for key, step in seen.items())
        for key in found:
            ledger.reserve("selftest/campaign", PureDP(0.001), key=key, rounds=1)
        doubled = len(ledger.verify().charges) - len(found)
    ahead = sum(seen.get(key, -1) < step for key, step in found.items())
    print(f"{kills} kills, {len(seen)} charges confirmed, {count} entries: {lost} lost, {doubled} made twice,")
    print(f"{ahead} further on than anybody saw; other errors: {troubles[:5]}")
    return not lost and not doubled and not troubles and bool(seen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    sys.exit(0 if server(parser.parse_args().kills) else 1)

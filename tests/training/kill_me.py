"""Trains under a charge kept in a file; the parent kills it at a random moment. Not a test itself."""

import importlib.util
import json
import multiprocessing
import os
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.training import AuthorizedRun, Randomness, run_rounds

SCHEMES = {
    "central": ClientLevelCentral(12, 0.5, 30, 0.2, 1.0),
    "client-side": ExampleLevelClientSide(12, 5, 30, 20, 0.5, 1, 0.2, 1.0),
}


class FileCharge:
    """The ledger as far as training knows it: one flushed line an entry; a torn last line never happened."""

    def __init__(self, path, request):
        self.path, self.request = path, request

    @property
    def state(self):
        return "started" if self.entries() else "reserved"

    def start(self):
        self._append({})

    def entries(self):
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def rounds_released(self):
        return {entry["round"]: entry["hash"] for entry in self.entries() if "hash" in entry}

    def _append(self, entry):
        whole = "".join(json.dumps(one) + "\n" for one in [*self.entries(), entry])
        waiting = self.path.with_suffix(".tmp")
        with waiting.open("w") as file:
            file.write(whole)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(self.path)

    def round_started(self, round_number):
        self._append({"round": round_number})

    def round_released(self, round_number, *, output_hash):
        self._append({"round": round_number, "hash": output_hash})


def begin(kind: str, folder: Path) -> ForkServerProcess:
    """The training in a process of its own, forked where everything is imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["epsilog.training.engines.compiled", "epsilog.ledger"])
    child = context.Process(target=train, args=(kind, folder))
    child.start()
    return child


def train(kind: str, folder: Path) -> None:
    """What is killed."""
    beside = importlib.util.spec_from_file_location("beside_kill_me", Path(__file__).with_name("conftest.py"))
    shared = importlib.util.module_from_spec(beside)
    beside.loader.exec_module(shared)
    task = shared.small_task(unit_is_client=kind == "central")
    charge = FileCharge(folder / "ledger.jsonl", shared.MemoryCharge(SCHEMES[kind], task.unit).request)
    run_rounds(AuthorizedRun(SCHEMES[kind], charge, Randomness.from_seed(4)), task, folder=folder / "run")

"""Trains under a charge kept in a file; the parent kills it at a random moment. Not a test itself."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from conftest import MemoryCharge, small_task
from epsilog.terms import ClientLevelCentral, ExampleLevelClientSide
from epsilog.train import PaidRun, Randomness, run_rounds

SCHEMES = {
    "central": ClientLevelCentral(12, 0.5, 30, 0.2, 1.0),
    "client-side": ExampleLevelClientSide(12, 5, 30, 20, 0.5, 1, 0.2, 1.0),
}


class FileCharge:
    """The ledger as far as training knows it: one flushed line an entry; a torn last line never happened."""

    def __init__(self, path, scheme, unit):
        self.path, self.request = path, MemoryCharge(scheme, unit).request

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


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2])
    task = small_task(unit_is_client=kind == "central")
    charge = FileCharge(folder / "ledger.jsonl", SCHEMES[kind], task.unit)
    run_rounds(PaidRun(SCHEMES[kind], charge, Randomness.simulated(4)), task, folder=folder / "run")

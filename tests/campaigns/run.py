"""Runs long campaigns against the ledger: ``.venv/bin/python tests/campaigns/run.py --tampers 10000`` (or --help).

It prints what each has found, and ends with 1 if a promise was broken.
"""

import argparse
import sys
import tempfile
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    # another package of the environment is called tests, too
    tests = types.ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    from tests.campaigns.faults import fault_campaign
    from tests.campaigns.powercuts import power_cut_campaign
    from tests.campaigns.tampers import tamper_campaign

    from epsilog.ledger.selftest import run_kill_campaign

    asked = argparse.ArgumentParser(prog="tests/campaigns/run.py", description=__doc__)
    asked.add_argument("--kills", type=int, default=0, help="writers to kill")
    asked.add_argument("--cuts", type=int, default=0, help="power cuts to simulate; strace must be installed")
    asked.add_argument("--faults", type=int, default=0, help="calls to the disk to let fail; strace must be installed")
    asked.add_argument("--tampers", type=int, default=0, help="rows to change behind the ledger's back")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--folder", type=Path, help="on the disk to be tried; a temporary one if blank")
    given = asked.parse_args()
    campaigns = {
        "kills": lambda folder, count: run_kill_campaign(folder, seed=given.seed, kills=count),
        "cuts": lambda folder, count: power_cut_campaign(folder, seed=given.seed, cuts=count),
        "faults": lambda folder, count: fault_campaign(folder, seed=given.seed, runs=count),
        "tampers": lambda folder, count: tamper_campaign(folder, seed=given.seed, changes=count),
    }
    passed = []
    for name, campaign in campaigns.items():
        if count := getattr(given, name):
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                report = campaign(Path(folder), count)
            print(report, flush=True)  # noqa: T201
            passed.append(report.passed)
    if not passed:
        asked.error("ask for some of --kills, --cuts, --faults, --tampers")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

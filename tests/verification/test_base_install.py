"""Whoever verifies needs the base install and nothing else: each kind of document, with every extra hidden."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog import reports
from epsilog.ledger import iterate_verified_documents, open_ledger, write_bundle, write_receipt
from epsilog.plan import QUESTIONS
from epsilog.signing import SigningKey
from epsilog.terms import codec

ROOT = Path(__file__).parents[2]
HIDDEN = """
import sys
hidden, commands = sys.argv[1].split(","), sys.argv[2].split("|")
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from epsilog.cli.app import main
for words in commands:
    sys.argv = ["epsilog", *words.split(" ")]
    try:
        main()
        print(0)
    except SystemExit as end:
        print(end.code)
"""
MODULES = {"argon2-cffi": "argon2", "prometheus-client": "prometheus_client"}
MODULES |= {"psycopg[binary]": "psycopg"}
QUESTION = {"population": 1000, "cohort_size": 100, "rounds": 10, "noise_multiplier": 1.0, "delta": 1e-6}


def extras():
    """The modules of every extra: what pip does not install with the package alone."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {one.partition(">")[0].partition("=")[0] for each in optional.values() for one in each}
    return {MODULES.get(one, one.replace("-", "_")) for one in wanted if not one.startswith("epsilog")} | {"starlette"}


@pytest.fixture
def documents(tmp_path):
    """One of each kind; a receipt is signed always, and its signature is not what is verified here."""
    pytest.importorskip("cryptography")
    finish(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    with open_ledger(tmp_path / "ledger.db") as ledger:
        entries = list(iterate_verified_documents(ledger))
        key = next(entry.key for entry in ledger.history() if entry.key)
    note = write_bundle(entries, tmp_path / "bundle", origin="o")
    (tmp_path / "checkpoint").write_text(str(note))
    (tmp_path / "receipt").write_text(str(write_receipt(entries, key=key, origin="o", signer=SigningKey.create("o"))))
    (tmp_path / "record").write_bytes(
        codec.encode_canonical(reports.stamp_calculation(QUESTIONS["/federated"].parse(QUESTION)))
    )
    return tmp_path


@pytest.mark.slow
def test_each_kind_of_document_is_verified_without_any_extra(documents):
    run, ledger = documents / "run", documents / "ledger.db"
    codes = {
        f"verify {run}": 0,
        f"verify {run}/report.json --ledger {ledger} --require report": 0,
        f"verify {run}/report.html --ledger {ledger} --require page": 0,
        f"verify {ledger}": 0,
        f"verify {documents}/bundle --require ledger": 0,
        f"verify {documents}/checkpoint --ledger {ledger} --require ledger": 0,
        f"verify {documents}/receipt --ledger {ledger} --require ledger": 0,
        f"verify {documents}/record": 0,
    }
    hidden = ",".join(sorted(extras()))
    assert {"fastapi", "jax", "polars", "cryptography"} <= extras()
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, hidden, "|".join(codes)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert found == list(codes.values()), done.stdout + done.stderr

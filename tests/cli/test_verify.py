"""`epsilog verify` ends with a code that a script can trust: 0 only where all that is required was checked."""

import json
import shutil

import pytest
from tests.reports.drawn import finish, make_plan
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.terms import codec

app = load()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan())
    return folder


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    shutil.copyfile(original.parent / "ledger.db", tmp_path / "ledger.db")
    return tmp_path / "run"


def verify(*words):
    done = CliRunner().invoke(app, ["verify", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else done.exception


def test_each_form_and_its_code(run):
    ledger = run.parent / "ledger.db"
    public = ("--ledger", ledger, "--require", "report", "--require", "ledger")
    assert verify(run)[0] == 0  # the ledger lies beside it
    assert verify(ledger)[0] == 0
    for name in ("report.json", "report.html"):
        assert verify(run / name, *public)[0] == 0
        code, found = verify(run / name, "--ledger", ledger)
        assert (code, found["status"], found["answer"]) == (0, "passed", "Would hold, on the curator’s word")
        assert "Without that word, epsilon is at most" in found["supported_claim"]
        code, found = verify(run / name)
        assert (code, found["answer"]) == (5, "Cannot tell, missing: ledger")
        assert verify(run / name, "--ledger", ledger, "--require", "custody")[0] == 5
    assert verify(run / "report.json", *public, "--require", "page")[0] == 5
    assert verify(run / "report.html", *public, "--require", "page")[0] == 0
    assert verify(run, "--head-hash", "0" * 64)[0] == 4


def test_each_loss_and_its_code(run):
    (run / "custody.jsonl").rename(run / "kept")
    assert verify(run)[0] == 4
    assert verify(run, "--require", "ledger", "--require", "report")[0] == 0
    (run / "kept").rename(run / "custody.jsonl")
    (run / "report.json").rename(run / "kept")
    assert verify(run)[0] == 5
    (run / "kept").rename(run / "report.json")
    assert verify(run)[0] == 0
    (run.parent / "ledger.db").unlink()
    assert verify(run)[0] == 4


def test_each_edit_and_its_code(run):
    ledger = run.parent / "ledger.db"
    report = codec.parse_json((run / "report.json").read_bytes())
    report["claim"]["statement"] = "(0.01, 1e-12)-differentially private and anonymous"
    report["simulation"] = False
    (run / "report.json").write_bytes(codec.encode_canonical(report))
    assert verify(run / "report.json", "--ledger", ledger)[0] == 4
    code, found = verify(run)
    assert code == 4
    assert found["supported_claim"] == "Checks failed (page, report), so no guarantee is supported."
    (run / "report.html").write_bytes((run / "report.html").read_bytes().replace(b"as likely", b"as  likely"))
    assert verify(run / "report.html", "--ledger", ledger)[0] == 4
    (run / "rounds.jsonl").write_bytes(b"{}\n")
    code, error = verify(run)
    assert (code, "rounds.jsonl, line 1" in str(error)) == (1, True)  # main makes it a 2
    assert verify(run, "--require", "trust")[0] == 1

"""What the pages on the ledger and on verifying say of checkpoints, bundles and signatures happens as they say.

An auditor stands by: another folder, a copy of the package alone, the report, the bundle and the public records. The
verdict there is the one here, and a changed digit in any of the files is another.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import run
from tests.docs import outputs
from tests.extent import amount
from tests.reports.drawn import finish, make_plan
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP

pytest.importorskip("cryptography")

app = load()
pytestmark = pytest.mark.slow
DOCS = outputs.ROOT / "docs"
TITLE = "Checkpoints, bundles and signatures"
PUBLIC = ("plan.json", "rounds.jsonl", "owner.json", "certificate.json", "report.json", "report.html")
KINDS = ("report.html", "report.json", "ledger.bundle", "friday.txt", "monday.txt", "receipt.txt", "tag.txt")


def typed(command, folder):
    """Runs a command as a shell would, with what it prints going where it is sent."""
    words, _, target = command.partition(" > ")
    done = run(*shlex.split(words)[1:], cwd=folder)
    if target:
        (folder / target).write_text(done.stdout)
    return done


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """An owner's folder, after everything that the page on the ledger says, and after its report was signed."""
    folder = tmp_path_factory.mktemp("owner")
    finish(folder / "run", folder / "ledger.db", make_plan())
    with open_ledger(folder / "ledger.db") as books:
        books.create_budget("site-7", kind="pure", epsilon="2")
        books.charge("site-7/anna", PureDP(0.25), key="run-17")
    shutil.copyfile(folder / "run/report.html", folder / "report.html")
    made = outputs.typed_commands(DOCS / "ledger.md", "Checkpoints, bundles and receipts")
    assert len(made) == 6
    for command in made:
        if "--since" in command:
            with open_ledger(folder / "ledger.db") as books:
                books.charge("site-7/anna", PureDP(0.25), key="run-18")
        done = typed(command, folder)
        assert done.returncode == 0, (command, done.stderr)
    signing = [
        one
        for one in outputs.typed_commands(DOCS / "how-to/verify-a-report.md", TITLE)
        if one.startswith("epsilog sign")
    ]
    assert [typed(command, folder).returncode for command in signing] == [0]
    assert run("sign", folder / "run/report.json", "--key", folder / "privacy.pem").returncode == 0
    return folder


@pytest.fixture
def auditor(owner, tmp_path):
    """Another folder, with what is public and nothing else."""
    (tmp_path / "run").mkdir()
    for name in PUBLIC:
        shutil.copyfile(owner / "run" / name, tmp_path / "run" / name)
    for name in ("report.html", "report.html.intoto.jsonl", "run/report.json.intoto.jsonl", *KINDS[2:], "privacy.pub"):
        shutil.copyfile(owner / name, tmp_path / name)
    shutil.copyfile(owner / "run/report.json", tmp_path / "report.json")
    shutil.copyfile(owner / "run/report.json.intoto.jsonl", tmp_path / "report.json.intoto.jsonl")
    return tmp_path


def test_the_commands_on_verifying_pass_for_an_auditor(auditor):
    verifying = [
        one
        for one in outputs.typed_commands(DOCS / "how-to/verify-a-report.md", TITLE)
        if one.startswith("epsilog verify")
    ]
    assert len(verifying) == 6
    for command in verifying:
        done = typed(command, auditor)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        without = typed(command.replace(" --key privacy.pub", ""), auditor)
        assert without.returncode == (0 if "report.html" in command else 5), command


def alone(*words, auditor):
    """Runs Python in the auditor's folder, with a copy of the package and no other part of this repository."""
    env = os.environ | {"PYTHONPATH": str(auditor / "site")}
    return subprocess.run([sys.executable, *words], cwd=auditor, env=env, capture_output=True, text=True, check=False)


def told(done):
    """A verdict in full, but for whose files are signed: a bundle is, and the ledger itself is not."""
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    return document | {
        "findings": [
            one | {"message": one["check"]} if one["check"] == "signature" else one for one in document["findings"]
        ]
    }


@pytest.mark.extended
def test_the_verdict_is_the_same_with_the_package_alone(owner, auditor):
    shutil.copytree(outputs.ROOT / "src/epsilog", auditor / "site/epsilog")  # and what was compiled of it
    shutil.copytree(outputs.ROOT / "checker", auditor / "site/epsilog/checker")  # as in a wheel
    found = alone("-c", "import epsilog; print(epsilog.__file__)", auditor=auditor)
    assert found.stdout.strip() == str(auditor / "site/epsilog/__init__.py")
    words = ("--key", "privacy.pub", "--require", "report", "--require", "ledger", "--json")
    for path in ("run", "report.html"):
        there = alone("-m", "epsilog", "verify", path, "--ledger", "ledger.bundle", *words, auditor=auditor)
        here = run("verify", path, "--ledger", owner / "ledger.db", *words, cwd=auditor)
        assert told(there) == told(here)


WITH_LEDGER = ("--ledger", "ledger.bundle", "--require", "report", "--require", "ledger")
CHECKS = {  # how an auditor verifies something, and which files that rests on
    ("report.html", *WITH_LEDGER): ("report.html",),
    ("report.json", *WITH_LEDGER): ("report.json",),
    ("run", *WITH_LEDGER): tuple(f"run/{name}" for name in PUBLIC),
    ("ledger.bundle",): ("ledger.bundle",),
    ("friday.txt", "--checkpoint", "monday.txt"): ("friday.txt", "monday.txt"),
    ("tag.txt", "--ledger", "ledger.bundle"): ("tag.txt",),
    ("receipt.txt",): ("receipt.txt",),
}


def test_one_changed_digit_anywhere_is_another_verdict(auditor, monkeypatch):
    monkeypatch.chdir(auditor)
    for words, names in CHECKS.items():
        command = ["verify", *words, "--key", "privacy.pub"]
        assert CliRunner().invoke(app, command).exit_code == 0, command
        for file in map(Path, names):
            content = file.read_bytes()
            digits = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
            for place in digits[:: max(1, len(digits) // amount(1, 4))]:
                digit = (content[place] - ord("0") + 1 + place % 9) % 10 + ord("0")
                file.write_bytes(content[:place] + bytes([digit]) + content[place + 1 :])
                assert CliRunner().invoke(app, command).exit_code != 0, (command, file.name, place)
            file.write_bytes(content)

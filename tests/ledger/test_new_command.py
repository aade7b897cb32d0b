"""A new ledger command is one class: the one that CONTRIBUTING.md shows is taken along by every part of the house."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import epsilog

ROOT = Path(__file__).parents[2]
ASKED = """
import sys
from pathlib import Path
from typer.testing import CliRunner
from epsilog.cli.app import load
app = load()
from epsilog.ledger import COMMANDS, open_ledger, verify_ledger
from epsilog.terms import PermissionDeniedError, CheckError
from epsilog.server.app import create_app

Note, path = COMMANDS["note"], Path(sys.argv[1])
remark = Note.from_json({"scope": "acme", "by": "dora", "remark": "two studies share it"})
with open_ledger(path) as books:
    books.create_budget("acme", kind="pure", epsilon="1")
    before = books.balance("acme")
    assert books.execute(remark).balance == before
    for refused, error in (
        (lambda: books.on_behalf_of("sam", owns=lambda _: False).execute(remark), PermissionDeniedError),
        (lambda: Note(scope="acme", by="dora", remark=" "), CheckError),
        (lambda: Note.from_json(remark.to_json() | {"more": 1}), CheckError),
    ):
        try:
            refused()
        except error:
            continue
        raise AssertionError(error)
typed = ["ledger", "note", "acme", "--by", "emil", "--remark", "typed", "--ledger", str(path), "--json"]
assert CliRunner().invoke(app, typed).exit_code == 0
assert "Keep an owner's remark" in CliRunner().invoke(app, ["ledger", "note", "--help"]).output
description = create_app().openapi()
route = description["paths"]["/api/v1/ledger/note"]["post"]
assert (route["x-act"], route["security"]) == ("own", [{"token": ["owner"]}])
body = description["components"]["schemas"]["NoteAsk"]
assert (body["additionalProperties"], body["required"]) == (False, ["scope", "by", "remark"])
with open_ledger(path) as books:
    said = [(entry.verb, entry.body.get("remark")) for entry in books.history()]
assert said == [("budget-created", None), ("noted", "two studies share it"), ("noted", "typed")]
assert verify_ledger(path).count == 3
"""


@pytest.mark.slow
def test_one_class_is_written_sent_typed_described_and_verified(tmp_path):
    diffs = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    [diff] = [one for one in diffs if "ledger/commands" in one]
    header, _, hunk = diff.partition("@@\n")
    before = "".join(f"{line[1:]}\n" for line in hunk.splitlines() if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in hunk.splitlines() if not line.startswith("-"))
    home, made = Path(epsilog.__file__).parent, tmp_path / "epsilog"
    changed = home / header.splitlines()[0].removeprefix("--- a/src/epsilog/")
    (made / changed.relative_to(home)).parent.mkdir(parents=True)
    for folder in (home, home / "ledger", home / "ledger/commands"):
        for one in folder.iterdir():
            if one.name != "__pycache__" and not changed.is_relative_to(one):
                (made / one.relative_to(home)).symlink_to(one)
    source = changed.read_text(encoding="utf-8")
    assert source.count(before) == 1, "the guide shows other lines than those that are there"
    (made / changed.relative_to(home)).write_text(source.replace(before, after), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(tmp_path / "b.db")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

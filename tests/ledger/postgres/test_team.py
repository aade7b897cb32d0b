"""A team's ledger in PostgreSQL, through the commands that people type: verbs, a whole run, and its verdict."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.ledger.postgres.server import binaries
from tests.ledger.stores import InDatabase
from typer.testing import CliRunner

from epsilog.cli.app import load
from epsilog.ledger import ledger_exists, read_ledger

app = load()

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = pytest.mark.skipif(
    not (binaries() and find_spec("psycopg")), reason="no PostgreSQL server or driver: run scripts/system-packages"
)


@pytest.fixture
def url(tmp_path):
    return InDatabase(tmp_path).url


def said(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout.replace("\n", " ") or str(done.exception)


@pytest.mark.slow
def test_the_verbs_of_a_ledger(url, tmp_path):
    at = ("--ledger", url)
    assert not ledger_exists(url)
    code, text = said("ledger", "show", *at)
    assert (code, "ledger must be one that exists" in text) == (1, True)
    secret = url.replace("postgres@", "postgres:hunter2@")
    code, text = said("ledger", "create", "acme", "--kind", "pure", "--epsilon", "1", "--ledger", secret)
    assert (code, "acme in postgresql://postgres@" in text, "hunter2" in text) == (0, True, False)
    release = tmp_path / "release.json"
    release.write_text('{"type": "pure", "epsilon": 0.75}')
    for key, code in (("one", 0), ("two", 1)):
        assert said("ledger", "reserve", "acme", "--release", release, "--key", key, *at)[0] == code
    assert said("ledger", "start", "one", *at)[0] == said("ledger", "commit", "one", *at)[0] == 0
    shown = json.loads(said("ledger", "show", *at, "--json")[1])
    assert (shown["sound"], shown["budgets"][0]["spent"]) == (True, {"epsilon": "0.75"})
    assert said("ledger", "bundle", *at, "-o", tmp_path / "b.bundle")[0] == 0
    for what, end in ((url, (0, "passed")), (tmp_path / "b.bundle", (5, "not checked"))):  # nobody signed it
        code, text = said("verify", what, "--json")
        assert (code, json.loads(text)["status"]) == end
    code, text = said("verify", url, "--head-hash", "ab" * 32, "--json")
    assert (code, json.loads(text)["status"]) == (4, "failed")


@pytest.mark.slow
def test_a_mistyped_address_makes_no_file_and_tells_no_password(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create = ("ledger", "create", "acme", "--kind", "pure", "--epsilon", "1")
    restore = ("ledger", "restore", "b.db", "--actor", "dora", "--reason", "lost")
    mistyped = "postgresql+psycopg://anna:hunter2@h/d"
    commands = [(*one, "--ledger", mistyped) for one in (("ledger", "show"), ("doctor",), restore)]
    commands += [("verify", "--logs", "x", "--ledger", mistyped), ("verify", mistyped)]
    others = (mistyped, "Postgresql://anna:hunter2@h/d", "postgres:/anna:hunter2@h/d")
    for command in (*commands, *((*create, "--ledger", url) for url in others)):
        code, text = said(*command)
        assert (code, "hunter2" in text) == (1, False), text
    for command in (("doctor",), restore, ("verify", "--logs", "x"), ("ledger", "backup", "-o", "b.db")):
        code, text = said(*command, "--ledger", "postgresql://anna:hunter2@127.0.0.1:1/d")
        assert (code, "hunter2" in text) == (1, False), text
    assert [*tmp_path.iterdir()] == []
    assert said(*create, "--ledger", "sqlite:///b.db")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["b.db"]


@pytest.mark.extended
def test_a_run_is_charged_and_verified(url, tmp_path):
    text = (EXAMPLES / "central.toml").read_text()
    for line, other in (
        ("rounds = 60", "rounds = 4"),
        ("rounds_per_release = 60", "rounds_per_release = 4"),
        ("local_steps = 8", "local_steps = 1"),
        ("comparison_budgets = [0.25, 1, 8]\ncomparison_seeds = 5\n", ""),
    ):
        assert line in text
        text = text.replace(line, other)
    config = tmp_path / "p.toml"
    config.write_text(text)
    for _ in range(2):  # the second finds all of it done
        code, told = said("run", config, "--runs", tmp_path / "runs", "--ledger", url, "--json")
        assert code == 0, told
    assert not (tmp_path / "runs" / "ledger.db").exists()
    folder = json.loads(told)["folder"] if isinstance(json.loads(told), dict) else json.loads(told)[0]["folder"]
    code, verdict = said("verify", folder, "--ledger", url, "--json")
    ends = {one["check"]: one["status"] for one in json.loads(verdict)["findings"]}
    assert (code, "failed" in ends.values(), ends["control"]) == (5, False, "warned")  # too short to show weak noise
    assert ends["ledger"] == ends["charge"] == ends["released"] == ends["files"] == "passed"
    with read_ledger(url) as books:
        (charge,) = books.verify().charges.values()
    assert charge.state == "committed"

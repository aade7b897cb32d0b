"""Every command answers, as text and as JSON, with the exit code it promises."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Annotated

import pytest
import typer
from tests.commands import run as epsilog
from typer.testing import CliRunner

from epsilog.cli.account import read_release
from epsilog.cli.app import Application, load
from epsilog.ledger import open_ledger
from epsilog.terms import NeighboringRelation


@pytest.mark.slow
def test_plan_federated_shows_the_worked_example():
    """In an interpreter of its own, as users have it; the other commands are forked."""
    asked = "plan federated -N 50000 -m 500 -T 200 -z 1.2 --delta-cap 0 --json"
    command = [sys.executable, "-m", "epsilog", *asked.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["closed_form"]["total"] == pytest.approx(0.5621, abs=5e-5)
    assert plan["delta"]["value"] == 2e-5
    assert 0.56171 < plan["epsilon"]["lower"] <= plan["epsilon"]["upper"] < 0.56172  # the formula is a little high here


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.json", "[" * 100_000),
        ("deep.toml", "a = " + "[" * 100_000),
        ("twins.json", '{"type": "gaussian", "noise_multiplier": 1.0, "noise_multiplier": 9.0}'),
        ("infinite.json", '{"type": "gaussian", "noise_multiplier": 1e999}'),
        ("bytes.json", "\udcff"),
        ("null.json", "null"),
        ("list.json", "[[]]"),
    ],
)
def test_a_file_that_is_no_release_is_refused_in_words(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"must|is not|expected"):
        read_release(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["plan", "queries", "-e", 1, "-Q", 100, "--queries-used", 40], 0, "0.4 of 1"),
        (["plan", "queries", "-e", 1, "-Q", 10, "--queries-used", 14], 3, "plan more queries"),
        (["plan", "queries", "-e", 1, "-Q", 0], 2, "--queries must be at least 1, got 0"),
        (["plan", "queries", "-e", "nan", "-Q", 3], 2, "--epsilon must be finite and above 0, got nan"),
        (["plan", "queries", "-e", 1, "-Q", 3, "--mechanism", "gaussian"], 2, "delta must be in (0, 1)"),
        (["plan", "federated", "-N", 10, "-m", 11, "-T", 2, "-z", 1], 2, "--cohort-size must be in [1, 10], got 11"),
        (
            ["plan", "federated", "-N", 10, "-m", 1, "-T", 2, "-z", -1],
            2,
            "--noise-multiplier must be finite and at least 0",
        ),
        (
            ["plan", "federated", "-N", 100, "-m", 1, "-T", 2, "-z", 1, "--delta", 2],
            2,
            "delta must be in (0, 1), got 2",
        ),
        (["plan", "federated", "-N", 100, "-m", 1, "-T", 2, "-z", 0], 0, "Without noise"),
        (["account", "-z", 1, "-q", 0.01, "-T", 1000, "--delta", 1e-5], 0, "closed form under-reports"),
        (
            ["account", "-z", 1, "--field", "sensitvity=2", "--delta", 1e-5],
            2,
            "--field must be one of noise_multiplier",
        ),
        (
            ["account", "--mechanism", "exponential", "-z", 1, "--field", "monotone=1", "--delta", 1e-5],
            2,
            "monotone must",
        ),
        (
            ["account", "--mechanism", "sparse-vector", "-z", 1, "--delta", 1e-5],
            2,
            "query_noise_multiplier must be given",
        ),
        (["account", "montecarlo", "minimum-samples", 5e-6, 1e-5], 0, "10745967"),
        (["account", "montecarlo", "base-delta", 0, 1e-5], 2, "samples"),
        (["doctor"], 0, "sqlite"),
        (["--version"], 0, "epsilog 0."),
        (["account", "--noise-multiplier", 2, "--rounds", 3, "--delta", 1e-5], 0, "Certified interval"),
        (["serve", "--host", "0.0.0.0"], 2, "host must be a loopback address"),  # noqa: S104 - refused
        (["embed", "queries", "epsilon"], 2, "values must be name=value, got 'epsilon'"),
        (["verify", "nowhere"], 2, "nowhere cannot be read"),
        (["report", "nowhere"], 2, "cannot be read"),
        (["run", "nowhere.toml"], 2, "nowhere.toml: cannot be read"),
        (["ledger", "show", "--ledger", "nowhere.db"], 2, "--ledger must be a ledger file that exists"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_exit_codes_and_messages(args, code, says, tmp_path):
    done = epsilog(*args, cwd=tmp_path)
    assert done.returncode == code, done.stderr + done.stdout
    assert says in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_import_is_light():
    code = (
        "import sys, epsilog\n"
        "heavy = {'numpy', 'torch', 'jax', 'flwr', 'scipy', 'sqlite3', 'pydantic', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_doctor_says_what_a_missing_sqlite_costs():
    code = "import sys; sys.modules['pysqlite3'] = None; from epsilog.cli.app import load; "
    code += "from typer.testing import CliRunner as Run; app = load(); "
    code += "print(Run().invoke(app, ['doctor', '--json']).output, '!!!', Run().invoke(app, ['doctor']).output)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    facts, text = done.stdout.split("!!!")
    facts = json.loads(facts)
    assert facts["sqlite from"] == "Python"
    assert ("pysqlite3 brings" in text) == (facts["journal"] != "WAL")


@pytest.mark.slow
def test_serve_says_where_it_is_only_when_it_is_there(tmp_path):
    refused = epsilog("serve", "--host", "0.0.0.0", cwd=tmp_path)  # noqa: S104 - refused
    assert "epsilog is at" not in refused.stdout
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['epsilog', 'serve']; "
    code += "from epsilog.cli import main; main()"
    missing = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "epsilog is at" not in missing.stdout
    assert "needs the extra" in missing.stderr.replace("need ", "needs ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = epsilog("serve", "--port", port, cwd=tmp_path)
    assert busy.returncode == 2
    assert "epsilog is at" not in busy.stdout
    assert f"port {port} of 127.0.0.1 cannot be bound" in busy.stderr


@pytest.mark.extended  # tests/docs/test_team_pages.py starts one at each change
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_serve_answers_at_the_address_that_it_says(host, tmp_path):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    command = [sys.executable, "-u", "-m", "epsilog", "serve", "--host", host, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        try:
            said = server.stdout.readline().split()[3]
            assert re.fullmatch(r"http://\[::1\]:\d+" if ":" in host else r"http://127\.0\.0\.1:\d+", said)
            with urllib.request.urlopen(f"{said}/api/openapi.json", timeout=60) as answer:  # noqa: S310 (ours)
                assert answer.status == 200
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(300)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell):
    """The shell is named here; people's is found by asking which one started the command."""
    done = epsilog("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "EPSILOG_COMPLETE=complete_" in done.stdout


@pytest.mark.slow
def test_a_short_command_loads_nothing_that_it_does_not_use():
    code = "import sys; from epsilog.cli import main; sys.argv = ['epsilog', 'account', '-z', '1', '--delta', '1e-5']\n"
    code += "try: main()\nfinally: print('loaded', [name for name in %s if name in sys.modules])"
    parts = [
        "scipy.special",
        "numpy.f2py.f2py2e",
        "numpy.ma.core",
        "numpy.random.mtrand",
        "numpy.testing._private",
        "pydantic",
    ]
    done = subprocess.run([sys.executable, "-c", code % parts], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded ['scipy.special']"
    code = "import sys; from epsilog.cli import main; sys.argv = ['epsilog', '--version']\n"
    code += "try: main()\nexcept SystemExit: import numpy.testing; print(numpy.testing.assert_equal.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "assert_equal"


VALUES = (
    "1",
    "+7",
    "1.0",
    ".5",
    "1e3",
    "1e999",
    "1_0",
    "nan",
    " 1",
    "0",
    "11",
    "٣",
    "",
    "a",
    "-",
    "/nowhere/x",
    "replace-one",
)
PLAIN = (int, float, str, Path, NeighboringRelation, list[int], list[str], int | None)


@pytest.mark.slow_beyond(2)
@pytest.mark.parametrize("kind", PLAIN, ids=str)
@pytest.mark.parametrize("bounds", [{}, {"min": 1, "max": 9}], ids=["free", "bounded"])
def test_a_plain_value_is_read_as_the_framework_reads_it(kind, bounds, monkeypatch):
    """Its own reader loads pydantic: a tenth of the CPU time of a short command."""
    if bounds and kind not in (int, float, list[int]):
        return
    application, seen = Application(), []

    def command(value: Annotated[kind, typer.Option(**bounds)]) -> None:
        seen.append(value)

    application.command()(command)

    def read():
        seen.clear()
        ends = [CliRunner().invoke(application, ["--value", text, *more]) for text in VALUES for more in ((), TWICE)]
        return [(one.exit_code, one.output) for one in ends], [*map(repr, seen)]

    ours = read()
    monkeypatch.setattr("epsilog.cli.app._PlainValue", lambda _: None)
    assert ours == read()
    assert ours[1]


TWICE = ("--value", "2")


@pytest.mark.slow
def test_an_account_prints_terms_that_it_reads(tmp_path):
    words = ["--delta", "1e-6", "--json"]
    first = CliRunner().invoke(load(), ["account", "-z", "2", "-q", "0.01", "-T", "50", *words]).output
    (tmp_path / "terms.json").write_text(first)
    toml = 'type = "repeated"\ncount = 50\n[release]\ntype = "poisson-sampled"\nsampling_probability = 0.01\n'
    (tmp_path / "terms.toml").write_text(toml + '[release.release]\ntype = "gaussian"\nnoise_multiplier = 2.0\n')
    for file in ("terms.json", "terms.toml"):
        assert CliRunner().invoke(load(), ["account", "--file", str(tmp_path / file), *words]).output == first


@pytest.mark.slow
def test_a_ledger_that_cannot_be_used_ends_a_command_in_words(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="pure", epsilon="3")
    os.link(tmp_path / "b.db", tmp_path / "c.db")
    (tmp_path / "file").write_text("")
    create = ("ledger", "create", "x", "--kind", "pure", "--epsilon", "1", "-l")
    for command in (("ledger", "show", "-l", "b.db"), *((*create, place) for place in ("c.db", "file/b.db", "."))):
        done = epsilog(*command, cwd=tmp_path)
        assert done.returncode == 6, (command, done.stderr)
        assert done.stderr.startswith("epsilog: ")
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_a_command_in_words(tmp_path):
    command = [sys.executable, "-m", "epsilog", "selftest", "--folder", "."]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while not list(tmp_path.glob("*/*.acks")):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert said.strip().endswith("epsilog: stopped; completed writes are kept")

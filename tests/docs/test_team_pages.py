"""What the page on a team's ledger says happens: each person in a folder of their own, the server killed in between."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import run
from tests.docs import outputs
from tests.server.test_access import self_signed

pytest.importorskip("cryptography")
pytestmark = [pytest.mark.slow, pytest.mark.patient]
PAGE = outputs.ROOT / "docs/how-to/share-a-ledger.md"
FAR = "https://ledger.example:8443"


class Server:
    """Dora's machine: its folder, its tokens, and the command that the page serves with."""

    def __init__(self, folder):
        self.folder, self.tokens, self.process = folder, {}, None
        self_signed(folder)
        made = outputs.typed_commands(PAGE, "Create the budget and start the server")
        self.port = 0  # the server takes a free one at its first start, and keeps it
        for command in made[:-1]:
            words = shlex.split(command)[1:]
            done = run(*words, *(["--json"] if words[0] == "token" else []), cwd=folder)
            assert done.returncode == 0, done.stderr
            if words[0] == "token":
                self.tokens[words[2]] = json.loads(done.stdout)["token"]
        self.command = shlex.split(made[-1])[1:]

    def start(self):
        words = [*self.command, "--host", "127.0.0.1", "--port", str(self.port)]
        command = [sys.executable, "-m", "epsilog", *words]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r"epsilog is at \S+:([0-9]+) ", self.process.stdout.readline())[1])

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "dora"
    folder.mkdir()
    made = Server(folder)
    made.start()
    yield made
    made.kill()


def test_two_share_a_budget_one_is_refused_and_a_third_audits(server, tmp_path):
    near = f"https://localhost:{server.port}"

    def by(who, command):
        folder = tmp_path / who
        folder.mkdir(exist_ok=True)
        pem = str(server.folder / "cert.pem")
        words = shlex.split(command.replace(FAR, near))[1:]
        return run(*words, cwd=folder, EPSILOG_TOKEN=server.tokens[who], SSL_CERT_FILE=pem)

    release = re.search(r"echo '(.*)' > release.json", PAGE.read_text())[1]
    for who in ("anna", "bob"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "release.json").write_text(release)
    asked = outputs.typed_commands(PAGE, "Charge the budget")
    assert len(asked) == 4
    for number, command in enumerate(asked):
        if number == 3:  # what was reserved and started is there when it is back
            server.kill()
            server.start()
        done = by("anna", command)
        assert done.returncode == 0, done.stderr
    refused, raised = outputs.typed_commands(PAGE, "Handle a refusal")
    done = by("bob", refused)
    assert done.returncode == 3
    for told in (
        "requested epsilon 0.75",
        "available epsilon 0.25",
        "short by epsilon 0.5",
        "at most epsilon 0.25 fits",
    ):
        assert told in " ".join(done.stderr.split())
    assert by("bob", raised).returncode == 2
    assert by("dora", raised).returncode == 0
    assert by("bob", refused).returncode == 0
    bundled, verified = outputs.typed_commands(PAGE, "Audit the ledger")
    assert by("bob", bundled).returncode == 2
    assert by("carl", bundled).returncode == 0
    done = run(*shlex.split(verified)[1:], cwd=tmp_path / "carl")
    assert (done.returncode, "All 6 entries are valid" in done.stdout) == (5, True)  # nobody has signed
    followed, _ = outputs.typed_commands(PAGE, "Keep a copy of the ledger")
    done = by("carl", f"{followed} --once")
    assert (done.returncode, "6 entries verified, 6 of them new" in done.stdout) == (0, True), done.stderr
    assert by("bob", f"{followed} --once").returncode != 0  # the token covers a part of the ledger
    assert run("ledger", "verify", "--ledger", "copy.db", cwd=tmp_path / "carl").returncode == 0
    shown = by("carl", f"epsilog ledger show --json --ledger {FAR}")
    told = json.loads(shown.stdout)
    assert (told["sound"], told["entries"]) == (True, 6)
    assert [entry["verb"] for entry in told["history"]] == [
        *("budget-created", "reserved", "started", "committed", "cap-changed", "reserved")
    ]
    assert "token of dora" in told["history"][4]["body"]["actor"]
    everything = "".join(path.read_text(errors="replace") for path in Path(tmp_path).rglob("*") if path.is_file())
    assert not [who for who, token in server.tokens.items() if token in everything]
    untrusted = run(*shlex.split(asked[0].replace(FAR, near))[1:], cwd=tmp_path / "anna", SSL_CERT_FILE="")
    assert untrusted.returncode == 6

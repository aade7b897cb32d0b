"""A server for a team, as it is really started: TLS, tokens that are made and revoked beside it, and what it prints."""

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests import commands
from tests.server.test_access import self_signed

pytestmark = pytest.mark.extended  # at each change, tests/docs/test_team_pages.py has a server with TLS and tokens
ROOT = Path(__file__).parents[2]


def epsilog(*words, cwd):
    done = commands.run(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def made(folder, name, *words):
    return json.loads(epsilog("token", "create", name, *words, "--json", cwd=folder))["token"]


class Team:
    """A server in a process of its own, and one way to ask it."""

    def __init__(self, folder, port, certificate):
        self.folder, self.port = folder, port
        self.context = ssl.create_default_context(cafile=certificate)

    def ask(self, path, token=None, *, headers=(), context=None):
        asked = http.client.HTTPSConnection("localhost", self.port, timeout=300, context=context or self.context)
        try:
            asked.putrequest("GET", path)
            for name, value in [*([("Authorization", f"Bearer {token}")] if token else []), *headers]:
                asked.putheader(name, value)
            asked.endheaders()
            found = asked.getresponse()
            return found.status, found.read().decode()
        finally:
            asked.close()


@pytest.fixture(scope="module")
def team(tmp_path_factory, ledger_path):
    """One server for all: to start it and what works for it costs more than all that is asked of it."""
    folder = tmp_path_factory.mktemp("team")
    certificate, key = self_signed(folder)
    epsilog("token", "create", "root", "--role", "owner", "--whole-ledger", cwd=folder)
    words = ["--ledger", ledger_path, "--tokens", "tokens.json", "--tls-cert", certificate, "--tls-key", key]
    words += ["--access-log", "--port", "0", "--host", "0.0.0.0", "--name", "localhost"]  # noqa: S104
    command = [sys.executable, "-m", "epsilog", "serve", *map(str, words)]
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        server = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
        try:
            until = time.monotonic() + 300
            while not (told := re.search(r"epsilog is at https://0\.0\.0\.0:(\d+)", (folder / "err").read_text())):
                assert time.monotonic() < until
                assert server.poll() is None, (folder / "err").read_text()
                time.sleep(0.1)
            found = Team(folder, int(told[1]), certificate)
            found.process = server
            yield found
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(300)


def test_a_team_comes_in_by_tls_and_token_and_stays_out_without(team):
    anna = made(team.folder, "anna", "--role", "reader", "--scope", "acme")
    status, body = team.ask("/api/v1/ledger", anna)
    assert (status, [budget["scope"] for budget in json.loads(body)["budgets"]]) == (200, ["acme/claims"])
    assert team.ask("/healthz")[0] == 200
    assert team.ask("/api/v1/ledger")[0] == 401
    assert team.ask("/api/v1/ledger", anna, headers=[("Authorization", f"Bearer {anna}")])[0] == 401
    assert team.ask("/api/v1/ledger", headers=[("Authorization", "Bearer " + "a" * 30_000)])[0] == 401
    with suppress(ssl.SSLError, ConnectionError):  # the server may hang up on it before all of it is sent
        assert team.ask("/api/v1/ledger", anna, headers=[("X-Long", "a" * 2**20)])[0] in {400, 431}
    assert team.ask("/api/v1/ledger", anna, headers=[("X-Forwarded-For", "127.0.0.1")])[0] == 421
    assert team.ask("/api/v1/ledger", anna, headers=[("Origin", "https://evil.example")])[0] == 403
    epsilog("token", "revoke", "anna", cwd=team.folder)
    assert team.ask("/api/v1/ledger", anna)[0] == 401

    healthy = [sys.executable, str(ROOT / "deploy/healthcheck.py")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        codes = [
            subprocess.run([*healthy, str(at)], check=False).returncode for at in (team.port, free.getsockname()[1])
        ]
    assert codes == [0, 1]

    with pytest.raises(ssl.SSLCertVerificationError):  # it is not believed by those who were not told of it
        team.ask("/healthz", context=ssl.create_default_context())
    old = ssl.create_default_context()
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        team.ask("/healthz", context=old)
    plain = socket.create_connection(("127.0.0.1", team.port), timeout=10)
    with plain:
        plain.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {anna}\r\n\r\n".encode())
        assert b"200" not in plain.recv(1000)[:20]

    running = Path(f"/proc/{team.process.pid}")
    said = (team.folder / "out").read_text() + (team.folder / "err").read_text()
    said += (
        (running / "cmdline").read_text()
        + (running / "environ").read_text()
        + (team.folder / "tokens.json").read_text()
    )
    assert anna[20:] not in said
    assert "Traceback" not in said
    lines = [json.loads(line) for line in (team.folder / "out").read_text().splitlines()]
    assert [line["status"] for line in lines if line["holder"] == "anna"] == [200]


def test_a_day_of_a_team(team, tmp_path):
    """An owner creates, analysts charge from two machines, one is refused, an owner approves, an auditor verifies."""
    roles = {
        "dora": ("owner", "--scope", "study"),
        "emil": ("owner", "--scope", "study"),
        "ann": ("spender", "--scope", "study/ann"),
        "ben": ("spender", "--scope", "study/ben"),
        "vera": ("auditor", "--whole-ledger"),
    }
    held = {name: made(team.folder, name, "--role", *words) for name, words in roles.items()}
    for name, epsilon in (("release", 0.5), ("large", 0.75)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"v": 1, "term": {"type": "pure", "epsilon": epsilon}}))
    url, trusted = f"https://localhost:{team.port}", str(team.folder / "cert.pem")

    def says(name, *words):
        """A command on a machine of the holder's own: exit code and output."""
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        words += ("--ledger", url)
        done = commands.run("ledger", *words, cwd=place, EPSILOG_TOKEN=held[name], SSL_CERT_FILE=trusted)
        return done.returncode, done.stdout + done.stderr

    reserve = ("--release", tmp_path / "release.json", "--json")
    kind = ("--kind", "pure", "--privacy-unit", "person")
    assert says("dora", "create", "study", *kind, "--epsilon", "1.7", "--requires-approvals", "1")[0] == 0
    assert says("dora", "create", "study/ben", *kind, "--epsilon", "0.5")[0] == 0  # the limit of one analyst
    assert says("ann", "create", "study/ann", *kind, "--epsilon", "9")[0] == 2
    assert says("ann", "reserve", "study/ann", "--key", "visits", *reserve)[0] == 0
    assert says("ben", "reserve", "study/ben", "--key", "scores", *reserve)[0] == 0
    code, said = says("ben", "reserve", "study/ben", "--key", "again", *reserve)
    assert (code, json.loads(said)["error"]["refusal"]["scope"]) == (3, "study/ben")
    code, said = says("ann", "reserve", "study/ann", "--key", "more", "--release", tmp_path / "large.json", "--json")
    assert (code, json.loads(said)["error"]["refusal"]["scope"]) == (3, "study")
    assert says("ben", "start", "visits")[0] != 0
    code, said = says("ann", "start", "visits")
    assert code != 0
    assert "0 of 1 approvals" in said
    assert says("ann", "approve", "visits", "--actor", "dora")[0] != 0
    assert says("emil", "approve", "visits", "--actor", "emil")[0] == 0
    assert says("dora", "revoke", "scores", "--actor", "dora", "--reason", "not needed")[0] == 0
    for step in ("start", "commit"):
        assert says("ann", step, "visits")[0] == 0
    key = json.loads(epsilog("key", "create", "auditor", "-o", "auditor.pem", "--json", cwd=tmp_path))["key"]
    assert says("vera", "bundle", "-o", "books.bundle", "--sign", tmp_path / "auditor.pem")[0] == 0
    checked = commands.run("verify", "books.bundle", "--key", key, "--json", cwd=tmp_path / "vera")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    code, said = says("vera", "show", "--json")
    (study,) = [one for one in json.loads(said)["budgets"] if one["scope"] == "study"]
    assert (code, study["spent"], study["reserved"]) == (0, {"epsilon": "0.5"}, {"epsilon": "0"})
    lines = [json.loads(line) for line in (team.folder / "out").read_text().splitlines()]
    told = [(one["holder"], one["key"], one["outcome"]) for one in lines if one["route"].endswith("/ledger/reserve")]
    assert told == [
        ("ann", "visits", "ok"),
        ("ben", "scores", "ok"),
        ("ben", "again", "BudgetExceededError"),
        ("ann", "more", "BudgetExceededError"),
    ]

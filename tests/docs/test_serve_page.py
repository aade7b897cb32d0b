"""What the page on a server says is typed, is typed: a TLS certificate, tokens, a server, somebody let in and out."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.commands import run
from tests.docs import outputs

PAGE = outputs.ROOT / "docs/how-to/share-a-ledger.md"
pytestmark = [pytest.mark.extended, pytest.mark.patient]  # test_team_pages.py serves the same page at each change


def commands(heading):
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)\n```", part, re.DOTALL)[0].split("\n")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_a_server_is_tried_out_and_somebody_is_let_in_and_out(tmp_path):
    certificate, *others = commands("Test with a self-signed TLS certificate")
    subprocess.run(shlex.split(certificate), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    made = [run(*shlex.split(command)[1:], cwd=tmp_path) for command in others[:2]]
    assert all(done.returncode == 0 for done in made), made
    (dora,) = re.findall(r"^(eps_\S+)$", made[1].stdout, flags=re.MULTILINE)
    create, listed, revoke = (shlex.split(command)[1:] for command in commands("Add and revoke tokens"))
    anna = json.loads(run(*create, "--json", cwd=tmp_path).stdout)["token"]
    assert "anna" in run(*listed, cwd=tmp_path).stdout

    words = [*shlex.split(others[2])[1:], "--port", "0"]
    trust = {"SSL_CERT_FILE": str(tmp_path / "cert.pem")}
    server = subprocess.Popen(
        [sys.executable, "-m", "epsilog", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        url = f"https://localhost:{re.search(r':([0-9]+) ', server.stdout.readline())[1]}"
        release = tmp_path / "release.json"
        release.write_text('{"v": 1, "term": {"type": "pure", "epsilon": 2}}')

        def reserve(token, key):
            words = ("acme/claims", "--key", key, "--release", str(release), "--ledger", url, "--json")
            return run("ledger", "reserve", *words, cwd=tmp_path, EPSILOG_TOKEN=token, **trust)

        until = time.monotonic() + 300
        while reserve(anna, "one").returncode != 0:
            assert time.monotonic() < until, reserve(anna, "one").stdout
        assert reserve(anna, "two").returncode == 3  # what is left does not bear it
        metrics = subprocess.run(
            [sys.executable, "-c", FETCH, f"{url}/metrics", dora],
            env=os.environ | trust,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        samples = [one for family in text_string_to_metric_families(metrics) for one in family.samples]
        found = {(one.name, *one.labels.values()): one.value for one in samples}
        assert found["epsilog_budget_reserved", "acme/claims", "epsilon"] == 2
        assert found["epsilog_refusals_total", "BudgetExceededError"] == 1
        assert found["epsilog_requests_total", "POST", "/api/v1/ledger/reserve", "200"] >= 1
        for name in re.findall(r"(epsilog_\w+)", PAGE.read_text()):
            assert any(one.name == name for one in samples), name
        assert run(*revoke, cwd=tmp_path).returncode == 0
        refused = reserve(anna, "three")
        assert (refused.returncode, json.loads(refused.stdout)["error"]["type"]) == (2, "PermissionDeniedError")
        assert reserve(dora, "one").returncode == 0
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        server.stdout.close()


FETCH = """
import sys, urllib.request
asked = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
print(urllib.request.urlopen(asked).read().decode())
"""

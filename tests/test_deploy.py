"""What is in ``deploy/`` starts the server that there is: its options, its files, its health check."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from epsilog.cli.app import load

app = load()

ROOT = Path(__file__).parents[1]
ANALYZE = shutil.which("systemd-analyze")
UNIT, CONTAINER = ROOT / "deploy/epsilog.service", ROOT / "deploy/Containerfile"
COMPOSE = ROOT / "deploy/compose.yaml"


def unit():
    """The unit's settings, lines that go on joined."""
    lines = UNIT.read_text().replace("\\\n", " ").splitlines()
    return [tuple(line.split("=", 1)) for line in lines if re.match(r"\w+=", line)]


def entry_point():
    text = CONTAINER.read_text().replace("\\\n", " ")
    return json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)[1])


def service():
    """The one service of the Compose file."""
    ((_, found),) = yaml.safe_load(COMPOSE.read_text())["services"].items()
    return found


@pytest.mark.parametrize(
    "words",
    [shlex.split(dict(unit())["ExecStart"]), entry_point(), entry_point() + service()["command"]],
    ids=["systemd", "container", "compose"],
)
def test_the_server_is_started_with_options_that_it_has(words):
    assert Path(words[0]).name == "epsilog"
    command = typer.main.get_command(app).commands[words[1]]
    given = command.make_context("serve", words[2:]).params
    assert (given["host"], given["port"], given["access_log"]) == ("0.0.0.0", 8443, True)  # noqa: S104
    assert all(given[name] is not None for name in ("tokens", "tls_cert", "tls_key"))
    assert not given["trust_proxy"]


@pytest.mark.slow
def test_the_commands_in_the_comments_are_commands():
    for file in (UNIT, CONTAINER, COMPOSE):
        said = [line for line in file.read_text().splitlines() if line.startswith("#")]
        found = re.findall(r"(?:bin/epsilog|--entrypoint epsilog (?:epsilog|server)) (.*)", "\n".join(said))
        assert len(found) == 2
        for words in map(shlex.split, found):
            command = typer.main.get_command(app).commands[words[0]].commands[words[1]]
            assert command.make_context(words[1], words[2:]).params


def test_the_container_is_not_root_and_keeps_its_ledger_in_a_volume():
    said = CONTAINER.read_text()
    last = said[said.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001$", last, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/epsilog$", last, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*healthcheck.py", last, re.MULTILINE)
    assert "/var/lib/epsilog" in re.search(r"^WORKDIR (.*)$", last, re.MULTILINE)[1]


def test_compose_starts_the_container_with_what_it_needs_and_no_more():
    said, container = service(), CONTAINER.read_text()
    assert (COMPOSE.parent / said["build"]["context"] / said["build"]["dockerfile"]).resolve() == CONTAINER
    (published, inside), (volume, kept), (_, tls, how) = (
        text.split(":") for text in (*said["ports"], *said["volumes"])
    )
    assert f"EXPOSE {inside}" in container
    assert published == inside
    assert volume in yaml.safe_load(COMPOSE.read_text())["volumes"]
    assert f"VOLUME {kept}" in container
    assert {Path(word).parent for word in entry_point() if word.endswith(".pem")} == {Path(tls)}
    assert (how, said["read_only"], said["cap_drop"]) == ("ro", True, ["ALL"])
    assert said["security_opt"] == ["no-new-privileges:true"]


def test_what_the_container_copies_is_not_ignored():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src", "web", "deploy/healthcheck.py"} <= kept
    assert "requirements/dev.txt" in kept


def test_the_constraints_are_every_version_of_the_lock_file():
    script = re.search(r"sed -nE '(.*?)' (\S+)", CONTAINER.read_text())
    done = subprocess.run(
        [shutil.which("sed"), "-nE", script[1], ROOT / script[2]], capture_output=True, text=True, check=True
    )
    pinned = [line for line in (ROOT / script[2]).read_text().splitlines() if re.match(r"[\w.-]+==", line)]
    assert done.stdout.splitlines() == [line.removesuffix("\\").rstrip() for line in pinned]


def test_the_unit_takes_away_what_the_server_does_not_need():
    settings = dict(unit())
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute", "RestrictSUIDSGID"):
        assert settings[name] == "yes", name
    assert (settings["ProtectSystem"], settings["CapabilityBoundingSet"], settings["UMask"]) == ("strict", "", "0077")
    assert settings["User"] not in {"", "root"}


@pytest.mark.slow
@pytest.mark.skipif(ANALYZE is None, reason="no systemd here")
def test_systemd_takes_the_unit_and_finds_it_tight(tmp_path):
    said = UNIT.read_text().replace("/opt/epsilog/bin/epsilog serve", f"{sys.executable} -m epsilog serve")
    (tmp_path / "epsilog.service").write_text(said)
    done = subprocess.run(
        [ANALYZE, "verify", "epsilog.service"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "epsilog.service" not in done.stdout + done.stderr
    rated = subprocess.run(
        [ANALYZE, "security", "--offline=true", "--no-pager", "epsilog.service"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert float(re.search(r"Overall exposure level.*: ([\d.]+)", rated.stdout)[1]) <= 2.0

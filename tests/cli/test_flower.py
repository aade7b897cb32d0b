"""What the server app says while `epsilog run --engine flower` waits for it; the run itself is in tests/adapters."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from epsilog.adapters.flower_processes import FlowerProcesses
from epsilog.cli import flower
from epsilog.terms import CheckError, ConfigError


class Watcher:
    def __init__(self):
        self.told = []

    def stage(self, says):
        self.told.append(says)


@pytest.fixture(name="said")
def _said(tmp_path):
    def of(*lines, is_local=True):
        file = tmp_path / "told"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
        return flower._ServerOutput(file, Watcher(), is_local=is_local)

    return of


@pytest.fixture(params=["gone", "not waited for"])
def dead_pid(request):
    done = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, done.pid, os.WEXITED | (0 if request.param == "gone" else os.WNOWAIT))
    yield done.pid
    done.wait()


def test_stages_are_told_once_and_the_last_word_ends_it(said):
    here = {"pid": os.getpid()}
    one = said(here, {"stage": "round 1 of 2"})
    assert one.has_begun()
    assert not one.has_finished()
    assert not one.has_finished()
    assert one._observer.told == ["on Flower: round 1 of 2"]
    assert said(here, {"done": True}).has_finished()
    assert not flower._ServerOutput(one._file.with_name("none"), Watcher(), is_local=True).has_begun()


def test_an_app_that_fails_or_is_killed_is_an_error_and_one_that_has_just_ended_is_not(said, dead_pid):
    gone = {"pid": dead_pid}
    with pytest.raises(ConfigError, match="no such column"):
        said(gone, {"error": "no such column"}).has_finished()
    with pytest.raises(ConfigError, match="the server app was killed"):
        said(gone, {"stage": "round 1 of 2"}).has_finished()
    assert not said(gone, {"stage": "round 1 of 2"}, is_local=False).has_finished()  # elsewhere, pids are others
    assert said(gone, {"done": True}).has_finished()


def test_a_teller_is_heard_and_settings_are_read_back_whatever_they_hold(tmp_path, said):
    teller = flower._OutputWriter(tmp_path / "told")
    teller.line(pid=os.getpid())
    teller.stage("training")
    teller.line(done=True)
    heard = flower._ServerOutput(tmp_path / "told", Watcher(), is_local=True)
    assert heard.has_finished()
    assert heard._observer.told == ["on Flower: training"]
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x11000), 0x1F600, 0x10FFFF)))
    for place, name in enumerate(('a "quoted"\\ \u00fc name\t', "/runs/\U0001f600/x.toml", everything)):
        settings, app = {"config": name, "reply-seconds": 9.5, "nodes": 2}, tmp_path / f"app-{place}"
        flower.write_flower_app(app, settings)
        config = tomllib.loads((app / "pyproject.toml").read_bytes().decode())["tool"]["flwr"]["app"]["config"]
        assert config == settings
        compile((app / "rounds" / "apps.py").read_text(encoding="utf-8"), "apps.py", "exec")
    with pytest.raises(CheckError, match="text must be of Unicode"):
        flower.write_flower_app(tmp_path / "undecodable", {"config": os.fsdecode(b"/runs/\xff.toml")})


def test_an_address_is_read_back_whatever_it_holds(tmp_path):
    address = 'h\U0001f600"\x7f\n:1'
    FlowerProcesses(tmp_path / "flower", address)
    config = tomllib.loads((tmp_path / "flower" / "flwr" / "config.toml").read_bytes().decode())
    assert config["superlink"]["epsilog-here"] == {"address": address, "insecure": True}


def test_flower_is_told_no_password(tmp_path, monkeypatch):
    """It keeps what an app is told, and hands it to every node."""
    told = {}

    def written(_, settings):
        told.update(settings)
        raise InterruptedError

    monkeypatch.setattr(flower, "write_flower_app", written)
    monkeypatch.setattr(flower, "_require_simulation", lambda _: None)
    for ledger, expected in (
        ("postgresql://anna:hunter2@h/d?ledger=l", "postgresql://anna@h/d?ledger=l"),
        (tmp_path / "b.db", str(tmp_path / "b.db")),
    ):
        with pytest.raises(InterruptedError):
            flower.train_on_flower(tmp_path, runs=tmp_path, ledger=ledger, observer=Watcher(), superlink="127.0.0.1:1")
        assert told["ledger"] == expected

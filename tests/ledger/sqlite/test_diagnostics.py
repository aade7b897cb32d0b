"""What `doctor --ledger` finds: each trouble is made, and each is told apart from a ledger that is well."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epsilog.ledger import diagnostics, open_ledger
from epsilog.ledger.diagnostics import diagnose_ledger, get_file_system
from epsilog.mechanisms import PureDP

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MOUNTS = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /srv/team rw - nfs4 server:/team rw
41 22 0:36 / /srv/with\\040space rw - cifs //host/share rw
42 22 0:37 / /home/me/far rw - fuse.sshfs me@host: rw
43 22 0:38 / /run rw - tmpfs tmpfs rw
44 22 0:39 / /srv/team/local rw - xfs /dev/sdb1 rw
"""


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    path = tmp_path / "own" / "budget.db"
    with open_ledger(path, clock=lambda: NOW) as books:
        books.create_budget("acme", kind="pure", epsilon="1")
        books.charge("acme", PureDP(0.1), key="done")
        books.reserve("acme", PureDP(0.1), key="waiting")
        books.reserve("acme", PureDP(0.1), key="running").start()
    path.chmod(0o600)
    path.parent.chmod(0o700)
    monkeypatch.setattr(diagnostics, "get_file_system", lambda _: "ext4")
    return path


def found(path, now=NOW):
    return {remark.about: remark for remark in diagnose_ledger(path, clock=lambda: now)}


def test_a_ledger_that_is_well_has_nothing_to_fear(ledger):
    remarks = found(ledger)
    assert [*remarks] == ["names", "file rights", "folder rights", "disk", "log", "clock", "chain"]
    assert all(remark.well for remark in remarks.values())
    assert remarks["chain"].message == "5 entries hold; 1 charges run, 1 are only reserved"


def test_looking_changes_nothing(ledger):
    before = ledger.read_bytes(), sorted(ledger.parent.iterdir())
    found(ledger)
    assert (ledger.read_bytes(), sorted(ledger.parent.iterdir())) == before


def test_a_second_name_is_found(ledger):
    os.link(ledger, ledger.with_name("again.db"))
    remarks = found(ledger)
    assert (remarks["names"].well, "2 names" in remarks["names"].message) == (False, True)
    assert remarks["chain"].well is False  # such a file is not opened


def test_a_symbolic_link_is_told_and_followed(ledger, tmp_path):
    (tmp_path / "link.db").symlink_to(ledger)
    remarks = found(tmp_path / "link.db")
    assert str(ledger) in remarks["link"].message
    assert remarks["chain"].well


@pytest.mark.parametrize(
    ("mode", "well", "who"), [(0o600, True, "owner alone"), (0o660, True, "its group"), (0o666, False, "anyone")]
)
def test_who_may_write_is_told(ledger, mode, well, who):
    ledger.chmod(mode)
    ledger.parent.chmod(mode | 0o700)
    for about in ("file rights", "folder rights"):
        remark = found(ledger)[about]
        assert (remark.well, who in remark.message) == (well, True)


def test_a_shared_folder_where_nobody_removes_what_is_anothers_is_well(ledger):
    ledger.parent.chmod(0o777)
    assert found(ledger)["folder rights"].well is False
    ledger.parent.chmod(0o1777)
    assert found(ledger)["folder rights"].well is True


@pytest.mark.parametrize(("seconds", "well"), [(0, True), (1, True), (-1, False), (-86_400, False)])
def test_a_clock_behind_the_last_entry_is_found(ledger, seconds, well):
    assert found(ledger, NOW + timedelta(seconds=seconds))["clock"].well is well


KINDS = {"ext4": True, "xfs": True, "nfs4": False, "cifs": False, "fuse.sshfs": False, "tmpfs": False, None: None}


@pytest.mark.parametrize(("kind", "well"), KINDS.items())
def test_a_disk_that_keeps_no_promises_is_found(ledger, monkeypatch, kind, well):
    monkeypatch.setattr(diagnostics, "get_file_system", lambda _: kind)
    assert found(ledger)["disk"].well is well


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/budget.db", "ext4"),
        ("/srv/team/budget.db", "nfs4"),
        ("/srv/teams/budget.db", "ext4"),
        ("/srv/team/local/budget.db", "xfs"),
        ("/srv/with space/budget.db", "cifs"),
        ("/home/me/far/x/budget.db", "fuse.sshfs"),
        ("/run/budget.db", "tmpfs"),
    ],
)
def test_the_disk_is_that_of_the_nearest_mount(tmp_path, path, kind):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert get_file_system(Path(path), tmp_path / "mountinfo") == kind
    assert get_file_system(Path(path), tmp_path / "none") is None


def test_an_open_log_and_a_broken_chain_are_told(ledger, tmp_path):
    with open_ledger(ledger, clock=lambda: NOW) as books:
        books.charge("acme", PureDP(0.1), key="more")
        says = found(ledger)["log"].message
        assert "budget.db-wal" in says or says.startswith("none")  # where SQLite is too old for one
    broken = tmp_path / "copy.db"
    shutil.copy(ledger, broken)
    broken.write_bytes(broken.read_bytes().replace(b'"0.1"', b'"0.2"'))
    remark = found(broken)["chain"]
    assert (remark.well, "entry" in remark.message) == (False, True)
    broken.write_text("no ledger" * 100)
    assert found(broken)["chain"].well is False

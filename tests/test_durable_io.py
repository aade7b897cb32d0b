"""What must last is synced: the file before its call returns, and the folder that holds its name."""

import os
from pathlib import Path

import pytest

from epsilog import durable_io


@pytest.fixture
def synced(monkeypatch):
    """What each fsync was given: the path's inode, and how many bytes of it the kernel had by then."""
    seen, real = [], os.fsync

    def fsync(descriptor):
        found = os.fstat(descriptor)
        seen.append((found.st_ino, found.st_size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_every_byte_is_there_when_the_file_is_synced(tmp_path, synced):
    path = tmp_path / "file"
    durable_io.write_durably(path, b"whole")
    durable_io.append_durably(path, b" and more")
    inode = path.stat().st_ino
    assert path.read_bytes() == b"whole and more"
    assert synced == [(inode, 5), (inode, 14)]
    durable_io.write_durably(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_folder_is_synced_as_a_folder(tmp_path, synced):
    durable_io.sync_folder(tmp_path)
    assert [inode for inode, _ in synced] == [tmp_path.stat().st_ino]


def test_a_disk_that_fails_is_an_error_and_leaks_no_descriptor(tmp_path, monkeypatch):
    def fails(_):
        raise OSError("no disk")

    monkeypatch.setattr(os, "fsync", fails)
    open_now = Path("/proc/self/fd")
    before = len(list(open_now.iterdir()))
    for call in (lambda: durable_io.write_durably(tmp_path / "f", b"x"), lambda: durable_io.sync_folder(tmp_path)):
        with pytest.raises(OSError, match="no disk"):
            call()
    assert len(list(open_now.iterdir())) == before

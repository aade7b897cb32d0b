"""A large bundle is streamed to a file, checked as any other, bounded, and gone afterwards."""

import gzip
import io
import json
import socket
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

import pytest
from tests.extent import amount

from epsilog.ledger import iterate_verified_documents, open_ledger, read_ledger, write_bundle
from epsilog.mechanisms import PureDP
from epsilog.server import verification
from epsilog.server.middleware import MAX_BODY_BYTES
from epsilog.server.workers import COMMAND


def body(bundle, **fields):
    return json.dumps(fields).encode() + b"\n" + bundle


@pytest.fixture(scope="module")
def example(site):
    return site.post("verify/example", {}).json()


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    """Uploads of tests that run beside these do not lie here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def left_behind():
    return list(Path(tempfile.gettempdir()).glob("epsilog-upload-*"))


@pytest.mark.slow
def test_a_streamed_bundle_is_answered_as_any_other(site, example):
    found = site.post("verify/bundle", raw=body(example["bundle"].encode(), report=example["report"]))
    assert found.status == 200
    assert found.json() == site.post("verify", example).json()
    alone = site.post("verify/bundle", raw=body(example["bundle"].encode()))
    assert alone.json() == site.post("verify", {"bundle": example["bundle"]}).json()
    assert left_behind() == []


@pytest.mark.slow
def test_a_bundle_above_the_limit_of_a_json_body_is_checked(site, tmp_path):
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="9", privacy_unit="person")
        run = ledger.reserve("acme", PureDP(0.5), key="run", rounds=20_000)
        run.start()
        for number in range(1, amount(501, 8001)):
            run.round_started(number)
            run.round_released(number, output_hash="ab" * 32)
    with read_ledger(tmp_path / "ledger.db") as ledger:
        write_bundle(iterate_verified_documents(ledger), tmp_path / "bundle", origin="o")
    content = (tmp_path / "bundle").read_bytes()
    assert len(content) > 4 * MAX_BODY_BYTES
    told = site.post("verify/bundle", raw=body(content)).json()
    assert next(one for one in told["findings"] if one["check"] == "ledger")["status"] == "passed"
    changed = content.replace(b"abab", b"abac", 1)
    told = site.post("verify/bundle", raw=body(changed)).json()
    assert told["status"] == "failed"


def test_archives_are_refused_without_being_opened(site):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ledger.bundle", b"0" * 5_000_000)
    for hostile in (packed.getvalue(), gzip.compress(b"epsilog-bundle/v0\n" * 1_000_000), b"", b"\n\n"):
        found = site.post("verify/bundle", raw=body(hostile))
        assert found.status == 422
        assert "bundle" in found.body.decode()
    assert left_behind() == []


def test_what_is_too_long_or_not_ours_is_refused(site, monkeypatch):
    monkeypatch.setattr(verification, "MAX_BUNDLE_BYTES", 1000)
    assert site.post("verify/bundle", raw=body(b"x" * 1001)).status == 413
    monkeypatch.setattr(verification, "MAX_LINE_BYTES", 1000)
    assert site.post("verify/bundle", raw=b"x" * 5000).status == 413
    monkeypatch.undo()
    for line in (b"[]", b"not json", b'{"surplus": 1}', b'{"bundle": "x"}', b'{"record": "{}"}'):
        found = site.post("verify/bundle", raw=line + b"\n" + b"epsilog-bundle/v0\n")
        assert found.status == 422, line
    assert left_behind() == []


def test_no_client_chooses_a_folder(site):
    assert site.post("verify/folder", {"folder": "somewhere"}).status == 404


def begin_upload(site, sent=b"{}\nepsilog-bundle/v0\n"):
    """A client that begins to send a bundle and says that more will come."""
    client = socket.create_connection((site.host, site.port), timeout=20)
    head = f"POST /api/v1/verify/bundle HTTP/1.1\r\nHost: {site.host}:{site.port}\r\n"
    client.sendall(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 100000\r\n\r\n".encode() + sent)
    return client


def wait_until(holds):
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


def test_a_client_has_one_upload_at_a_time_and_gives_its_place_back(site):
    with begin_upload(site):
        wait_until(lambda: left_behind() != [])
        refused = site.post("verify/bundle", raw=body(b"epsilog-bundle/v0\n"))
        assert (refused.status, refused.json()["type"]) == (429, "/problems/too-many")
    wait_until(lambda: left_behind() == [])
    assert site.post("verify/bundle", raw=body(b"epsilog-bundle/v0\n")).status == 200


def test_an_upload_that_does_not_keep_its_pace_is_refused(site, monkeypatch):
    monkeypatch.setattr(verification, "PATIENCE_SECONDS", 0.2)
    with begin_upload(site) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 408")
    assert left_behind() == []


def test_a_stated_length_above_the_limit_is_refused_before_it_arrives(site):
    with begin_upload(site) as client:
        wait_until(lambda: left_behind() != [])
        client.close()
    wait_until(lambda: left_behind() == [])
    with socket.create_connection((site.host, site.port), timeout=20) as client:
        head = f"POST /api/v1/verify/bundle HTTP/1.1\r\nHost: {site.host}:{site.port}\r\n"
        client.sendall(f"{head}Content-Length: {2**40}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("line", [b"[" * 2_000_000, b'{"a":' * 500_000, b"9" * 3_000_000, b"x" * 3_000_000])
def test_deep_long_and_broken_lines_are_findings(site, line):
    told = site.post("verify/bundle", raw=body(b"epsilog-bundle/v0\n" + line + b"\n\n")).json()
    assert told["status"] == "failed"
    assert "entry 1" in told["findings"][0]["message"] or "index 1" in told["findings"][0]["message"]


@pytest.mark.slow
def test_a_check_has_no_more_memory_than_its_limit(tmp_path):
    (tmp_path / "fields.json").write_text("{}")
    (tmp_path / "ledger.bundle").write_bytes(b"epsilog-bundle/v0\n[" + b"{}," * 8_000_000 + b"{}]\n\n")
    ask = json.dumps({"path": "/verify/folder", "ask": {"folder": str(tmp_path)}}).encode() + b"\n"
    command = [*COMMAND, str(700 * 1024**2)]
    status, _, said = json.loads(subprocess.run(command, input=ask, capture_output=True, check=True).stdout)
    assert (status, "memory" in said) == (422, True)

"""A large bundle is streamed to a file, checked as any other, bounded, and gone afterwards."""

import gzip
import io
import json
import tempfile
import zipfile
from pathlib import Path

import pytest

from epsilog.ledger import iterate_verified_documents, open_ledger, read_ledger, write_bundle
from epsilog.mechanisms import PureDP
from epsilog.server import uploads


def body(bundle, **fields):
    return json.dumps(fields).encode() + b"\n" + bundle


@pytest.fixture(scope="module")
def example(site):
    return site.post("verify/example", {}).json()


def left_behind():
    return list(Path(tempfile.gettempdir()).glob("epsilog-upload-*"))


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
        for number in range(1, 8001):
            run.round_started(number)
            run.round_released(number, output_hash="ab" * 32)
    with read_ledger(tmp_path / "ledger.db") as ledger:
        write_bundle(iterate_verified_documents(ledger), tmp_path / "bundle", origin="o")
    content = (tmp_path / "bundle").read_bytes()
    assert len(content) > 4 * 1024 * 1024
    told = site.post("verify/bundle", raw=body(content)).json()
    assert next(one for one in told["findings"] if one["check"] == "ledger")["status"] == "passed"
    changed = content.replace(b"abab", b"abac", 1)
    told = site.post("verify/bundle", raw=body(changed)).json()
    assert told["status"] == "failed"


def test_archives_are_refused_without_being_opened(site):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ledger.bundle", b"0" * 50_000_000)
    for hostile in (packed.getvalue(), gzip.compress(b"epsilog-bundle/v0\n" * 1_000_000), b"", b"\n\n"):
        found = site.post("verify/bundle", raw=body(hostile))
        assert found.status == 422
        assert "bundle" in found.body.decode()
    assert left_behind() == []


def test_what_is_too_long_or_not_ours_is_refused(site, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BUNDLE_BYTES", 1000)
    assert site.post("verify/bundle", raw=body(b"x" * 1001)).status == 413
    monkeypatch.setattr(uploads, "MAX_LINE_BYTES", 1000)
    assert site.post("verify/bundle", raw=b"x" * 5000).status == 413
    monkeypatch.undo()
    for line in (b"[]", b"not json", b'{"surplus": 1}', b'{"bundle": "x"}', b'{"record": "{}"}'):
        found = site.post("verify/bundle", raw=line + b"\n" + b"epsilog-bundle/v0\n")
        assert found.status == 422, line
    assert left_behind() == []


def test_no_client_chooses_a_folder(site):
    assert site.post("verify/folder", {"folder": "somewhere"}).status == 404

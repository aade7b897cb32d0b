"""Detached signatures: what is signed is the file, and another tool's reading of the format agrees with ours."""

import base64
import json
import subprocess
from dataclasses import replace

import pytest

from epsilog.signing import Envelope, read_envelopes
from epsilog.signing.envelopes import _encode_payload
from epsilog.terms import CheckError

CONTENT = b"<!doctype html> a report"


@pytest.fixture
def envelope(key):
    return Envelope.over("report.html", CONTENT, key)


def test_the_encoding_is_the_published_one(monkeypatch):
    """secure-systems-lab/dsse, protocol.md, "Test Vectors"."""
    monkeypatch.setattr("epsilog.signing.envelopes.PAYLOAD", "http://example.com/HelloWorld")
    assert _encode_payload(b"hello world") == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_signed_file_is_that_of_its_signer(envelope, key, other):
    assert envelope.matches_file(CONTENT)
    assert not envelope.matches_file(CONTENT + b"\n")
    assert envelope.signers([other.verifier, key.verifier]) == [key.verifier]
    assert envelope.signers([other.verifier]) == []
    assert read_envelopes(f"{envelope}\n\n{envelope}\n".encode()) == (envelope, envelope)


def test_it_is_an_in_toto_statement_that_others_can_read(envelope, key):
    fields = json.loads(str(envelope))
    assert fields["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(fields["payload"])
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0]["name"] == "report.html"
    (signature,) = fields["signatures"]
    assert signature["keyid"] == key.verifier.label
    message = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    assert key.verifier.verifies(base64.b64decode(signature["sig"]), message)


@pytest.mark.slow
def test_openssl_finds_the_signature_of_a_key_that_we_have_saved(envelope, key, tmp_path):
    """Another program, from the key's file on: it reads the private key, writes the public one, and verifies."""
    fields = json.loads(str(envelope))
    payload, (signature,) = base64.b64decode(fields["payload"]), fields["signatures"]
    (tmp_path / "said").write_bytes(f"DSSEv1 28 {fields['payloadType']} {len(payload)} ".encode() + payload)
    (tmp_path / "made").write_bytes(base64.b64decode(signature["sig"]))
    key.save(tmp_path / "key.pem", passphrase="a word")  # noqa: S106

    def openssl(*words):
        return subprocess.run(["openssl", *words], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S607

    public = openssl("pkey", "-in", "key.pem", "-passin", "pass:a word", "-pubout").stdout
    assert public == key.verifier.pem()
    (tmp_path / "key.pub").write_text(public)
    check = ("pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "said", "-sigfile", "made")
    assert openssl(*check).returncode == 0
    (tmp_path / "said").write_bytes((tmp_path / "said").read_bytes() + b" ")
    assert openssl(*check).returncode != 0


def test_what_an_envelope_says_of_keys_is_not_believed(envelope, key, other):
    renamed = replace(envelope, signatures=((other.verifier.label, envelope.signatures[0][1]),))
    assert renamed.signers([other.verifier]) == []
    assert renamed.signers([key.verifier]) == [key.verifier]


@pytest.mark.slow
def test_every_flipped_bit_of_what_is_signed_is_seen(envelope, key):
    line = str(envelope).encode()
    start = line.index(b'"payload":')
    hint = range(line.index(b'"keyid":'), line.index(b'"sig":'))  # who says to have signed: the key shows it
    for place in (place for place in range(start, len(line)) if place not in hint):
        for bit in range(8):
            changed = line[:place] + bytes([line[place] ^ 1 << bit]) + line[place + 1 :]
            try:
                found = read_envelopes(changed)
            except CheckError:
                continue
            assert not any(one.matches_file(CONTENT) and one.signers([key.verifier]) for one in found), (place, bit)


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": "text/plain"},
        {"signatures": []},
        {"signatures": [{}]},
        {"signatures": [{"sig": "AAA"}]},
        {"signatures": 3},
        {"payload": "AAAA"},
        {"payload": base64.b64encode(b'{"_type":"https://in-toto.io/Statement/v1","subject":[]}').decode()},
        {"payload": base64.b64encode(b'{"_type":"x","subject":[{"digest":{}}]}').decode()},
        {"payload": base64.b64encode(b'{"_type":"https://in-toto.io/Statement/v1","subject":[{}]}').decode()},
        {"payload": base64.b64encode(b'{"_type":"https://in-toto.io/Statement/v1","subject":[3]}').decode()},
    ],
)
def test_what_is_no_signature_is_refused(envelope, change):
    with pytest.raises(CheckError, match=r"signature|payload|sig"):
        Envelope.parse(json.dumps(json.loads(str(envelope)) | change).encode())
    for content in (b"[]", b"3", b"{}", b"{", b"\xff"):
        with pytest.raises(CheckError, match="signature"):
            read_envelopes(content)

"""Detached signatures: what is signed is the file, and another tool's reading of the format agrees with ours."""

import base64
import json
from dataclasses import replace

import pytest

from epsilog.signing import Envelope, read_envelopes
from epsilog.signing.envelopes import _encoded
from epsilog.terms import CheckError

CONTENT = b"<!doctype html> a report"


@pytest.fixture
def envelope(key):
    return Envelope.over("report.html", CONTENT, key)


def test_the_encoding_is_the_published_one(monkeypatch):
    """secure-systems-lab/dsse, protocol.md, "Test Vectors"."""
    monkeypatch.setattr("epsilog.signing.envelopes.PAYLOAD", "http://example.com/HelloWorld")
    assert _encoded(b"hello world") == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_signed_file_is_that_of_its_signer(envelope, key, other):
    assert envelope.covers(CONTENT)
    assert not envelope.covers(CONTENT + b"\n")
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
            assert not any(one.covers(CONTENT) and one.signers([key.verifier]) for one in found), (place, bit)


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

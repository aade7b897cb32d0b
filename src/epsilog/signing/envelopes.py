"""Detached signatures of files: an in-toto statement in a DSSE envelope, one envelope per line.

Supply-chain tools (cosign, in-toto, slsa) read this format. The statement has the name of the file and its SHA-256, and
the signature covers the statement. ``securesystemslib`` is not used: it rejects signatures with another key id,
though DSSE calls that id a hint.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from epsilog.signing.keys import SigningKey, VerifierKey, decode_base64
from epsilog.terms import CheckError
from epsilog.terms.codec import UNREADABLE, encode_canonical, parse_json

SUFFIX = ".intoto.jsonl"  # as in-toto names a file of attestations
STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD = "application/vnd.in-toto+json"
PREDICATE = "https://github.com/epsilog/epsilog/signature/v0"  # the signer approves this file
APPROVALS: tuple[dict[str, str], ...] = ({}, {"result": "approved"})  # the predicates that approve


@dataclass(frozen=True, slots=True)
class Envelope:
    """One signed statement about a file.

    Attributes:
        payload: the statement, as signed.
        signatures: the claimed key id of each signer, with its signature.
    """

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @classmethod
    def over(cls, name: str, content: bytes, key: SigningKey) -> Self:
        """Sign a file.

        Args:
            name: the name of the file, for readers; a renamed file is the same file.
            content: its bytes.
            key: the key that signs.
        """
        subject = {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        payload = encode_canonical(
            {"_type": STATEMENT, "subject": [subject], "predicateType": PREDICATE, "predicate": {}}
        )
        return cls(payload, ((key.verifier.label, key.sign(_encode_payload(payload))),))

    def __str__(self) -> str:
        """Return the envelope as one line of JSON."""
        signatures = [{"keyid": label, "sig": base64.b64encode(one).decode()} for label, one in self.signatures]
        fields = {"payload": base64.b64encode(self.payload).decode(), "payloadType": PAYLOAD, "signatures": signatures}
        return encode_canonical(fields).decode()

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read one line; raise ``CheckError`` unless it is a signed statement about one file."""
        try:
            fields = parse_json(line)
            payload = decode_base64(fields["payload"], what="payload")
            signatures = [(one.get("keyid", ""), decode_base64(one["sig"], what="sig")) for one in fields["signatures"]]
            _subject(payload)
            signed = fields["payloadType"] == PAYLOAD and bool(signatures)
        except UNREADABLE as error:
            raise CheckError("signature", "a DSSE envelope with an in-toto statement", repr(line[:80])) from error
        if not signed:
            raise CheckError("signature", f"a signed {PAYLOAD}", repr(line[:80]))
        return cls(payload, tuple((str(label or ""), one) for label, one in signatures))

    def matches_file(self, content: bytes) -> bool:
        """Return whether the statement is about a file with this content."""
        return bool(_subject(self.payload)["digest"].get("sha256") == hashlib.sha256(content).hexdigest())

    @property
    def is_ours(self) -> bool:
        """Return whether the statement has the type that approves a file or withholds approval."""
        return bool(parse_json(self.payload).get("predicateType") == PREDICATE)

    @property
    def approves(self) -> bool:
        """Return whether the statement approves its file: it has our type and no other result."""
        return self.is_ours and parse_json(self.payload).get("predicate") in APPROVALS

    def signers(self, keys: Collection[VerifierKey]) -> list[VerifierKey]:
        """Return the keys that have signed it; the key ids in the envelope are ignored."""
        message = _encode_payload(self.payload)
        return [key for key in keys if any(key.verifies(one, message) for _, one in self.signatures)]


def read_envelopes(content: bytes) -> tuple[Envelope, ...]:
    """Read a file of envelopes, one per line."""
    return tuple(Envelope.parse(line) for line in content.splitlines() if line.strip())


def _subject(payload: bytes) -> Mapping[str, Any]:
    """Return the one file that a statement is about."""
    statement = parse_json(payload)
    (subject,) = statement["subject"]
    if statement["_type"] != STATEMENT or not isinstance(subject["digest"], dict):
        raise ValueError("no statement on a file")
    found: Mapping[str, Any] = subject
    return found


def _encode_payload(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: the type and the payload, each after its length."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)

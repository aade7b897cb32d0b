"""Detached signatures of files: an in-toto statement in a DSSE envelope, one envelope a line.

That is what supply-chain tools read (cosign, in-toto, slsa): the statement names the file and its SHA-256, and the
signature is over the statement. Who checks it needs the file, the envelope and a key, and nothing of ours.
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
PREDICATE = "https://github.com/epsilog/epsilog/signature/v0"  # says that the signer approves of this file
APPROVED: tuple[dict[str, str], ...] = (
    {},
    {"result": "approved"},
)  # what a predicate of that type must be; any other result withholds approval


@dataclass(frozen=True, slots=True)
class Envelope:
    """One signed statement on a file.

    Attributes:
        payload: the statement, as signed.
        signatures: what each signer says to be its key, and its signature.
    """

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @classmethod
    def over(cls, name: str, content: bytes, key: SigningKey) -> Self:
        """Signs a file.

        Args:
            name: the file's, for people: a renamed file is the same file.
            content: its bytes.
            key: whose signature.
        """
        subject = {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        payload = encode_canonical(
            {"_type": STATEMENT, "subject": [subject], "predicateType": PREDICATE, "predicate": {}}
        )
        return cls(payload, ((key.verifier.label, key.sign(_encode_payload(payload))),))

    def __str__(self) -> str:
        """The envelope as one line of JSON."""
        signatures = [{"keyid": who, "sig": base64.b64encode(made).decode()} for who, made in self.signatures]
        fields = {"payload": base64.b64encode(self.payload).decode(), "payloadType": PAYLOAD, "signatures": signatures}
        return encode_canonical(fields).decode()

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Reads one line; what is no signed statement on one file is a ``CheckError``."""
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
        return cls(payload, tuple((str(who or ""), made) for who, made in signatures))

    def covers(self, content: bytes) -> bool:
        """Whether the statement is about a file of this content."""
        return bool(_subject(self.payload)["digest"].get("sha256") == hashlib.sha256(content).hexdigest())

    @property
    def is_ours(self) -> bool:
        """Whether the statement is of the type that approves or withholds approval; others say something else."""
        return bool(parse_json(self.payload).get("predicateType") == PREDICATE)

    @property
    def approves(self) -> bool:
        """Whether the statement approves of its file. Only our own type does, and only without another result."""
        return self.is_ours and parse_json(self.payload).get("predicate") in APPROVED

    def signers(self, keys: Collection[VerifierKey]) -> list[VerifierKey]:
        """Those of these keys that have signed it. What the envelope says of keys is a hint, and not believed."""
        message = _encode_payload(self.payload)
        return [key for key in keys if any(key.verifies(made, message) for _, made in self.signatures)]


def read_envelopes(content: bytes) -> tuple[Envelope, ...]:
    """Reads a file of envelopes, one a line."""
    return tuple(Envelope.parse(line) for line in content.splitlines() if line.strip())


def _subject(payload: bytes) -> Mapping[str, Any]:
    """The one file that a statement is about."""
    statement = parse_json(payload)
    (subject,) = statement["subject"]
    if statement["_type"] != STATEMENT or not isinstance(subject["digest"], dict):
        raise ValueError("no statement on a file")
    found: Mapping[str, Any] = subject
    return found


def _encode_payload(payload: bytes) -> bytes:
    """What DSSE signs: the type and the payload, each after its length."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)

"""What may leave a run, by type: a digest of public bytes, a digest of a charged output, or a commitment that hides.

Everything else about people is ``Private``: it has no text, JSON or hash. A plain hash does not protect private bytes,
because anyone who can list the candidates can compare their hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

from epsilog.terms.errors import CheckError

__all__ = [
    "KEY_BYTES",
    "Commitment",
    "CommitmentKey",
    "Disclosed",
    "Private",
    "Public",
    "Released",
    "disclose",
    "same_digest",
]

KEY_BYTES = 32
"""Bytes of a commitment's key, drawn from the operating system."""

_KEY = re.compile(rb"[0-9a-f]{64}\n")


class Private:
    """A value that depends on people's data and was not charged: it refuses to be text, JSON or a hash.

    Its fields are readable; the code that computes with it decides what leaves.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __str__(self) -> str:
        raise self._refusal("text")

    def __format__(self, _: str) -> str:
        raise self._refusal("text")

    def __hash__(self) -> int:
        raise self._refusal("hash")

    def _refusal(self, what: str) -> TypeError:
        return TypeError(f"{type(self).__name__} is private: it has no {what}")


class Public(str):
    """SHA-256 of public bytes, 64 hex digits."""

    __slots__ = ()

    @classmethod
    def of(cls, content: bytes | memoryview) -> Self:
        """Return the digest of public bytes."""
        return cls(hashlib.sha256(content).hexdigest())


class Released(Public):
    """SHA-256 of an output that a charge covers, 64 hex digits."""

    __slots__ = ()


class Commitment(str):
    """HMAC-SHA-256 of private bytes under a separate key, 64 hex digits: it commits to them and reveals nothing.

    Hiding: HMAC under a random 256-bit key is a pseudorandom function of the bytes (Bellare 2006). Binding: two files
    or two keys with one commitment are a collision of SHA-256, since all keys have one length.
    """

    __slots__ = ()

    @classmethod
    def to(cls, content: bytes, key: CommitmentKey) -> Self:
        """Return the commitment to private bytes."""
        return cls(hmac.digest(key.secret, content, "sha256").hex())


Disclosed: TypeAlias = "Public | Commitment"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CommitmentKey(Private):
    """The opening of the commitment to a run's private records; stored with them, under the same access rights.

    Attributes:
        secret: 32 random bytes of the operating system, also in a simulation: a seed is published with its run.
    """

    secret: bytes

    def __post_init__(self) -> None:
        if type(self.secret) is not bytes or len(self.secret) != KEY_BYTES:
            raise CheckError("secret", f"{KEY_BYTES} bytes", f"a {type(self.secret).__name__}")

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read what ``content`` wrote."""
        if not _KEY.fullmatch(content):
            raise CheckError("key", "64 hex digits and a newline", "something else")
        return cls(bytes.fromhex(content[:-1].decode()))

    @property
    def content(self) -> bytes:
        """Return the bytes of its file."""
        return self.secret.hex().encode() + b"\n"


def same_digest(one: str | None, other: str | None) -> bool:
    """Return whether two digests are equal, in a time that does not depend on where they differ."""
    return one is not None and other is not None and hmac.compare_digest(one.encode(), other.encode())


def disclose(digests: Mapping[str, Disclosed]) -> dict[str, str]:
    """Digests as plain text, where they leave: to a ledger or into a report.

    Raises:
        TypeError: the value is of another type, so it may be a hash of private bytes.
    """
    for name, digest in digests.items():
        if not isinstance(digest, Public | Commitment):
            raise TypeError(f"{name} must be Public, Released or a Commitment to leave, got {type(digest).__name__}")
    return {name: str(digest) for name, digest in digests.items()}

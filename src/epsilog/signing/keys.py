"""Create, store and parse named Ed25519 keys.

The public key is one line, the *verifier key* ``name+id+key`` of C2SP's signed notes. The private key is PKCS #8 in
PEM, below a line with its name, in a file that only its owner can read. Nothing here prints a private key.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from epsilog.terms import CheckError, EpsilogError, check
from epsilog.terms.extras import install_command

ED25519 = b"\x01"  # the signature type of C2SP signed-note
SPKI = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: what precedes the 32 bytes of a public key
NAMED = "Name: "
MAX_BYTES = 10_000  # of a key file


def require_key_name(name: object) -> str:
    """Require a name that fits into a signature line: printable ASCII without spaces or plus."""
    if not (isinstance(name, str) and name and name.isascii() and name.isprintable() and not set(name) & set(" +")):
        raise CheckError("name", "printable ASCII without spaces or '+', such as example.org/privacy", repr(name))
    return name


def decode_base64(text: str, *, what: str) -> bytes:
    """Decode canonical base64 (RFC 4648, section 4); raise ``CheckError`` for any other text."""
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        found = b""
    if not text or base64.b64encode(found).decode() != text:
        raise CheckError(what, "base64 in its one spelling", repr(text[:80]))
    return found


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with a name.

    Attributes:
        name: as in signatures; usually a URL without a scheme.
        public: 32 bytes (RFC 8032).

    >>> key = VerifierKey.parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    >>> key.label
    'example.com/foo+530d903a'
    """

    name: str
    public: bytes

    def __post_init__(self) -> None:
        require_key_name(self.name)
        if not (isinstance(self.public, bytes) and len(self.public) == 32):
            raise CheckError("public", "32 bytes", repr(self.public))

    @property
    def key_id(self) -> bytes:
        """Four bytes that distinguish keys of one name; they prove nothing."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:4]

    @property
    def label(self) -> str:
        """Name and id, as messages name a key."""
        return f"{self.name}+{self.key_id.hex()}"

    def __str__(self) -> str:
        """Return the verifier key: ``name+id+key``."""
        return f"{self.label}+{base64.b64encode(ED25519 + self.public).decode()}"

    def pem(self) -> str:
        """Return the key in PEM (SubjectPublicKeyInfo)."""
        body = base64.b64encode(SPKI + self.public).decode()
        return f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a verifier key; refuse other types than Ed25519, and an id that does not match."""
        name, _, rest = line.strip().partition("+")
        key_id, _, key = rest.partition("+")
        content = decode_base64(key, what="key") if key else b""
        if content[:1] != ED25519 or len(content) != 33:
            raise CheckError("key", "a verifier key, NAME+ID+KEY, of an Ed25519 key", repr(line[:200]))
        found = cls(name, content[1:])
        if found.key_id.hex() != key_id:
            raise CheckError("key", f"the id {found.key_id.hex()}", repr(key_id), verb="have")
        return found

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key has signed a message.

        Raises:
            EpsilogError: the extra ``sign`` is not installed.
        """
        ed25519, invalid = _load_ed25519(), _load_cryptography("exceptions").InvalidSignature
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except invalid:
            return False
        return True


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A private key with a name; its text shows the name and the id alone.

    Attributes:
        name: as in ``VerifierKey``.
    """

    name: str
    _private: Any

    def __post_init__(self) -> None:
        require_key_name(self.name)

    def __repr__(self) -> str:
        return f"SigningKey({self.verifier.label})"

    @classmethod
    def create(cls, name: str) -> Self:
        """Create a new key from the randomness of the operating system."""
        return cls(require_key_name(name), _load_ed25519().Ed25519PrivateKey.generate())

    @property
    def verifier(self) -> VerifierKey:
        """Return the public key."""
        return VerifierKey(self.name, self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        signature: bytes = self._private.sign(message)
        return signature

    def save(self, path: Path, *, passphrase: str | None = None) -> None:
        """Write the key to a new file that only its owner can read.

        Args:
            path: of a file that does not exist.
            passphrase: encrypts the key; None relies on the permissions of the file.
        """
        formats = _load_cryptography("hazmat.primitives.serialization")
        if passphrase is not None:
            passphrase = check.text()(passphrase=passphrase)
        encryption = formats.BestAvailableEncryption(passphrase.encode()) if passphrase else formats.NoEncryption()
        content = self._private.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, encryption)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise CheckError("output", "a file that does not exist yet", repr(str(path))) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"{NAMED}{self.name}\n".encode() + content)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path, *, passphrase: Callable[[], str] | None = None) -> Self:
        """Read a key file.

        Args:
            path: a file of ``save``, which others must not be able to read.
            passphrase: returns the passphrase; called only for an encrypted key.

        Raises:
            CheckError: the key is missing, readable by others, or encrypted with another passphrase.
        """
        name, pem = _read_key_file(path)
        locked, secret = b"BEGIN ENCRYPTED PRIVATE KEY" in pem, None
        if locked:
            if passphrase is None:
                raise CheckError("key", "given with its passphrase", f"{path}, which is encrypted")
            secret = passphrase().encode()
        try:
            private = _load_cryptography("hazmat.primitives.serialization").load_pem_private_key(pem, secret)
        except (ValueError, TypeError, _load_cryptography("exceptions").UnsupportedAlgorithm) as error:
            trouble = "and the passphrase that it was encrypted with" if locked else "in PEM, PKCS #8"
            raise CheckError("key", f"an Ed25519 private key, {trouble}", str(path)) from error
        if not isinstance(private, _load_ed25519().Ed25519PrivateKey):
            raise CheckError("key", "an Ed25519 private key", str(path))
        return cls(name, private)


def _read_key_file(path: Path) -> tuple[str, bytes]:
    """Return the name and the PEM block of a key file; refuse one that others can read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_BYTES)
    except OSError as error:
        raise CheckError("key", "a file that can be read", f"{path} ({error.strerror})") from error
    if stat.S_IMODE(mode) & 0o077:
        raise CheckError("key", "a file that others cannot read (chmod 600)", f"{path} with mode {mode & 0o777:o}")
    first, _, pem = content.partition(b"\n")
    name = first.decode("ascii", "replace")
    if not name.startswith(NAMED) or b"PRIVATE KEY" not in pem:
        raise CheckError("key", f"a private key in PEM below a line '{NAMED}example.org/privacy'", str(path))
    return require_key_name(name.removeprefix(NAMED).strip()), pem


def _load_ed25519() -> Any:
    return _load_cryptography("hazmat.primitives.asymmetric.ed25519")


def _load_cryptography(part: str) -> Any:
    """Import a module of the library that signs."""
    from importlib import import_module

    try:
        return import_module(f"cryptography.{part}")
    except ImportError as error:
        raise EpsilogError(f"signatures need the extra `sign`: {install_command('sign')} ({error})") from error

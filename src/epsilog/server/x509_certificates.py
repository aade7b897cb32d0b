"""X.509 certificates of clients and of the authorities that issue them: parsing, fingerprints, signatures and dates."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MAX_CERTIFICATE_LENGTH = 16_384  # characters of a header's value
MIN_AUTHORITY_RSA_BITS = 2048
_SIGNATURE_HASHES = frozenset({"sha256", "sha384", "sha512"})
_BYTE_SEQUENCE = re.compile(r":([A-Za-z0-9+/]+={0,2}):", re.ASCII)  # RFC 8941, 3.3.5
_PEM = re.compile(r"\s*-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----\s*", re.ASCII)


def read_certificate(value: str) -> Certificate:
    """Return the certificate of a ``Client-Cert`` header: RFC 9440, or the percent-encoded PEM of nginx and Envoy.

    Raises:
        ValueError: the value is something else, or more than one certificate.
    """
    if len(value) > MAX_CERTIFICATE_LENGTH:
        raise ValueError(f"has more than {MAX_CERTIFICATE_LENGTH} characters")
    found = _BYTE_SEQUENCE.fullmatch(value)
    return _load(found[1]) if found else _load_pem(unquote(value, "ascii", "strict"))


def load_authority(pem: str) -> Certificate:
    """Return the certificate of an authority.

    Raises:
        ValueError: the text is not one certificate in PEM, or no authority's.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import BasicConstraints, DuplicateExtension, ExtensionNotFound

    found = _load_pem(pem)
    try:
        is_authority = found.extensions.get_extension_for_class(BasicConstraints).value.ca
        key = found.public_key()
    except (ExtensionNotFound, DuplicateExtension, UnsupportedAlgorithm, ValueError, TypeError):
        is_authority = False
    if not is_authority:
        raise ValueError("must be the certificate of an authority (basicConstraints CA:TRUE)")
    if isinstance(key, RSAPublicKey) and key.key_size < MIN_AUTHORITY_RSA_BITS:
        raise ValueError(f"must be of an authority whose RSA key has at least {MIN_AUTHORITY_RSA_BITS} bits")
    return found


def get_fingerprint(certificate: Certificate) -> str:
    """Return the SHA-256 of the DER form, in hexadecimal."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def get_subject(certificate: Certificate) -> str:
    """Return the whole subject, as RFC 4514 writes it."""
    text: str = certificate.subject.rfc4514_string()
    return text


def is_issued_by(certificate: Certificate, authority: Certificate) -> bool:
    """Return whether an authority signed a certificate itself, by a hash function without known collisions."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        used = certificate.signature_hash_algorithm  # None: EdDSA has its own
        if used is not None and used.name not in _SIGNATURE_HASHES:
            return False
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def explain_invalid_dates(certificate: Certificate, now: float) -> str | None:
    """Return why a certificate is not valid at a Unix time; None if it is."""
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    if moment >= certificate.not_valid_after_utc:
        return f"expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if moment < certificate.not_valid_before_utc:
        return f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
    return None


def _load_pem(text: str) -> Certificate:
    found = _PEM.fullmatch(text)
    if not found:
        raise ValueError("must be one certificate: RFC 9440 (`:BASE64:`), or PEM")
    return _load("".join(found[1].split()))


def _load(encoded: str) -> Certificate:
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        found = load_der_x509_certificate(base64.b64decode(encoded, validate=True))
        get_subject(found)  # what is parsed only when it is read must be well-formed too
        explain_invalid_dates(found, 0.0)
    except (ValueError, TypeError, InvalidVersion):
        raise ValueError("must be one certificate in DER, which is malformed here") from None
    return found

"""The identity file: issuers of OpenID Connect, the proxy that checks client certificates, and who may do what."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from epsilog.ledger.scopes import list_ancestors
from epsilog.server.access import LOOPBACK_ADDRESSES, Holder, Role
from epsilog.server.tokens import require_holder_name
from epsilog.server.x509_certificates import get_fingerprint, load_authority
from epsilog.terms import CheckError, ConfigError
from epsilog.toml_sections import ConfigSection, Flag, Text
from epsilog.validation_errors import convert_validation_errors

MAX_BYTES = 1 << 20  # of the file
CERTIFICATE_HOLDER = "certificate://"  # begins the names of such holders: no token and no subject of an issuer has one
ALGORITHMS = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class GrantedRole(ConfigSection):
    """A role, and where it holds.

    Attributes:
        role: what such a holder may do.
        scope: where, with everything under it.
        entire_ledger: instead of a scope.
    """

    role: Role
    scope: Text | None = None
    entire_ledger: Flag = False

    @model_validator(mode="after")
    def _require_one_scope(self) -> Self:
        if (self.scope is None) != self.entire_ledger:
            raise CheckError("scope", "given, or entire_ledger = true instead", repr(self.scope))
        if self.scope is not None:
            list_ancestors(self.scope)
        return self


class Grant(GrantedRole):
    """The role of everyone whose claim has a value.

    Attributes:
        claim: name of the claim, or the path to a nested one.
        value: what the claim is, or one of what it lists.
    """

    claim: Text | Annotated[list[Text], Field(min_length=1, max_length=8)]
    value: Text

    def is_fulfilled(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the claims have the value: as text, or as one text of a list."""
        found: Any = claims
        for name in [self.claim] if isinstance(self.claim, str) else self.claim:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found == self.value or (isinstance(found, list) and self.value in found)


class Issuer(ConfigSection):
    """An OpenID Connect provider.

    Attributes:
        url: the issuer, exactly as its tokens have it in ``iss``.
        audience: this server, as the tokens have it in ``aud``.
        keys: where the provider publishes its keys (a JSON Web Key Set): an HTTPS address, or a file.
        algorithms: accepted signatures; none of them uses a shared secret.
        grants: who may do what; the first that fits applies.
    """

    url: Text
    audience: Text
    keys: Text
    algorithms: Annotated[tuple[ALGORITHMS, ...], Field(min_length=1)] = ("RS256", "ES256")
    grants: Annotated[tuple[Grant, ...], Field(min_length=1)]

    @field_validator("url")
    @classmethod
    def _require_safe_url(cls, url: str) -> str:
        if not _is_safe_url(url):
            raise ValueError("must be an https:// address")
        return url

    @field_validator("keys")
    @classmethod
    def _require_safe_keys(cls, keys: str) -> str:
        if "://" in keys and not _is_safe_url(keys):
            raise ValueError("must be an https:// address, or a file")
        return keys

    def name_holder(self, subject: str) -> str:
        """Return the name of a subject: no other issuer's subject and no holder of a token file has it."""
        return f"{subject} at {self.url}"


class ProxySection(ConfigSection):
    """The proxy that ends TLS and checks client certificates.

    Attributes:
        addresses: its IP addresses, as this server sees them.
        secret_sha256: SHA-256 of the secret that it sends, in hexadecimal; two while the secret is replaced.
    """

    addresses: Annotated[tuple[Text, ...], Field(min_length=1, max_length=16)]
    secret_sha256: Annotated[tuple[Text, ...], Field(min_length=1, max_length=2)]

    @field_validator("addresses")
    @classmethod
    def _normalize_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_normalize_proxy_address(one) for one in addresses)

    @field_validator("secret_sha256")
    @classmethod
    def _normalize_hashes(cls, hashes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_normalize_sha256(one) for one in hashes)


class CertificateHolder(GrantedRole):
    """The holder of certificates; entries of one name state the same role and scope.

    Attributes:
        name: of the holder; entries of the ledger keep it.
    """

    name: Text

    @field_validator("name")
    @classmethod
    def _require_name(cls, name: str) -> str:
        try:
            return require_holder_name(name)
        except CheckError as error:
            raise ValueError(f"must be {error.bound}") from None

    @property
    def holder(self) -> Holder:
        """The holder, with a name that no token and no subject of an issuer has."""
        return Holder(f"{CERTIFICATE_HOLDER}{self.name}", self.role, self.scope)


class PinnedHolder(CertificateHolder):
    """The holder of certificates with known fingerprints.

    Attributes:
        sha256: fingerprints (SHA-256 of the DER form, in hexadecimal); two while a certificate is replaced.
    """

    sha256: Annotated[tuple[Text, ...], Field(min_length=1, max_length=8)]

    @field_validator("sha256")
    @classmethod
    def _normalize_fingerprints(cls, hashes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_normalize_sha256(one) for one in hashes)


class SubjectHolder(CertificateHolder):
    """The holder of an authority's certificates with one subject.

    Attributes:
        subject: the whole subject, as RFC 4514 writes it.
    """

    subject: Text


class Authority(ConfigSection):
    """A certificate authority that issues client certificates.

    Attributes:
        certificate: of the authority that signs them itself, in PEM.
        holders: who may do what; others of this authority may nothing.
    """

    certificate: Text
    holders: Annotated[tuple[SubjectHolder, ...], Field(min_length=1)]

    @field_validator("certificate")
    @classmethod
    def _require_authority(cls, certificate: str) -> str:
        load_authority(certificate)
        return certificate


class IdentityConfig(ConfigSection):
    """The whole file."""

    issuers: list[Issuer] = Field(default_factory=list)
    proxy: ProxySection | None = None
    certificates: list[PinnedHolder] = Field(default_factory=list)
    authorities: list[Authority] = Field(default_factory=list)

    @model_validator(mode="after")
    def _require_distinct(self) -> Self:
        if not self.issuers and not self.certificates and not self.authorities:
            raise CheckError("issuers", "given, or certificates or authorities", "nothing")
        if (self.proxy is None) == bool(self.certificates or self.authorities):
            raise CheckError("proxy", "given with certificates or authorities, and only with them", "one alone")
        _require_once("issuers", "of different url", (one.url for one in self.issuers))
        _require_once(
            "certificates", "of different sha256", (one for holder in self.certificates for one in holder.sha256)
        )
        authorities = (get_fingerprint(load_authority(one.certificate)) for one in self.authorities)
        _require_once("authorities", "of different certificate", authorities)
        for authority in self.authorities:
            _require_once("authorities", "of holders of different subject", (one.subject for one in authority.holders))
        found: dict[str, Holder] = {}
        for one in (*self.certificates, *(one for authority in self.authorities for one in authority.holders)):
            if found.setdefault(one.name, one.holder) != one.holder:
                raise CheckError("name", "of one role and scope", repr(one.name))
        return self


def _require_once(field: str, requirement: str, found: Iterator[str]) -> None:
    repeated = next((one for one, count in Counter(found).items() if count > 1), None)
    if repeated is not None:
        raise CheckError(field, requirement, f"{repeated!r} twice")


def _normalize_proxy_address(text: str) -> str:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError("must be an IP address") from None
    if found.is_unspecified:
        raise ValueError("must be the address of one machine")
    return normalize_address(text)


def normalize_address(text: str) -> str:
    """Return an IP address in its usual form, IPv4 as IPv4; another text as it is."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(found, "ipv4_mapped", None) or found)


def _normalize_sha256(text: str) -> str:
    found = text.replace(":", "").lower()
    if not _SHA256.fullmatch(found):
        raise ValueError("must be SHA-256 in 64 hexadecimal digits")
    return found


def _is_safe_url(url: str) -> bool:
    """Return whether an address is HTTPS, or of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
    return (
        plain
        and bool(parts.hostname)
        and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_ADDRESSES))
    )


def parse_identity(content: bytes, name: str) -> IdentityConfig:
    """Check the contents of a file.

    Raises:
        ConfigError: all errors, by field.
    """
    if len(content) > MAX_BYTES:
        raise ConfigError(name, [f"is larger than {MAX_BYTES} bytes"])
    try:
        document = tomllib.loads(content.decode())
    except ValueError as error:
        raise ConfigError(name, [f"is not TOML: {error}"]) from error
    try:
        return IdentityConfig.model_validate(document)
    except ValidationError as error:
        raise ConfigError(name, convert_validation_errors(error.errors())) from error

"""TLS client certificates that a proxy checked: from whom the server accepts them, and whose they are.

The proxy ends TLS, so it alone knows that its client has the private key of a certificate; it passes the certificate in
``Client-Cert``. The server believes that header if two things hold. The connection comes from a named address: then a
secret that leaks opens nothing from elsewhere. The request has the secret of the proxy: an address alone proves nothing
on loopback, where every account of the machine has it. Whatever else carries such a header is refused, never ignored.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from epsilog.server.access import Holder
from epsilog.server.identity_config import IdentityConfig, ProxySection, normalize_address
from epsilog.server.problems import make_problem_response
from epsilog.server.x509_certificates import (
    explain_invalid_dates,
    get_fingerprint,
    get_subject,
    is_issued_by,
    load_authority,
    read_certificate,
)
from epsilog.terms import PermissionDeniedError, StorageError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CERTIFICATE = "epsilog.client-certificate"  # the key of a proxy's certificate in an ASGI scope; no client can set it
MIN_SECRET_LENGTH = 32  # characters; a shorter one could be guessed from its hash
_CERTIFICATE, _CHAIN, _SECRET = b"client-cert", b"client-cert-chain", b"epsilog-proxy-secret"
_HEADERS = frozenset({_CERTIFICATE, _CHAIN, _SECRET})
_LOG = logging.getLogger("uvicorn.error")


class ProxyFinder(Protocol):
    """Knows the proxy of the identity file."""

    def find_proxy(self) -> ProxySection | None:
        """Return the proxy that the file names now; its ``StorageError`` means that the file is unusable."""


@final
class ProxyGuardMiddleware:
    """ASGI middleware. Notes the certificate of a request from the named proxy; refuses such headers from others."""

    def __init__(self, app: ASGIApp, *, identities: ProxyFinder | None) -> None:
        self.app, self._identities, self._last_trouble = app, identities, ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] == "http":
            given = [(name, value) for name, value in scope["headers"] if name in _HEADERS]
            if given and (refusal := self._admit(scope, given)) is not None:
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope, given: list[tuple[bytes, bytes]]) -> Response | None:
        """Note the certificate, if there is one, or return a refusal."""
        found = dict(given)
        if len(found) < len(given):
            detail = ", ".join(sorted({name.decode() for name, _ in given}))
            return make_problem_response(400, "header", "Repeated header", f"{detail} must be given once")
        try:
            proxy = None if self._identities is None else self._identities.find_proxy()
        except StorageError as error:
            if str(error) != self._last_trouble:  # once, not for each request
                self._last_trouble = str(error)
                _LOG.error("every client certificate is refused: %s", error)
            detail = "The server cannot read its identity file; see its log."
            return make_problem_response(503, "tokens", "Client certificates unavailable", detail)
        refusal = explain_unknown_proxy(proxy, scope.get("client"), found.get(_SECRET))
        if refusal is not None:
            return make_problem_response(421, "proxy", "Unexpected proxy", refusal)
        if _CHAIN in found:
            detail = "This server reads Client-Cert alone; the proxy must not send Client-Cert-Chain."
            return make_problem_response(400, "header", "Unexpected header", detail)
        if _CERTIFICATE in found:
            if any(name == b"authorization" for name, _ in scope["headers"]):
                detail = "Send a client certificate or a token, not both."
                return make_problem_response(400, "identity", "Two identities", detail)
            scope[CERTIFICATE] = found[_CERTIFICATE].decode("latin-1")
        return None


def explain_unknown_proxy(proxy: ProxySection | None, client: object, secret: bytes | None) -> str | None:
    """Return why a request does not come from the proxy; None if it does.

    Args:
        proxy: that the identity file names.
        client: address and port at the other end of the connection, as ASGI has them.
        secret: that the request carries.
    """
    if proxy is None:
        return "This server accepts no client certificates: no identity file of it names a proxy."
    address = client[0] if isinstance(client, tuple | list) and client else "unknown"
    if normalize_address(str(address)) not in proxy.addresses:
        return f"The identity file does not name the address {str(address)[:50]!r} as the proxy's."
    if secret is None:
        return "Client-Cert needs the proxy's secret in Epsilog-Proxy-Secret."
    digest = hashlib.sha256(secret).digest()
    known = [hmac.compare_digest(digest, bytes.fromhex(one)) for one in proxy.secret_sha256]  # all, in constant time
    if not any(known):
        return "The value of Epsilog-Proxy-Secret is not the secret of the identity file."
    if len(secret) < MIN_SECRET_LENGTH:
        return f"The secret of the proxy must have at least {MIN_SECRET_LENGTH} characters."
    return None


@final
class CertificateDirectory:
    """The proxy of an identity file, and the holders of its certificates."""

    def __init__(self, config: IdentityConfig) -> None:
        self.proxy = config.proxy
        self._pinned: Mapping[str, Holder] = {
            sha256: one.holder for one in config.certificates for sha256 in one.sha256
        }
        self._authorities = [
            (load_authority(one.certificate), {held.subject: held.holder for held in one.holders})
            for one in config.authorities
        ]

    def find_holder(self, value: str, now: float) -> tuple[Holder, float]:
        """Return the holder of the certificate in a header, and the Unix time at which it expires.

        A fingerprint counts before an authority.

        Raises:
            PermissionDeniedError: the value is no certificate, or one that is not valid now or has no holder.
        """
        try:
            found = read_certificate(value)
        except ValueError as error:
            raise PermissionDeniedError(f"Client-Cert {error}") from None
        if (reason := explain_invalid_dates(found, now)) is not None:
            raise PermissionDeniedError(f"the client certificate {reason}")
        expires, fingerprint = found.not_valid_after_utc.timestamp(), get_fingerprint(found)
        if (holder := self._pinned.get(fingerprint)) is not None:
            return holder, expires
        holder, authority = self._find_issued(found, fingerprint, now)
        return holder, min(expires, authority.not_valid_after_utc.timestamp())

    def _find_issued(self, found: Certificate, fingerprint: str, now: float) -> tuple[Holder, Certificate]:
        """Return the holder by the authority that signed, and the authority."""
        refusal = f"the identity file names neither the client certificate {fingerprint} nor its issuer"
        for authority, holders in self._authorities:
            if not is_issued_by(found, authority):
                continue
            if (reason := explain_invalid_dates(authority, now)) is not None:
                refusal = f"the authority of the client certificate {reason}"
            elif (holder := holders.get(get_subject(found))) is not None:
                return holder, authority
            else:
                refusal = f"the identity file names no holder {get_subject(found)!a} of the certificate's authority"
        raise PermissionDeniedError(refusal)

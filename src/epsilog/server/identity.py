"""Holders whom an identity file names: by tokens of OpenID Connect providers, and by client certificates.

One TOML file states the issuers, their keys and the grants. A holder is the issuer with the subject (``sub``), never an
e-mail address or a display name, which a provider may give to another person. The first grant that a claim fulfills
applies. The server reads a changed file before the next request; while the file is invalid, it refuses every such
token and certificate.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, final

from epsilog.server.access import Holder
from epsilog.server.client_certificates import CertificateDirectory
from epsilog.server.identity_config import MAX_BYTES, IdentityConfig, Issuer, ProxySection, parse_identity
from epsilog.server.tokens import make_monotonic_clock
from epsilog.terms import ConfigError, EpsilogError, PermissionDeniedError, StorageError
from epsilog.terms.extras import install_command

JWT_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,4096}\.[A-Za-z0-9_-]{1,8192}\.[A-Za-z0-9_-]{1,2048}", re.ASCII)
LEEWAY = 30  # seconds by which the clocks of a provider and of this machine may differ
MAX_NAME_LENGTH = 250  # characters of a subject with its issuer; entries keep them
MAX_KNOWN = 4096  # verified tokens that are remembered
REFRESH = 600.0  # seconds after which keys are fetched again: a key that a provider withdrew ends by then
RETRY = 30.0  # seconds between two fetches, whatever key a token names
KEEP = 86_400.0  # seconds for which fetched keys serve while the provider cannot be reached
FETCH_SECONDS = 5.0
MIN_RSA_BITS = 2048
_NO_CERTIFICATES = CertificateDirectory(IdentityConfig.model_construct())


@dataclass(frozen=True, slots=True)
class Identity:
    """A verified token or certificate.

    Attributes:
        id: of its holder, for limits; not the token.
        holder: who sent it, and what the file allows the holder.
        expires: Unix time.
        digest: of its text.
    """

    id: str
    holder: Holder
    expires: float
    digest: bytes


@final
class IdentityProvider:
    """Verifies the tokens of the issuers in a file, and the certificates of its proxy; threads may share it.

    Args:
        path: the file; no other user may be able to write it.
        clock: Unix time; only the latest value that it returned counts.
        fetch: returns the document at an address; its ``OSError`` means that there is none now.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] | None = None,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:
        self._jwt = _import_jwt()
        self._path, self._clock, self._fetch = path, clock or make_monotonic_clock(), fetch or _fetch
        self._latest = 0.0
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Identity, float]] = {}  # with the time at which it is verified again
        self._stamp: tuple[int, ...] | None = None
        self._issuers: dict[str, Issuer] = {}
        self._keys: dict[str, _Keys] = {}
        self._certificates = _NO_CERTIFICATES
        self._refresh()

    def find(self, text: str) -> Identity | None:
        """Return the holder of a token that was verified a short while ago, if it is still valid."""
        self._refresh()
        found, due = self._known.get(_digest(text), (None, 0.0))
        return found if found is not None and min(found.expires, due) > self._now() else None

    def is_valid(self, identity: Identity) -> bool:
        """Return whether a verified token has not expired, and the file has not changed since."""
        self._refresh()
        return identity.expires > self._now() and self._known.get(identity.digest, (None, 0.0))[0] == identity

    def verify(self, text: str) -> Identity | None:
        """Return the holder of a token; None if the token is invalid. May wait for an issuer's keys.

        Raises:
            PermissionDeniedError: the token is valid, and no grant fits its claims.
            StorageError: the file or the keys cannot be used.
        """
        self._refresh()
        with self._lock:
            stamp, issuers, keys = self._stamp, self._issuers, self._keys
        try:
            header = self._jwt.get_unverified_header(text)
            stated = self._jwt.decode(text, options={"verify_signature": False}).get("iss")
            issuer = issuers.get(stated) if isinstance(stated, str) else None
            if issuer is None or header.get("crit"):
                return None
            key = keys[issuer.url].find(header.get("kid"), self._now)
            if key is None:
                return None
            claims = self._jwt.decode(
                text,
                key.key,
                algorithms=issuer.algorithms,
                audience=issuer.audience,
                issuer=issuer.url,
                leeway=LEEWAY,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except (self._jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        expires, name = float(claims["exp"]) + LEEWAY, issuer.name_holder(str(claims["sub"]))
        if not expires > self._now() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            return None
        grant = next((one for one in issuer.grants if one.is_fulfilled(claims)), None)
        if grant is None:
            raise PermissionDeniedError("no grant of this server fits the claims of the token")
        return self._remember(Identity(name, Holder(name, grant.role, grant.scope), expires, _digest(text)), stamp)

    def find_proxy(self) -> ProxySection | None:
        """Return the proxy that the file names; None if it accepts no client certificates.

        Raises:
            StorageError: the file cannot be used.
        """
        self._refresh()
        return self._certificates.proxy

    def verify_certificate(self, value: str) -> Identity | None:
        """Return the holder of a client certificate, as its proxy passed it; None if the file changed meanwhile.

        Raises:
            PermissionDeniedError: the value is no certificate, or one that is not valid now or has no holder.
            StorageError: the file cannot be used.
        """
        self._refresh()
        with self._lock:
            stamp, certificates = self._stamp, self._certificates
        holder, expires = certificates.find_holder(value, self._now())
        return self._remember(Identity(holder.name, holder, expires, _digest(value)), stamp)

    def _remember(self, made: Identity, stamp: tuple[int, ...] | None) -> Identity | None:
        """Keep what was verified by the file of a stamp; None if the file changed meanwhile."""
        with self._lock:
            if self._stamp != stamp:
                return None  # the next request is judged by the new one
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[made.digest] = made, self._now() + REFRESH  # then the issuer may have withdrawn its key
        return made

    def _refresh(self) -> None:
        """Read the file again if it was replaced or written."""
        try:
            found = self._path.stat()
            stamp = (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns)
        except OSError as error:
            raise self._forget(f"cannot be read: {error.strerror}") from None
        with self._lock:
            if stamp == self._stamp:
                return
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o022 or found.st_uid not in {0, os.geteuid()}:
            raise self._forget("must be a regular file that no other user owns or can write (chmod go-w)")
        try:
            config = parse_identity(self._read(), self._path.name)
            certificates = CertificateDirectory(config)
        except (OSError, ConfigError) as error:
            raise self._forget(f"cannot be used: {error}") from None
        with self._lock:
            self._known, self._stamp, self._certificates = {}, stamp, certificates
            self._issuers = {one.url: one for one in config.issuers}
            self._keys = {one.url: self._open_keys(one) for one in config.issuers}

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            return file.read(MAX_BYTES + 1)

    def _open_keys(self, issuer: Issuer) -> _Keys:
        if "://" in issuer.keys:
            return _Keys(issuer.url, lambda: self._fetch(issuer.keys), self._jwt)
        return _Keys(issuer.url, (self._path.parent / issuer.keys).read_bytes, self._jwt)

    def _forget(self, why: str) -> StorageError:
        with self._lock:
            self._known, self._issuers, self._keys, self._stamp = {}, {}, {}, None
            self._certificates = _NO_CERTIFICATES
        return StorageError(f"identity file {self._path} {why}")

    def _now(self) -> float:
        self._latest = max(self._latest, self._clock())
        return self._latest


class _Keys:
    """The public keys of an issuer by their ids, as they were last published."""

    def __init__(self, issuer: str, read: Callable[[], bytes], jwt: Any) -> None:
        self._issuer, self._read, self._jwt, self._lock = issuer, read, jwt, threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._fetched = self._tried = -KEEP

    def find(self, key_id: object, now: Callable[[], float]) -> Any:
        """Return a key; None if the issuer has none of that id, or several and the token names none.

        Raises:
            StorageError: the keys cannot be read, and there are none of the last day.
        """
        with self._lock:
            wanted = key_id not in self._keys if isinstance(key_id, str) else not self._keys
            if now() - self._tried >= (RETRY if wanted else REFRESH):
                self._update(now())
            if now() - self._fetched > KEEP:
                raise StorageError(f"the keys of the issuer {self._issuer} cannot be read")
            if isinstance(key_id, str):
                return self._keys.get(key_id)
            return next(iter(self._keys.values())) if key_id is None and len(self._keys) == 1 else None

    def _update(self, now: float) -> None:
        self._tried = now
        try:
            content = self._read()
            document = json.loads(content) if len(content) <= MAX_BYTES else None
            listed = document["keys"] if isinstance(document, dict) else None
            if not isinstance(listed, list):
                raise ValueError("not a key set")
        except (OSError, ValueError, KeyError, RecursionError):
            return  # the keys of before serve for a day
        made = [self._load(one) for one in listed if isinstance(one, dict)]
        self._keys = {key.key_id: key for key in made if key is not None}
        self._fetched = now

    def _load(self, document: dict[str, Any]) -> Any:
        """Return a public key for signatures; None for all others."""
        if document.get("kty") not in {"RSA", "EC", "OKP"} or document.get("use", "sig") != "sig" or "d" in document:
            return None
        try:
            key = self._jwt.PyJWK(document)
        except (self._jwt.PyJWTError, ValueError, TypeError):
            return None
        return None if getattr(key.key, "key_size", MIN_RSA_BITS) < MIN_RSA_BITS and key.key_type == "RSA" else key


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from the stated address or not at all."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def _fetch(url: str) -> bytes:
    """Return what lies at an address, at most ``MAX_BYTES`` and one more."""
    opener = urllib.request.build_opener(_NoRedirects())
    with opener.open(url, timeout=FETCH_SECONDS) as reply:
        return bytes(reply.read(MAX_BYTES + 1))


def _import_jwt() -> Any:
    try:
        return import_module("jwt")
    except ImportError as error:
        raise EpsilogError(
            f"sign-in by OpenID Connect needs the extra `server`: {install_command('server')} ({error})"
        ) from error

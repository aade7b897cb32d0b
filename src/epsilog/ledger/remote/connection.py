"""One server over HTTP: no redirects, TLS certificates are checked, and the token goes to this server only.

A client certificate (``EPSILOG_CLIENT_CERT``, ``EPSILOG_CLIENT_KEY``) is for servers behind a proxy that asks for one.

Python's own client is all it needs. What matters here is what is known when no answer comes: that nothing was sent, or
that it may have been done.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from epsilog.ledger import http_codec
from epsilog.ledger.forks import Owner
from epsilog.terms import CheckError, EpsilogError, OutcomeUnknownError, PermissionDeniedError, StorageError
from epsilog.terms.codec import parse_json

HTTP = ("http://", "https://")
TOKEN = "EPSILOG_TOKEN"  # noqa: S105 (the variable's name)
CLIENT_CERTIFICATE, CLIENT_KEY = "EPSILOG_CLIENT_CERT", "EPSILOG_CLIENT_KEY"  # files in PEM; one may have both
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PATIENCE = 60.0  # seconds without a reply: a cost may take 20, after waiting for a worker
PAUSES = (0.1, 0.4, 1.6)  # seconds before what may be said again is
_IDLE = 1.0  # seconds after which the other end may have hung up
_LONGEST = 1 << 28  # bytes of an answer
_BUSY = frozenset({429, 503})  # refused at once: nothing was done
_WORDED = frozenset({409, 422})  # a ledger's refusals, which say why; one that does not was cut on its way


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is."""

    secure: bool
    host: str
    port: int | None
    path: str
    url: str

    @classmethod
    def of(cls, url: str) -> ServerAddress:
        """Read ``https://host[:port][/path]``, or ``http://`` on this machine."""
        shown_url = "another, which may hold a token" if {"@", "?", "#"} & set(url) else repr(url[:200])
        wrong = CheckError("url", "https://host[:port], with no token in it", shown_url)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise wrong from None
        plain = url.isascii() and url.isprintable() and not set(url) & set(" @?#\\")
        if not plain or not host or port == 0 or not url.startswith(HTTP):
            raise wrong
        if parts.scheme == "http" and host not in LOOPBACK:
            raise CheckError("url", "https:// for another machine than this", shown_url)
        return cls(parts.scheme == "https", host, port, parts.path.rstrip("/"), url.rstrip("/"))


class NotSentError(Exception):
    """Nothing was sent, or it was turned away before anything was done with it."""


class NotFoundError(EpsilogError):
    """What was asked for is not there."""


class _Answer(dict[str, Any]):
    """What a server answered; what it lacks was said by no ledger's server of this version."""

    def __missing__(self, name: str) -> Any:
        raise EpsilogError(f"the reply lacks {name!r}: this is not a ledger server, or it has another version")


class Connection:
    """Asks a server; threads may share it."""

    def __init__(self, url: str, *, token: str | None = None, patience: float = PATIENCE) -> None:
        self._place, self._patience = ServerAddress.of(url), patience
        self._token = os.environ.get(TOKEN) or None if token is None else token
        if self._token is not None and not (self._token and self._token.isascii() and self._token.isprintable()):
            raise CheckError("token", "printable ASCII", "another text, which is not shown")
        self._tls = _load_client_certificate() if self._place.secure else None
        self._lock, self._open = threading.Lock(), True
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._owner = Owner(
            f"the connection to {self.address} was opened before this process was forked: open it again here"
        )

    @property
    def address(self) -> str:
        """Return the server's URL."""
        return self._place.url

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Read something."""
        text = urlencode({name: value for name, value in query.items() if value is not None})
        return self._request("GET", f"{path}?{text}" if text else path, None, again=True)[0]

    def post(self, path: str, ask: Mapping[str, Any], *, again: bool = True) -> tuple[dict[str, Any], bool]:
        """Does something."""
        return self._request("POST", path, json.dumps(ask, ensure_ascii=False).encode(), again=again)

    def close(self) -> None:
        """Hangs up; nothing is asked any more. In a child of a fork, nothing happens: the parent still asks."""
        if not self._owner.is_here:
            return
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
        for _, link in idle:
            link.close()

    def _request(self, method: str, path: str, body: bytes | None, *, again: bool) -> tuple[dict[str, Any], bool]:
        self._owner.require_here()
        if not self._open:
            raise StorageError(f"the connection to {self.address} is closed")
        lost: OutcomeUnknownError | None = None
        for pause in (*PAUSES, None):
            try:
                return self._once(method, path, body), lost is not None
            except NotSentError as error:
                why: Exception = StorageError(f"{self.address} {error}; nothing was done")
            except (EpsilogError, ValueError) as error:  # a reported refusal
                if type(error) is StorageError and method == "POST":  # perhaps at the very end
                    raise OutcomeUnknownError(f"{error}; the request may or may not have taken effect") from error
                raise error from lost
            except (OSError, http.client.HTTPException) as error:
                problem = f"{self.address} did not answer ({type(error).__name__})"
                if method == "GET":
                    why = StorageError(problem)
                else:
                    why = lost = lost or OutcomeUnknownError(f"{problem}: the request may or may not have taken effect")
                if not again:
                    raise why from None
            if pause is None:
                raise (lost or why) from None
            time.sleep(pause)
        raise AssertionError  # the loop returns or raises at the last pause

    def _once(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        """Ask once, and reads the answer or the refusal."""
        link = self._take_idle() or self._connect()
        headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            link.request(method, f"{self._place.path}{http_codec.PREFIX}{path}", body, headers)
            answer = link.getresponse()
            found = answer.read(_LONGEST + 1)
            if len(found) > _LONGEST:
                raise http.client.HTTPException("too long")
        except BaseException:
            link.close()
            raise
        self._return_idle(link, closing=answer.will_close)
        return _read(answer.status, found)

    def _connect(self) -> http.client.HTTPConnection:
        place = self._place
        link = (
            http.client.HTTPSConnection(
                place.host, place.port, timeout=self._patience, context=self._tls or ssl.create_default_context()
            )
            if place.secure
            else http.client.HTTPConnection(place.host, place.port, timeout=self._patience)
        )
        try:
            link.connect()
        except OSError as error:
            link.close()
            raise NotSentError(f"cannot be reached ({error.strerror or error})") from None
        return link

    def _take_idle(self) -> http.client.HTTPConnection | None:
        """Return an idle connection that the other end has not hung up on, as far as can be known."""
        now = time.monotonic()
        with self._lock:
            stale = [link for until, link in self._idle if until < now]
            self._idle = [(until, link) for until, link in self._idle if until >= now]
            found = self._idle.pop()[1] if self._idle else None
        for link in stale:
            link.close()
        return found

    def _return_idle(self, link: http.client.HTTPConnection, *, closing: bool) -> None:
        with self._lock:
            if self._open and not closing:
                self._idle.append((time.monotonic() + _IDLE, link))
                return
        link.close()


def _read(status: int, body: bytes) -> dict[str, Any]:
    """Return what was answered; a refusal is raised."""
    found: object = None
    with contextlib.suppress(ValueError):
        found = parse_json(body)
    problem = found if isinstance(found, dict) else {}
    if status == 200 and isinstance(found, dict):
        return _Answer(found)
    if problem.get("code") in http_codec.TRANSMITTED_ERRORS:
        raise http_codec.error_from_json(problem)
    detail = str(problem.get("detail") or problem.get("title") or http.client.responses.get(status, status))[:2000]
    if status in (401, 403):
        raise PermissionDeniedError(detail)
    if status in _BUSY:
        raise NotSentError(f"rejects the request ({detail})")
    if 300 <= status < 400:
        raise EpsilogError(
            "the server redirects to another address: use that address, because redirects are not followed"
        )
    if status >= 500 or status == 200 or (status in _WORDED and not problem):
        raise http.client.HTTPException(detail)  # who knows how far it came
    raise (NotFoundError if status == 404 else EpsilogError)(f"{detail} ({status})")


def _load_client_certificate() -> ssl.SSLContext | None:
    """Return the context with the client certificate that the environment names; None if it names none."""
    certificate, key = os.environ.get(CLIENT_CERTIFICATE), os.environ.get(CLIENT_KEY)
    if not certificate:
        return None
    context = ssl.create_default_context()
    try:
        context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        bound = f"a certificate in PEM, with its key there or in {CLIENT_KEY}"
        raise CheckError(CLIENT_CERTIFICATE, bound, f"{certificate!r} ({error})") from None
    return context
